"""Turns `SkillsError` into the reply of a tool, or the protocol error of a resource."""

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
    """Await an answer; a `SkillsError` becomes a reply that a model can act on."""
    try:
        return await work
    except SkillsError as error:
        _forget_frames(error)
        return Reply({"error": render_error(error)}, is_error=True)


def derive_protocol_error(error: SkillsError, protocol_version: str) -> MCPError:
    """Return the protocol error for a resource that cannot be read.

    `data` has the code of the `SkillsError`, which says more than the protocol's.
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
    """Drop the tracebacks, which keep the local variables of failed functions alive.

    A thread's answer and the frame that waits for it refer to each other, so the
    snapshot of a refused call, with its open files, would live until the next
    garbage collection.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
