import gc
import weakref
from pathlib import Path

import anyio.to_thread
import pytest

from skills_mcp.errors import (
    ContentUnavailableError,
    FileTooLargeError,
    InvalidArgumentsError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    SyncError,
    UndeclaredFileError,
)
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.error_replies import answered, derive_protocol_error
from skills_mcp.server.replies import Reply
from tests.clients import ERAS, ask, connected


async def test_an_error_becomes_a_code_and_a_message() -> None:
    async def fail() -> Reply:
        raise SkillNotFoundError("There is no skill 'x'.")

    reply = await answered(fail())

    assert reply.is_error
    assert reply.data == {
        "error": {"code": "SKILL_NOT_FOUND", "message": "There is no skill 'x'."}
    }


class _Held:
    """What a function has in its hands when it fails."""


def _refuse(held: list[weakref.ref[_Held]]) -> Reply:
    ours = _Held()
    held.append(weakref.ref(ours))
    try:
        Path("/nowhere/at/all").read_bytes()
    except OSError as error:
        raise SkillNotFoundError(f"There is no skill {ours!r}.") from error
    raise AssertionError


async def test_a_refused_call_keeps_nothing_until_the_collector_comes() -> None:
    held: list[weakref.ref[_Held]] = []

    async def fail() -> Reply:
        return await anyio.to_thread.run_sync(_refuse, held)

    gc.disable()
    try:
        reply = await answered(fail())
        left = [each() for each in held]
    finally:
        gc.enable()

    assert reply.is_error
    assert left == [None]


async def test_what_a_client_is_told_holds_no_secret() -> None:
    async def fail() -> Reply:
        raise SyncError("fatal: https://ada:hunter2@git.example.com/x.git not found")

    reply = await answered(fail())

    assert "hunter2" not in reply.data["error"]["message"]


@pytest.mark.parametrize(
    "error, modern, legacy",
    [
        (SkillNotFoundError("x"), -32602, -32002),
        (SkillDisabledError("x"), -32602, -32002),
        (UndeclaredFileError("x"), -32602, -32002),
        (InvalidPathError("x"), -32602, -32002),
        (InvalidArgumentsError("x"), -32602, -32602),
        (FileTooLargeError("x"), -32603, -32603),
        (ContentUnavailableError("https://ada:hunter2@x.example"), -32603, -32603),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_an_error_of_the_protocol_has_the_code_of_its_era_and_ours(
    error: SkillsError, modern: int, legacy: int
) -> None:
    found = {era: derive_protocol_error(error, era).error for era in ERAS.values()}

    assert [each.code for each in found.values()] == [modern, legacy]
    for each in found.values():
        assert each.data == {"code": error.code}
        assert "hunter2" not in each.message


@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("get_skill", {"context": "x", "skill_path": "nowhere"}),
        ("get_asset", {"skill_path": "ui/_index", "file": "/etc/passwd"}),
        ("run_script", {"skill_path": "ui/_index", "file": "x", "args": {}}),
    ],
)
async def test_a_failure_is_marked_and_holds_a_code_and_a_message_only(
    library: SkillLibrary, era: str, tool: str, arguments: dict[str, object]
) -> None:
    async with connected(library, era) as client:
        reply = await ask(client, tool, **arguments)

    assert list(reply) == ["error"]
    assert list(reply["error"]) == ["code", "message"]
    assert "Traceback" not in reply["error"]["message"]
