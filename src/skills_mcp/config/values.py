"""Types of settings: bounds, patterns, and their descriptions."""

import ipaddress
import re
import shlex
from pathlib import PurePath
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import parse_relative

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100)]
EntryCount = Annotated[int, Field(ge=1, le=10_000)]
FileCount = Annotated[int, Field(ge=1, le=10_000_000)]
Minutes = Annotated[int, Field(ge=1, le=7 * 24 * 60)]
Seconds = Annotated[int, Field(ge=1, le=24 * 60 * 60)]
Bytes = Annotated[int, Field(ge=1, le=1 << 30)]
BytesOnDisk = Annotated[int, Field(ge=1, le=1 << 40)]
Patience = Annotated[float, Field(ge=0.1, le=60, allow_inf_nan=False)]
# Less would not hold a few skills with long paths; hosts cut what is longer.
ReplyCharacters = Annotated[int, Field(ge=10_000, le=500_000)]
SpoolBytes = Annotated[int, Field(ge=65_536, le=1 << 30)]  # a few events, at least
KeptDays = Annotated[int, Field(ge=0, le=3650)]
RetentionDays = Annotated[int, Field(ge=1, le=3650)]
Dimensions = Annotated[int, Field(ge=0, le=8192)]
Port = Annotated[int, Field(ge=0, le=65_535)]
Concurrency = Annotated[int, Field(ge=1, le=100_000)]
Skew = Annotated[int, Field(ge=0, le=600)]
SessionHours = Annotated[int, Field(ge=1, le=24 * 30)]
IdleMinutes = Annotated[int, Field(ge=5, le=24 * 60)]
Drain = Annotated[int, Field(ge=0, le=600)]

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
SandboxDemand = Annotated[Literal["required", "best_effort", "off"], _BARE_OFF]
UploadMode = Annotated[Literal["off", "folder", "branch"], _BARE_OFF]
ForgeKind = Literal["github", "gitlab", "gitea", "bitbucket", "azure"]
ConfirmDemand = Literal["never", "if_possible", "always"]
Disclosure = Literal["full", "redacted", "hashed", "none"]
Identity = Literal["user", "hash", "none"]
EmbeddingProvider = Literal["none", "openai", "gemini", "openai-compatible"]

TOOLSETS: tuple[str, ...] = get_args(Toolset)

_SHA256 = "^([0-9a-fA-F]{64})?$"
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
# Events describe people's work: plain HTTP may carry them within this machine only.
_LOOPBACK = r"http://(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?"
SAFE_ADDRESS = rf"^(https://[^\s@]+|{_LOOPBACK}(/[^\s@]*)?)?$"
# What stands before an @ or behind a question mark may be a secret.
SYNONYM = r"^[^\s=,>].*( = |, | > ).*[^\s=,>]$"
PLAIN_ADDRESS = r"^(https?://[^\s@?#]+)?$"
# Plain HTTP only within this machine: who answers there decides who is signed in.
ISSUER = rf"^(https://[^\s@?#]+|{_LOOPBACK}(/[^\s@?#]*)?)?$"
# Keys of providers have small letters or hyphens in them, so none of them fits.
VARIABLE_NAME = r"^([A-Z_][A-Z0-9_]{0,63})?$"
HEADER_NAME = r"^([A-Za-z][A-Za-z0-9-]{0,63})?$"
_ENVIRONMENT_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
_EXTENSION = r"^\.[A-Za-z0-9]+$"
_PROGRAM = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"

PATTERN_DESCRIPTIONS = {
    _LINE: "one line",
    SYNONYM: "words that mean the same, such as `rfc = request for change`",
    SAFE_ADDRESS: "an https:// URL, or an http:// URL on this machine",
    _ENVIRONMENT_NAME: "the name of an environment variable",
    ISSUER: "an https:// URL without a query, or an http:// URL on this machine",
    PLAIN_ADDRESS: "an https:// or http:// URL without a password and without a query",
    VARIABLE_NAME: "the name of an environment variable in capitals, such as OPENAI_API_KEY",
    HEADER_NAME: "the name of a header, such as X-Forwarded-User",
    _EXTENSION: "an extension with its dot, such as .sh",
    _PROGRAM: "the bare name of a program, such as python3",
}
"""Descriptions of patterns, for messages."""

SECRET_PATTERNS = (PLAIN_ADDRESS, VARIABLE_NAME)
"""Patterns of settings into which people paste API keys: never quoted."""


def _require_words(command: str) -> str:
    try:
        shlex.split(command)
    except ValueError as error:
        message = "a command with every quotation mark closed, as in a shell"
        raise PydanticCustomError("command", message) from error
    return command


# They would run other code before the first line of a script.
_CODE_LOADING_VARIABLES = re.compile(
    r"LD_|DYLD_|PYTHON|PERL|RUBY|NODE_(?:OPTIONS|PATH)$|BASH|(?:SHELLOPTS|ENV|IFS|PS4)$",
    re.IGNORECASE,
)


def _require_harmless(name: str) -> str:
    if _CODE_LOADING_VARIABLES.match(name):
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


# Less than `parse_relative` knows, but an editor sees most mistakes.
_PATH: JsonDict = {"pattern": r'^([^\\/:*?"<>|]+(/[^\\/:*?"<>|]+)*/?)?$'}

Synonym = Annotated[str, Field(pattern=SYNONYM, max_length=200)]
Name = Annotated[str, Field(min_length=1)]
ReadableUrl = Annotated[str, AfterValidator(_require_readable)]
GroupName = Annotated[str, Field(pattern=_LINE, max_length=100)]
Extension = Annotated[str, Field(pattern=_EXTENSION)]
EnvironmentName = Annotated[
    str, Field(pattern=_ENVIRONMENT_NAME), AfterValidator(_require_harmless)
]
AbsolutePath = Annotated[str, AfterValidator(_require_absolute)]
Root = Annotated[str, AfterValidator(_require_root)]
ProgramName = Annotated[str, Field(pattern=_PROGRAM)]
CommandLine = Annotated[str, AfterValidator(_require_words)]
MountPath = Annotated[str, AfterValidator(_require_relative), Field(json_schema_extra=_PATH)]
Sha256 = Annotated[str, Field(pattern=_SHA256)]
Subfolder = Annotated[str, AfterValidator(_require_inside), Field(json_schema_extra=_PATH)]


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
