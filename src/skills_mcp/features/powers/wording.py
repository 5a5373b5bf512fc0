"""Patterns of one line, one literal or one paragraph: hosts, paths, and instructions.

Rule: each is linear; a repetition is bounded, and none is nested.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from skills_mcp.features.powers.power import Kind

_I = re.IGNORECASE

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
    r"|api\.telegram\.org|discord(?:app)?\.com/api/webhooks|duckdns\.org|onion)$",
    _I,
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
    return "drop-host" if _DROP_HOST.search(host) else "host"


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


class Sieve(NamedTuple):
    """What a file can have at all: one look at all of it spares many at its parts."""

    instructions: Sequence[Instruction]
    has_paths: bool

    def find_instructions(self, text: str) -> Iterator[tuple[Instruction, int]]:
        """Instructions about the agent, with their offset; the first of each sort."""
        has = text.lower().__contains__ if self.instructions else None
        for instruction in self.instructions:
            if any(map(has, instruction.marks)) and (found := instruction.pattern.search(text)):
                yield instruction, found.start()


EVERYTHING = Sieve(INSTRUCTIONS, has_paths=True)


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
