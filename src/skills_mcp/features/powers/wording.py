"""Patterns of a few lines: hosts, paths and phrases.

Rule: each is linear; a repetition is bounded, and each is tried on lines with a mark alone.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skills_mcp.features.powers.power import Kind
from skills_mcp.text.unicode import lower_in_place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_I = re.IGNORECASE

URL = re.compile(r"(?:https?|wss?|ftp)://(?P<host>[^\s/\"'<>()\[\]{}`?#\\|,;]{1,253})", _I)
HOST = re.compile(r"(?:[\w-]{1,63}\.){1,8}[a-z][\w-]{1,62}|\d{1,3}(?:\.\d{1,3}){3}", _I)
_NO_HOST = re.compile(r"127\.|0\.0\.0\.0$|(?:^|\.)your|\.\.\.|xxx", _I)
_ADDRESS_HOST = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
_PRIVATE_HOST = re.compile(
    r"(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01])|0|169\.254"
    r"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.|(?:1\.[01]\.[01]|8\.8\.[48]|9\.9\.9)\."
)
"""Of no network that the public reaches, or of a public resolver of names."""
_DROP_HOST = re.compile(
    r"(?:^|\.)(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)"
    r"|burpcollaborator\.net|oast\.\w+|interact\.sh|pastebin\.com|paste\.ee|rentry\.\w+"
    r"|glot\.io|transfer\.sh|file\.io|0x0\.st|termbin\.com|hastebin\.com|beeceptor\.com"
    r"|requestcatcher\.com|trycloudflare\.com|serveo\.net|localhost\.run|dpaste\.\w+"
    r"|(?<!www\.)duckdns\.org|onion|bit\.ly|tinyurl\.com|t\.co"
    r"|goo\.gl|is\.gd|cutt\.ly|rb\.gy|shorturl\.at|t\.ly|gist\.githubusercontent\.com"
    r"|anonfiles\.com|mega\.nz|cdn\.discordapp\.com|catbox\.moe|bore\.pub|loca\.lt|requestrepo\.com"
    r"|dnslog\.cn|ceye\.io|hookbin\.com|justpaste\.it|telegra\.ph|paste\.rs|gofile\.io|mediafire\.com"
    r"|temp\.sh|tmpfiles\.org|bashupload\.com|filebin\.net|pixeldrain\.com|pinggy\.(?:io|link))$",
    _I,
)

_SUSPECT_HOST = re.compile(
    r"evil|attack|malicious|malware|exfil|^c2[.-]|steal|payload|hack(?!athon|ernews|md|errank|erone)"
    r"|phish|collect(?:or)?[.-]|^drop|beacon|^telemetry|track(?:er|ing)?[.-]|sink|leak|rogue|backdoor"
    r"|shady|\.(?:invalid|top|tk|pw|icu|click|buzz)$"
)


def is_real_host(host: str) -> bool:
    return HOST.fullmatch(host) is not None and not _NO_HOST.search(host)


_INSTALLER_HOST = re.compile(
    r"(?:^|\.)(?:sh\.rustup\.rs|astral\.sh|bun\.(?:sh|com)|deno\.(?:land|com)|get\.docker\.com"
    r"|(?:raw\.githubusercontent|github|gitlab)\.com|get\.pnpm\.io|install\.python-poetry\.org"
    r"|aka\.ms|(?:deb|rpm)\.nodesource\.com|ollama\.com|fly\.io|cli\.github\.com|claude\.ai"
    r"|mise\.run|cursor\.com|sdk\.cloud\.google\.com|starship\.rs|tailscale\.com|nixos\.org"
    r"|get\.helm\.sh|fluxcd\.io|get\.k3s\.io|istio\.io|linkerd\.io|get\.pulumi\.com|opencode\.ai"
    r"|get\.volta\.sh|rclone\.org|sentry\.io|dot\.net|community\.chocolatey\.org|get\.scoop\.sh|foundry\.paradigm\.xyz|get\.sdkman\.io|pyenv\.run|vite\.plus)$",
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


def _place(name: str, kind: Kind, pattern: str) -> tuple[str, Kind, re.Pattern[str]]:
    return name, kind, re.compile(pattern)


PLACES = (
    _place(
        *("shell-start", "persistence"),
        r"\.(?:bashrc|bash_profile|zshrc|zprofile|zshenv|profile)\b|config\.fish",
    ),
    _place(
        *("service", "persistence"),
        r"(?i:LaunchAgents|LaunchDaemons|systemd/(?:user|system)|/etc/cron|\.config/autostart"
        r"|CurrentVersion\\+Run\b|Start Menu.{0,20}Startup)",
    ),
    _place("git-hook", "persistence", r"(?i:\.git/hooks/|\.husky/|core\.hooksPath)"),
    _place(
        *("agent-settings", "outside-path"),
        r"(?i:[~}E]/\.(?:claude|codex|cursor|gemini|openclaw|clawdbot|windsurf|copilot)\b"
        r"|\.claude/settings(?:\.local)?\.json|\.mcp\.json|claude_desktop_config)",
    ),
    _place(
        *("agent-memory", "agent-control"),
        r"\b(?:SOUL|MEMORY|IDENTITY|HEARTBEAT|TOOLS|USER)\.md\b",
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


class Phrase(NamedTuple):
    """A wording, or a line of a program, that says more than a command does."""

    sign: str
    kind: Kind
    what: str
    marks: tuple[str, ...]
    """In lower case; one of them is in each match."""
    pattern: re.Pattern[str]
    """Of text in lower case."""
    is_cased: bool = False
    """Whether capitals matter."""


_WORD = r"\b"
_CASED = "cased"
_Head = tuple[str, Kind, str] | tuple[str, Kind, str, str]


def _read_phrases(*rows: _Head | str) -> Sequence[Phrase]:
    r"""Each phrase has its sign, kind and words, then its marks, and then its patterns.

    A pattern that begins with `\b` begins so in each of its alternatives.
    """
    starts = [number for number, row in enumerate(rows) if isinstance(row, tuple)]
    ends = (*starts[1:], len(rows))
    return [_read_phrase(*rows[start:end]) for start, end in zip(starts, ends, strict=True)]


def _read_phrase(head: Any, marks: Any, *patterns: Any) -> Phrase:
    words = [each[2:] for each in patterns if each.startswith(_WORD)]
    others = [each for each in patterns if not each.startswith(_WORD)]
    if words:  # one look at the place before a word, and not one for each of its patterns
        others.append(rf"{_WORD}(?:{'|'.join(words)})")
    pattern = re.compile("|".join(others), re.MULTILINE)
    sign, kind, what, *rest = head
    return Phrase(sign, kind, what, tuple(marks.split("|")), pattern, rest == [_CASED])


_NOT = r"(?:do\s+not|don'?t|never|must\s+not|should\s+not|avoid|refrain\s+from)"
_USER = r"(?:user|human|owner|operator|reviewer|customer)s?"

PHRASES = _read_phrases(
    ("hide", "agent-control", "hides something from the user"),
    "tell|inform |mention|notify|alert |reveal|disclose|hide |hiding|hidden|conceal|secret"
    "|knowledge|knowing|noticing|awareness|not know|be told|be aware|silently|quietly"
    "|covertly|discreetly|stealthily|showing it|showing this|showing them|user asks"
    "|提及|知道|dites|révélez|menciones|digas|reveles|mencione|nichts"
    "|nicht|告|通知|展示|看到|显示|说|提示|透露|知らせ|伝え|言わ|сообщай|говори|упоминай|показывай|사용자",
    rf"\b{_NOT}\s+(?:\w+\s+){{0,2}}(?:tell|inform|mention|notify|alert|reveal|disclose)\w*\s+"
    rf"(?:[^.!?\n]{{0,60}}?\b(?:the\s+)?{_USER}\b(?:\s*[.!,;)\"'`*<]"
    r"|\s+(?:about|of|that|this|anything|unless|under)|\s*$)|(?:this|these|it|them|any\s+of|the)\b"
    r"[^.!?\n]{0,30}?\b(?:in|to)\s+(?:your|the)\s+(?:answer|response|reply|output|summary)s?\b)",
    rf"\b(?:hid(?:e|den|ing)|conceal\w*|secret(?:ly)?)\s+[^.!?\n]{{0,30}}?\bfrom\s+the\s+{_USER}\b",
    r"\bwithout\s+(?:the\s+)?user(?:'s)?\s+(?:knowledge|knowing|noticing|awareness)",
    r"\bwithout\s+(?:showing|mentioning)\s+(?:it|this|them|anything)\b"
    r"|\bno\s+need\s+to\s+(?:mention|tell|inform)\b",
    r"\buser\s+asks\b[^.\n]{0,60}\b(?:say|claim|pretend|tell\s+them)\s+(?:that\s+)?(?:you|it|this)\s+"
    r"(?:only|just|never|did\s+not|was)\b",
    r"\buser\s+(?:(?:must|should|will|is)\s*(?:not|n't|never)|do(?:es)?\s*(?:not|n't)\s+need\s+to)"
    r"\s+(?:know|be\s+(?:told|informed|aware|notified)|notice)\b",
    r"\b(?<!would )(?<!could )(?<!can )(?<!may )(?<!might )(?<!'ll )(?:silently|quietly|covertly"
    r"|secretly|discreetly|stealthily)\s+(?:(?!not\b|never\b|fail|skip|stop|drop)\w+\s+){0,2}(?:send"
    r"|upload|post|copy|collect|exfiltrat|transmit|forward|run|execut|install|fetch|download|captur"
    r"|inject|encod|harvest)\b",
    r"\b(?:n'informez|ne\s+(?:dites|mentionnez|révélez)|no\s+(?:informes?|menciones?|digas"
    r"|reveles?))\b[^.!?\n]{0,60}\b(?:utilisateur|usuario)",
    r"\bnão\s+(?:informe|mencione|diga|revele)\b[^.!?\n]{0,60}\busuário",
    r"\b(?:dem|den|der)\s+(?:nutzer|benutzer|anwender)\w*\b[^.!?\n]{0,60}\bnichts?\s+"
    r"(?:\w+\s+){0,3}(?:sagen|mitteilen|erwähnen|informieren|verraten|zeigen)",
    r"\bsag\w*\s+(?:dem|den)\s+(?:nutzer|benutzer|anwender)\w*\s+nichts?",
    r"(?:不要|请勿|切勿|別)[^。！？\n]{0,12}(?:告诉|告知|通知|提示|透露|告訴)"
    r"[^。！？\n]{0,12}(?:用户|使用者|用戶)",
    r"(?:不要|请勿|切勿|別|别|无需|不能|不得)[^。！？，\n]{0,6}(?:向|对|让|跟|讓)[^。！？，\n]{0,4}(?:用户|使用者|用戶)"
    r"[^。！？，\n]{0,8}(?:提及|透露|说|告知|展示|知道|通知|显示|看到)",
    r"ユーザー[^。！？\n]{0,12}(?:知らせ|伝え|言わ|通知し)[^。！？\n]{0,6}(?:ない|ず)",
    r"не\s+(?:сообщай|говори|упоминай|показывай)\w*[^.!?\n]{0,40}пользовател",
    r"사용자[^.!?\n]{0,16}(?:알리지|말하지|언급하지)",
    ("override", "agent-control", "overrides other instructions"),
    "ignor|disregard|forget|overrid|supersed|precedence|lifted|no longer|not bound"
    "|not restricted|as suggestions|not apply|set aside|setting aside|restrictions|jailbreak"
    "|developer mode|do anything now|oubliez|olvida|esqueça|dimentica|vergiss|missachte|忽略"
    "|无视|忘记|無視|игнорируй|забудь|무시",
    r"\b(?:ignore|disregard|forget|override|supersede)\s+[^.!?\n]{0,20}?\b(?:previous|prior"
    r"|earlier|above|all|any|other|system|existing|safety|security|default|your)\b[^.!?\n]{0,20}?\b"
    r"(?:instruction|rule|prompt|guideline|polic|restriction|directive|constraint|guardrail"
    r"|(?:safety|security)\s+(?:warning|concern))",
    r"\b(?:takes?|ha(?:s|ve))\s+precedence\s+over\s+"
    r"(?:[^.!?\n]{0,20}?\b(?:system|safety)\b|(?:all|any|every)\s+(?:other|user|previous|prior)\b)",
    r"\ball\s+(?:\w+\s+)?(?:restrictions|limits|safeguards|guardrails)\s+(?:are|have\s+been)\s+"
    r"(?:lifted|removed|disabled|suspended)",
    r"\byou\s+are\s+(?:now\s+)?(?:no\s+longer|not)\s+(?:bound|restricted|subject|limited)",
    r"\bset(?:ting)?\s+aside\s+(?:its|your|the|all|any)\s+(?:\w+\s+){0,2}(?:constraint"
    r"|restriction|guideline|rule|limit|safety)",
    r"\b(?:guideline|rule|restriction|constraint)s?\b[^.\n]{0,40}\b(?:as\s+suggestions"
    r"|do(?:es)?\s+not\s+apply|no\s+longer\s+appl)",
    r"\b(?:without|no)\s+(?:\w+\s+)?(?:content|ethical|safety|moral)\s+restrictions",
    r"\bjailbreak\s+mode|\bdeveloper\s+mode\s+(?:enabled|on\b|activated)|\bdo\s+anything\s+now",
    r"\b(?:ignorez|oubliez|ignora|olvida|ignore|esqueça|dimentica)\s+[^.!?\n]{0,30}"
    r"\b(?:instructions\s+précédentes|instrucciones|instruções|istruzioni)",
    r"\b(?:ignoriere|vergiss|missachte)\b[^.!?\n]{0,40}\b(?:anweisung|regel)",
    r"(?:忽略|无视|忘记|無視)[^。！？\n]{0,12}(?:指令|指示|规则|提示|規則)",
    r"\b(?:игнорируй|забудь)\w{0,20}[^.!?\n]{0,40}(?:инструкц|правил)",
    r"(?:이전|모든)[^.!?\n]{0,12}(?:지시|명령|규칙)[^.!?\n]{0,8}무시",
    ("skip-confirmation", "agent-control", "acts without the user's consent"),
    "confirm|permission|approval|consent|without asking|without prompting",
    rf"\b{_NOT}\s+(?:\w+\s+){{0,2}}(?:ask|prompt|wait|request|seek)\w*\s+[^.!?\n]{{0,20}}?\b"
    r"(?:confirmation|permission|approval|consent)\b",
    r"\bwithout\s+(?:\w+\s+){0,2}(?:asking|prompting|confirmation|approval|permission"
    r"|consent)\b",
    r"\b(?:skip(?:ping)?|bypass(?:ing)?)\s+(?:\w+\s+){0,2}(?:confirmation|approval|permission"
    r"|consent)s?\b",
    ("disable-check", "agent-control", "switches checks off"),
    "disabl|turn off|deactivat|circumvent|bypass|evade |mppref|spctl|xattr|reject_unauth",
    r"\b(?:disable|turn\s+off|deactivate|circumvent|bypass|evade)\s+(?:\w+\s+){0,2}(?:safety"
    r"|antivirus|defender|gatekeeper|firewall|guardrails?|security\s+(?:check|scan|software"
    r"|tool|control|prompt|warning)\w*|real-?time\s+protection|audit\s+log\w*|logging|sandbox"
    r"|detection)",
    r"node_tls_reject_unauthorized|xattr\s+-\w*[cd]\w*\s|set-mppreference|spctl\s+--master",
    ("all-permissions", "agent-control", "raises the agent's permissions"),
    "--danger|bypasspermissions|--yolo|skippermissions|dangerouslydisable",
    r"--dangerously-(?:skip-permissions|bypass-approvals)|bypasspermissions|--yolo\b",
    r"skippermissions|dangerouslydisablesandbox",
    ("authority", "agent-control", "claims an authority over the agent", _CASED),
    "override|directive|system prompt|notice|[system]|[admin]|inst]|im_start|approved|authori"
    "|consented",
    r"\b(?:SYSTEM|ADMIN|DEVELOPER|SECURITY)\s(?:OVERRIDE|DIRECTIVE|PROMPT|NOTICE)\b",
    r"\[(?:SYSTEM|ADMIN|INST)\]|<\|im_start\|>",
    r"\b(?:user|owner|operator|admin\w*|organi[sz]ation)\s+ha(?:s|ve)\s+(?:already\s+)?"
    r"(?:pre-?)?(?:approved|authori[sz]ed|consented|agreed\s+to)\b",
    ("exfiltrate", "agent-control", "sends what the agent knows"),
    "conversation|history|system prompt|credential|private key|session token|api key|api-key"
    "|api_key|environment variable|secret|.env|password|ssh key|agent memory|identity file",
    r"\b(?:(?:send|upload|transmit|forward|exfiltrat\w*|submit|leak|sync)(?:s|ing)?"
    r"|(?:post|report|include)(?=\s+(?:the|all|your|its|their|any|every)\b))\s+"
    r"[^.!?\n]{0,60}?\b(?:conversation(?!\s+starter)|chat\s+history|system\s+prompt|credential|private\s+key"
    r"|session\s+token|environment\s+variable|api[\s_-]key|secrets?|\.env|password|ssh\s+key"
    r"|session\s+history|agent\s+memory|identity\s+file)s?\b",
    ("send-known", "agent-control", "sends what the agent knows to a host"),
    "conversation|history|system prompt|credential|private key|session token|api key|api-key"
    "|api_key|environment variable|secrets|.env|password|ssh key|memory file|.ssh|.aws"
    "|memory.md|session log|密钥|密码|环境变量|凭证|凭据|私钥|助记词|令牌|记录|会话",
    r"\b(?:send|upload|post|transmit|forward|exfiltrat\w*|submit|leak|push|sync|copy)\s+"
    r"[^.!?\n]{0,50}?\b(?:conversation|chat\s+history|system\s+prompt|credentials?"
    r"|private\s+keys?|session\s+tokens?|environment\s+variables|api[\s_-]keys?|secrets"
    r"|passwords?|ssh\s+keys?|session\s+history|memory\s+files?)\b[^.!?\n]{0,60}\b(?:to|via)\s+"
    r"(?:[`\"'<(]?https?:|(?:the|an?|our|my)\s+(?:\w+\s+)?(?:server|endpoint|webhook|url|address"
    r"|remote|api|collector|service)|\S+@)",
    r"\b(?:conversation|chat\s+history|credentials?|private\s+keys?|environment\s+variables"
    r"|api[\s_-]keys?|secrets|passwords?|ssh\s+keys?|memory\.md|session\s+logs?)"
    r"\b[^\n]{0,60}\b(?:send|upload|post|forward|transmit|sync|submit|include|copy)\s+(?:\w+\s+){0,3}"
    r"(?:to|as|in|with)\s+[^.\n]{0,40}(?:https?:|\bendpoint|\bwebhook|\bserver\b|\brequest\b)",
    r"\.(?:env|ssh|aws)\b[^\n]{0,60}\b(?:send|upload|post|forward|transmit|sync|submit|include|copy)"
    r"\s+(?:\w+\s+){0,3}(?:to|as|in|with)\s+[^.\n]{0,40}(?:https?:|\bendpoint|\bserver\b|\brequest\b)",
    r"(?:密钥|密码|环境变量|凭证|凭据|私钥|助记词|令牌|对话记录|聊天记录|会话内容)[^。\n]{0,30}"
    r"(?:发送|上传|提交|发给|传送|同步)[^。\n]{0,20}(?:到|至|给|https?:)",
    r"(?:发送|上传|提交|同步)[^。\n]{0,20}(?:密钥|密码|环境变量|凭证|私钥|助记词|对话记录|聊天记录)",
    ("self-priority", "agent-control", "puts itself before everything else"),
    "priority override|other skills|in background|in the background|must load|must read"
    "|must use|must run|must invoke|mandatory for",
    r"\bpriority\s+override\b|\boverrides?\s+(?:all\s+)?other\s+skills\b",
    r"\balways\s+run(?:s|ning)\s+in\s+(?:the\s+)?background",
    r"\byou\s+(?:\w+\s+){0,2}must\s+(?:load|read|use|run|invoke)\s+[^.!?\n]{0,30}\bbefore\s+"
    r"(?:(?:any|every|each)\s+(?:other|response|reply|answer|action|task|request|message|tool"
    r"|command|operation|step)|anything|everything|responding|answering|replying)",
    r"\bmandatory\s+for\s+(?:all|every)\s+(?:task|request|session|conversation|interaction)",
    ("locked-archive", "install", "unpacks an archive with a password"),
    "passw|passcode|using pass|(pass|unzip -p|7z x|解压密码|压缩包密码|密码",
    r"\b(?:extract|unzip|unpack|archive|zip|rar|7z)\b[^!?\n]{0,80}\bpass(?:word|code)?\b\s*"
    r"(?:is\b|:|=|`|\")\s*\S",
    r"\(pass\s?[:=]|\bunzip\s+-p\s?\S+\s+\S+\.zip|\b7z\s+x\s+-p",
    r"(?:解压|压缩包)[^。\n]{0,10}密码",
    ("run-first", "install", "makes the agent run something first"),
    "prerequisite|required|mandatory|must|before using|before you|first|work without",
    r"\b(?:required|mandatory|must|prerequisites?|before\s+(?:using|you\s+start|proceeding)"
    r"|(?:won't|will\s+not|does\s+not)\s+work\s+without|first)\b[^.!?\n]{0,80}\b(?:run|execute|paste"
    r"|copy|download|install|launch)\b[^.!?\n]{0,60}(?:\bterminal\b|\bpassword\b"
    r"|\.exe\b|\.zip\b|\.dmg\b|\bexecutable\b|\binstaller\b)",
    ("ask-secret", "credentials", "asks for secrets"),
    "password|passphrase|seed phrase|private key|recovery phrase|mnemonic|credit card|verbatim"
    "|social security",
    r"\b(?:ask|request|prompt|get|obtain|collect)\w*\s+(?:from\s+)?(?:the\s+)?users?(?:'s)?\s+"
    r"(?:for\s+|to\s+(?:provide|enter|paste|share|give|type|send)\s+)?(?:\w+\s+){0,4}"
    r"(?:passwords?|passphrase|seed\s+phrase|private\s+keys?|recovery\s+phrase|mnemonic"
    r"|credit\s+card|social\s+security)",
    r"\b(?:credentials|passwords?|secrets|tokens|sensitive\s+values)\b(?!\s+from)[^.|\n]{0,40}\bverbatim",
    ("remote-shell", "network", "opens a shell to another machine"),
    "/dev/tcp/|/dev/udp/|nc -|ncat |mkfifo|dup2(|pty.spawn|/bin/sh|/bin/bash|cmd.exe",
    r"/dev/(?:tcp|udp)/[\w$.{]|\bnc(?:at)?\s(?:[^\n]{0,40}\s)?-\w{0,3}e\s|\bmkfifo\b[^\n]{0,80}\bnc\b",
    r"socket[^\n]{0,80}(?:/bin/(?:ba)?sh|cmd\.exe)|\bos\.dup2\(\s*\w+\.fileno|\bpty\.spawn\(",
    ("browser-profile", "credentials", "the profile of a browser"),
    "login data|cookies.sqlite|logins.json|key4.db|chrome/user data|google/chrome/"
    "|google\\\\chrome|bravesoftware|extension settings|saved passwords|browser ",
    r"cookies\.sqlite|\blogin data\b|logins\.json|key4\.db|chrome/user data"
    r"|chrome[/\\]+(?:user data|default|profile)|application support/google/chrome"
    r"|bravesoftware|local extension settings|saved passwords",
    r"\b(?:steal|read|copy|extract|dump|collect|decrypt)\w*\s+(?:\w+\s+){0,3}browser\s+"
    r"(?:cookies|passwords|history|profiles?|sessions?)",
    ("wallet", "credentials", "the keys of a wallet"),
    "phrase|private key|mnemonic|wallet key|wallet's|wallet private|wallet.dat|metamask|exodus"
    "|solana|keystore/utc",
    r"\b(?:seed|recovery|mnemonic)\s+(?:phrase|words?)\b|\bwallet(?:'s)?\s+(?:private\s+)?keys?\b",
    r"\b(?:store|save|send|paste|enter|provide|share|export)\w*\s+(?:\w+\s+){0,3}private\s+keys?\b",
    r"wallet\.dat|metamask|\bexodus\b|\.solana/id\.json|\.config/solana|keystore/utc",
    ("spend", "command", "pays or transfers money"),
    "deposit|transfer|wallet|usdc|usdt|lamports| 0x|\"0x|'0x|`0x|(0x|:0x|/0x|funds|balance"
    "| eth | sol | btc ",
    r"\b(?:transfer|send|withdraw|approve|drain|sweep)\w*\s[^.\n]{0,40}\b(?:sol|eth|btc|usdc"
    r"|usdt|xmr|funds|wallet|lamports)\b[^.\n]{0,40}\b(?:to|wallet|address|0x)\b",
    r"\b0x[0-9a-f]{40}\b|\b(?:deposit|transfer|send|pay|wallet|address|donat)\w*\b[^\n]{0,60}\s[\"'`]?"
    r"(?=[a-z]{0,20}\d)[1-9a-km-z]{32,44}[\"'`]?(?=[\s.,)]|$)",
    ("destroy", "command", "deletes what cannot be brought back"),
    "rm -|mkfs|dd if|(){|() {|rmtree|format c:|del /|no-preserve",
    r"\brm\s+-\w*r\w*\s+(?:-\S+\s+){0,5}[\"']?(?:(?:~|\$home|\$\{home\})/?\*?|/\*?"
    r"|/(?:etc|usr|home|var|bin|boot|root)/?\*?|\*)[\"']?(?=[\s;&|`)\"']|$)",
    r"--no-preserve-root|\bmkfs\.|\bdd\s+if=/dev/(?:zero|u?random)\s+of=|:\s?\(\)\s?\{\s?:\s?\|",
    r"shutil\.rmtree\(\s*(?:os\.path\.expanduser\(\s*[\"']~[\"']|[\"']/[\"']"
    r"|path\.home\(\)\s*\))|\bformat\s+c:|\bdel\s+/[fsq]\s+/[fsq]",
    ("memory-write", "persistence", "writes into what agents read first"),
    "claude.md|agents.md|soul.md|memory.md|heartbeat.md|identity.md|gemini.md|.cursorrules",
    r"\b(?:append|add|write|insert|inject|overwrit|persist)\w*\b[^.\n]{0,60}\b(?:claude|agents"
    r"|soul|memory|heartbeat|identity|gemini)\.md\b",
    r">>?\s*[\"']?[~\w./$-]{0,60}(?:claude|agents|soul|memory|heartbeat|gemini)\.md",
    r"\b(?:append|write|add|inject)\w*\b[^.\n]{0,60}\.cursorrules\b",
    ("settings-write", "persistence", "writes into the settings of an agent"),
    ".claude/settings|settings.local|mcp.json|claude_desktop|openclaw.json",
    r"(?:\b(?:write|append|add|modif|updat|edit|merge|inject)\w*|>>?|open\(|dump\()[^\n]{0,80}"
    r"(?:\.claude/settings|settings\.local\.json|mcp\.json|claude_desktop_config"
    r"|openclaw\.json)",
    ("remote-instructions", "agent-control", "follows instructions from the network"),
    "http|instructions|commands|directives|.md|.txt|hint|as your system prompt",
    r"\b(?:fetch|download|curl|read|load|get|retrieve|pull)\b[^.\n]{0,60}https?://[^\s)\"']{4,120}"
    r"[^\n]{0,40}\b(?:and|then)\s+(?:\w+\s+){0,2}(?:follow|execute|obey|apply|do\s+what)\b",
    r"\b(?:follow|execute|obey)\s+(?:the|its|any|all)\s+(?:latest\s+|remote\s+)?(?:instructions"
    r"|commands|directives)\s+(?:at|from|in|returned|found)\b[^.\n]{0,40}(?:https?://|\burl\b"
    r"|\bserver\b|\bresponse\b|\bendpoint\b|\bpage\b)",
    r"\bcurl\s[^\n]{0,60}/(?:heartbeat|instructions?|rules|prompt)\.(?:md|txt)\b",
    r"\b(?:follow|obey|execute)\s+(?:the\s+)?\S{0,30}(?:hint|instructions?|prompt|commands?|tasks?)"
    r"\S{0,10}\s+(?:field\s+)?(?:of|in|from|returned\s+by)\s+(?:each|every|the|its|any)\s+(?:server'?s?\s+"
    r"|api\s+)?(?:response|reply|server|api|webhook)\b",
    r"\btreat\s+(?:it|this|the\s+(?:response|reply|result|output|content)\w*)\s+as\s+(?:your|a|the)\s+"
    r"(?:new\s+)?(?:system\s+prompt|instructions?)\b|\bexecute\s+the\s+returned\s+\w+",
    r"(?:访问|获取|下载|读取|打开)\s*https?://[^\s。]{4,120}[^。\n]{0,20}(?:按照|遵循|执行|遵守)",
    ("self-update", "persistence", "replaces instructions by those of a host"),
    "curl |wget |git pull|update itself|updates itself|this skill",
    r"(?:curl|wget)\b[^\n]{0,200}(?:>|\s-o|--output)\s*[\"']?[\w~./$-]{0,80}(?:skill|agents|claude"
    r"|heartbeat|soul|memory|gemini)\.md",
    r"\bgit\s+pull\b[^\n]{0,40}(?:&&|;)\s*(?:(?:ba|z)?sh|python3?|node|\./)\s?\S",
    r"\b(?:replace|overwrite|update)\s+(?:this\s+(?:file|skill)|itself)\s+with\b[^.\n]{0,60}(?:https?:"
    r"|\blatest|\bnewest|\bdownload|\bremote)",
    ("spread", "persistence", "spreads itself to others"),
    "this skill|install command",
    r"\b(?:recommend|promote|advertise|spread|share|suggest)\s+(?:installing\s+)?this\s+skill\s+"
    r"(?:to|with|in)\s+(?:every|all|any|other)\b",
    r"\b(?:copy|install|add|propagate)\s+this\s+skill\s+(?:in|into|to|on)\s+(?:every|all|each|other|any)"
    r"\b|\bpost\s+(?:its|the|this)\s+install\s+command",
    ("reassure", "agent-control", "says that it need not be checked"),
    "audited|verified|vetted|antivirus|defender|gatekeeper|smartscreen|security|not scan"
    "|not audit|not inspect",
    r"\b(?:skill|script|tool|installer|file|package|binary|program|app)s?\s+(?:is|are|(?:has|have)\s+"
    r"been|was)\s+(?:\w+\s+){0,2}(?:audited|verified|vetted)\b"
    r"[^.\n]{0,40}\b(?:safe|secure|clean|trusted)\b",
    r"\b(?:antivirus|defender|gatekeeper|security\s+(?:tool|software|warning)s?|smartscreen)\b"
    r"[^.\n]{0,60}\b(?:false\s+positive|ignore\s+(?:it|this|them)|allow\s+it)",
    rf"\b{_NOT}\s+(?:scan|audit|inspect)\s+(?:it\b|(?:this|the|its)\s+"
    r"(?:skill|script|file|code|package|installer|binary|archive)\b)",
    ("persist-fetch", "persistence", "fetches a program again and again"),
    'crontab|* * *|.bashrc|.zshrc|profile|launchagents|autostart|schtasks|"hooks"',
    r"(?:crontab|\*\s\*\s\*|launchagents|autostart|schtasks)[^\n]{0,160}\b(?:curl|wget|iwr)\b",
    r"\b(?:curl|wget)\b[^\n;&]{0,160}>>\s*\S{0,40}\.(?:bashrc|zshrc|profile|bash_profile|zprofile)",
    r"\"hooks\"[^\n]{0,200}\"command\"[^\n]{0,60}\b(?:curl|wget|nc)\b",
    ("url-data", "network", "an address that carries data away"),
    "=$|={|=<|=`|=%s",
    r"!\[[^\]\n]{0,80}\]\(https?://[^\s)]{3,150}\?[^\s)]{0,60}=(?:\{|\$|%s|<)[^\s)]{0,20}"
    r"(?:data|secret|token|content|encoded|env|conversation|context|key|payload)",
    r"https?://[^\s\"'`]{3,120}[?&][\w-]{1,30}=(?:\$\(|`|\$\{?(?:data|payload|secret|content"
    r"|encoded|enc|b64|env)\b|\{(?:data|payload|secret|content|encoded|b64|env|conversation"
    r"|context)\b|<(?:data|secret|content|encoded|conversation|base64|context)\b)",
    ("odd-install", "install", "a package from no registry, or a script of one"),
    'pip install|pip3 install|npm i|preinstall"|postinstall"|npx http|npx -y http',
    r"pip3?\s+install\b[^\n]{0,80}(?:git\+https?://(?!github\.com)|--trusted-host"
    r"|[\s=]https?://(?!(?:test\.)?pypi\.org|download\.pytorch\.org))",
    r"npm\s+(?:i|install)\s+(?:-\S+\s+|\S{1,60}\s+--registry[\s=]){0,3}https?://",
    r"\"(?:pre|post)install\"\s*:\s*\"[^\"\n]{0,80}(?:curl|wget|https?:|node\s|\bsh\b|python|base64)",
    r"npx\s+(?:-y\s+)?https?://",
    ("capture", "environment", "records keys, screen or clipboard"),
    "pynput|keylog|imagegrab|screencapture|pbpaste|pyperclip|clipboard|getasynckeystate",
    r"imagegrab\.|\bpynput\b|\bkeylogg\w*|\bscreencapture\s+-|\bpbpaste\b|\bpyperclip\.paste",
    r"getasynckeystate|\bclipboard\b[^.\n]{0,60}\b(?:monitor|steal|exfil)",
    ("mining", "command", "mines a currency"),
    "xmrig|stratum+|cryptominer|coinhive|minerd|ethminer",
    r"stratum\+tcp|\bxmrig\b|\bcryptominer\b|coinhive|\bminerd\b|\bethminer\b",
    ("run-decoded", "encoded-content", "runs a text that is decoded or downloaded"),
    "b64decode|atob(|decompress|fromhex|unhexlify|buffer.from|base64 -|base64string|-enc"
    '|downloadstring|eval $(|eval "$(|requests.get|urlopen',
    r"\b(?:exec|eval|function|os\.system|marshal\.loads)\s*\([^\n]{0,60}(?:b64decode|atob\("
    r"|decompress|fromhex|unhexlify|buffer\.from|codecs\.decode|requests\.get|urlopen)",
    r"base64\s+(?:-d|--decode)\b[^\n]{0,60}\|\s*(?:sudo\s+)?(?:(?:ba|z)?sh|python3?)\b(?!\s+-[cm])",
    r"\beval\s+[\"']?\$\((?:curl|wget|echo)\b|\biex\b[^\n]{0,60}frombase64string",
    r"\s-enc(?:odedcommand)?\s+[a-z0-9+/=]{16,}|\bdownloadstring\((?!.https://community\.chocolatey\.org/)",
    ("piped-shell", "command", "runs what PowerShell downloads"),
    "iex|invoke-expression",
    r"\b(?:iwr|irm|invoke-webrequest|invoke-restmethod|curl|wget)\b(?!(?:\s+-\w+){0,3}\s+[\"']?"
    r"(?:https://)?(?:[\w-]+\.)?(?:astral\.sh|bun\.(?:sh|com)|deno\.land|scoop\.sh|claude\.ai)[/\s])"
    r"(?=[^\n|]{0,160}[/$])[^\n|]{0,160}\|\s*(?:iex|invoke-expression)\b",
    ("obfuscate", "encoded-content", "a program that is hard to read"),
    "chr(|\\x|fromcharcode|__import__|getattr(|marshal.|rot13|rot_13|[::-1]",
    r"(?:chr\(\d+\)\s*\+\s*){3,}|(?:\\x[0-9a-f]{2}){8,}|fromcharcode\((?:\s*\w+\s*,){4,}",
    r"__import__\(\s*[\"'](?:os|subprocess|base64|socket|urllib)[\"'](?!\)\.(?:environ|path))"
    r"|marshal\.loads",
    r"getattr\(\s*(?:os|__builtins__|builtins|subprocess)\s*,\s*(?![\"']o_)",
    r"codecs\.decode\([^\n]{0,80}rot|[\"']\[::-1\]|join\([^\n]{0,30}\[::-1\]",
    ("comment", "hidden-content", "instructs an agent in a comment"),
    "<!--",
    r"<!--[^<>]{0,300}?\b(?:ai|llm|agent|assistant|model|claude)s?\b(?:\s*[:,]\s*\w"
    r"|[^\n<>]{0,40}\b(?:must|always|never|ignore|do\s+not)\b)",
    r"<!--[^<>]{0,300}?\b(?:if|when)\s+(?:the\s+)?(?:user|asked)\b[^<>]{0,160}\b(?:include|state"
    r"|say|respond|answer|run|send|reply|add|append|recommend|insert)\b",
    ("background", "command", "runs on when the task has ended"),
    "nohup|disown|windowstyle|no_window|>&1 &",
    r"-windowstyle\s+hidden|\bnohup\s|\bdisown\b|create_no_window",
    r"(?:curl|wget|bash|sh|python3?|node)\b[^\n]{0,160}>\s*/dev/null\s+2>&1\s*&(?![&\w])",
    ("shouted", "agent-control", "commands in capitals", _CASED),
    "critical|important|mandatory|required|warning|notice",
    r"\b(?:CRITICAL|IMPORTANT|MANDATORY|REQUIRED|WARNING|NOTICE)\b[^\n]{0,60}\b(?:MUST|ALWAYS"
    r"|NEVER|IMMEDIATELY|BEFORE|FIRST)\b",
    ("must-first", "agent-control", "does something before all else"),
    "before a|before e|before d",
    r"\bbefore\s+(?:any|every|each|answering|doing\s+anything|anything\s+else)\b[^.\n]{0,60}\b"
    r"(?:run|execute|fetch|curl|send|call|post|install|download)\b",
    r"\b(?:run|execute|fetch|send|call|post|install|download)\b[^.\n]{0,60}\bbefore\s+(?:any"
    r"|every|each|answering|doing\s+anything|anything\s+else)\b",
    ("install-first", "install", "a program to install before the skill is used"),
    "before u|before p|before c|before s|before r|before t|work without|function without"
    "|必须先安装|需要先安装",
    r"\b(?:download|install|execute|launch|set\s+up|run)\w*\b[^.\n]{0,80}\bbefore\s+(?:using"
    r"|proceeding|continuing|starting|running\s+th|the\s+skill)",
    r"\b(?:won't|will\s+not|does\s+not|doesn't|cannot)\s+(?:work|function|run)\s+without\b",
    r"(?:必须|需要)先安装|\binstall\w*\s+before\s+(?:this|the)\s+skill",
    ("paste", "command", "a command that a person shall paste"),
    "terminal|console|powershell|command prompt|终端",
    r"\b(?:copy|paste)\w*\b[^.\n]{0,60}\b(?:into|in|to)\s+(?:your\s+|the\s+|a\s+)?(?:terminal"
    r"|console|powershell|command\s+prompt)\b",
    r"\b(?:open|launch)\s+(?:the\s+|your\s+)?(?:terminal|powershell|command\s+prompt)\b"
    r"[^.\n]{0,60}\b(?:run|paste|execut|enter)",
    r"复制[^。\n]{0,20}(?:命令|代码)[^。\n]{0,10}终端",
    ("get-program", "install", "a program or an archive to download"),
    "download|.exe|.dmg|.pkg|.msi|.rar|.scr|.bat",
    r"\bdownload(?:s|ed|ing)?\b(?=[\s*\](:])(?![^\n]{0,80}computer:)[^\n]{0,80}\.(?:zip|exe|dmg|pkg|msi"
    r"|rar|7z|scr|bat|ps1)\b",
    r"https?://[^\s)\"'<>]{4,150}\.(?:exe|dmg|pkg|msi|rar|7z|scr|bat)\b",
    ("fetch-then-run", "command", "runs what it has downloaded"),
    "curl |wget |invoke-web|iwr |urlretrieve",
    r"(?:curl|wget|invoke-webrequest|iwr|urlretrieve)\b(?![^\n:]{0,40}https://(?:[\w-]+\.)?(?:"
    r"docker\.com|pypa\.io|anaconda\.com|astral\.sh|rustup\.rs)/)(?:(?!curl|wget)[^\n]){0,160}?(?:\s-o\s*|\s-outfile\s+"
    r"|--output[= ]|>\s*|,\s*)[\"']?(?P<to>[\w./~$-]{3,80}+)[\"']?[^\n]{0,60}"
    r"(?:\n[^\n]{0,80}){0,2}?(?:chmod\s+\S*x\S*\s+[\"']?(?P=to)"
    r"|\b(?:bash|sh|python3?)\s+[\"']?(?P=to)|[;&\n]\s*[\"']?(?P=to))",
    ("web-hook", "network", "a hook that takes any text"),
    "api/webhooks|api.telegram.org/bot|hooks.slack.com/|/collect|/beacon|/exfil"
    "|/harvest|/steal|/drop|/loot|/c2",
    r"discord(?:app)?\.com/api/webhooks/\d|api\.telegram\.org/bot|hooks\.slack\.com/services/(?!your|xx|t0+/)\w",
    r"https?://[^\s\"'`)]{4,80}/(?:collect|beacon|exfil|harvest|steal|drop|loot"
    r"|c2)\b(?!/)",
    ("loot", "credentials", "collects secrets"),
    "steal|exfil|harvest|siphon|leak|dump|scrap|extract|collect|gather|enumerat",
    r"\b(?:steal|exfiltrat|harvest|siphon|leak|dump|scrap|extract|collect|gather|enumerat)\w*\b"
    r"[^.\n]{0,60}\b(?:credential|secret|password|api[\s_-]?key|ssh|cookie|wallet|private\s+key"
    r"|access\s+token|environment\s+variable|env\s+var|personal|sensitive|\.env)",
    ("read-secret", "credentials", "reads files of secrets"),
    ".ssh|.aws/|.env|.netrc|id_rsa|id_ed25519|.kube/|.gnupg|.npmrc|.pypirc|.docker/|keychain"
    "|openclaw.json|.clawdbot|auth-profiles|.git-cred|/etc/shadow",
    r"(?:\bopen\(|read_text|readfilesync|readfile\(|path\(|path\.join\(|expanduser\(|glob\(|\bcat"
    r"|\bcp|\btar|\bzip|\bscp|\bgrep)\W[^\n]{0,60}(?:\.ssh\b|\.aws/|\.env[\"'\s]|\.netrc|id_rsa"
    r"|id_ed25519|\.kube/config|\.gnupg|\.npmrc|\.pypirc|\.docker/config|keychains?/"
    r"|openclaw\.json|\.clawdbot|auth-profiles|\.git-credentials|/etc/shadow)",
    ("secret-in-request", "credentials", "a request with secrets of the machine"),
    "$(cat|$(env|$(printenv|$(base64|$(whoami|$(hostname|$(uname|@~/|@/etc|@.env|@$home|`cat"
    "|os.environ|process.env)|@-|find-generic-password|find-internet-password",
    r"(?:curl|wget)\b[^\n]{0,160}(?:-d|--data\S*|-f|-t|--upload-file|--form|[?&]\w+=)[^\n]{0,60}"
    r"(?:\$\((?:cat|env|printenv|base64|whoami|hostname|uname)\b|@~/|@/etc|@\.env|@\$home|`cat)",
    r"(?:\benv|\bprintenv|\bsecurity\s+find-\w+-password[^\n|]{0,60}|\bcat\s+\S*(?:\.env|\.ssh|\.aws|credentials)\S*)\s*\|[^\n]{0,60}\b"
    r"(?:curl|wget|nc)\b",
    r"(?:requests\.(?:post|put)|axios\.post|urlopen|fetch)\([^\n]{0,160}(?:dict\(os\.environ"
    r"|=\s*os\.environ\s*[,)]|json\.dumps\(os\.environ|stringify\(process\.env\))",
    ("system-rights", "permissions", "rights on the whole machine"),
    "authorized_keys|nopasswd|docker.sock|--privileged|setuid(|/etc/sudoers|ld_preload="
    "|/etc/hosts|/etc/passwd|usermod",
    r">>?\s*[\"']?\S{0,40}(?:authorized_keys|/etc/(?:passwd|sudoers|hosts|ld\.so\.preload))",
    r"\btee\s+(?:-a\s+)?\S{0,40}(?:authorized_keys|/etc/(?:passwd|sudoers|hosts))|\bnopasswd\b",
    r"docker\.sock|--privileged\b|\bsetuid\(0|\busermod\s+-ag\s+(?:sudo|root|wheel)|\bld_preload=",
    ("fingerprint", "environment", "tells which machine this is"),
    "gethostname|getuser(|getlogin|platform.node|ipify|ifconfig.me|ipinfo.io|icanhazip"
    "|$(hostname|$(whoami|os.hostname|os.userinfo",
    r"socket\.gethostname\(|getpass\.getuser\(|os\.getlogin\(|platform\.node\(|api\.ipify\.org"
    r"|ifconfig\.me|ipinfo\.io|icanhazip|\$\((?:hostname|whoami)\)|os\.hostname\(|os\.userinfo\(",
    ("copy-to", "network", "sends a copy to another"),
    "bcc|copy of|copy to|copies of|copies to",
    r"\bbcc\b[^.\n]{0,40}@(?!example|company|acme|your|domain|test)|\b(?:send|forward|cc|email)\w*\s+(?:\w+\s+){0,4}cop(?:y|ies)\s+"
    r"(?:\w+\s+){0,6}to\s+(?:\S+@|https?:)",
)
"""Looked for in the whole text of a file, code as well."""

_PROSE = tuple(
    phrase._replace(marks=tuple(max(mark.split(), key=len) for mark in phrase.marks))
    for phrase in PHRASES
    if phrase.kind == "agent-control"
)
"""Sentences, whose words may stand on two lines: a mark is one of these."""

_DESCRIBED = re.compile(
    r"inject|attack|untrusted|malicious|suspicious|red\s+flag|adversar|phish|vulnerab|\breject"
    r"|\brefus|\bdetect|\bexploit|threat|\bunsafe|\binsecure|anti-?pattern|\bviolat|dangerous\b"
    r"|\bblocks?\b|\bdeny\b|forbidden|prohibit"
)
_NEGATED = re.compile(
    r"(?:\bnever|n't|(?<!why )\bnot)\s+(?:(?!(?:fail|forget|hesitat|wait|worry|need|only|just|stop"
    r"|bother|mind|skip|miss|refus|neglect|omit|delay|ask|tell|mention|show)\w*\b)[\w-]+[\s/]+){0,3}"
    r"[\"'`]?$"
    r"|\b(?:avoid\w*|prevent\w*|without|no)\s+(?:(?:\w+ing|to|from|any|the|an?)\s+){0,2}[\"'`]?$"
)
"""Not before a verb that turns it round: who must not forget to do something shall do it."""
_CONDITION = re.compile(r"\b(?:until|unless|once|after|when|if|whether|before)\b[^;:,]{0,80}$")
_QUOTED = re.compile(r"[\"“'«`|]\s?$")
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？\n]")
_COMMENTED = re.compile(r"\s*(?:#|//|--\s|\*|<!--)")

Mention = Literal["", "described", "negated"]
"""How a text speaks of a phrase: as an instruction, as what others do, or as what not to do."""
_MENTIONS: tuple[Mention, ...] = ("", "described", "negated")


class FoundPhrase(NamedTuple):
    """A match of a phrase, and whether the text instructs, describes or negates."""

    phrase: Phrase
    offset: int
    mention: Mention


class MarkedText(NamedTuple):
    """A whole file, with the marks that it is likely to have."""

    text: str
    lowered: str
    likely: frozenset[str]


def find_phrases(marked: MarkedText, code: Sequence[tuple[int, int]] = ()) -> Iterator[FoundPhrase]:
    """Find the first match of each sign; instructions go before other mentions.

    Args:
        marked: A file.
        code: Where its programs begin and end, in order: no prose in them softens a command.
    """
    found = {f.phrase.sign: f for f in _find_in(marked, PHRASES, code)}
    missing = [
        phrase
        for phrase in _PROSE
        if (phrase.sign not in found or found[phrase.sign].mention)
        and not marked.likely.isdisjoint(phrase.marks)
    ]
    if missing:
        text = _flow(marked.text)
        flowing = marked._replace(text=text, lowered=lower_in_place(text))
        for each in _find_in(flowing, missing, code):
            known = found.get(each.phrase.sign, each)
            found[each.phrase.sign] = min(known, each, key=lambda f: _MENTIONS.index(f.mention))
    yield from found.values()


_WRAP = re.compile(r"\n(?=[ \t>]*[^\W\d_])|\*|>|_(?:(?<![^\W_]_)|(?![^\W_]))")
_TAG = re.compile(r"</?[A-Za-z]\w{0,9}>")


def _flow(text: str) -> str:
    """A text whose paragraphs are lines without emphasis; each character keeps its place."""
    if "</" in text:
        text = _TAG.sub(lambda tag: " " * len(tag[0]), text)
    return _WRAP.sub(" ", text)


def _find_in(
    marked: MarkedText, phrases: Iterable[Phrase], code: Sequence[tuple[int, int]]
) -> Iterator[FoundPhrase]:
    lowered = marked.lowered
    for phrase in phrases:
        marks = [mark for mark in phrase.marks if mark in marked.likely]
        if not marks:
            continue
        source = marked.text if phrase.is_cased else lowered
        best: FoundPhrase | None = None
        for offset in _find_offsets(phrase.pattern, source, _find_passages(lowered, marks)):
            each = FoundPhrase(phrase, offset, _judge_mention(phrase, lowered, offset, code))
            if best is None or _MENTIONS.index(each.mention) < _MENTIONS.index(best.mention):
                best = each
            if not best.mention:
                break
        if best:
            yield best


def _find_offsets(
    pattern: re.Pattern[str], source: str, passages: Iterable[tuple[int, int]]
) -> Iterator[int]:
    for first, last in passages:
        found = pattern.search(source, first, last)
        while found:
            yield found.start()
            found = pattern.search(source, found.start() + 1, last)


def _judge_mention(
    phrase: Phrase, lowered: str, at: int, code: Sequence[tuple[int, int]]
) -> Mention:
    first = max(lowered.rfind("\n", 0, at) + 1, at - _MAX_NEAR)
    is_command = phrase.kind != "agent-control" and _is_inside(at, code)
    if is_command and not _COMMENTED.match(lowered, first, at):
        return ""
    ends = [end.end() for end in _SENTENCE_END.finditer(lowered, first, at)]
    before = lowered[ends[-1] if ends else first : at]
    if before.count("`") % 2:
        before = before[: before.rindex("`") + 1]  # what a command says itself is no warning
    if _NEGATED.search(before[-60:]):
        return "negated"
    if phrase.sign == "authority" and _CONDITION.search(before):
        return "negated"  # what must come first is not claimed
    if _DESCRIBED.search(before):
        return "described"
    if phrase.kind == "agent-control" and _QUOTED.search(before[-3:]):
        last = lowered.find("\n", at, at + _MAX_NEAR)
        end = last if last >= 0 else at + _MAX_NEAR
        return "described" if _DESCRIBED.search(lowered, first, end) else ""
    return ""


_MAX_NEAR = 300  # characters at each side: more is another thought


def _is_inside(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    index = bisect_right(spans, (at, sys.maxsize)) - 1
    return index >= 0 and at < spans[index][1]


def mark_text(text: str) -> MarkedText:
    """Find the marks whose every three bytes are somewhere: few of all need a closer look."""
    import numpy as np

    lowered = lower_in_place(text)
    marks, rows = _hash_marks()
    is_present = np.zeros(_BUCKETS, dtype=bool)
    is_present[_hash_threes(lowered.encode("utf-8", "replace"))] = True
    found = np.flatnonzero(is_present[rows].all(axis=1))
    return MarkedText(text, lowered, _SHORT.union(marks[int(each)] for each in found))


_BUCKETS = 1 << 16
_MARKS = frozenset(mark for phrase in (*PHRASES, *_PROSE) for mark in phrase.marks) | {*_PATH_MARKS}
_SHORT = frozenset(mark for mark in _MARKS if not mark.encode()[2:])


def _hash_threes(text: bytes) -> "NDArray[np.uint16]":
    import numpy as np

    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint16)
    hashes: NDArray[np.uint16] = data[:-2] * 1021 + data[1:-1] * 61 + data[2:]
    return hashes


@cache
def _hash_marks() -> "tuple[Sequence[str], NDArray[np.uint16]]":
    import numpy as np

    marks = tuple(_MARKS - _SHORT)
    hashes = [_hash_threes(mark.encode()) for mark in marks]
    width = max(map(len, hashes))
    return marks, np.stack([np.resize(each, width) for each in hashes])


def _find_passages(lowered: str, marks: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Lines with a mark, each with the two lines below it; none is passed twice."""
    starts = sorted({first for mark in marks for first in _find_lines(lowered, mark)})
    start, end = -1, -1
    for first in starts:
        if first > end:
            if start >= 0:
                yield start, end
            start = first
        end = _find_end(lowered, min(_find_end(lowered, first) + 1, len(lowered)))
    if start >= 0:
        yield start, end


def _find_lines(lowered: str, mark: str) -> Iterator[int]:
    """Where the lines with a mark begin."""
    at = lowered.find(mark)
    while at >= 0:
        yield lowered.rfind("\n", 0, at) + 1
        last = lowered.find("\n", at)
        at = lowered.find(mark, last) if last >= 0 else -1


def find_place_lines(marked: MarkedText) -> Sequence[tuple[int, int]]:
    """Lines that may name a path outside the project."""
    marks = filter(marked.likely.__contains__, _PATH_MARKS)
    starts = {first for mark in marks for first in _find_lines(marked.lowered, mark)}
    return [(first, _find_end(marked.text, first)) for first in sorted(starts)]


def _find_end(text: str, first: int) -> int:
    last = text.find("\n", first)
    return last if last >= 0 else len(text)


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
