"""How skills are related."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.index import SkillIndex, derive_parent_path
from skills_mcp.skills.model import SkillPath
from tests.support import make_skill

NAMES = st.sampled_from(["_root", "_index", "ui", "api", "react", "a", "b"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
TREES = st.sets(PATHS, max_size=12)


def index_of(paths: Iterable[str]) -> SkillIndex:
    return SkillIndex(map(make_skill, paths))


def lineage(index: SkillIndex, path: str) -> list[str]:
    return [skill.path for skill in index.lineage(index.require(path))]


@pytest.mark.spec("4.4")
@pytest.mark.parametrize(
    "path, parent",
    [
        ("_root", None),
        ("ui/_index", "_root"),
        ("ui/react/_index", "ui/_index"),
        ("ui/react/auth", "ui/react/_index"),
        ("no-inherit", "_root"),
        ("_index", "_root"),
        ("ui/_root", "ui/_index"),
    ],
)
def test_the_parent_follows_from_the_path(path: str, parent: str | None) -> None:
    assert derive_parent_path(SkillPath(path)) == parent


@pytest.mark.spec("4.4")
@pytest.mark.parametrize(
    "paths, expected",
    [
        (["_root", "ui/_index", "ui/react/_index"], "ui/react/_index"),
        (["_root", "ui/_index"], "ui/_index"),
        (["_root"], "_root"),
        (["ui/_index"], "ui/_index"),
        ([], None),
    ],
)
def test_a_missing_parent_is_passed_over(
    paths: list[str], expected: str | None
) -> None:
    index = index_of([*paths, "ui/react/auth"])

    parent = index.parent(index.require("ui/react/auth"))

    assert (parent.path if parent else None) == expected


@pytest.mark.spec("4.4")
def test_a_skill_beside_a_category_is_not_its_parent() -> None:
    index = index_of(["ui/react", "ui/react/auth", "_index"])

    assert lineage(index, "ui/react/auth") == ["ui/react/auth"]


@pytest.mark.spec("6.1")
def test_a_lineage_goes_from_the_root_to_the_skill() -> None:
    index = index_of(["ui/react/auth", "ui/react/_index", "ui/_index", "_root"])

    found = lineage(index, "ui/react/auth")

    assert found == ["_root", "ui/_index", "ui/react/_index", "ui/react/auth"]


@pytest.mark.spec("6.1")
def test_what_a_parent_does_not_inherit_does_not_shorten_the_lineage() -> None:
    index = SkillIndex(
        [
            make_skill("_root"),
            make_skill("ui/_index", inherit=False),
            make_skill("ui/a"),
        ]
    )

    assert lineage(index, "ui/a") == ["_root", "ui/_index", "ui/a"]


@pytest.mark.spec("4.4")
@pytest.mark.spec("6.1")
@settings(deadline=None, max_examples=300)
@given(TREES)
def test_a_lineage_starts_at_the_root_most_ancestor_and_has_no_repeats(
    paths: set[str],
) -> None:
    index = index_of(paths)

    for path in paths:
        expected = [path]
        above = derive_parent_path(SkillPath(path))
        while above is not None:
            expected += [above] if above in paths else []
            above = derive_parent_path(above)

        found = lineage(index, path)

        assert found == expected[::-1]
        assert len(set(found)) == len(found)


@settings(deadline=None)
@given(TREES)
def test_children_are_the_skills_that_have_it_as_parent(paths: set[str]) -> None:
    index = index_of(paths)

    for skill in index:
        assert list(index.children(skill)) == [
            other for other in index if index.parent(other) is skill
        ]
    roots = [skill for skill in index if index.parent(skill) is None]
    assert len(roots) + sum(len(index.children(skill)) for skill in index) == len(paths)


@pytest.mark.spec("4.6")
@settings(deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_the_order_of_the_files_changes_nothing(
    paths: set[str], chance: random.Random
) -> None:
    shuffled = sorted(paths)
    chance.shuffle(shuffled)

    index = index_of(shuffled)

    assert [skill.path for skill in index] == sorted(paths)
    assert len(index) == len(paths)


def test_only_the_exact_path_finds_a_skill() -> None:
    index = index_of(["ui/react/auth"])

    assert index.get("ui/react/auth") is not None
    assert [
        index.get(path)
        for path in ["auth", "ui/react", "UI/react/auth", "ui/react/auth.md", ""]
    ] == [None] * 5


@pytest.mark.parametrize(
    "path, hint",
    [
        ("react/auth", "Did you mean api/auth or ui/react/auth? "),
        ("/auth/", "Did you mean api/auth or ui/react/auth? "),
        ("x/form", "Did you mean ui/forms? "),
        ("ui/react/auth.md", "Did you mean ui/react/auth or api/auth? "),
        ("UI/Forms", "Did you mean ui/forms? "),
        ("../../etc", ""),
        ("nothing", ""),
        ("", ""),
        ("/", ""),
    ],
)
def test_a_path_that_leads_nowhere_names_similar_ones(path: str, hint: str) -> None:
    index = index_of(["ui/react/auth", "api/auth", "ui/forms", "ui/views"])

    with pytest.raises(SkillNotFoundError) as caught:
        index.require(path)

    message = str(caught.value)
    assert message == (
        f"There is no skill {path!r}. {hint}Call list_skills to see all paths."
    )
