"""Where skills begin in a source, in each layout."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.content.git.object_store import CommitTree, TreeEntry
from skills_mcp.skills.source_layout import (
    MARKETPLACE_MANIFEST,
    FileTree,
    FolderTree,
    Layout,
    Selection,
    find_layout,
)
from tests.support import write

PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\n"
Files = dict[str, str]


def in_folder(tmp_path: Path, files: Files) -> FileTree:
    (tmp_path / "content").mkdir(exist_ok=True)
    for file, text in files.items():
        write(tmp_path / "content" / file, text)
    return FolderTree(tmp_path / "content")


def in_commit(files: Files) -> FileTree:
    entries = [
        TreeEntry(file, str(number), len(text), is_executable=False)
        for number, (file, text) in enumerate(files.items())
    ]
    texts = list(files.values())
    return CommitTree(entries, lambda blobs: [texts[int(blob)].encode() for blob in blobs])


def layout_of(tmp_path: Path, files: Files, **selected: Any) -> Layout:
    """Return the layout, which is the same in a folder and in a commit."""
    selection = Selection(**selected)
    layout = find_layout(in_folder(tmp_path, files), selection)
    assert find_layout(in_commit(files), selection) == layout
    return layout


def homes(layout: Layout) -> dict[str, str]:
    """Return the prefix of each home by its folder, which is `.` at the top."""
    return {home.folder or ".": home.prefix for home in layout.homes}


def packages(*folders: str) -> Files:
    return {f"{folder}/SKILL.md": PACKAGE for folder in folders}


def market(*plugins: object, **more: object) -> Files:
    return {MARKETPLACE_MANIFEST: json.dumps({"plugins": plugins, **more})}


@pytest.mark.parametrize(
    "files, expected",
    [
        ({}, {".": ""}),
        (packages("pdf"), {".": ""}),
        (packages("skills/pdf"), {"skills": ""}),
        ({"_root.md": "x", **packages("skills/pdf")}, {".": ""}),
        ({"SKILL.md": PACKAGE, **packages("skills/pdf")}, {".": ""}),
        (
            packages("skills/a", ".github/skills/b", ".claude/skills/c"),
            {"skills": "", ".claude/skills": ".claude/", ".github/skills": ".github/"},
        ),
        (packages("a", ".claude/skills/c"), {".": "", ".claude/skills": ".claude/"}),
        (packages("skills/a", ".git/skills/c", ".github/c"), {"skills": ""}),
        (
            packages("plugins/office/skills/pdf"),
            {".": "", "plugins/office/skills": "office/"},
        ),
        (
            packages("skills/a", "plugins/cloud/aws/skills/s3"),
            {"skills": "", "plugins/cloud/aws/skills": "cloud/aws/"},
        ),
        (packages("skills/a", "plugins/1/2/3/4/5/skills/x"), {"skills": ""}),
        (packages("skills/a", "plugins/node_modules/skills/x"), {"skills": ""}),
        (packages("skills/a", "plugins/pdf", "plugins/pdf/skills/x"), {"skills": ""}),
    ],
)
def test_skills_begin_in_each_usual_folder(
    tmp_path: Path, files: Files, expected: dict[str, str]
) -> None:
    layout = layout_of(tmp_path, files)

    assert homes(layout) == expected
    assert layout.problems == ()


def test_only_packages_are_skills_in_a_hidden_home(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, packages("skills/a", ".github/skills/b"))

    assert [home.packages_only for home in layout.homes] == [False, True]


def test_a_home_shows_its_files_where_they_are(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, packages("skills/a", "plugins/office/skills/b"))

    own, plugin = [home.at(tmp_path, "teams/", "org") for home in layout.homes]

    assert (own.prefix, own.file_prefix) == ("teams/", "teams/")
    assert (plugin.prefix, plugin.file_prefix) == (
        "teams/office/",
        "teams/plugins/office/skills/",
    )


# --- a marketplace ------------------------------------------------------------


@pytest.mark.parametrize(
    "plugin, more, folder",
    [
        ({"name": "office", "source": "./tools/office"}, {}, "tools/office/skills"),
        ({"name": "office", "source": "tools/office/"}, {}, "tools/office/skills"),
        (
            {"name": "office", "source": "office"},
            {"metadata": {"pluginRoot": "./tools"}},
            "tools/office/skills",
        ),
        (
            {"name": "office", "source": "./tools/office", "skills": "./extra"},
            {},
            "tools/office/extra",
        ),
    ],
)
def test_the_marketplace_says_where_plugins_are(
    tmp_path: Path, plugin: dict[str, str], more: dict[str, object], folder: str
) -> None:
    files = {
        **market(plugin, **more),
        **packages("skills/a", "tools/office/skills/pdf", "tools/office/extra/x"),
    }

    layout = layout_of(tmp_path, files)

    assert homes(layout)[folder] == "office/"
    assert layout.problems == ()


def test_a_plugin_says_itself_where_its_skills_are(tmp_path: Path) -> None:
    own = {"plugins/office/.claude-plugin/plugin.json": '{"skills": ["./extra"]}'}
    files = {**own, **packages("skills/a", "plugins/office/extra/pdf")}

    layout = layout_of(tmp_path, files)

    assert homes(layout) == {"skills": "", "plugins/office/extra": "office/"}


def test_a_plugin_may_name_its_packages_one_by_one(tmp_path: Path) -> None:
    plugin = {"name": "docs", "source": "./", "skills": ["./skills/pdf", "./skills/x"]}
    files = {**market(plugin), **packages("skills/pdf", "skills/x", "skills/other")}

    whole = layout_of(tmp_path, files)
    picked = layout_of(tmp_path, files, plugins=("docs",))

    assert homes(whole) == {"skills": ""}
    assert [home.only for home in whole.homes] == [()]
    assert [set(home.parts) for home in picked.homes] == [{"skills/pdf", "skills/x"}]


def test_a_plugin_may_be_one_package(tmp_path: Path) -> None:
    plugin = {"name": "office", "source": "./tools/office"}
    files = {**market(plugin), **packages("skills/a", "tools/office")}

    layout = layout_of(tmp_path, files)

    [_, home] = layout.homes
    assert (home.folder, home.only, home.prefix) == ("tools", ("tools/office",), "")


@pytest.mark.parametrize(
    "plugin, said",
    [
        ({"source": "./a"}, "has a plugin without a name"),
        ("text", "has a plugin without a name"),
        ({"name": "x", "source": {"source": "github"}}, "in another repository"),
        ({"name": "x"}, "in another repository"),
        ({"name": "x", "source": "../.."}, "whose source is no folder in here"),
        ({"name": "x", "source": "/etc"}, "whose source is no folder in here"),
        ({"name": "x", "source": "./absent"}, "whose source is no folder in here"),
        ({"name": "x", "source": "./a", "skills": ["../b"]}, "'../b' of a, which is no"),
    ],
)
def test_what_is_not_in_this_source_is_a_problem_and_is_not_looked_at(
    tmp_path: Path, plugin: object, said: str
) -> None:
    files = {**market(plugin), **packages("skills/a", "a/inner/x", "b/c")}
    write(tmp_path / "skills/secret/SKILL.md", PACKAGE)

    layout = layout_of(tmp_path, files)

    assert homes(layout) == {"skills": ""}
    [problem] = layout.problems
    assert said in problem.reason
    assert (problem.level, problem.rule) == ("warning", "manifest")
    assert problem.hint


@pytest.mark.parametrize(
    "plugin, said",
    [
        ({"source": {"source": "github"}}, "233 plugins, which lie in other repositories"),
        ({"source": "./absent"}, "233 plugins, whose sources are no folders in here"),
        ({"source": "./a", "skills": "./absent"}, "233 folders of skills that are not there"),
    ],
)
def test_hundreds_of_plugins_with_one_fault_are_one_line_with_their_number(
    tmp_path: Path, plugin: dict[str, object], said: str
) -> None:
    plugins = [{**plugin, "name": f"p{number}"} for number in range(233)]
    files = {**market(*plugins), **packages("skills/a", "a/inner/x")}

    [problem] = layout_of(tmp_path, files).problems

    assert said in problem.reason
    assert len(problem.reason) < 300


@pytest.mark.parametrize("text", ["{", "[]", "null", "[" * 100_000, '{"plugins": 3}'])
def test_a_broken_marketplace_costs_nothing_but_itself(tmp_path: Path, text: str) -> None:
    layout = layout_of(tmp_path, {MARKETPLACE_MANIFEST: text, **packages("skills/a")})

    assert homes(layout) == {"skills": ""}
    broken = [] if "plugins" in text else [(MARKETPLACE_MANIFEST, "manifest")]
    assert [(each.file, each.rule) for each in layout.problems] == broken


@pytest.mark.parametrize("name", ["a/b", "..", "", "x\x1b[2J", "a\\b", "~"])
def test_a_plugin_whose_name_is_no_path_is_called_like_its_folder(
    tmp_path: Path, name: str
) -> None:
    plugin = {"name": name, "source": "./tools/office"}
    files = {**market(plugin), **packages("skills/a", "tools/office/skills/pdf")}

    assert homes(layout_of(tmp_path, files))["tools/office/skills"] == "office/"


def test_of_two_plugins_with_one_name_the_second_has_that_of_its_place(
    tmp_path: Path,
) -> None:
    plugins = [{"name": "x", "source": "./a"}, {"name": "x", "source": "./b"}]
    files = {**market(*plugins), **packages("skills/s", "a/skills/p", "b/skills/p")}

    assert homes(layout_of(tmp_path, files)) == {
        "skills": "",
        "a/skills": "x/",
        "b/skills": "b/",
    }


def test_a_folder_of_a_commit_that_leads_outside_is_no_home() -> None:
    files = packages("skills/a", "plugins/../skills/x", "../skills/y")

    layout = find_layout(in_commit(files), Selection())

    assert homes(layout) == {"skills": ""}


# --- what the operator picks --------------------------------------------------

THREE = packages(
    "skills/a",
    *(f"plugins/{name}/skills/x" for name in ("cloud-aws", "cloud-gcp", "office")),
)


@pytest.mark.parametrize(
    "wanted, expected",
    [
        (("office",), {"office/"}),
        (("cloud-*",), {"cloud-aws/", "cloud-gcp/"}),
        (("office", "cloud-aws"), {"cloud-aws/", "office/"}),
    ],
)
def test_only_the_plugins_that_are_picked_are_homes(
    tmp_path: Path, wanted: tuple[str, ...], expected: set[str]
) -> None:
    layout = layout_of(tmp_path, THREE, plugins=wanted)

    assert set(homes(layout).values()) == expected
    assert layout.problems == ()
    assert layout.is_picked


def test_a_pick_that_fits_no_plugin_is_a_problem_that_names_the_plugins(
    tmp_path: Path,
) -> None:
    layout = layout_of(tmp_path, THREE, plugins=("offfice",))

    assert layout.homes == ()
    [problem] = layout.problems
    assert (problem.level, problem.rule) == ("warning", "plugin-unknown")
    assert "'offfice'" in problem.reason
    assert "cloud-aws, cloud-gcp, office" in problem.hint


def test_everywhere_adds_the_top_without_the_homes_in_it(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, {**THREE, **packages("evals/x")}, everywhere=True)

    last = layout.homes[-1]
    assert (last.folder, last.prefix) == ("", "")
    assert set(last.without) == {home.folder for home in layout.homes[:-1]}


@pytest.mark.parametrize("subfolder, folder", [("team/", "team"), (".", "")])
def test_a_subfolder_is_the_only_home(tmp_path: Path, subfolder: str, folder: str) -> None:
    layout = layout_of(tmp_path, {**THREE, "team/a.md": "x"}, subfolder=subfolder)

    assert [home.folder for home in layout.homes] == [folder]


def test_a_subfolder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    layout = layout_of(tmp_path, THREE, subfolder="absent")

    assert layout.homes == ()
    assert [(each.file, each.rule) for each in layout.problems] == [("absent", "subfolder")]
