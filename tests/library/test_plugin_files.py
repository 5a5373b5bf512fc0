"""A file of a plugin outside of its skills is read if a skill of the plugin names it."""

from pathlib import Path

import pytest

from skills_mcp.bootstrap import Options, build
from skills_mcp.errors import InvalidPathError, SkillsError, UndeclaredFileError
from skills_mcp.features.export.commands.export import export_skills
from skills_mcp.features.export.layout import LockedSettings
from skills_mcp.library.skill_library import LibraryView
from skills_mcp.server.replies import skill_result
from tests.support import Upstream, open_library, write

PLUGIN = "plugins/office"
TEXT = """---
name: pdf
description: Fills forms of PDF files.
---
Run `bash ${CLAUDE_PLUGIN_ROOT}/scripts/fill.sh`, and read [notes](../../docs/notes.md).
Not there: ${CLAUDE_PLUGIN_ROOT}/gone.sh ${CLAUDE_PLUGIN_ROOT}/../../top.txt
Another's: ${CLAUDE_PLUGIN_ROOT}/skills/fax/SKILL.md ../fax/dial.py ../../rules/pay.md
Never: ${CLAUDE_PLUGIN_ROOT}/.env ${CLAUDE_PLUGIN_ROOT}/.git/config ${CLAUDE_PLUGIN_ROOT}/link.sh
"""
FILES = {
    f"{PLUGIN}/.claude-plugin/plugin.json": '{"name": "office"}',
    f"{PLUGIN}/skills/pdf/SKILL.md": TEXT,
    f"{PLUGIN}/skills/fax/SKILL.md": "---\nname: fax\ndescription: Sends a fax.\n---\nDial.\n",
    f"{PLUGIN}/skills/fax/dial.py": "dial()\n",
    f"{PLUGIN}/scripts/fill.sh": "fill\n",
    f"{PLUGIN}/scripts/unnamed.sh": "other\n",
    f"{PLUGIN}/docs/notes.md": "Take notes.\n",
    f"{PLUGIN}/.env": "TOKEN=1\n",
    "top.txt": "top\n",
}
RULES = "---\ndescription: Pay.\nkeywords: [pay]\n---\nSecret.\n"
NAMES = ["${CLAUDE_PLUGIN_ROOT}/scripts/fill.sh", "${CLAUDE_PLUGIN_ROOT}/docs/notes.md"]


@pytest.fixture
def folder(tmp_path: Path) -> LibraryView:
    top = tmp_path / "content"
    for file, text in {**FILES, f"{PLUGIN}/rules/pay.md": RULES}.items():
        write(top / file, text)
    write(top / PLUGIN / ".git/config", "[core]\n")
    (top / PLUGIN / "link.sh").symlink_to(top / "top.txt")
    return open_library(top).view()


@pytest.fixture
def commit(upstream: Upstream, tmp_path: Path) -> LibraryView:
    upstream.commit({**FILES, f"{PLUGIN}/rules/pay.md": RULES})
    library = build(Options(repo=upstream.url), {"SKILLS_MCP_HOME": str(tmp_path / "h")}).library
    library.sync()
    return library.view()


@pytest.mark.parametrize("source", ["folder", "commit"])
def test_files_of_a_plugin_are_read_as_the_text_names_them(
    source: str, request: pytest.FixtureRequest
) -> None:
    view: LibraryView = request.getfixturevalue(source)

    script = view.read_file("pdf", "${CLAUDE_PLUGIN_ROOT}/scripts/fill.sh")
    page = view.read_file("pdf", "../../docs/notes.md")
    asset = view.read_asset("pdf", "$CLAUDE_PLUGIN_ROOT/scripts/fill.sh")
    listed = skill_result(view.load_skill("pdf")).data["files"]

    assert (script.text, script.file) == ("fill\n", NAMES[0])
    assert script.provenance.path == f"{PLUGIN}/scripts/fill.sh"
    assert (page.text, page.file) == ("Take notes.\n", NAMES[1])
    assert (asset.content.data, asset.file) == (b"fill\n", NAMES[0])
    assert listed == ["SKILL.md", *NAMES]


def test_files_of_a_plugin_are_looked_up_once_for_a_commit(commit: LibraryView) -> None:
    skill = commit.load_skill("pdf").skill
    assert skill.directory is not None
    plugin = skill.directory.parents[1]
    plugin.rename(plugin.with_name("elsewhere"))

    assert commit.load_skill("pdf").plugin_files == tuple(NAMES)


def test_an_edit_in_a_folder_counts_at_once(folder: LibraryView) -> None:
    skill = folder.load_skill("pdf").skill
    assert skill.directory is not None
    (skill.directory.parents[1] / "scripts/fill.sh").unlink()

    assert folder.load_skill("pdf").plugin_files == (NAMES[1],)


@pytest.mark.parametrize("source", ["folder", "commit"])
def test_no_other_file_is_read_through_the_text_of_a_skill(
    source: str, request: pytest.FixtureRequest
) -> None:
    view: LibraryView = request.getfixturevalue(source)
    refused = [
        *("scripts/unnamed.sh", "gone.sh", "../../top.txt", "skills/fax/SKILL.md"),
        *("skills/fax/dial.py", "rules/pay.md", ".env", ".git/config", "link.sh"),
    ]

    for file in [f"${{CLAUDE_PLUGIN_ROOT}}/{name}" for name in refused]:
        for read in (view.read_file, view.read_asset):
            with pytest.raises((UndeclaredFileError, InvalidPathError)):
                read("pdf", file)
    with pytest.raises(SkillsError):
        view.read_file("fax", NAMES[0])


def test_a_commit_is_exported_with_the_files_of_plugins_that_are_named(
    commit: LibraryView,
) -> None:
    [part] = commit.snapshot.content.parts
    top = part.checkout.directory

    assert (top / PLUGIN / "scripts/fill.sh").is_file()
    assert not (top / PLUGIN / "scripts/unnamed.sh").exists()
    assert not (top / PLUGIN / ".env").exists()


def test_an_export_says_which_files_of_a_plugin_it_lacks(
    folder: LibraryView, tmp_path: Path
) -> None:
    settings = LockedSettings(format="plain", raw=False, select=())

    remarks = export_skills(folder, tmp_path / "out", settings).remarks

    assert [name for name in NAMES if name in " ".join(remarks)] == NAMES
    assert [file.name for file in (tmp_path / "out/pdf").iterdir()] == ["SKILL.md"]


def test_a_folder_of_skills_is_no_plugin_with_what_lies_above(tmp_path: Path) -> None:
    write(tmp_path / "skills/pdf/SKILL.md", TEXT)
    write(tmp_path / "scripts/fill.sh", "fill\n")
    write(tmp_path / ".claude-plugin/plugin.json", "{}")

    view = open_library(tmp_path / "skills").view()

    with pytest.raises(UndeclaredFileError):
        view.read_file("pdf", NAMES[0])
