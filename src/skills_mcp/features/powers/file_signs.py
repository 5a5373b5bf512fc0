"""Signs in one file: its text, its code blocks, its bytes.

What a file holds depends on its bytes and its name alone, so it is cached by both:
<cache>/powers/signs.sqlite has a row per file.  What is damaged is found again, and where
nothing can be written, the memory of the process keeps them.
"""

import atexit
import base64
import binascii
import json
import os
import re
import sqlite3
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from hashlib import blake2b, sha256
from itertools import chain
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import NamedTuple

from markdown_it import MarkdownIt

from skills_mcp.features.powers.power import Sign, name_mention
from skills_mcp.features.powers.programs import (
    MAX_SHELL_PART,
    Call,
    Node_,
    ReadVariable,
    parse_javascript,
    parse_python,
    parse_shell,
)
from skills_mcp.features.powers.wording import (
    BASE64,
    COMMAND_INSIDE,
    CREDENTIALS,
    ENV_FILE,
    HEX,
    PARENT,
    PATH,
    PLACES,
    SECRET_NAME,
    URL,
    MarkedText,
    find_phrases,
    find_place_lines,
    is_installer_host,
    is_real_host,
    mark_text,
    name_host,
)
from skills_mcp.files.user_folders import find_user_folders
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings
from skills_mcp.text.secret_detection import find_secrets
from skills_mcp.text.unicode import find_hidden_characters, strip_hidden

MAX_READ_BYTES = 1024 * 1024
"""Of one file: sixteen times the largest text in public packages; more is named."""

_MAX_ROWS = 100_000  # some 50 megabytes; then it begins anew
_CHECK_BYTES = 8
_SETTINGS = "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;"  # a lost row is found again
_TABLE = "CREATE TABLE IF NOT EXISTS signs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"

_MAX_SIGNS = 400  # of one file: a longer list is not read
_BLANK_RUN = re.compile(r"\n(?:[^\S\n]*\n){30,}")  # more than any screen shows

_MIN_ENCODED = 40  # as in `BASE64`
_MAX_COMMAND = 20_000  # characters of a literal or a line that is read

_RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_SHELLS = frozenset(_RULES["shells"])
_INTERPRETERS = _SHELLS | {*_RULES["interpreters"]}
_DOWNLOADERS = frozenset(_RULES["downloaders"])
_RUNNERS = frozenset(_RULES["runners"])
_INSTALLERS: Mapping[str, Sequence[str]] = _RULES["installers"]
_LANGUAGES: Mapping[str, str] = _RULES["languages"]
_SUFFIXES: Mapping[str, str] = _RULES["suffixes"]
_CALLED: Mapping[str, Sequence[str]] = _RULES["called"]
_MAGIC = {begin.encode("latin-1"): (what, sign) for begin, what, sign in _RULES["magic"]}
_DATA = frozenset({".json", ".yaml", ".yml", ".toml", ".csv", ".html", ".xml"})
"""A line of them is read as prose is: it names more than it runs."""
TEXT_SUFFIXES = frozenset({*_SUFFIXES, ".json", ".yaml", ".yml", ".toml", ".ps1", ".rb"})
"""Of what an agent reads or runs: data and schemes would make a skill long."""
_SHEBANG = re.compile(r"#!\S{0,100}(?:/env\s+(?:-S\s+)?)?\b(?P<name>bash|sh|zsh|python3?|node)\b")


def find_signs(name: str, data: bytes, size_bytes: int) -> tuple[Sign, ...]:
    """Signs of a file; `data` has at most its first `MAX_READ_BYTES`."""
    path = PurePosixPath(name)
    facts = f"{path.suffix.lower()}\n{path.name}\n{size_bytes}\n".encode("utf-8", "replace")
    key = sha256(facts + data).digest()
    return recall_signs(key, partial(_find_all, path, data, size_bytes))


def _find_all(path: PurePosixPath, data: bytes, size_bytes: int) -> tuple[Sign, ...]:
    found = chain(_find_size(len(data), size_bytes), _find(path.suffix.lower(), path.name, data))
    signs = tuple(dict.fromkeys(found))
    if len(signs) > _MAX_SIGNS:  # plain notes are left out: a list of them hides no sign
        signs = tuple(sorted(signs, key=lambda sign: not sign.name)[:_MAX_SIGNS])
    return signs


_opening = Lock()


def recall_signs(key: bytes, find: Callable[[], Sequence[Sign]]) -> tuple[Sign, ...]:
    """The signs of a file, which `find` finds unless they are known.

    Args:
        key: A digest of the file, and of all else that `find` looks at.
        find: Looks for them.
    """
    key = blake2b(key, key=_digest_rules(), digest_size=32).digest()
    with _opening:  # two threads would open two, and close neither
        rows = _open_rows(find_user_folders(os.environ)[1])
    with suppress(sqlite3.Error):
        row = rows.execute("SELECT value FROM signs WHERE key = ?", (key,)).fetchone()
        if row and row[0][:_CHECK_BYTES] == _check(key, row[0][_CHECK_BYTES:]):
            return tuple(Sign(*each) for each in json.loads(row[0][_CHECK_BYTES:]))
    found = tuple(find())
    with suppress(sqlite3.Error):
        text = json.dumps(found).encode()
        rows.execute("REPLACE INTO signs VALUES (?, ?)", (key, _check(key, text) + text))
    return found


def _check(key: bytes, text: bytes) -> bytes:
    return blake2b(text, key=key, digest_size=_CHECK_BYTES).digest()


@cache
def _digest_rules() -> bytes:
    """A digest of the code and data that find signs: another version finds others."""
    folder = Path(__file__).parent
    files = sorted((*folder.glob("*.py"), *folder.glob("*.toml")))
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).digest()


@cache
def _open_rows(folder: str) -> sqlite3.Connection:
    file = Path(folder, "powers", "signs.sqlite")
    for _ in range(2):
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _connect_rows(file)
        except (OSError, sqlite3.OperationalError):
            break  # read-only, or used by another for long
        except sqlite3.DatabaseError:
            with suppress(OSError):  # another process may have deleted it
                file.unlink()
    return _connect_rows(":memory:")


def _connect_rows(file: Path | str) -> sqlite3.Connection:
    rows = sqlite3.connect(file, timeout=1, isolation_level=None, check_same_thread=False)
    try:
        rows.executescript(f"{_SETTINGS}{_TABLE}")
        if rows.execute("SELECT count(*) FROM signs").fetchone()[0] > _MAX_ROWS:
            rows.execute("DELETE FROM signs")
    except sqlite3.Error:
        rows.close()
        raise
    atexit.register(rows.close)  # Python 3.13 warns of one that is not closed
    return rows


def _find_size(read: int, size: int) -> Iterator[Sign]:
    if size > read:
        yield Sign("hidden-content", f"{size:,} bytes, of which {read:,} are read", None, "long")


def _find(suffix: str, name: str, data: bytes) -> Iterator[Sign]:
    binary = _describe_binary(suffix, data)
    if binary:
        yield from binary
        return
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    yield from _find_hidden(text)
    text = strip_hidden(text)
    lines = _Lines(text)
    for secret in find_secrets(text):
        yield Sign("credentials", f"holds {secret.kind}", lines.at(secret.start), "secret-value")
    language = _SUFFIXES.get(suffix, "")
    if shebang := _SHEBANG.match(text):
        language = {"python": "python", "python3": "python", "node": "javascript"}.get(
            shebang["name"], "shell"
        )
    comments = [each.span() for each in _COMMENT.finditer(text)] if "<!--" in text else ()
    is_prose = language == "markdown"
    fences = tuple(_find_fences(text)) if is_prose else ()
    spans = [(lines.start(each.first), lines.start(each.last)) for each in fences]
    code = spans if is_prose or suffix in _DATA else [(0, len(text))]
    marked = mark_text(text)
    for phrase, offset, mention in find_phrases(marked, code):
        line = lines.at(offset)
        yield Sign(phrase.kind, phrase.what, line, name_mention(phrase.sign, mention))
        if phrase.sign != "comment" and any(a <= offset < b for a, b in comments):
            yield Sign("hidden-content", f"a comment that {phrase.what}", line, "comment")
    yield from _find_places(marked, lines)
    if is_prose:
        yield from _find_in_markdown(text, lines, fences)
    else:
        yield from find_in_code(text, language, 0)
        if name in {"settings.json", "hooks.json", ".mcp.json"}:
            yield Sign("persistence", f"brings {name}", 1, "agent-config")


class _Lines:
    """Numbers of the lines of a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _ends(self) -> list[int]:
        return [*(end.start() for end in re.finditer("\n", self._text)), len(self._text) - 1]

    def at(self, offset: int) -> int:
        return 1 + bisect_left(self._ends, offset)

    def start(self, number: int) -> int:
        """Where the line with this number begins; the end of the text behind the last."""
        return self._ends[min(number - 2, len(self._ends) - 1)] + 1 if number > 1 else 0


def _describe_binary(suffix: str, data: bytes) -> tuple[Sign, ...]:
    for magic, (what, sign) in _MAGIC.items():
        if data.startswith(magic):
            return tuple(_describe_magic(suffix, data, what, sign))
    if suffix in {".pyc", ".pyo"} or (data[2:4] == b"\r\n" and b"\0" in data[:16]):
        return (Sign("binary", "a compiled program (Python)", None, "compiled"),)
    if data[257:262] == b"ustar":
        return (Sign("binary", "an archive (tar)", None, "archive"),)
    if b"\0" in data[:8192]:
        return (Sign("binary", f"bytes ({suffix or 'no suffix'})", None, ""),)
    return ()


_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".bmp", ".wav"})
_RUN = re.compile(rb"[\x20-\x7e\n\t]{40,65536}")


def _describe_magic(suffix: str, data: bytes, what: str, sign: str) -> Iterator[Sign]:
    if what == "an archive (ZIP)" and b"word/" in data:
        what, sign = "a document (Word)", "document"
    yield Sign("binary", what, None, "" if sign == "image" else sign)
    if sign == "image":
        if suffix in _IMAGES and b"PK\x03\x04" in data[16:]:
            yield Sign("binary", "an image with an archive in it", None, "polyglot")
        for match in _RUN.finditer(data):
            if any(_find_encoded(match[0].decode("ascii"))):
                yield Sign("encoded-content", "text that decodes to a command", None, "encoded")
    elif suffix in _IMAGES:
        yield Sign("binary", f"{what} named {suffix}", None, "polyglot")


def _find_hidden(text: str) -> Iterator[Sign]:
    first = next(find_hidden_characters(text), None)
    if first is not None:
        line = 1 + text.count("\n", 0, first)
        yield Sign("hidden-content", "invisible characters", line, "invisible")
    blank = _BLANK_RUN.search(text)
    if blank and text[blank.end() :].strip():
        line = 1 + text.count("\n", 0, blank.end())
        yield Sign("hidden-content", "text below blank lines", line, "blank-run")


@cache
def _markdown() -> MarkdownIt:
    # Lists and quotes are taken off before, as they cost more than all else.
    return MarkdownIt("zero").enable("fence").disable("inline")


_LEAD = re.compile(r"^(?:[ \t>]|[-*+][ \t]|\d{1,3}[.)][ \t])+", re.MULTILINE)
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`(?<!``)`{0,2}([^`\n]{2,300})`")  # a literal first, which is looked for fast
_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)


class _Fence(NamedTuple):
    """A code block: the numbers of its first line and of the one behind its last."""

    first: int
    last: int
    language: str


def _find_fences(text: str) -> Iterator[_Fence]:
    if "```" not in text and "~~~" not in text:
        return
    if frontmatter := _FRONTMATTER.match(text):
        text = "\n" * frontmatter[0].count("\n") + text[frontmatter.end() :]
    for token in _markdown().parse("".join(_keep_fences(text))):
        if token.type == "fence" and token.map and token.content:
            first = token.map[0] + 2
            info = token.info.strip().split(" ")[0].lower().strip("{}.")
            length = token.content.count("\n")
            length += not token.content.endswith("\n")  # at the end of the file
            yield _Fence(first, first + length, _LANGUAGES.get(info, ""))


def _keep_fences(text: str) -> Iterator[str]:
    """All lines, empty but for those that may open or close a code block, and for the last."""
    lines = text.split("\n")
    for line in lines[:-1]:
        yield _LEAD.sub("", line) + "\n" if "```" in line or "~~~" in line else "\n"
    yield _LEAD.sub("", lines[-1])


def _find_in_markdown(text: str, lines: _Lines, fences: Iterable[_Fence]) -> Iterator[Sign]:
    content = text.split("\n")
    shift = 0
    if frontmatter := _FRONTMATTER.match(text):
        yield from _find_in_frontmatter(frontmatter[1])
        shift = frontmatter.end()
        text = text[shift:]
    for fence in fences:
        opening = _LEAD.match(content[fence.first - 2])
        block = "\n".join(_cut_lead(content[fence.first - 1 : fence.last - 1], opening))
        yield from find_in_code(block, fence.language, fence.first - 1)
    if "\n    " in text or "\n\t" in text:
        number = lines.at(shift) - 1
        kept = (line if line.startswith(("    ", "\t")) else "" for line in text.split("\n"))
        for sign in _find_lines("\n".join(kept)):
            yield sign._replace(line=(sign.line or 0) + number)
    seen: set[str] = set()
    for code in _CODE.finditer(text) if "`" in text else ():
        words = code[1].split()
        if words and code[1] not in seen and (words[0] in _KNOWN or "|" in words):
            seen.add(code[1])
            yield from find_in_code(code[1], "shell", lines.at(code.start() + shift) - 1)


def _cut_lead(block: Iterable[str], opening: re.Match[str] | None) -> Iterator[str]:
    width = opening.end() if opening else 0
    for line in block:
        yield line[width:] if _LEAD.fullmatch(line[:width]) else line


def _find_in_frontmatter(block: str) -> Iterator[Sign]:
    if not any(part in block for part in ("tools", "hooks", "\\")):
        return  # as nearly every one
    try:
        fields = parse_yaml_strings(block).value
    except YamlError:
        fields = None
    numbers = {text.partition(":")[0]: n for n, text in enumerate(block.split("\n"), 2)}
    if isinstance(fields, dict):
        key = next((k for k in ("allowed-tools", "allowed_tools", "tools") if k in fields), "")
        tools = fields.get(key) or ""
        if isinstance(tools, str):
            tools = re.split(r"[,\s]+(?![^(]*\))", tools)
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, str) and tool:
                is_open = re.fullmatch(r"\*|Bash|Bash\(\*(?::\*)?\)|shell", tool) is not None
                yield Sign("permissions", tool, numbers.get(key, 2), "any-tool" if is_open else "")
        if "hooks" in fields:
            yield Sign("persistence", "hooks of the agent", numbers.get("hooks", 2), "agent-config")


def find_in_code(source: str, language: str, line: int) -> Iterator[Sign]:
    """Signs of a program, whose first line comes after `line`."""
    nodes: Iterable[Node_] | None = None
    if language == "shell":
        nodes = parse_shell(_PROMPT.sub("", source))
    elif language in _CALLED:
        if not any(word in source for word in _CALLED[language]):
            return
        nodes = parse_python(source) if language == "python" else parse_javascript(source)
    is_cut = language == "shell" and len(source) > MAX_SHELL_PART  # maybe within a quotation
    lines = _find_lines(source) if nodes is None or is_cut else ()
    for sign in chain(_find_in_nodes(nodes or (), language), lines):
        yield sign._replace(line=(sign.line or 0) + line)


def _find_lines(source: str) -> Iterator[Sign]:
    """Of a language without a parser here."""
    for number, text in enumerate(source.split("\n"), 1):
        words = text[:_MAX_COMMAND].split(maxsplit=1)
        if words and (words[0].lstrip("$") in _KNOWN):
            for sign in _find_in_nodes(parse_shell(text[:_MAX_COMMAND]), "shell"):
                yield sign._replace(line=number)


def _find_in_nodes(nodes: Iterable[Node_], language: str) -> Iterator[Sign]:
    for node in nodes:
        match node:
            case ReadVariable(name, line):
                is_secret = SECRET_NAME.search(name)
                yield Sign("environment", name, line, "secret-variable" if is_secret else "")
            case Call(is_command=True):
                yield from _find_in_command(node)
            case Call():
                yield from _find_in_call(node, language)


def _hosts(words: Iterable[str]) -> list[str]:
    hosts = [found["host"] for word in words for found in URL.finditer(word)]
    return [host.rpartition("@")[2].split(":")[0].lower() for host in hosts]


def _find_places(marked: MarkedText, lines: _Lines) -> Iterator[Sign]:
    text = marked.text
    at = text.find("://")
    while at >= 0:
        found = URL.search(text, max(0, at - 5), at + 300)
        if found:
            host = found["host"].rpartition("@")[2].split(":")[0].lower().rstrip(".")
            if is_real_host(host):
                yield Sign("network", host, lines.at(at), name_host(host))
        at = text.find("://", at + 3)
    for first, last in find_place_lines(marked):
        for sign in _find_paths(text[first : min(last, first + _MAX_COMMAND)]):
            yield sign._replace(line=lines.at(first))
    for offset in _find_encoded(text):
        line = lines.at(offset)
        yield Sign("encoded-content", "text that decodes to a command", line, "encoded")


def _find_paths(text: str) -> Iterator[Sign]:
    for pattern in (PATH, PARENT):
        for found in pattern.finditer(text):
            path = found[0].rstrip(".*/").replace("$HOME", "~").replace("${HOME}", "~")
            if CREDENTIALS.search(path):
                yield Sign("credentials", path, None, "credential-file")
                continue
            fit = next((each for each in PLACES if each[2].search(found[0])), None)
            name, kind = fit[:2] if fit else ("outside", "outside-path")
            yield Sign(kind, path, None, name)
    for found in ENV_FILE.finditer(text):
        yield Sign("credentials", found[0], None, "env-file")
    for name, kind, pattern in PLACES[-3:]:
        if place := pattern.search(text):
            yield Sign(kind, place[0], None, name)


def _find_encoded(text: str) -> Iterator[int]:
    """Where a text begins that decodes to a command."""
    end = 0
    for word in (word for word in text.split() if len(word) >= _MIN_ENCODED):
        start = text.index(word, end)
        end = start + len(word)
        for pattern in (BASE64, HEX):
            for found in pattern.finditer(word):
                if COMMAND_INSIDE.search(_decode(found[0])):
                    yield start + found.start()


def _decode(text: str) -> str:
    try:
        if "\\x" in text:
            raw = bytes.fromhex(text.replace("\\x", ""))
        elif HEX.fullmatch(text):
            raw = bytes.fromhex(text)
        else:
            raw = base64.b64decode(text[: len(text) // 4 * 4], validate=True)
    except (ValueError, binascii.Error):
        return ""
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    with suppress(ValueError, RecursionError):
        json.loads(decoded)
        return ""  # data, such as the statement of a signature
    return decoded if decoded.isprintable() or "\n" in decoded else ""


_SENDING = frozenset({"-d", "-F", "-T", "--data", "--form", "--upload-file", "--data-binary"})
_SENDING_STARTS = ("--data", "--post", "-d@")
_METHOD = re.compile(r"method.{0,5}(?:POST|PUT)")
_SERIALIZERS = frozenset({"JSON.stringify", "json.dumps", "dict", "str", "repr"})
_ALL_VARIABLES = frozenset({"os.environ", "process.env"})
_DECODERS = ("b64decode", "atob", "fromhex", "a85decode")
_SENDERS = re.compile(
    r"(?:^|\.)(?:post|put|patch|sendall|sendmail|send_message|sendBeacon|upload_file)$"
)
_RUNNING = re.compile(
    r"^(?:os\.(?:system|popen|exec\w+|spawn\w+)|subprocess\.\w+|commands\.getoutput|pty\.spawn)$"
    r"|(?:^|\.)(?:execSync|spawnSync|execFile|execFileSync|spawn)$|child_process\W{0,3}\.exec$"
    r"|^exec$"
)
_KNOWN = _SHELLS | _DOWNLOADERS | _RUNNERS | {*_INSTALLERS, *_RULES["other_commands"]}
_KNOWN -= {*_RULES["ambiguous"]}
# Most lines with `#` are comments, so there it takes a command that is known.
_ROOT_PROMPT = rf"#(?=[ \t]+(?:{'|'.join(_KNOWN)})\s)"
_PROMPT = re.compile(rf"^[ \t]*(?:[$>%]|{_ROOT_PROMPT})[ \t]+(?=\w)", re.MULTILINE)


_ADDRESS = re.compile(r"\w[.:/]\w|\$")  # and no dots in place of one
_COMMAND_NAME = re.compile(r"[a-z_][\w.+-]{0,60}")
_BUILTINS = frozenset(_RULES["builtins"])


def _find_in_command(call: Call) -> Iterator[Sign]:
    name = call.name.rpartition("/")[2].lower()
    words, line = call.words, call.line
    if name in {"sudo", "env", "exec", "nohup", "time", "doas"}:
        if name in {"sudo", "doas"}:
            yield Sign("command", name, line, "sudo")
        rest = [word for word in words if not word.startswith("-")]
        if rest:
            yield from _find_in_command(call._replace(name=rest[0], words=tuple(rest[1:])))
        return
    if name in _BUILTINS or not _COMMAND_NAME.fullmatch(name):
        return
    shell = call.feeds.lstrip("<")
    if name in _DOWNLOADERS and shell in _INTERPRETERS and any(map(_ADDRESS.search, words)):
        is_known = any(map(is_installer_host, _hosts(words)))
        sign = "piped-known" if is_known else "piped-shell"
        yield Sign("command", f"{name} | {shell}", line, sign)
    elif name == "base64" and call.feeds in _INTERPRETERS:
        yield Sign("encoded-content", f"base64 | {call.feeds}", line, "decode-run")
    elif not (call.is_fed and name in _INTERPRETERS):
        yield Sign("command", name, line, _NAMED.get(name, ""))
    if any(SECRET_NAME.search(word) and word.isupper() for word in words[:-1]):
        yield Sign("credentials", f"a secret given to {name}", line, "secret-argument")
    yield from _find_installed(name, words, line)
    yield from _find_command_signs(name, words, line)


_NAMED = {"nc": "socket", "ncat": "socket", "socat": "socket", "osascript": "osascript"}


def _find_installed(name: str, words: tuple[str, ...], line: int) -> Iterator[Sign]:
    plain = [word for word in words if not word.startswith("-")]
    if name in {"python", "python3"} and words[:2] == ("-m", "pip"):
        name, plain = "pip", plain[1:]
    if name in _RUNNERS and plain:
        yield Sign("install", f"{name} {plain[0]}", line, "run-package")
    elif plain and plain[0] in _INSTALLERS.get(name, ()):
        what = " ".join((name, *plain[:2]))
        yield Sign("install", what, line, "install")


def _sends(name: str, words: tuple[str, ...]) -> bool:
    if name in {"curl", "wget", "http"}:
        has_body = any(word in _SENDING or word.startswith(_SENDING_STARTS) for word in words)
        return has_body or (name == "curl" and not {"POST", "PUT"}.isdisjoint(words))
    return name in {"scp", "rsync", "nc", "ncat", "sendmail", "mail", "ftp"}


_COMMAND_SIGNS = [
    (re.compile(row["pattern"]), Sign(row["kind"], row["what"], None, row["sign"]))
    for row in _RULES["command"]
]


def _find_command_signs(name: str, words: tuple[str, ...], line: int) -> Iterator[Sign]:
    if _sends(name, words):
        yield from _find_sent(words, line)
    joined = " ".join((name, *words))[:_MAX_COMMAND]
    if sign := next((sign for pattern, sign in _COMMAND_SIGNS if pattern.match(joined)), None):
        yield sign._replace(line=line)
    if name in _SHELLS and words[:1] == ("-c",):
        yield from _find_nested(" ".join(words[1:2]), line)


def _find_sent(words: Iterable[str], line: int) -> Iterator[Sign]:
    hosts = _hosts(words)
    real = [host for host in hosts if is_real_host(host)]
    for host in real:
        named = name_host(host)
        sign = f"send-{named}" if named in {"address-host", "drop-host"} else "send"
        yield Sign("network", f"{host}, sends text", line, sign)
    if not hosts:
        yield Sign("network", "a host that is computed, sends text", line, "send-computed")


def _find_nested(command: str, line: int) -> Iterator[Sign]:
    for sign in _find_in_nodes(parse_shell(command[:_MAX_COMMAND]), "shell"):
        yield sign._replace(line=line)


def _find_in_call(call: Call, language: str) -> Iterator[Sign]:
    name, words, line = call.name, call.words, call.line
    if _RUNNING.search(name) and words:
        command = words[0] if " " in words[0] else " ".join(words)
        yield Sign("command", f"{name.rpartition('.')[2]} of a program", line)
        yield from _find_nested(command, line)
    elif _is_sending_call(name, words, language):
        yield from _find_sent(words, line)
    elif name in {"eval", "exec", "Function"} or name.endswith("marshal.loads"):
        yield Sign("command", f"{name} of a text", line, "run-text")
    elif name.endswith(_DECODERS) or (name == "Buffer.from" and "base64" in words):
        yield Sign("encoded-content", "decodes a text", line, "decode")
    elif name in _SERIALIZERS and not _ALL_VARIABLES.isdisjoint(words):
        yield Sign("environment", "all variables", line, "all-variables")
    elif name.endswith("socket.socket"):
        yield Sign("network", "a socket", line, "socket")


def _is_sending_call(name: str, words: tuple[str, ...], language: str) -> bool:
    if name == "fetch":
        return any(_METHOD.search(word) for word in words)
    if name.endswith("urlopen"):
        return "data=" in words
    return _SENDERS.search(name) is not None and (language == "python" or name != "put")
