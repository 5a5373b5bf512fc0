"""What a single value may be, and how that is said to a person."""

import shlex
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from skills_mcp.errors import InvalidPathError
from skills_mcp.safe_path import parse_relative

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100)]
EntryCount = Annotated[int, Field(ge=1, le=10_000)]
FileCount = Annotated[int, Field(ge=1, le=10_000_000)]
Minutes = Annotated[int, Field(ge=1, le=7 * 24 * 60)]
Seconds = Annotated[int, Field(ge=1, le=24 * 60 * 60)]
Bytes = Annotated[int, Field(ge=1, le=1 << 30)]
BytesOnDisk = Annotated[int, Field(ge=1, le=1 << 40)]
Patience = Annotated[float, Field(ge=0.1, le=60, allow_inf_nan=False)]
Dimensions = Annotated[int, Field(ge=0, le=8192)]

Algorithm = Literal["auto", "keyword", "ranked"]
Verify = Literal["commit", "tag", "both"]
Toolset = Literal["core", "packages"]
EmbeddingProvider = Literal["none", "openai", "gemini", "openai-compatible"]

TOOLSETS: tuple[str, ...] = get_args(Toolset)

ADDRESS = r"^(https?://\S+)?$"
# What stands before an @ or behind a question mark may be a secret.
PLAIN_ADDRESS = r"^(https?://[^\s@?#]+)?$"
# Keys of providers have small letters or hyphens in them, so none of them fits.
VARIABLE_NAME = r"^([A-Z_][A-Z0-9_]{0,63})?$"
_EXTENSION = r"^\.[A-Za-z0-9]+$"
_PROGRAM = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"

IN_WORDS = {
    ADDRESS: "an address that begins with https:// or http://",
    PLAIN_ADDRESS: "an address that begins with https:// or http://, without a "
    "password and without a question mark",
    VARIABLE_NAME: "the name of an environment variable in capitals, such as "
    "OPENAI_API_KEY",
    _EXTENSION: "an extension with its dot, such as .sh",
    _PROGRAM: "the bare name of a program, such as python3",
}
"""What a pattern allows."""

MAY_BE_SECRET = (PLAIN_ADDRESS, VARIABLE_NAME)
"""Where people put a key by mistake: what fails these is never shown."""


def _require_words(command: str) -> str:
    try:
        shlex.split(command)
    except ValueError as error:
        message = "a command as a shell would read it, with every quotation closed"
        raise PydanticCustomError("command", message) from error
    return command


def simplify_path(path: str) -> str:
    """Return a path without what people put around it: `./teams/web/`."""
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

Name = Annotated[str, Field(min_length=1)]
Extension = Annotated[str, Field(pattern=_EXTENSION)]
ProgramName = Annotated[str, Field(pattern=_PROGRAM)]
Command = Annotated[str, AfterValidator(_require_words)]
Place = Annotated[
    str, AfterValidator(_require_relative), Field(json_schema_extra=_PATH)
]
Subfolder = Annotated[
    str, AfterValidator(_require_inside), Field(json_schema_extra=_PATH)
]
