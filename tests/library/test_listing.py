"""The part of the tree that fits into a reply, and the way to the others."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library.listing import MAX_SHORT_DESCRIPTION, Listing, compose_listing
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.tree_node import TreeNode, build_tree, find_node, render_node
from tests.support import make_skill

# The least that a setting allows, without what else is in a reply.
LEAST = 8_000


def tree_of(*paths: str) -> TreeNode:
    return build_tree(SkillIndex(map(make_skill, paths)))


def part(tree: TreeNode, **asked: Any) -> Listing:
    listing = compose_listing(tree, **{"max_characters": 40_000, **asked})
    assert listing is not None
    return listing


def pages(tree: TreeNode, **asked: Any) -> Iterator[Listing]:
    """Iterate over a listing and all that its cursors lead to."""
    page = part(tree, **asked)
    yield page
    while page.next_cursor is not None:
        limit = asked.get("max_characters", 40_000)
        page = part(tree, cursor=page.next_cursor, max_characters=limit)
        yield page


def rows(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Iterate over what a part has, in its order."""
    if "continued" not in node:
        yield node
    for child in node["children"]:
        yield from rows(child)


def skills_of(tree: TreeNode, page: Listing) -> list[str]:
    """Return the skills that a part shows."""
    found = ((row["path"], find_node(tree, row["path"])) for row in rows(page.tree))
    return [path for path, node in found if node and node.skill]


def characters(page: Listing) -> int:
    return len(json.dumps(page.tree, ensure_ascii=False))


# --- everything -----------------------------------------------------------------


def test_what_fits_is_listed_whole() -> None:
    tree = tree_of("_root", "ui/_index", "ui/react/auth", "zero")

    listing = part(tree)

    assert listing == Listing(tree=render_node(tree), total=4, displayed=4)


def test_a_part_of_the_tree_is_listed_whole_where_the_rest_would_not_fit() -> None:
    tree = tree_of("ui/auth", "ui/forms", *(f"api/s{n}" for n in range(400)))

    listing = part(tree, path="ui")

    assert (listing.depth, listing.total, listing.displayed) == (None, 2, 2)
    assert [row["path"] for row in rows(listing.tree)] == ["ui", "ui/auth", "ui/forms"]


def test_there_is_no_listing_of_what_is_not_there() -> None:
    assert compose_listing(tree_of("a"), path="b", max_characters=LEAST) is None


# --- areas ----------------------------------------------------------------------


def test_what_does_not_fit_ends_at_the_deepest_level_that_does() -> None:
    teams = [f"team-{n}" for n in range(10)]
    tree = tree_of(*(f"{team}/group-{n % 5}/s{n}" for team in teams for n in range(90)))

    listing = part(tree)

    assert listing.depth == 2
    assert (listing.total, listing.displayed, listing.areas) == (900, 0, 50)
    first, *_ = listing.tree["children"]
    assert (first["path"], "skillCount" in first) == ("team-0", False)
    group = first["children"][0]
    assert (group["path"], group["skillCount"]) == ("team-0/group-0", 18)
    assert group["children"] == []
    assert listing.next_cursor is None


def test_an_area_that_is_described_by_its_rules_counts_what_is_in_it() -> None:
    tree = tree_of("ui/_index", "ui/react/_index", "ui/react/auth", "pdf", "pdf/forms")

    listing = part(tree, depth=1)

    assert {row["path"]: row.get("skillCount") for row in rows(listing.tree)} == {
        "": None,
        "pdf": 1,
        "ui/_index": 2,
    }
    assert (listing.total, listing.displayed, listing.areas) == (5, 2, 2)


def test_folders_that_hold_one_folder_only_are_opened() -> None:
    tree = tree_of(*(f"acme/shared/skills/s{n:03}" for n in range(400)))

    listing = part(tree)

    assert listing.depth == 4
    assert listing.displayed > 100
    assert listing.areas == 0
    assert listing.next_cursor is not None


def test_a_level_of_areas_that_is_too_long_has_pages() -> None:
    tree = tree_of(*(f"team-{n:03}/{name}" for n in range(400) for name in "ab"))

    listed = list(pages(tree))

    assert len(listed) > 1
    assert sum(page.areas for page in listed) == 400
    assert {page.depth for page in listed} == {1}


# --- pages ----------------------------------------------------------------------


def test_a_flat_folder_has_pages() -> None:
    paths = [f"s{n:03}" for n in range(700)]
    tree = tree_of(*paths)

    listed = list(pages(tree))

    assert [path for page in listed for path in skills_of(tree, page)] == paths
    assert sum(page.displayed for page in listed) == 700
    assert {page.total for page in listed} == {700}
    assert all(characters(page) <= 40_000 for page in listed)
    assert len(listed) < 6


def test_a_page_goes_on_where_a_skill_has_gone() -> None:
    paths = [f"a/s{n:03}" for n in range(400)]
    first = part(tree_of(*paths))
    shown = [row["path"] for row in rows(first.tree)][2:]

    later = tree_of(*(path for path in paths if path != shown[-1]))
    second = part(later, cursor=first.next_cursor)

    assert skills_of(later, second)[0] == paths[len(shown)]


@pytest.mark.parametrize(
    "cursor", ["", "x", "1:0", "0:0:a", "101:0:a", "1:1:a", "1:2:a/b/c", "-1:0:a"]
)
def test_a_cursor_that_was_made_up_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"cursor: .*begin again"):
        part(tree_of("a", "b"), cursor=cursor)


def test_a_cursor_of_a_folder_that_has_gone_is_refused() -> None:
    tree = tree_of(*(f"ui/s{n:03}" for n in range(400)))
    cursor = part(tree, path="ui").next_cursor

    with pytest.raises(InvalidArgumentsError, match="skills have changed"):
        part(tree_of("api/x"), cursor=cursor)


@pytest.mark.parametrize("asked", [{"depth": 2}, {"path": "api"}, {"path": "gone"}])
def test_a_cursor_of_another_listing_is_refused(asked: dict[str, Any]) -> None:
    tree = tree_of("api/x", *(f"ui/s{n:03}" for n in range(400)))
    cursor = part(tree, path="ui").next_cursor

    with pytest.raises(InvalidArgumentsError, match="another path or depth"):
        part(tree, cursor=cursor, **asked)


@pytest.mark.parametrize("path", ["ui", "ui/", "ui/_index"])
def test_a_cursor_may_be_passed_with_what_it_goes_on_with(path: str) -> None:
    tree = tree_of("ui/_index", *(f"ui/s{n:03}" for n in range(400)))
    cursor = part(tree, path="ui").next_cursor

    assert part(tree, cursor=cursor, path=path, depth=1) == part(tree, cursor=cursor)


# --- texts ----------------------------------------------------------------------


def test_texts_are_shortened_only_where_not_everything_fits() -> None:
    long = make_skill("a", description="word " * 100, keywords=["k" * 30] * 10)
    others = [make_skill(f"s{n}") for n in range(400)]

    alone = part(build_tree(SkillIndex([long])))
    among = part(build_tree(SkillIndex([long, *others])))

    [_, whole] = rows(alone.tree)
    assert (whole["description"], alone.is_shortened) == (long.description, False)
    [_, cut, *_] = rows(among.tree)
    assert among.is_shortened
    assert len(cut["description"]) <= MAX_SHORT_DESCRIPTION
    assert cut["description"].endswith("word…")
    assert cut["keywords"] == ["k" * 30] * 3


def test_a_skill_of_very_many_copies_names_the_first_ones() -> None:
    paths = [SkillPath(f"{'c' * 60}{n:03}/copy") for n in range(400)]
    others = [make_skill(f"s{n}") for n in range(300)]
    skills = [*map(make_skill, paths), *others]
    tree = build_tree(SkillIndex(skills, copies=[paths]))

    [_, folder, copy, *_] = rows(part(tree, depth=2).tree)

    assert (folder["path"], copy["path"]) == (f"{'c' * 60}000", paths[0])
    assert copy["alsoAt"] == paths[1:3]
    assert all(characters(page) <= 40_000 for page in pages(tree))


def test_shortened_texts_are_better_than_pages() -> None:
    tree = build_tree(SkillIndex(make_skill(f"s{n:03}", description="x" * 500) for n in range(100)))

    listing = part(tree)

    assert (listing.displayed, listing.next_cursor) == (100, None)
    assert listing.is_shortened


def test_a_text_that_is_longer_than_a_page_is_shortened() -> None:
    tree = build_tree(SkillIndex([make_skill("a/b", description="x" * 50_000)]))

    for path in ("", "a", "a/b"):
        listing = part(tree, path=path)

        assert characters(listing) < 1000
        assert listing.is_shortened


# --- any tree -------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "a-b", "Z", "0", "x" * 40])
FOLDERS = st.lists(NAMES, max_size=4)
LAST = NAMES | st.just("_index")
ROOM = st.integers(2_500, 9_000)  # less than a setting allows, for more pages
PATHS = st.sets(
    st.tuples(FOLDERS, LAST).map(lambda parts: "/".join([*parts[0], parts[1]])) | st.just("_root"),
    min_size=10,
    max_size=60,
)
TEXTS = st.sampled_from(["", "Short", "a long one " * 30, '"' * 9_000, "\n" * 300])


@st.composite
def made(draw: st.DrawFn) -> Sequence[Skill]:
    return [
        make_skill(path, description=draw(TEXTS), keywords=[draw(TEXTS)])
        for path in sorted(draw(PATHS))
    ]


def in_order(node: TreeNode) -> Iterator[str]:
    if node.skill:
        yield node.path
    for child in node.children:
        yield from in_order(child)


DEPTHS = st.none() | st.integers(1, 6)


@given(made(), ROOM, DEPTHS)
def test_pages_list_each_skill_once_and_in_the_order_of_the_tree(
    skills: Sequence[Skill], limit: int, depth: int | None
) -> None:
    tree = build_tree(SkillIndex(skills))

    def browse(path: str) -> Iterator[str]:
        for page in pages(tree, path=path, depth=depth, max_characters=limit):
            assert characters(page) <= limit
            assert page.displayed == len(skills_of(tree, page))
            for row in rows(page.tree):
                node = find_node(tree, row["path"])
                assert node is not None
                if node.skill:
                    yield row["path"]
                if "skillCount" in row:
                    [*inside] = browse(row["path"])
                    if node.skill:
                        assert inside.pop(0) == row["path"]
                    assert len(inside) == row["skillCount"]
                    yield from inside

    assert list(browse("")) == list(in_order(tree))
