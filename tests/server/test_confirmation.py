"""Asking the user before a script runs, in both eras."""

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.clients import ask, connected
from tests.support import open_library, write, write_skill

_RUN = {"skill_path": "a", "file": "scripts/a.sh", "args": {"name": "Ada"}}


class User:
    """Answers each question in the same way."""

    def __init__(self, action: Any) -> None:
        self.questions: list[str] = []
        self._action = action

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        del context
        self.questions.append(params.message)
        return ElicitResult(action=self._action)


@pytest.fixture
def content(tmp_path: Path) -> Path:
    declared = [
        {
            "file": "scripts/a.sh",
            "execution": "server",
            "args": [{"name": "name", "required": True}],
        }
    ]
    write_skill(tmp_path, "a.md", scripts=declared)
    write(tmp_path / "a/scripts/a.sh", "echo ran\n")
    return tmp_path


@pytest.mark.parametrize("demand", ["if_possible", "always"])
async def test_the_user_sees_what_will_run_and_allows_it(
    content: Path, era: str, demand: str
) -> None:
    user = User("accept")
    library = open_library(content, settings={"scripts": {"confirm": demand}})
    async with connected(library, era, elicit=user) as client:
        reply = await ask(client, "run_script", **_RUN)

    assert reply["stdout"] == "ran\n"
    [question] = user.questions
    for said in ("run_script", "scripts/a.sh", "Ada"):
        assert said in question


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_what_the_user_does_not_allow_does_not_run(
    content: Path, era: str, action: str
) -> None:
    library = open_library(content, settings={"scripts": {"confirm": "if_possible"}})
    async with connected(library, era, elicit=User(action)) as client:
        reply = await ask(client, "run_script", **_RUN)

    assert reply["error"]["code"] == "NOT_CONFIRMED"
    assert "did not allow" in reply["error"]["message"]


async def test_a_client_that_cannot_ask_is_refused_only_if_it_must(content: Path, era: str) -> None:
    answers = {}
    for demand in ("never", "if_possible", "always"):
        library = open_library(content, settings={"scripts": {"confirm": demand}})
        async with connected(library, era) as client:
            answers[demand] = await ask(client, "run_script", **_RUN)

    assert answers["never"]["stdout"] == answers["if_possible"]["stdout"] == "ran\n"
    assert answers["always"]["error"]["code"] == "NOT_CONFIRMED"
    assert "scripts.confirm" in answers["always"]["error"]["message"]


@pytest.mark.parametrize(
    "wrong, code",
    [({"file": None}, "INVALID_ARGUMENTS"), ({"skill_path": "b"}, "SKILL_NOT_FOUND")],
)
async def test_nothing_is_asked_about_a_call_without_a_skill_or_an_argument(
    content: Path, era: str, wrong: dict[str, Any], code: str
) -> None:
    user = User("accept")
    library = open_library(content, settings={"scripts": {"confirm": "always"}})
    async with connected(library, era, elicit=user) as client:
        reply = await ask(client, "run_script", **{**_RUN, **wrong})

    assert reply["error"]["code"] == code
    assert user.questions == []


async def test_nothing_is_asked_where_scripts_are_off(content: Path, era: str) -> None:
    user = User("accept")
    off = {"scripts": {"confirm": "always", "enabled": False}}
    async with connected(open_library(content, settings=off), era, elicit=user) as client:
        reply = await ask(client, "run_script", **_RUN)

    assert reply["error"]["code"] == "SCRIPTS_DISABLED"
    assert user.questions == []


async def test_the_powers_of_a_script_are_named_whatever_its_skill_is_called(
    content: Path, era: str
) -> None:
    write(content / "a/scripts/a.sh", "curl https://example.com\n")
    user = User("decline")
    library = open_library(content, settings={"scripts": {"confirm": "always"}})
    async with connected(library, era, elicit=user) as client:
        await ask(client, "run_script", **{**_RUN, "skill_path": "a.md"})

    [question] = user.questions
    assert "Powers that were found in it" in question


async def test_nothing_is_asked_before_what_only_reads(content: Path) -> None:
    user = User("decline")
    library = open_library(content, settings={"scripts": {"confirm": "always"}})
    async with connected(library, "auto", elicit=user) as client:
        await ask(client, "get_skill", context="a", skill_path="a")

    assert user.questions == []
