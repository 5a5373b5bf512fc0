import pytest

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.library import SkillLibrary
from skills_mcp.server.errors import answered
from skills_mcp.server.replies import Reply
from tests.clients import ask, connected


async def test_an_error_becomes_a_code_and_a_message() -> None:
    async def fail() -> Reply:
        raise SkillNotFoundError("There is no skill 'x'.")

    reply = await answered(fail())

    assert reply.is_error
    assert reply.data == {
        "error": {"code": "SKILL_NOT_FOUND", "message": "There is no skill 'x'."}
    }


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
