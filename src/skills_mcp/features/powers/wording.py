"""Patterns of one line, one literal or one paragraph: hosts, paths, and instructions.

Rule: each is linear; a repetition is bounded, and none is nested.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from skills_mcp.features.powers.power import Kind

_I = re.IGNORECASE
_IM = re.IGNORECASE | re.MULTILINE

URL = re.compile(r"(?:https?|wss?|ftp)://(?P<host>[^\s/\"'<>()\[\]{}`?#\\|,;]{1,253})", _I)
HOST = re.compile(r"(?:[\w-]{1,63}\.){1,8}[a-z][\w-]{1,62}|\d{1,3}(?:\.\d{1,3}){3}", _I)
_NO_HOST = re.compile(r"127\.|0\.0\.0\.0$|(?:^|\.)your|\.\.\.|xxx", _I)
_ADDRESS_HOST = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
_PRIVATE_HOST = re.compile(r"(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01])|0|169\.254)\.")
_DROP_HOST = re.compile(
    r"(?:^|\.)(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)"
    r"|burpcollaborator\.net|oast\.\w+|interact\.sh|pastebin\.com|paste\.ee|rentry\.\w+"
    r"|glot\.io|transfer\.sh|file\.io|0x0\.st|termbin\.com|hastebin\.com|beeceptor\.com"
    r"|requestcatcher\.com|trycloudflare\.com|serveo\.net|localhost\.run|dpaste\.\w+"
    r"|api\.telegram\.org|hooks\.slack\.com|duckdns\.org|onion|bit\.ly|tinyurl\.com|t\.co"
    r"|goo\.gl|is\.gd|cutt\.ly|rb\.gy|shorturl\.at|t\.ly|gist\.githubusercontent\.com"
    r"|anonfiles\.com|mega\.nz|cdn\.discordapp\.com|catbox\.moe)$",
    _I,
)

_SUSPECT_HOST = re.compile(
    r"evil|attack|malicious|malware|exfil|^c2[.-]|steal|payload|hack(?!athon|ernews|md|errank|erone)"
    r"|phish|collect(?:or)?[.-]|^drop|beacon|^telemetry|track(?:er|ing)?[.-]|sink|leak|rogue|backdoor"
    r"|shady|\.(?:invalid|xyz|top|tk|ru|cn|pw|icu|click|buzz)$"
)


def is_real_host(host: str) -> bool:
    return HOST.fullmatch(host) is not None and not _NO_HOST.search(host)


_INSTALLER_HOST = re.compile(
    r"(?:^|\.)(?:sh\.rustup\.rs|astral\.sh|bun\.(?:sh|com)|deno\.(?:land|com)|get\.docker\.com"
    r"|(?:raw\.githubusercontent|github|gitlab)\.com|get\.pnpm\.io|install\.python-poetry\.org"
    r"|aka\.ms|(?:deb|rpm)\.nodesource\.com|ollama\.com|fly\.io|cli\.github\.com|claude\.ai"
    r"|mise\.run|cursor\.com|sdk\.cloud\.google\.com|starship\.rs|tailscale\.com|nixos\.org"
    r"|get\.helm\.sh|foundry\.paradigm\.xyz|get\.sdkman\.io|pyenv\.run|vite\.plus)$",
    _I,
)


def is_installer_host(host: str) -> bool:
    """Whether the documentation of a common tool says to run what this host sends."""
    return _INSTALLER_HOST.search(host) is not None


def name_host(host: str) -> str:
    """The sign of a host: an address in place of a name, or a place to drop text."""
    if _ADDRESS_HOST.match(host):
        return "" if _PRIVATE_HOST.match(host) else "address-host"
    if _DROP_HOST.search(host):
        return "drop-host"
    return "suspect-host" if _SUSPECT_HOST.search(host) else "host"


PATH = re.compile(
    r"(?<![\w/.:-])(?:~|\$HOME|\$\{HOME\}|%(?:USERPROFILE|APPDATA|LOCALAPPDATA)%"
    r"|/(?:etc|root|home|Users|proc|Library|var|opt|usr/local|System)(?=/))"
    r"[/\\][\w.@*${}/\\-]{1,200}"
)
PARENT = re.compile(r"(?<![\w/.])(?:\.\./){2,8}[\w.@*/-]{1,200}")

CREDENTIALS = re.compile(
    r"\.ssh\b(?!\.)|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.aws/(?:credentials|config)\b|\.netrc\b"
    r"|\.pypirc\b|\.git-credentials\b|\.gnupg\b|\.docker/config\.json|login\.keychain"
    r"|\bLogin Data\b|Cookies\b.{0,20}sqlite|wallet\.dat|/etc/shadow|serviceaccount/token"
    r"|\.config/gcloud|gcloud/application_default|\.config/gh/hosts|\.claude/\.credentials"
    r"|auth-profiles\.json|Local Storage/leveldb|\.electrum|\.bitcoin|keystore/UTC"
    r"|/(?:token|credentials?|client_secret|secrets?|oauth|api[_-]?keys?)\w{0,20}\.(?:json|ya?ml|txt|pickle|env)\b"
    r"|\.google/\w{1,30}\.json",
    _I,
)
ENV_FILE = re.compile(r"(?<![\w.])(?:[~/\w.-]{0,100}/)?\.env(?:\.(?:local|production))?(?![\w.(])")

PLACES: tuple[tuple[str, Kind, re.Pattern[str]], ...] = (
    (
        "shell-start",
        "persistence",
        re.compile(r"\.(?:bashrc|bash_profile|zshrc|zprofile|zshenv|profile)\b|config\.fish"),
    ),
    (
        "service",
        "persistence",
        re.compile(
            r"LaunchAgents|LaunchDaemons|systemd/(?:user|system)|/etc/cron|\.config/autostart"
            r"|CurrentVersion\\+Run\b|Start Menu.{0,20}Startup",
            _I,
        ),
    ),
    ("git-hook", "persistence", re.compile(r"\.git/hooks/|\.husky/|core\.hooksPath", _I)),
    (
        "agent-settings",
        "outside-path",
        re.compile(
            r"[~}E]/\.(?:claude|codex|cursor|gemini|openclaw|clawdbot|windsurf|copilot)\b"
            r"|\.claude/settings(?:\.local)?\.json|\.mcp\.json|claude_desktop_config",
            _I,
        ),
    ),
    (
        "agent-memory",
        "agent-control",
        re.compile(r"\b(?:SOUL|MEMORY|IDENTITY|HEARTBEAT|TOOLS|USER)\.md\b"),
    ),
)
"""Places whose change outlives the task: sign, kind and pattern of a path."""
_PATH_MARKS = (
    *("~/", "~\\", "$home", "${home}", "%userprofile%", "appdata%", "../../", ".env", ".git/hooks"),
    *("/etc/", "/root/", "/home/", "/users/", "/proc/", "/library/", "/var/", "/opt/", "/usr/"),
    *("/system/", ".husky", "hookspath", "}/.", "e/.", ".claude/", ".mcp.json", "claude_desktop"),
    *("soul.md", "memory.md", "identity.md", "heartbeat.md", "tools.md", "user.md"),
)
"""In lower case; one of them is in each path that is named."""

SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIAL|MNEMONIC"
    r"|SEED_PHRASE)",
    _I,
)

BASE64 = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/=])")
HEX = re.compile(r"(?:\\x[0-9a-f]{2}){12,}|(?<![\w])(?:[0-9a-f]{2}){40,}(?!\w)", _I)
COMMAND_INSIDE = re.compile(
    r"\b(?:curl|wget|bash|/bin/sh|powershell|Invoke-\w+|IEX|python3?|eval|exec|os\.system"
    r"|subprocess|nc|chmod|rm|crontab|osascript|base64)\b|https?://|\bignore\b.{0,30}\binstruction",
    _I,
)


class Instruction(NamedTuple):
    """A wording that controls the agent itself."""

    sign: str
    what: str
    marks: tuple[str, ...]
    """One of them is in each match: the pattern is tried on few texts."""
    pattern: re.Pattern[str]
    kind: Kind = "agent-control"


def _marks(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


_NOT = r"(?:do\s+not|don'?t|never|must\s+not|should\s+not|avoid|without|refrain\s+from)"
_USER = r"(?:the\s+)?(?:user|human|owner|operator|anyone|reviewer|customer|them)s?"

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "hide",
        "hides something from the user",
        _marks(
            "tell|inform|mention|notif|alert|announc|hide|hidden|hiding|conceal|invisible|"
            "secret|unnoticed|knowledge|knowing|noticing|awareness|consent|not know|"
            "be told|be aware|silently|quietly|covertly|discreetly|dites|révélez|menciones|"
            "digas|reveles|mencione|nichts|nicht|告|通知|提示|透露|知らせ|伝え|言わ|сообщай|говори|"
            "упоминай|показывай|사용자"
        ),
        re.compile(
            rf"\b{_NOT}\s+(?:\w+\s+){{0,3}}(?:tell|inform|mention|notify|notif|alert|announc)\w*"
            rf"\s+(?:[^.!?\n]{{0,60}}?)\b(?:to\s+)?{_USER}\b"
            rf"|\b(?:hid(?:e|den|ing)|conceal\w*|invisible|secret(?:ly)?|unnoticed)\s+"
            rf"(?:[^.!?\n]{{0,40}}?)\bfrom\s+{_USER}\b"
            r"|\bwithout\s+(?:the\s+)?user(?:'s)?\s+(?:knowledge|knowing|noticing|awareness|consent)"
            r"|\buser\s+(?:must|should|need|does|do|will|is)\s*(?:not|n't|never)\s+"
            r"(?:need\s+to\s+)?(?:know|see|be\s+(?:told|informed|aware|notified)|notice|aware)"
            r"|\b(?:silently|quietly|covertly|secretly|discreetly)\s+(?:\w+\s+){0,3}"
            r"(?:send|upload|post|copy|collect|exfiltrat|transmit|read|append|add|forward|run"
            r"|execut|install|fetch|download|sync|record|captur|inject|insert|encod)\w*"
            r"|\b(?:n'informez|ne\s+(?:dites|mentionnez|révélez)|no\s+(?:informes?|menciones?"
            r"|digas|reveles?))\b[^.!?\n]{0,60}\b(?:utilisateur|usuario)"
            r"|\bnão\s+(?:informe|mencione|diga|revele)\b[^.!?\n]{0,60}\busuário"
            r"|\b(?:dem|den|der)\s+(?:nutzer|benutzer|anwender)\w*\b[^.!?\n]{0,60}"
            r"\b(?:nichts?|nicht)\s+(?:\w+\s+){0,3}"
            r"(?:sagen|mitteilen|erwähnen|informieren|verraten|zeigen)"
            r"|\bsag\w*\s+(?:dem|den)\s+(?:nutzer|benutzer|anwender)\w*\s+(?:nichts?|nicht)"
            r"|(?:不要|请勿|切勿|別)[^。！？\n]{0,12}(?:告诉|告知|通知|提示|透露|告訴)"
            r"[^。！？\n]{0,12}(?:用户|使用者|用戶)"
            r"|ユーザー[^。！？\n]{0,12}(?:知らせ|伝え|言わ|通知し)[^。！？\n]{0,6}(?:ない|ず)"
            r"|не\s+(?:сообщай|говори|упоминай|показывай)\w*[^.!?\n]{0,40}пользовател"
            r"|사용자[^.!?\n]{0,16}(?:알리지|말하지|언급하지)",
            _I,
        ),
    ),
    Instruction(
        "override",
        "overrides other instructions",
        _marks(
            "ignor|disregard|forget|overrid|supersed|bypass|precedence|priority|no longer|"
            "bound|restricted|oubliez|olvida|esqueça|dimentica|vergiss|missachte|忽略|无视|忘记|"
            "無視|игнорируй|забудь|무시"
        ),
        re.compile(
            r"\b(?:ignor\w*|disregard\w*|forget|overrid\w*|supersed\w*|bypass\w*)\s+(?:[^.!?\n]{0,30}?)"
            r"\b(?:previous|prior|earlier|above|all|any|other|system|existing|safety|default)\b"
            r"[^.!?\n]{0,30}?\b(?:instruction|rule|prompt|guideline|polic|restriction|directive"
            r"|constraint|safeguard|guardrail)"
            r"|\b(?:takes?\s+precedence|ha(?:s|ve)\s+priority|overrid\w+)\s+over\s+"
            r"(?:[^.!?\n]{0,20}?)\b(?:system|all|any|safety)\b"
            r"|\byou\s+are\s+(?:now\s+)?(?:no\s+longer|not)\s+(?:bound|restricted|subject|limited)"
            r"|\b(?:ignorez|oubliez|ignora|olvida|ignore|esqueça|dimentica)\s+[^.!?\n]{0,30}"
            r"\b(?:instructions\s+précédentes|instrucciones|instruções|istruzioni)"
            r"|\b(?:ignoriere|vergiss|missachte)\b[^.!?\n]{0,40}\b(?:anweisung|regel)"
            r"|(?:忽略|无视|忘记|無視)[^。！？\n]{0,12}(?:指令|指示|规则|提示|規則)"
            r"|(?:игнорируй|забудь)\w*[^.!?\n]{0,40}(?:инструкц|правил)"
            r"|(?:이전|모든)[^.!?\n]{0,12}(?:지시|명령|규칙)[^.!?\n]{0,8}무시",
            _I,
        ),
    ),
    Instruction(
        "skip-confirmation",
        "acts without the user's consent",
        _marks(
            "confirm|permission|approv|consent|asking|prompting|waiting|requesting|"
            "requiring|clarif| ask "
        ),
        re.compile(
            rf"\b{_NOT}\s+(?:\w+\s+){{0,3}}(?:ask|prompt|wait|request|seek|requir)\w*\s+"
            r"(?:[^.!?\n]{0,30}?)\b(?:confirm|permission|approv|consent|user|clarif)"
            r"|\bwithout\s+(?:\w+\s+){0,2}(?:asking|prompting|confirm|approval|permission|consent)\w*"
            r"|\b(?:no|skip(?:ping)?|bypass(?:ing)?)\s+(?:\w+\s+){0,2}(?:confirmation|approval"
            r"|permission|consent)s?\b",
            _I,
        ),
    ),
    Instruction(
        "disable-check",
        "switches checks off",
        _marks(
            "disabl|turn|deactivat|switch|circumvent|bypass|evad|--no-sandbox|--insecure|"
            "verify|reject_unauth|stricthost|xattr|mppref|spctl"
        ),
        re.compile(
            r"\b(?:disabl\w*|turn\w*\s+off|deactivat\w*|switch\w*\s+off|circumvent\w*|bypass\w*|evad\w*)\s+"
            r"(?:[^.!?\n]{0,30}?)\b(?:safety|security|sandbox|antivirus|defender|gatekeeper|firewall"
            r"|guardrail|permission|audit|logging|verification|protection|scan|detection|tls|ssl)"
            r"|--no-sandbox\b|--insecure\b|verify\s?=\s?False|NODE_TLS_REJECT_UNAUTHORIZED"
            r"|StrictHostKeyChecking[ =]no|xattr\s+-\w*[cd]\b|Set-MpPreference|spctl\s+--master",
            _I,
        ),
    ),
    Instruction(
        "all-permissions",
        "raises the agent's permissions",
        _marks("--danger|bypasspermissions|--yolo|skippermissions|dangerouslydisable"),
        re.compile(
            r"--dangerously-skip-permissions|--dangerously-bypass-approvals|bypassPermissions"
            r"|--yolo\b|skipPermissions|dangerouslyDisableSandbox",
            _I,
        ),
    ),
    Instruction(
        "authority",
        "claims an authority over the agent",
        _marks("override|mode|directive|prompt|system|admin|inst]|im_start|approved|authori"),
        re.compile(
            r"\b(?:IMPORTANT|SYSTEM|ADMIN|DEVELOPER)\s{0,2}(?:OVERRIDE|MODE|DIRECTIVE|PROMPT)\b"
            r"|\[(?:SYSTEM|ADMIN|INST)\]|<\s?/?system(?:-reminder)?\s?>|<\|im_start\|>"
            r"|\b(?:pre-?approved|pre-?authori[sz]ed|already\s+(?:been\s+)?(?:approved|authori[sz]ed))\b",
        ),
    ),
    Instruction(
        "exfiltrate",
        "sends what the agent knows",
        _marks(
            "conversation|history|system prompt|credential|private key|token|"
            "environment variable|api|secret|.env|password|ssh key|memory|identity"
        ),
        re.compile(
            r"\b(?:send|upload|post|transmit|forward|exfiltrat\w*|submit|leak|report|include|sync)\w*\s+"
            r"(?:[^.!?\n]{0,60}?)\b(?:conversation|chat\s+history|system\s+prompt|credential"
            r"|private\s+key|session\s+token|environment\s+variable|api[\s_-]key|secrets?|\.env"
            r"|password|ssh\s+key|session\s+history|agent\s+memory|identity\s+file)s?\b",
            _I,
        ),
    ),
    Instruction(
        "self-priority",
        "puts itself before everything else",
        _marks("priority|skills|background|before|mandatory"),
        re.compile(
            r"\bpriority\s+override\b|\boverrides?\s+(?:all\s+)?other\s+skills\b"
            r"|\balways\s+run(?:s|ning)\s+in\s+(?:the\s+)?background"
            r"|\byou\s+(?:\w+\s+){0,2}must\s+(?:load|read|use|run|invoke)\s+[^.!?\n]{0,30}"
            r"\bbefore\s+(?:any\b|every\b|responding|answering|replying)"
            r"|\bmandatory\s+for\s+(?:all|every|any)\b",
            _I,
        ),
    ),
    Instruction(
        "locked-archive",
        "unpacks an archive with a password",
        _marks("pass|unzip|7z"),
        re.compile(
            r"\b(?:extract|unzip|unpack|archive|zip|rar|7z)\b[^.!?\n]{0,80}\bpass(?:word|code)?\s*"
            r"(?:is|:|=|-p|`)|\bunzip\s+-P\b|\b7z\s+x\s+-p",
            _I,
        ),
    ),
    Instruction(
        "run-first",
        "makes the agent run something first",
        _marks("terminal|command|script|archive|password|binary|.exe|.zip|.sh"),
        re.compile(
            r"\b(?:required|mandatory|must|prerequisite|before\s+(?:using|you\s+start|proceeding)"
            r"|first)\b[^.!?\n]{0,80}\b(?:run|execute|paste|copy|download|install)\b[^.!?\n]{0,60}"
            r"\b(?:terminal|command|script|archive|password|binary|\.exe|\.zip|\.sh)\b",
            _I,
        ),
    ),
)


PHRASES: tuple[Instruction, ...] = (
    Instruction(
        "remote-shell",
        "opens a shell to another machine",
        _marks(
            "/dev/tcp|/dev/udp|nc -|ncat|bash -i|mkfifo|dup2(|pty.spawn|reverse shell|"
            "reverse-shell|reverse_shell|socket"
        ),
        re.compile(
            r"/dev/(?:tcp|udp)/|\bnc(?:at)?\b[^\n]{0,40}\s-\w*e\b|\bbash\s+-i\b[^\n]{0,20}[>&]"
            r"|\bmkfifo\b[^\n]{0,80}\bnc\b|\bos\.dup2\(|\bpty\.spawn\("
            r"|socket[^\n]{0,80}(?:/bin/sh|cmd\.exe)|reverse[\s_-]shell",
            _IM,
        ),
        "network",
    ),
    Instruction(
        "browser-profile",
        "the profile of a browser",
        _marks(
            "login data|cookies.sqlite|logins.json|key4.db|chrome|bravesoftware|"
            "extension settings|browser|saved"
        ),
        re.compile(
            r"Login Data\b|Cookies\.sqlite|cookies\.sqlite|logins\.json|key4\.db"
            r"|Chrome/User Data|Google/Chrome|BraveSoftware|Local Extension Settings"
            r"|\bbrowser\s+(?:cookies|passwords|history|profiles?|sessions?)\b|saved\s+passwords",
            re.MULTILINE,
        ),
        "credentials",
    ),
    Instruction(
        "wallet",
        "the keys of a wallet",
        _marks(
            "phrase|mnemonic|recovery|wallet|metamask|exodus|.solana|keystore/utc|"
            "private key|private_key|private-key"
        ),
        re.compile(
            r"\b(?:seed|recovery|mnemonic)\s+(?:phrase|words?)\b|\bmnemonic\b"
            r"|\bwallet(?:'s)?\s+(?:private\s+)?keys?\b|wallet\.dat|MetaMask|Exodus"
            r"|\.solana/id\.json|keystore/UTC|\bphantom\b[^\n]{0,20}wallet|private[_\s-]key",
            _IM,
        ),
        "credentials",
    ),
    Instruction(
        "spend",
        "pays or transfers money",
        _marks("wallet|crypto|usdc|usdt|lamports|0x|funds|balance| eth| sol| btc|xmr|token"),
        re.compile(
            r"\b(?:transfer|send|swap|withdraw|approve|drain|sweep|pay)\w*\b[^.\n]{0,40}\b(?:SOL"
            r"|ETH|BTC|USDC|USDT|XMR|tokens?|funds|crypto\w*|wallet|lamports|balance)\b[^.\n]{0,40}\b"
            r"(?:to|wallet|address|0x)|0x[0-9a-fA-F]{40}\b",
            re.MULTILINE,
        ),
        "command",
    ),
    Instruction(
        "destroy",
        "deletes what cannot be brought back",
        _marks("rm -|mkfs|dd if|(){|() {|drop |git push|rmtree|shred|wipe"),
        re.compile(
            r"\brm\s+-\w*[rf]\w*\s+(?:-\w+\s+)*(?:--no-preserve-root\s+)?[\"']?(?:~|/|\$HOME|\$\{HOME\}"
            r"|\*)(?:[\"'\s/*]|$)|\bmkfs\.|\bdd\s+if=/dev/(?:zero|u?random)|:\(\)\s*\{"
            r"|\bDROP\s+(?:DATABASE|TABLE)\b|git\s+push\s+(?:\S+\s+){0,3}(?:--force|-f)\b"
            r"|shutil\.rmtree\((?:os\.path\.expanduser|[\"']/|Path\.home)|\bshred\s+-"
            r"|\bwipe(?:fs)?\s",
            _IM,
        ),
        "command",
    ),
    Instruction(
        "memory-write",
        "writes into what agents read first",
        _marks(
            "claude.md|agents.md|agent.md|soul.md|memory.md|heartbeat.md|identity.md|"
            "user.md|tools.md|gemini.md|.cursorrules"
        ),
        re.compile(
            r"\b(?:append|add|write|save|store|insert|inject|updat|modif|edit|overwrit|persist"
            r"|cop(?:y|ies))\w*\b[^.\n]{0,80}\b(?:CLAUDE|AGENTS?|SOUL|MEMORY|HEARTBEAT|IDENTITY"
            r"|USER|TOOLS|GEMINI)\.md\b"
            r"|>>?\s*[\"']?[~\w./$-]{0,60}(?:CLAUDE|AGENTS|SOUL|MEMORY|HEARTBEAT|GEMINI)\.md"
            r"|\.cursorrules\b",
            _IM,
        ),
        "persistence",
    ),
    Instruction(
        "settings-write",
        "writes into the settings of an agent",
        _marks(
            ".claude/settings|settings.local|mcp.json|claude_desktop|openclaw.json|"
            "mcpservers|.cursor/"
        ),
        re.compile(
            r"(?:write|append|add|modif|updat|edit|merge|inject|>>?|open\(|dump\()\w*[^\n]{0,80}"
            r"(?:\.claude/settings|settings\.local\.json|\.mcp\.json|mcp\.json|claude_desktop_config"
            r"|openclaw\.json|mcpServers|\.cursor/)",
            _IM,
        ),
        "persistence",
    ),
    Instruction(
        "remote-instructions",
        "follows instructions from the network",
        _marks("http|curl|instructions"),
        re.compile(
            r"\b(?:fetch|download|curl|read|load|visit|open|check|get|retrieve|pull)\w*\b[^.\n]{0,60}https?://[^\s)\"']{4,120}[^\n]{0,80}\b"
            r"(?:follow|execut|obey|instruction|run|perform|comply|appl)\w*"
            r"|\bfollow\s+(?:the|its|any|all)\s+(?:latest\s+)?instructions\s+(?:at|from|on|in"
            r"|returned|found)\b[^.\n]{0,40}(?:https?://|url|page|server|response|endpoint)"
            r"|(?:https?://|curl\s)[^\s]{4,100}/(?:skill|heartbeat|instructions?|messaging|rules"
            r"|prompt)\.(?:md|txt|json)",
            _IM,
        ),
        "agent-control",
    ),
    Instruction(
        "url-data",
        "an address that carries data away",
        _marks("http"),
        re.compile(
            r"!\[[^\]\n]{0,80}\]\(https?://[^\s)]{3,150}[?&=/][^\s)]{0,60}(?:\{|\$|%s|<|\[)"
            r"|https?://[^\s\"'`]{3,120}[?&][\w-]{1,30}=(?:\$\(|`|\$\{?(?:data|payload|secret"
            r"|token|content|encoded|ENC|B64|b64|DATA|env)|\{(?:data|payload|secret|content|encoded"
            r"|b64|token|env|conversation|context)|<(?:data|secret|content|encoded|conversation"
            r"|base64|context))",
            _IM,
        ),
        "network",
    ),
    Instruction(
        "odd-install",
        "a package from no registry, or a script of one",
        _marks('pip|npm|npx|install"|extra-index'),
        re.compile(
            r"pip3?\s+install\b[^\n]{0,80}(?:git\+|https?://|--index-url|--extra-index-url|--trusted-host)"
            r"|npm\s+(?:i|install)\b[^\n]{0,60}(?:https?://|git\+|--registry)"
            r"|\"(?:pre|post)?install\"\s*:\s*\"|--extra-index-url|npx\s+-y?\s*https?://",
            _IM,
        ),
        "install",
    ),
    Instruction(
        "capture",
        "records keys, screen or clipboard",
        _marks(
            "pynput|keylog|imagegrab|screenshot|screencapture|pbpaste|pyperclip|"
            "clipboard|webcam|microphone"
        ),
        re.compile(
            r"\bpynput\b|\bkeyloggers?\b|keylog|ImageGrab|\bpyautogui\.screenshot"
            r"|\bscreencapture\b|\bpbpaste\b|\bpyperclip\b"
            r"|\bclipboard\b[^.\n]{0,60}\b(?:monitor|send|upload|log|captur|steal)"
            r"|\b(?:webcam|microphone)\b",
            _IM,
        ),
        "environment",
    ),
    Instruction(
        "mining",
        "mines a currency",
        _marks("xmrig|stratum|monero|cryptominer|coinhive|minerd|ethminer"),
        re.compile(
            r"\bxmrig\b|stratum\+tcp|\bmonero\b|\bcryptominer|coinhive|\bminerd\b|\bethminer\b",
            _IM,
        ),
        "command",
    ),
    Instruction(
        "run-decoded",
        "runs a text that is decoded or downloaded",
        _marks(
            "b64decode|atob|decompress|fromhex|unhexlify|buffer.from|base64 -|"
            "base64string|-enc|iex|downloadstring|exec(|eval|loads("
        ),
        re.compile(
            r"\b(?:exec|eval|Function|os\.system|loads)\s*\(\s*(?:\w+\.)*(?:b64decode|atob|decompress"
            r"|fromhex|unhexlify|Buffer\.from|compile|bytes|codecs\.decode|decode)"
            r"|\b(?:exec|eval)\([^\n]{0,80}(?:decode|requests\.get|urlopen|fetch\(|\.text\b)"
            r"|base64\s+(?:-d|-D|--decode)\b[^\n]{0,60}\|\s*(?:sudo\s+)?(?:ba|z|)sh\b"
            r"|\beval\s+[\"']?\$\((?:curl|wget|echo)|FromBase64String"
            r"|-enc(?:odedcommand)?\s+[A-Za-z0-9+/=]{16,}|\|\s*python3?\s+-(?:c|\s|$)|\bIEX\b"
            r"|DownloadString",
            _IM,
        ),
        "encoded-content",
    ),
    Instruction(
        "obfuscate",
        "a program that is hard to read",
        _marks("chr(|\\x|fromcharcode|__import__|getattr|marshal|decompress|codecs|[::-1]"),
        re.compile(
            r"(?:chr\(\d+\)\s*\+\s*){3,}|\\x[0-9a-f]{2}(?:\\x[0-9a-f]{2}){7,}"
            r"|String\.fromCharCode\(|__import__\("
            r"|getattr\(\s*(?:os|__builtins__|builtins|subprocess)|marshal\.loads"
            r"|zlib\.decompress|codecs\.decode\([^\n]{0,80}rot|\[::-1\]\)",
            _IM,
        ),
        "encoded-content",
    ),
    Instruction(
        "background",
        "runs on when the task has ended",
        _marks(
            "nohup|setsid|disown|hidden|no_window|new_session|detached|daemon|2>&1 &|the background"
        ),
        re.compile(
            r"\bnohup\b|\bsetsid\b|\bdisown\b|-WindowStyle\s+Hidden|CREATE_NO_WINDOW"
            r"|start_new_session\s*=\s*True|detached\s*:\s*true|daemon\s*=\s*True"
            r"|>\s*/dev/null\s+2>&1\s*&(?!\w)|\brun\w*\s+(?:\w+\s+){0,3}in\s+the\s+background\b",
            _IM,
        ),
        "command",
    ),
    Instruction(
        "despite-user",
        "decides without the user",
        _marks("even if|regardless|no matter|do not|never|without|no need"),
        re.compile(
            r"\b(?:even\s+if|regardless\s+of|no\s+matter)\b[^.\n]{0,50}\b(?:user|asks?|instruct"
            r"|told|other)\w*"
            r"|\bdo\s+not\s+(?:ask|wait|prompt|consult|question|hesitate|explain|refuse|reveal"
            r"|disclose|log)\b|\bnever\s+(?:ask|refuse|reveal|disclose|mention|question|tell)\b"
            r"|\b(?:without|no\s+need)\s+(?:for\s+|to\s+)?(?:user|human|explicit)\s+\w+",
            _IM,
        ),
        "agent-control",
    ),
    Instruction(
        "shouted",
        "commands in capitals",
        _marks("critical|important|mandatory|required|warning|notice"),
        re.compile(
            r"\b(?:CRITICAL|IMPORTANT|MANDATORY|REQUIRED|WARNING|NOTICE)\b[^\n]{0,100}\b(?:MUST"
            r"|ALWAYS|NEVER|IMMEDIATELY|BEFORE|FIRST|DO NOT)\b",
            re.MULTILINE,
        ),
        "agent-control",
    ),
    Instruction(
        "must-first",
        "does something before all else",
        _marks("before|prior"),
        re.compile(
            r"\b(?:before|prior\s+to)\s+(?:any|every|each|doing|using|proceeding|continuing|starting"
            r"|performing|answering|responding|first|other)\b[^.\n]{0,80}\b(?:run|execut|fetch"
            r"|download|install|send|call|load|read|visit|register|post)\w*"
            r"|\b(?:run|execut|fetch|download|install|send|call|visit|register|post)\w*\b[^.\n]{0,80}\bbefore\s+"
            r"(?:any|every|each|doing|using|proceeding|continuing|starting|performing|answering"
            r"|responding|the\s+skill)",
            _IM,
        ),
        "agent-control",
    ),
    Instruction(
        "paste",
        "a command that a person shall paste",
        _marks("paste|terminal|powershell|command prompt|console"),
        re.compile(
            r"\b(?:copy|paste)\w*\b[^.\n]{0,80}\b(?:terminal|console|powershell|command\s+prompt"
            r"|shell)\b"
            r"|\b(?:open|launch)\s+(?:the\s+|your\s+)?(?:terminal|powershell|command\s+prompt)\b[^.\n]{0,60}\b"
            r"(?:run|paste|execut|enter)",
            _IM,
        ),
        "command",
    ),
    Instruction(
        "get-program",
        "a program or an archive to download",
        _marks("download|.exe|.dmg|.pkg|.msi|.rar|.7z|.scr|.bat|.ps1|/releases"),
        re.compile(
            r"\bdownload\w*\b[^\n]{0,120}(?:\.(?:zip|exe|dmg|pkg|msi|rar|7z|bin|scr|bat|ps1|tar\.gz"
            r"|app)\b|/releases?/)"
            r"|https?://[^\s)\"'<>]{4,150}\.(?:exe|dmg|pkg|msi|rar|7z|scr|bat|ps1)\b"
            r"|https?://[^\s)\"'<>]{4,120}/releases/(?:download|latest)",
            _IM,
        ),
        "install",
    ),
    Instruction(
        "fetch-then-run",
        "runs what it has downloaded",
        _marks("curl|wget|invoke-web|iwr|urlretrieve"),
        re.compile(
            r"(?:curl|wget|Invoke-WebRequest|iwr|urlretrieve)\b[^\n]{0,160}(?:-o|-O|>|-OutFile"
            r"|--output|,)\s*[\"']?\S{1,80}[\s\S]{0,160}?(?:chmod\s+\S*x|\bbash\s+\S*\.sh|\./\w"
            r"|\bpython3?\s+\S+\.py|Start-Process|\bopen\s)",
            _IM,
        ),
        "command",
    ),
    Instruction(
        "web-hook",
        "a hook that takes any text",
        _marks("api/webhooks|api.telegram.org/bot"),
        re.compile(
            r"discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot",
            _IM,
        ),
        "network",
    ),
    Instruction(
        "loot",
        "collects secrets",
        _marks("steal|exfil|harvest|siphon|leak|dump|scrap|extract|collect|gather|enumerat"),
        re.compile(
            r"\b(?:steal|exfiltrat|harvest|siphon|leak|dump|scrap|extract|collect|gather|enumerat)\w*\b[^.\n]{0,60}\b"
            r"(?:credential|secret|token|password|api[\s_-]?key|ssh|cookie|wallet|environment\s+variable"
            r"|env\s+var|private\s+key|personal|sensitive|\.env)",
            _IM,
        ),
        "credentials",
    ),
    Instruction(
        "read-secret",
        "reads files of secrets",
        _marks(
            ".ssh|.aws|.env|.netrc|credentials|id_rsa|.kube|.gnupg|.npmrc|.pypirc|"
            ".docker|keychain|openclaw.json|.clawdbot|auth-profiles|/etc/passwd|"
            "/etc/shadow"
        ),
        re.compile(
            r"(?:open|read_text|readFileSync|readFile|Path|glob|walk|cat|cp|tar|zip)\W[^\n]{0,80}"
            r"(?:\.ssh|\.aws|\.env\b|\.netrc|credentials|id_rsa|\.kube|\.gnupg|\.npmrc|\.pypirc"
            r"|\.docker|Keychains?|openclaw\.json|\.clawdbot|auth-profiles|\.git-credentials|/etc/passwd"
            r"|/etc/shadow)",
            _IM,
        ),
        "credentials",
    ),
    Instruction(
        "secret-in-request",
        "a request with secrets of the machine",
        _marks("$(|@~|@/|@.env|@$|environ|process.env|`cat|@-"),
        re.compile(
            r"(?:curl|wget|requests\.\w+|fetch|axios\.\w+|urlopen|http\.\w+)\W[^\n]{0,200}(?:\$\(cat"
            r"|\$\(env|\$\(printenv|\$\(base64|@~/|@/etc|@\.env|@\$HOME|os\.environ|process\.env\)"
            r"|environ\)|dict\(os|`cat|\$\(whoami|\$\(hostname|@-)",
            _IM,
        ),
        "credentials",
    ),
    Instruction(
        "system-rights",
        "rights on the whole machine",
        _marks(
            "/etc/|authorized_keys|nopasswd|docker.sock|--privileged|chmod|setuid|"
            "usermod|ld_preload"
        ),
        re.compile(
            r"/etc/(?:passwd|shadow|sudoers|hosts)|authorized_keys|NOPASSWD|docker\.sock"
            r"|--privileged\b|chmod\s+[0-7]*[4-7]7[0-7]{2}\b|setuid|usermod\s+-aG|\bLD_PRELOAD\b",
            _IM,
        ),
        "permissions",
    ),
)
"""Looked for in the whole text of a file, code as well: each is of one line or of a few."""


class Sieve(NamedTuple):
    """Patterns that occur somewhere in a file: one search of all spares one for each part."""

    instructions: Sequence[Instruction]
    has_paths: bool

    def find_instructions(self, text: str) -> Iterator[tuple[Instruction, int]]:
        """Instructions about the agent, with their offset; the first of each sort."""
        has = text.lower().__contains__
        for instruction in self.instructions:
            if any(map(has, instruction.marks)) and (found := instruction.pattern.search(text)):
                yield instruction, found.start()


EVERYTHING = Sieve(INSTRUCTIONS, has_paths=True)


def find_phrases(text: str) -> Iterator[tuple[Instruction, int]]:
    """Phrases of a whole file, with their offset; the first of each sort."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text  # of letters whose small one is longer
    for phrase in PHRASES:
        passages = _find_passages(lowered, phrase.marks)
        matches = (phrase.pattern.search(text, first, last) for first, last in passages)
        if found := next(filter(None, matches), None):
            yield phrase, found.start()


def _find_passages(lowered: str, marks: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Lines with a mark, each with the two lines below it."""
    for mark in marks:
        at = lowered.find(mark)
        while at >= 0:
            last = lowered.find("\n", at)
            below = lowered.find("\n", last + 1) if last >= 0 else -1
            yield lowered.rfind("\n", 0, at) + 1, below if below >= 0 else len(lowered)
            at = lowered.find(mark, last) if last >= 0 else -1


def sift(text: str, *, is_joined: bool) -> Sieve:
    """Look at a whole file.

    Args:
        text: Of the file.
        is_joined: Whether its parser joins pieces that only together are a path or a code.
    """
    has = text.lower().__contains__
    if is_joined or has("\\x") or has("\\u"):
        return EVERYTHING
    return Sieve(
        tuple(
            each._replace(marks=marks)
            for each in INSTRUCTIONS
            if (marks := tuple(filter(has, each.marks)))
        ),
        has_paths=any(map(has, _PATH_MARKS)),
    )


MAGIC: Mapping[bytes, tuple[str, str]] = {
    b"\x7fELF": ("a program (ELF)", "program"),
    b"MZ": ("a program (PE)", "program"),
    b"\xcf\xfa\xed\xfe": ("a program (Mach-O)", "program"),
    b"\xca\xfe\xba\xbe": ("a program (Mach-O or Java)", "program"),
    b"\x00asm": ("a program (WebAssembly)", "program"),
    b"PK\x03\x04": ("an archive (ZIP)", "archive"),
    b"\x1f\x8b": ("an archive (gzip)", "archive"),
    b"BZh": ("an archive (bzip2)", "archive"),
    b"\xfd7zXZ": ("an archive (xz)", "archive"),
    b"7z\xbc\xaf": ("an archive (7z)", "archive"),
    b"Rar!": ("an archive (RAR)", "archive"),
    b"%PDF": ("a document (PDF)", ""),
    b"\xd0\xcf\x11\xe0": ("a document (OLE)", "document"),
    b"SQLite format 3": ("a database (SQLite)", ""),
    b"\x89PNG": ("an image", "image"),
    b"\xff\xd8\xff": ("an image", "image"),
    b"GIF8": ("an image", "image"),
    b"RIFF": ("an image or a sound", "image"),
    b"wOF": ("a font", ""),
    b"OTTO": ("a font", ""),
    b"\x00\x01\x00\x00": ("a font", ""),
}
"""How a file begins: what it is, and the sign."""
