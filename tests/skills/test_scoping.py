"""Which part of the skills a task is about."""

import pytest

from skills_mcp.config import Visibility
from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.skill_index import NO_FILTER, SkillFilter, SkillIndex, compute_filter_mask
from tests.support import make_skill

INDEX = SkillIndex(
    [
        make_skill("_root"),
        make_skill("api/auth", category="web"),
        make_skill("ui/_index"),
        make_skill("ui/react/auth", category="web"),
        make_skill("ui/react2"),
    ]
)


def found(scoping: SkillFilter, index: SkillIndex = INDEX) -> list[str]:
    mask = compute_filter_mask(index, scoping)
    assert mask is not None
    return [row.path for row, wanted in zip(index.listed, mask, strict=True) if wanted]


@pytest.mark.parametrize(
    "below, expected",
    [
        ("ui", ["ui/_index", "ui/react/auth", "ui/react2"]),
        ("/ui/ ", ["ui/_index", "ui/react/auth", "ui/react2"]),
        ("ui/_index", ["ui/_index", "ui/react/auth", "ui/react2"]),
        ("ui/react", ["ui/react/auth"]),
        ("ui/react2", ["ui/react2"]),
    ],
)
def test_a_folder_is_its_skills_and_no_neighbour_of_a_similar_name(
    below: str, expected: list[str]
) -> None:
    assert found(SkillFilter(below=below)) == expected


def test_a_category_is_compared_without_case_and_goes_with_a_folder() -> None:
    assert found(SkillFilter(category=" Web")) == ["api/auth", "ui/react/auth"]
    assert found(SkillFilter(below="ui", category="web")) == ["ui/react/auth"]


@pytest.mark.parametrize("below", ["_root", "/", " "])
def test_the_top_is_everywhere(below: str) -> None:
    assert compute_filter_mask(INDEX, NO_FILTER) is None
    assert len(found(SkillFilter(below=below))) == len(INDEX)


def test_a_scope_says_whose_skills_and_may_have_none() -> None:
    index = SkillIndex([make_skill("a", scope="repo"), make_skill("b")])

    assert found(SkillFilter(scope="repo"), index) == ["a"]
    assert found(SkillFilter(scope="user"), index) == []


def test_only_what_is_offered_is_counted() -> None:
    skills = [make_skill("a"), make_skill("b"), make_skill("ui/c")]
    index = SkillIndex(skills, Visibility(deny=("a",)))

    assert found(SkillFilter(below="ui"), index) == ["ui/c"]
    mask = compute_filter_mask(index, SkillFilter(below="ui"))
    assert mask is not None
    assert len(mask) == 2


@pytest.mark.parametrize(
    "scoping, words",
    [
        (
            SkillFilter(below="ui/reakt"),
            ["There is no skill below ", "Folders: ui/react"],
        ),
        (SkillFilter(below="zzz"), ["Folders: api, ui, ui/react. ", "list_skills"]),
        (SkillFilter(category="db"), ["category db", "Categories: web. ", "Leave"]),
        (SkillFilter("ui/react2", "web"), ["category web below ui/react2"]),
    ],
)
def test_a_part_without_skills_is_an_error_that_says_what_there_is(
    scoping: SkillFilter, words: list[str]
) -> None:
    with pytest.raises(SkillNotFoundError) as caught:
        compute_filter_mask(INDEX, scoping)

    for word in words:
        assert word in str(caught.value).replace("'", "")


@pytest.mark.parametrize(
    "scoping",
    [
        SkillFilter(below="/etc/shadow"),
        SkillFilter(below="file:/etc/shadow"),
        SkillFilter(below="../../shadow"),
        SkillFilter(category="/etc/shadow"),
    ],
)
def test_a_place_on_a_disk_is_not_repeated(scoping: SkillFilter) -> None:
    with pytest.raises(SkillNotFoundError) as caught:
        compute_filter_mask(INDEX, scoping)

    assert "shadow" not in str(caught.value)


@pytest.mark.parametrize(
    "scoping",
    [SkillFilter(below="ui"), SkillFilter(category="web"), SkillFilter(below="ui/a")],
)
def test_where_there_is_no_skill_no_part_has_one(scoping: SkillFilter) -> None:
    with pytest.raises(SkillNotFoundError):
        compute_filter_mask(SkillIndex(), scoping)


def test_where_there_is_no_skill_nobody_has_one() -> None:
    assert found(SkillFilter(scope="user"), SkillIndex()) == []
