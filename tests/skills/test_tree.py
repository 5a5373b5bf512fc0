"""The skills as the folders that hold them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Visibility
from skills_mcp.skills.model import Asset, Script
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.tree_node import TreeNode, build_tree, find_node, render_node
from tests.support import make_skill


def tree_of(*paths: str) -> TreeNode:
    return build_tree(SkillIndex(map(make_skill, paths)))


def outline(node: TreeNode, indent: str = "") -> list[str]:
    lines = [f"{indent}{node.name} -> {node.path}"]
    for child in node.children:
        lines += outline(child, indent + "  ")
    return lines


def walk(node: TreeNode) -> Iterator[TreeNode]:
    yield node
    for child in node.children:
        yield from walk(child)


def about(node: TreeNode) -> str:
    return node.skill.description if node.skill else ""


@pytest.mark.spec("8.2")
def test_folders_hold_skills_and_folders_by_name() -> None:
    tree = tree_of(
        *("_root", "ui/_index", "ui/react/auth", "ui/react/_index"),
        *("ui/colours", "api/go/errors", "zero"),
    )

    assert outline(tree) == [
        "root -> _root",
        "  api -> api",
        "    go -> api/go",
        "      errors -> api/go/errors",
        "  ui -> ui/_index",
        "    colours -> ui/colours",
        "    react -> ui/react/_index",
        "      auth -> ui/react/auth",
        "  zero -> zero",
    ]


@pytest.mark.spec("8.2")
def test_a_node_says_what_its_skill_says() -> None:
    react = make_skill(
        "ui/react",
        keywords=("react", "jsx"),
        description="React rules",
        assets=(Asset("a", "", "other"), Asset("b", "", "other")),
        scripts=(Script("c.sh", "", "claude", ()),),
    )

    node = find_node(build_tree(SkillIndex([react])), "ui/react")

    assert node is not None
    assert render_node(node) == {
        "name": "react",
        "path": "ui/react",
        "description": "React rules",
        "keywords": ["react", "jsx"],
        "assetCount": 2,
        "scriptCount": 1,
        "children": [],
    }


@pytest.mark.spec("8.2")
def test_a_folder_without_an_index_has_only_a_name() -> None:
    node = find_node(tree_of("ui/react"), "ui")

    assert node is not None
    assert render_node(node) == {
        "name": "ui",
        "path": "ui",
        "description": "",
        "keywords": [],
        "assetCount": 0,
        "scriptCount": 0,
        "children": [
            {
                "name": "react",
                "path": "ui/react",
                "description": "About ui/react",
                "keywords": ["example"],
                "assetCount": 0,
                "scriptCount": 0,
                "children": [],
            }
        ],
    }


@pytest.mark.spec("8.2")
@pytest.mark.parametrize(
    "path, found",
    [
        ("ui", "ui/_index"),
        ("ui/", "ui/_index"),
        ("/ui", "ui/_index"),
        ("ui/_index", "ui/_index"),
        ("ui/react", "ui/react"),
        ("ui/react/auth", "ui/react/auth"),
        ("", "_root"),
        ("/", "_root"),
        ("_root", "_root"),
        ("react", None),
        ("ui/auth", None),
        ("ui/react/auth/x", None),
        ("UI", None),
        ("..", None),
    ],
)
def test_a_node_is_found_by_folder_or_by_skill(path: str, found: str | None) -> None:
    tree = tree_of("_root", "ui/_index", "ui/react/auth")

    node = find_node(tree, path)

    assert (node.path if node else None) == found


@pytest.mark.spec("8.2")
def test_a_package_that_holds_packages_is_their_folder() -> None:
    tree = tree_of("office/pdf", "office/pdf/forms", "office/pdf/examples/made/one")

    assert outline(tree) == [
        "root -> ",
        "  office -> office",
        "    pdf -> office/pdf",
        "      examples -> office/pdf/examples",
        "        made -> office/pdf/examples/made",
        "          one -> office/pdf/examples/made/one",
        "      forms -> office/pdf/forms",
    ]
    pdf = find_node(tree, "office/pdf")
    assert pdf is not None
    assert about(pdf) == "About office/pdf"


@pytest.mark.spec("8.2")
def test_a_package_and_the_rules_that_are_mounted_in_its_place_are_both_there() -> None:
    tree = tree_of("ui", "ui/_index", "ui/forms")

    assert outline(tree) == [
        "root -> ",
        "  ui -> ui",
        "    _index -> ui/_index",
        "    forms -> ui/forms",
    ]
    for path in ["ui", "ui/_index", "ui/forms"]:
        node = find_node(tree, path)
        assert node is not None
        assert about(node) == f"About {path}"


def test_only_skills_that_are_offered_stand_in_the_tree() -> None:
    skills = map(make_skill, ["_root", "ui/_index", "ui/forms", "ui/views"])
    rules = Visibility(deny=("ui/forms",), allow=("ui/*",))

    tree = build_tree(SkillIndex(skills, rules))

    assert outline(tree) == ["root -> ", "  ui -> ui/_index", "    views -> ui/views"]


def test_nothing_at_all_is_a_tree_without_children() -> None:
    assert outline(tree_of()) == ["root -> "]


FOLDERS = st.lists(st.sampled_from("abc"), max_size=3)
LAST = st.sampled_from(["a", "b", "c", "_index"])
TREES = st.sets(
    st.tuples(FOLDERS, LAST).map(lambda parts: "/".join([*parts[0], parts[1]])) | st.just("_root"),
    max_size=10,
)


@pytest.mark.spec("8.2")
@given(TREES)
def test_every_skill_stands_in_the_tree_once_and_can_be_found(paths: set[str]) -> None:
    tree = tree_of(*paths)

    described = [node.path for node in walk(tree) if about(node)]

    assert sorted(described) == sorted(paths)
    for node in walk(tree):
        assert find_node(tree, node.path) == node


def test_a_skill_says_where_its_copies_lie() -> None:
    skills = [make_skill("a/pdf"), make_skill("b/pdf"), make_skill("c")]
    index = SkillIndex(skills, copies=[[skills[1].path, skills[0].path]])

    tree = render_node(build_tree(index))

    [folder, other] = tree["children"]
    assert [child["path"] for child in folder["children"]] == ["b/pdf"]
    assert folder["children"][0]["alsoAt"] == ["a/pdf"]
    assert "alsoAt" not in other
    assert index.get("a/pdf") == index.get("b/pdf") == skills[1]
    assert (len(index), index.copy_count, index.hidden_count) == (2, 1, 0)
