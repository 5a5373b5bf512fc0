"""`explain` of `get_skill`: why this is the answer."""

import json
from typing import Any

import pytest

from skills_mcp.library.skill_library import SkillLibrary
from tests.clients import ask, connected
from tests.support import open_library, write_skill


@pytest.mark.parametrize("explain", [None, False])
async def test_an_answer_is_explained_only_if_somebody_asks(
    library: SkillLibrary,
    explain: bool | None,  # noqa: FBT001 - the argument
) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="a login in react", explain=explain)

    assert "explanation" not in reply


async def test_the_explanation_comes_after_the_answer(library: SkillLibrary) -> None:
    async with connected(library) as client:
        reply = await ask(client, "get_skill", context="add login to the React app", explain=True)

    explanation = reply["explanation"]
    assert list(reply)[-1] == "explanation"
    assert list(explanation) == [*("algorithm", "words", "ignored", "candidates", "notes")]
    assert explanation["algorithm"] == "keyword"
    assert explanation["ignored"] == ["to", "the"]
    best = explanation["candidates"][0]
    assert (best["skill_path"], best["score"]) == (reply["skill_path"], reply["score"])
    worths = [evidence["worth"] for evidence in best["evidence"]]
    assert sum(worths) == pytest.approx(reply["score"], abs=0.001)


@pytest.mark.parametrize("context", ["add a React page", "bake bread"])
async def test_an_answer_without_a_skill_is_explained_too(
    library: SkillLibrary, context: str
) -> None:
    async with connected(library, "auto") as client:
        reply = await ask(client, "get_skill", context=context, explain=True)

    assert reply["explanation"]["notes"]


async def test_the_skill_that_was_picked_is_looked_into(library: SkillLibrary) -> None:
    picked: dict[str, Any] = {"skill_path": "data/kafka/consumers", "explain": True}
    async with connected(library, "auto") as client:
        reply = await ask(client, "get_skill", context="add a React page", **picked)

    candidates = reply["explanation"]["candidates"]
    assert candidates[-1] == {
        "skill_path": "data/kafka/consumers",
        "place": None,
        "score": 0.0,
        "evidence": [],
    }


async def test_an_explanation_is_small(tmp_path: Any) -> None:
    for number in range(200):
        write_skill(tmp_path, f"s{number}.md", keywords=[f"k{n}" for n in range(50)])
    context = " ".join(f"k{n}" for n in range(100))
    async with connected(open_library(tmp_path), "auto") as client:
        reply = await ask(client, "get_skill", context=context, explain=True)

    assert len(json.dumps(reply["explanation"])) < 30_000
