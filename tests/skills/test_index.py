"""How skills are related."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Visibility
from skills_mcp.errors import (
    AmbiguousNameError,
    SkillDisabledError,
    SkillNotFoundError,
)
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_index import SkillIndex, derive_parent_path
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
def test_a_missing_parent_is_passed_over(paths: list[str], expected: str | None) -> None:
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
@given(TREES, st.randoms(use_true_random=False))
def test_the_order_of_the_files_changes_nothing(paths: set[str], chance: random.Random) -> None:
    shuffled = sorted(paths)
    chance.shuffle(shuffled)

    index = index_of(shuffled)

    assert [skill.path for skill in index] == sorted(paths)
    assert len(index) == len(paths)


def test_only_the_exact_path_finds_a_skill() -> None:
    index = index_of(["ui/react/auth"])

    assert index.get("ui/react/auth") is not None
    assert [
        index.get(path) for path in ["auth", "ui/react", "UI/react/auth", "ui/react/auth.md", ""]
    ] == [None] * 5


@pytest.mark.parametrize(
    "path, hint",
    [
        ("react/auth", "Did you mean api/auth or ui/react/auth? "),
        ("x/form", "Did you mean ui/forms? "),
        ("ui/react/auth.md", "Did you mean ui/react/auth or api/auth? "),
        ("UI/Forms", "Did you mean ui/forms? "),
        ("ui/forms/SKILL.md", "Did you mean ui/forms? "),
        ("nothing", ""),
    ],
)
def test_a_path_that_leads_nowhere_names_similar_ones(path: str, hint: str) -> None:
    index = index_of(["ui/react/auth", "api/auth", "ui/forms", "ui/views"])

    with pytest.raises(SkillNotFoundError) as caught:
        index.require(path)

    message = str(caught.value)
    assert message == (
        f"There is no skill {path!r}. {hint}list_skills or search_skills shows what there is."
    )


@pytest.mark.spec("12.1")
@pytest.mark.parametrize(
    "path, hint",
    [
        ("/auth/", "Did you mean api/auth? "),
        ("/etc/passwd", ""),
        ("../../etc", ""),
        ("C:\\Users\\ada", ""),
        ("~/.ssh", ""),
        ("", ""),
    ],
)
def test_a_place_on_a_disk_is_not_repeated(path: str, hint: str) -> None:
    index = index_of(["api/auth", "ui/views"])

    with pytest.raises(SkillNotFoundError) as caught:
        index.require(path)

    assert str(caught.value).startswith(f"There is no skill of this name. {hint}list")


# --- by name ------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted, path",
    [
        ("office/pdf", "office/pdf"),
        ("$office/pdf", "office/pdf"),
        ("PDF Tools", "office/pdf"),
        ("$PDF Tools", "office/pdf"),
        ("  pdf tools ", "office/pdf"),
        ("forms", "web/forms"),
        ("web/forms", "web/forms"),
    ],
)
def test_a_skill_is_resolved_by_its_path_or_its_name(wanted: str, path: str) -> None:
    index = SkillIndex([make_skill("office/pdf", name="PDF Tools"), make_skill("web/forms")])

    assert index.resolve(wanted).path == path


def test_an_exact_path_comes_before_a_name() -> None:
    index = SkillIndex([make_skill("pdf", name="other"), make_skill("office/x", name="pdf")])

    assert index.resolve("pdf").path == "pdf"
    assert index.resolve("PDF").path == "office/x"


@pytest.mark.parametrize("wanted", ["review", "$Review"])
def test_a_name_of_several_skills_is_ambiguous_and_says_where_each_is(
    wanted: str,
) -> None:
    index = SkillIndex(
        [
            make_skill("~/.agents/skills/review", scope="user"),
            make_skill(".agents/skills/review", scope="repo"),
            make_skill("web/check", name="Review"),
            make_skill("api/review"),
            make_skill("api/other"),
        ]
    )

    with pytest.raises(AmbiguousNameError) as caught:
        index.resolve(wanted)

    assert str(caught.value).endswith(
        "Pass the path of the one you mean: api/review (org), web/check (org), "
        ".agents/skills/review (repo), ~/.agents/skills/review (user)."
    )


def test_a_name_of_very_many_skills_does_not_fill_an_answer() -> None:
    index = SkillIndex(make_skill(f"{number:03}/review") for number in range(500))

    with pytest.raises(AmbiguousNameError) as caught:
        index.resolve("review")

    assert "009/review (org) and 490 more." in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_hidden_skill_does_not_make_a_name_ambiguous() -> None:
    index = SkillIndex([make_skill("a/review"), make_skill("b/review")], Visibility(deny=("a/*",)))

    assert index.resolve("review").path == "b/review"


@pytest.mark.parametrize("wanted", ["a/review", "review", "$review", "A/Review"])
def test_a_name_that_only_hidden_skills_have_is_disabled(wanted: str) -> None:
    index = SkillIndex([make_skill("a/review"), make_skill("b/x")], Visibility(deny=("review",)))

    with pytest.raises(SkillDisabledError):
        index.resolve(wanted)


@pytest.mark.parametrize("wanted", ["", "$", "absent", "office", "pdf/", "$$pdf"])
def test_a_name_that_no_skill_has_is_not_found(wanted: str) -> None:
    with pytest.raises(SkillNotFoundError):
        index_of(["office/pdf"]).resolve(wanted)


def test_a_nested_package_has_the_parents_of_its_folder() -> None:
    index = index_of(["_root", "office/_index", "office/pdf", "office/pdf/forms"])

    assert lineage(index, "office/pdf") == ["_root", "office/_index", "office/pdf"]
    assert lineage(index, "office/pdf/forms") == [*("_root", "office/_index", "office/pdf/forms")]


@given(TREES, st.sets(NAMES, max_size=3))
def test_a_lineage_never_leads_over_what_is_denied(paths: set[str], denied: set[str]) -> None:
    everything = index_of(paths)
    index = SkillIndex(map(make_skill, paths), Visibility(deny=tuple(denied)))

    for skill in index:
        whole = lineage(everything, skill.path)
        kept = [each for each in whole if each.rsplit("/", 1)[-1] not in denied]
        assert lineage(index, skill.path) == kept


def test_a_skill_can_be_named_by_its_markdown_file() -> None:
    location = Path("/content/pdf/SKILL.md")
    skill = make_skill("pdf", file="pdf/SKILL.md", location=location)
    index = SkillIndex([skill, make_skill("other")])

    assert index.resolve("pdf/SKILL.md") is skill
    assert index.resolve("/content/pdf/SKILL.md") is skill


def see(index: SkillIndex, shown: Sequence[bool], asked: Sequence[bool]) -> SkillIndex:
    """Return an index as a caller sees it: for each row whether it is shown, asked."""
    paths = [row.path for row in index.rows]
    seen, wanted = (dict(zip(paths, each, strict=True)) for each in (shown, asked))
    its = index.seen(index.derive_caller_standing(lambda row: seen[row.path]))
    return its.seen(its.derive_request_standing(lambda row: wanted[row.path]))


TREE = ["_root", "a/_index", "a/b/_index", "a/b/c", "a/d"]


def test_what_a_caller_may_not_see_does_not_exist() -> None:
    index = see(index_of(TREE), [True, True, False, True, False], [True] * 5)

    assert [skill.path for skill in index] == ["_root", "a/_index", "a/b/c"]
    assert lineage(index, "a/b/c") == ["_root", "a/_index", "a/b/c"]
    assert index.get("a/d") is None
    assert index.hidden_count == 0


def test_hidden_and_missing_are_refused_in_the_same_words() -> None:
    every = index_of(["_root", "a/one", "a/two"])

    hidden = see(every, [True, True, False], [True] * 3)
    missing = index_of(["_root", "a/one"])

    for asked in ("a/two", "two", "TWO", "$two", "a/two.md", "tw"):
        assert str(hidden.not_found(asked)) == str(missing.not_found(asked))
        with pytest.raises(SkillNotFoundError) as found:
            hidden.resolve(asked)
        assert str(found.value) == str(missing.not_found(asked.removeprefix("$")))


def test_what_a_request_is_not_about_is_not_found_but_its_rules_hold() -> None:
    index = see(index_of(TREE), [True] * 5, [False, False, False, True, True])

    assert [skill.path for skill in index] == ["a/b/c", "a/d"]
    assert lineage(index, "a/b/c") == TREE[:4]
    with pytest.raises(SkillNotFoundError):
        index.require("a/_index")


def test_what_the_operator_denies_stays_denied_for_every_caller() -> None:
    rules = Visibility(deny=("a/_index",), allow=("a/**",))
    every = SkillIndex(map(make_skill, TREE), rules)

    index = see(every, [True] * 5, [True] * 5)

    assert lineage(index, "a/b/c") == ["_root", "a/b/_index", "a/b/c"]
    for path in ("_root", "a/_index"):
        with pytest.raises(SkillDisabledError):
            index.require(path)
    outside = see(every, [True] * 5, [False, False, True, True, True])
    assert lineage(outside, "a/b/c") == ["_root", "a/b/_index", "a/b/c"]
    with pytest.raises(SkillNotFoundError):
        outside.require("a/_index")


COPIES = [[SkillPath(path) for path in ("a/pdf", "b/pdf", "pdf")]]


def test_a_copy_that_is_seen_stands_for_a_skill_that_is_not() -> None:
    every = SkillIndex(map(make_skill, COPIES[0]), copies=COPIES)

    index = see(every, [False, True, True], [True] * 3)

    assert every.other_places(SkillPath("a/pdf")) == ("b/pdf", "pdf")
    assert [skill.path for skill in index] == ["b/pdf"]
    assert index.other_places(SkillPath("b/pdf")) == ("pdf",)
    assert index.get("a/pdf") is None


def test_without_rules_that_tell_them_apart_skills_become_copies() -> None:
    paths = ["a/_index", *COPIES[0]]
    every = SkillIndex(map(make_skill, paths), copies=COPIES)

    index = see(every, [False, True, True, True], [True] * 4)

    assert [skill.path for skill in every] == ["a/_index", "a/pdf", "b/pdf"]
    assert [skill.path for skill in index] == ["a/pdf"]
