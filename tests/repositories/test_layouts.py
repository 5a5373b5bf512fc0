"""Whatever a repository looks like: nothing is lost, and both kinds of source agree."""

import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repositories.census import settle, take_census
from repositories.layouts import LAYOUTS, make_layout, package, prose, rules
from repositories.tree import BRANCH, Tree
from repositories.visit import tell
from skills_mcp.config import Settings
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.skills.model import Problem, Skill, SkillPath
from skills_mcp.snapshots.skill_snapshot import Snapshot, take_snapshot
from tests.support import mounted, sync_all

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="some of the names cannot be written elsewhere"
)


class SeenSkills(NamedTuple):
    """What users get to see of a source."""

    skills: Mapping[SkillPath, tuple[Any, ...]]
    problems: list[tuple[Any, ...]]


def serve_folder(tree: Tree, folder: Path) -> Snapshot:
    return take_snapshot(sync_all(mounted(tree.write(folder))), Settings())


def serve_repository(tree: Tree, folder: Path) -> Snapshot:
    remote = Remote(tree.commit(folder / "bare.git"), BRANCH)
    source = RemoteBranch(remote, folder / "cache")
    return take_snapshot(sync_all(mounted(source)), Settings())


def look(snapshot: Snapshot) -> SeenSkills:
    skills = {skill.path: _show(skill) for skill in snapshot.index}
    shown = map(_show_problem, snapshot.problems)
    # A folder cannot tell that a submodule of its repository is not checked out.
    problems = sorted(each for each in shown if "submodule" not in each)
    return SeenSkills(skills, problems)


def _show(skill: Skill) -> tuple[Any, ...]:
    files = {file: stamp.size_bytes for file, stamp in skill.files.items()}
    head = (skill.file, skill.name, skill.description, skill.keywords, skill.category)
    return (*head, skill.body, skill.assets, skill.scripts, files, skill.inventory)


def _show_problem(problem: Problem) -> tuple[Any, ...]:
    about = (problem.file, problem.line, problem.rule, problem.level, problem.count)
    return (*about, problem.reason, problem.hint)


def assert_nothing_is_lost(tree: Tree, folder: Path) -> None:
    snapshot = serve_folder(tree, folder)

    told = tell(snapshot)

    account = settle(take_census(folder), told)
    assert account.lost == ()
    assert account.miscounted == ()
    errors = {p.file for p in told.problems if p.level == "error" and not p.count}
    assert errors.isdisjoint(skill.file for skill in snapshot.index)


def assert_both_say_the_same(tree: Tree, folder: Path) -> None:
    served = look(serve_folder(tree, folder / "folder"))

    fetched = look(serve_repository(tree, folder))

    assert fetched.skills == served.skills
    assert fetched.problems == served.problems


@pytest.mark.parametrize("name", LAYOUTS)
def test_nothing_of_a_layout_is_lost(tmp_path: Path, name: str) -> None:
    assert_nothing_is_lost(make_layout(name), tmp_path / "folder")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_and_a_repository_of_a_layout_say_the_same(tmp_path: Path, name: str) -> None:
    assert_both_say_the_same(make_layout(name), tmp_path)


MARKETPLACE = ".claude-plugin/marketplace.json"

TOP_PLUGIN = b'{"plugins": [{"name": "top", "source": "./"}]}'
LOST_FOLDERS = b"""{"plugins": [
    {"name": "web", "source": "./web", "skills": ["./gone", "../docs", "./pdf", 7]}
]}"""

FOUND_BEFORE = {
    "an empty main file": {"a/SKILL.md": b"", "b/SKILL.md": package("b")},
    "a hidden rule file of an unsafe name": {".claude/aux.md": rules("pdf")},
    "a package as the folder of a plugin": {
        MARKETPLACE: TOP_PLUGIN,
        "skills/SKILL.md": package("skills"),
        "con/SKILL.md": package("con"),
    },
    "a home without anything to serve": {"skills/.system/notes.md": prose("notes")},
    "a program's folder below an unsafe name": {"con/node_modules/SKILL.md": package("pdf")},
    "a manifest that names no folder": {
        MARKETPLACE: LOST_FOLDERS,
        "web/pdf/forms/SKILL.md": package("forms"),
        "docs/SKILL.md": package("docs"),
    },
    "a large file beside its folder": {
        "ui.md": bytes(9 * 1024 * 1024),
        "ui/forms/SKILL.md": package("forms"),
        "ui/rules.md": rules("ui"),
    },
}
"""Trees of which something was lost, or which the two kinds of source told apart."""


@pytest.mark.parametrize("name", FOUND_BEFORE)
def test_what_was_wrong_once_is_right(tmp_path: Path, name: str) -> None:
    tree = Tree(files=FOUND_BEFORE[name])

    assert_nothing_is_lost(tree, tmp_path / "alone")
    assert_both_say_the_same(tree, tmp_path)


FOLDERS = (
    *("skills", "plugins", ".claude", ".claude-plugin", ".system", "preview", "web"),
    *("pdf", "docs", "references", "node_modules", "_index", "con"),
)
NAMES = (
    *("SKILL.md", "SKILL.md", "SKILL.md", "skill.md", "Skill.MD", "_root.md"),
    *("_index.md", "README.md", "pdf.md", "web.md", "notes.md", "run.sh", "aux.md"),
    *("plugin.json", "marketplace.json", ".env"),
)
TARGETS = ("..", "nowhere", "pdf", "../pdf", "SKILL.md", "link", "/etc")

LISTING = b"""{"plugins": [
    {"name": "web", "source": "./web"},
    {"name": "docs", "source": "./docs", "skills": ["./pdf", "./skills"]},
    {"name": "top", "source": "./"},
    {"name": "far", "source": {"source": "github", "repo": "acme/far"}},
    {"name": "out", "source": "../out"}
]}"""

CONTENTS = (
    *(package("pdf"), package("web"), package("web"), package("pdf", tags=["a"])),
    *(rules("pdf"), rules("web"), prose("notes"), b"", b"---\n", b"\xff\0"),
    *(LISTING, b'{"name": "web", "skills": "./pdf"}', b"{"),
    rules("pdf", assets=[{"file": "notes.md", "description": "Notes"}]),
)

folders = st.lists(st.sampled_from(FOLDERS), max_size=4)
paths = st.builds(lambda above, name: "/".join([*above, name]), folders, st.sampled_from(NAMES))
linked = st.builds(
    lambda above, name: "/".join([*above, name]),
    folders,
    st.sampled_from([*FOLDERS, "SKILL.md", "pdf.md", "link"]),
)


def without_conflicts(
    files: Mapping[str, bytes], links: Mapping[str, str], listing: bytes | None
) -> Tree:
    """Return a tree in which no path is below a file or a link."""
    kept: dict[str, bytes] = dict(files)
    if listing is not None:
        kept[MARKETPLACE] = listing
    free = {
        link: target
        for link, target in links.items()
        if link not in kept and not any(each.startswith(f"{link}/") for each in kept)
    }
    outer = {link: target for link, target in free.items() if not _is_below(link, free.keys())}
    return Tree(files=kept, links=outer)


def _is_below(path: str, others: Iterable[str]) -> bool:
    return any(path.startswith(f"{other}/") for other in others)


trees = st.builds(
    without_conflicts,
    st.dictionaries(paths, st.sampled_from(CONTENTS), max_size=12),
    st.dictionaries(linked, st.sampled_from(TARGETS), max_size=2),
    st.none() | st.just(LISTING),
)


@given(trees)
def test_nothing_is_lost_in_any_tree(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_nothing_is_lost(tree, Path(folder, "folder"))


@given(trees)
def test_a_folder_and_a_repository_of_any_tree_say_the_same(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_both_say_the_same(tree, Path(folder))
