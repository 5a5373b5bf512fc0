"""Packages with tags are found by their own names, however much they have in common."""

from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from random import Random

import pytest

from skills_mcp.library.answers import Match
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.routing.decision import Ambiguous
from tests.support import open_library, write

_COUNT = 300
_SHORT = 50  # of two words, which are in the longer names, too

_SUBJECTS = (
    *("pdf", "form", "invoice", "release", "database", "react", "terraform", "docker"),
    *("kafka", "metrics", "incident", "customer", "api", "email", "security", "image"),
)
_DOINGS = (
    *("filling", "review", "migration", "design", "writing", "testing", "debugging"),
    *("planning", "deployment", "checks", "upgrade", "setup"),
)


def _choose_names(chance: Random) -> list[str]:
    short = [*product(_SUBJECTS, _DOINGS)]
    long = [(*pair, doing) for pair in combinations(_SUBJECTS, 2) for doing in _DOINGS]
    chosen = [*chance.sample(short, _SHORT), *chance.sample(long, _COUNT - _SHORT)]
    return ["-".join(words) for words in chosen]


def _compose(name: str, chance: Random) -> str:
    own, others = name.split("-"), chance.sample((*_SUBJECTS, *_DOINGS), 5)
    tags = chance.sample([own[0], own[-1], *others], 6)
    lines = (
        "---",
        f"name: {name}",
        f"description: Helps with {own[-1]} of {own[0]}, also for {others[0]} and",
        f"  {others[1]}. Use it when the user mentions {' or '.join(others)}.",
        f"tags: [{', '.join(tags)}]",
        f"metadata: {{triggers: {{keywords: [{others[2]}, {own[0]}]}}}}",
        "---",
        f"# {others[3]}\n\nAbout {' and '.join(others)}.",
    )
    return "\n".join(lines)


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    folder = tmp_path / "skills"
    chance = Random(7)  # noqa: S311 - the same packages in every run
    for name in _choose_names(chance):
        write(folder / name / "SKILL.md", _compose(name, chance))
    return open_library(folder.parent)


def _first(library: SkillLibrary, task: str) -> str | None:
    answer = library.view().route(task)
    if isinstance(answer, Match):
        return answer.skill.path
    return answer.candidates[0].skill.path if isinstance(answer, Ambiguous) else None


def _share(library: SkillLibrary, asked: str, names: Sequence[str]) -> float:
    """Return the share of the names that find their skill."""
    tasks = {name: asked.format(name.replace("-", " ")) for name in names}
    right = [_first(library, task) == name for name, task in tasks.items()]
    return sum(right) / len(right)


def test_packages_with_tags_are_found_by_their_own_names(
    library: SkillLibrary,
) -> None:
    names = [each.path for each in library.view().snapshot.index]

    assert len(names) == _COUNT
    assert library.view().snapshot.algorithm == "ranked"
    for asked in ("{}", "Can you help me with {}, please?", "Do the {}."):
        assert _share(library, asked, names) >= 0.98
