"""The one door through which our errors leave (DESIGN §3.15)."""

from collections.abc import Awaitable

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skills_mcp.errors import (
    AmbiguousNameError,
    InvalidArgumentsError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    UndeclaredFileError,
)
from skills_mcp.library import render_error
from skills_mcp.server.replies import Reply

_NOT_FOUND_BEFORE_2026 = -32002

_NOT_FOUND = (
    AmbiguousNameError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    UndeclaredFileError,
)


async def answered(work: Awaitable[Reply]) -> Reply:
    """Await an answer. One of our errors becomes one a model can act on."""
    try:
        return await work
    except SkillsError as error:
        _forget_frames(error)
        return Reply({"error": render_error(error)}, is_error=True)


def derive_protocol_error(error: SkillsError, protocol_version: str) -> MCPError:
    """Return the error for a resource, which has no reply to put it into.

    `data` has our own code, because those of the protocol tell little apart.
    """
    if isinstance(error, _NOT_FOUND):
        is_modern = protocol_version in MODERN_PROTOCOL_VERSIONS
        code = INVALID_PARAMS if is_modern else _NOT_FOUND_BEFORE_2026
    elif isinstance(error, InvalidArgumentsError):
        code = INVALID_PARAMS
    else:
        code = INTERNAL_ERROR
    _forget_frames(error)
    told = render_error(error)
    return MCPError(code=code, message=told["message"], data={"code": told["code"]})


def _forget_frames(error: BaseException) -> None:
    """Let go of what the functions held that have failed.

    A thread's answer and the frame that waits for it refer to each other, so the
    snapshot of a refused call, with its open files, would wait for the collector.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
