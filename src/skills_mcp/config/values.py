"""Types of settings: bounds, patterns, and their descriptions."""

import ipaddress
import re
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import parse_relative


class SetBy(Enum):
    """Whether content may set a key; the operator may set all keys."""

    OPERATOR = "never"
    TRUSTED = "if trusted"
    LOWERING = "may lower it"
    CONTENT = "may set it"


class Variable(NamedTuple):
    """The name of an environment variable for a key."""

    name: str
    switches_on: bool = False
    """Whether it also sets `enabled` of the section."""


@dataclass(frozen=True, slots=True)
class Option:
    """A command-line option for a key."""

    name: str
    variable: str = ""
    """The variable that the command line reads."""


Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100)]
EntryCount = Annotated[int, Field(ge=1, le=10_000)]
Seconds = Annotated[int, Field(ge=1, le=24 * 60 * 60)]
Bytes = Annotated[int, Field(ge=1, le=1 << 30)]
BytesOnDisk = Annotated[int, Field(ge=1, le=1 << 40)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Drain = Annotated[int, Field(ge=0, le=600)]
Linger = Annotated[int, Field(ge=0, le=7 * 24 * 60)]

AlgorithmSetting = Literal["auto", "keyword", "ranked"]
Verify = Literal["commit", "tag", "both"]
Toolset = Literal["core", "packages"]
ToolScope = Literal[
    "skills:read",
    "skills:refresh",
    "skills:feedback",
    "skills:report",
    "skills:events",
    "skills:upload",
]
# YAML reads a bare `off` as false.
_BARE_OFF = BeforeValidator(lambda value: "off" if value is False else value)
SandboxDemand = Annotated[
    Literal["required", "best_effort", "off"],
    _BARE_OFF,
    WithJsonSchema({"enum": ["required", "best_effort", "off", False]}),
]
PowersDemand = Annotated[
    Literal["off", "enforce"],
    _BARE_OFF,
    WithJsonSchema({"enum": ["off", "enforce", False]}),
]
PowersNote = Annotated[
    Literal["off", "note"], _BARE_OFF, WithJsonSchema({"enum": ["off", "note", False]})
]
UploadMode = Annotated[
    Literal["off", "folder", "branch"],
    _BARE_OFF,
    WithJsonSchema({"enum": ["off", "folder", "branch", False]}),
]
ForgeKind = Literal["github", "gitlab", "gitea", "bitbucket", "azure"]
ConfirmDemand = Literal["never", "if_possible", "always"]
Disclosure = Literal["full", "redacted", "hashed", "none"]
Identity = Literal["user", "hash", "none"]
EmbeddingProvider = Literal["none", "openai", "gemini", "openai-compatible"]

TOOLSETS: tuple[str, ...] = get_args(Toolset)

_DAY = "^([0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]))?$"
_SHA256 = "^([0-9a-fA-F]{64})?$"
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
# Spelled out, as every dialect of patterns has its own `\s`, `\d` and `.`.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LOOPBACK = r"http://(localhost|127\.[0-9]+\.[0-9]+\.[0-9]+|\[::1\])(:[0-9]+)?"
# Events describe people's work: plain HTTP may carry them within this machine only.
SAFE_ADDRESS = rf"^(https://[^{_SPACE}@]+|{_LOOPBACK}(/[^{_SPACE}@]*)?)?$"
_SYNONYM = rf"^[^{_SPACE}=,>][^\n]*( = |, | > )[^\n]*[^{_SPACE}=,>]$"
# What stands before an @ or behind a question mark may be a secret.
_PLAIN_ADDRESS = rf"^(https?://[^{_SPACE}@?#]+)?$"
# Plain HTTP only within this machine: who answers there decides who is signed in.
_ISSUER = rf"^(https://[^{_SPACE}@?#]+|{_LOOPBACK}(/[^{_SPACE}@?#]*)?)?$"
# Keys of providers have small letters or hyphens in them, so none of them fits.
_VARIABLE_NAME = r"^([A-Z_][A-Z0-9_]{0,63})?$"
_HEADER_NAME = r"^([A-Za-z][A-Za-z0-9-]{0,63})?$"
_ENVIRONMENT_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
_EXTENSION = r"^\.[A-Za-z0-9]+$"
_PROGRAM = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"
# The grammar of `shlex.split`.
_COMMAND = r"""^([^'"\\]|\\[\s\S]|'[^']*'|"([^"\\]|\\[\s\S])*")*$"""

PATTERN_DESCRIPTIONS = {
    _DAY: "a day, such as 2026-12-31",
    _SHA256: "64 hexadecimal digits, as `sha256sum` prints them",
    _LINE: "one line",
    _SYNONYM: "words that mean the same, such as `rfc = request for change`",
    SAFE_ADDRESS: "an https:// URL, or an http:// URL on this machine",
    _ENVIRONMENT_NAME: "the name of an environment variable",
    _ISSUER: "an https:// URL without a query, or an http:// URL on this machine",
    _PLAIN_ADDRESS: "an https:// or http:// URL without a password and without a query",
    _VARIABLE_NAME: "the name of an environment variable in capitals, such as OPENAI_API_KEY",
    _HEADER_NAME: "the name of a header, such as X-Forwarded-User",
    _EXTENSION: "an extension with its dot, such as .sh",
    _PROGRAM: "the bare name of a program, such as python3",
    _COMMAND: "a command with every quotation mark closed, as in a shell",
}
"""Descriptions of patterns, for messages."""

SECRET_PATTERNS = (_PLAIN_ADDRESS, _VARIABLE_NAME)
"""Patterns of settings into which people paste API keys: never quoted."""


def _any_case(pattern: str) -> str:
    """Fold the case of a pattern of capitals: JSON Schema has no flag for that."""
    return re.sub("[A-Z]", lambda letter: f"[{letter[0]}{letter[0].lower()}]", pattern)


# They would run other code before the first line of a script.
_CODE_LOADING_VARIABLES = "^" + _any_case(
    r"(LD_|DYLD_|PYTHON|PERL|RUBY|NODE_(OPTIONS|PATH)$|BASH|(SHELLOPTS|ENV|IFS|PS4)$)"
)


def _require_harmless(name: str) -> str:
    if re.match(_CODE_LOADING_VARIABLES, name):
        message = "a variable that only carries data: this one makes programs load code"
        raise PydanticCustomError("harmless_variable", message)
    return name


def _require_absolute(path: str) -> str:
    if path == "~" or path.startswith("~/") or PurePath(path).is_absolute():
        return path
    message = "an absolute path, or one that begins with ~/"
    raise PydanticCustomError("absolute_path", message)


def _require_readable(url: str) -> str:
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise PydanticCustomError("url", "a URL that can be read") from error
    return url


def _require_share_or_number(limit: float | None) -> float | None:
    if limit is None or limit <= 1 or limit.is_integer():
        return limit
    raise PydanticCustomError("share_or_number", "a share below 1, or a whole number")


def _write_day(value: object) -> object:
    return value.isoformat() if type(value) is date else value  # YAML reads a day as a date


def _require_root(path: str) -> str:
    return path if path == "." else _require_absolute(path)


def simplify_path(path: str) -> str:
    """Strip a leading `./` and a trailing slash."""
    return path.removeprefix("./").removesuffix("/") or path


def _require_relative(path: str) -> str:
    try:
        return "/".join(parse_relative(simplify_path(path))) if path else path
    except InvalidPathError as error:
        message = "a relative path with forward slashes, such as teams/web"
        raise PydanticCustomError("relative_path", message) from error


def _require_inside(path: str) -> str:
    return "." if path in {".", "./"} else _require_relative(path)


# What the functions above check, for JSON Schema: addresses without the syntax of IPv6,
# paths without invisible characters.
_PORT = "([0-5]?[0-9]{0,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_READABLE = rf"^([^:]*://(\[[0-9A-Fa-f:.]+\]|[^/:\[\]]*)(:{_PORT})?(/|$)|$)"
_ABSOLUTE = r"~(/|$)|/|[A-Za-z]:[\\/]|\\\\"
_DEVICE = _any_case(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(COM|LPT)[0-9¹²³]) *(\.[^/]*)?")
_SHORT_NAME = r"[^.~/]{1,6}~[0-9]{1,6}(\.[^./]{0,3})?"
_PART = (
    rf"(?!({_any_case('[.]GIT')}|{_DEVICE}|{_SHORT_NAME}| [^/]*|[^/]*[ .])(/|$))"
    r'[^\\/:*?"<>|\x00-\x1f\x7f]{1,255}'
)
_RELATIVE = rf"(\./)?(?!~){_PART}(/{_PART}){{0,32}}/?"


def _in_schema(keyword: str, value: Any) -> Any:
    return Field(json_schema_extra={keyword: value})


ShareOrNumber = Annotated[
    float | None,
    Field(ge=0, le=10_000_000),
    AfterValidator(_require_share_or_number),
    _in_schema("not", {"exclusiveMinimum": 1, "not": {"multipleOf": 1}}),
]
Synonym = Annotated[str, Field(pattern=_SYNONYM, max_length=200)]
Name = Annotated[str, Field(min_length=1)]
SafeAddress = Annotated[str, Field(pattern=SAFE_ADDRESS)]
PlainAddress = Annotated[str, Field(pattern=_PLAIN_ADDRESS)]
_READABLE_EXTRA = _in_schema("allOf", [{"pattern": _READABLE}])
ReadableUrl = Annotated[PlainAddress, AfterValidator(_require_readable), _READABLE_EXTRA]
Issuer = Annotated[str, Field(pattern=_ISSUER), AfterValidator(_require_readable), _READABLE_EXTRA]
VariableName = Annotated[str, Field(pattern=_VARIABLE_NAME)]
HeaderName = Annotated[str, Field(pattern=_HEADER_NAME)]
GroupName = Annotated[str, Field(pattern=_LINE, max_length=100)]
Extension = Annotated[str, Field(pattern=_EXTENSION)]
EnvironmentName = Annotated[
    str,
    Field(pattern=_ENVIRONMENT_NAME),
    AfterValidator(_require_harmless),
    _in_schema("not", {"pattern": _CODE_LOADING_VARIABLES}),
]
AbsolutePath = Annotated[
    str, AfterValidator(_require_absolute), _in_schema("pattern", f"^({_ABSOLUTE})")
]
Root = Annotated[str, AfterValidator(_require_root), _in_schema("pattern", rf"^(\.$|{_ABSOLUTE})")]
ProgramName = Annotated[str, Field(pattern=_PROGRAM)]
CommandLine = Annotated[str, Field(pattern=_COMMAND)]
MountPath = Annotated[
    str, AfterValidator(_require_relative), _in_schema("pattern", f"^({_RELATIVE})?$")
]
Day = Annotated[str, Field(pattern=_DAY), BeforeValidator(_write_day)]
Sha256 = Annotated[str, Field(pattern=_SHA256)]
Subfolder = Annotated[
    str, AfterValidator(_require_inside), _in_schema("pattern", rf"^({_RELATIVE}|\./?)?$")
]


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What clients on this machine call it."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address, without a port, is a loopback one."""
    bare = host.removeprefix("[").removesuffix("]")
    if bare.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def is_private_url(url: str) -> bool:
    """Whether no other machine can read along: https, or http within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
