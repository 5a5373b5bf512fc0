"""Folders without a server: what is written, kept and removed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.errors import ExportError
from skills_mcp.features.export.commands.export import (
    ExportReport,
    export_skills,
    plan_export,
    verify_folder,
)
from skills_mcp.features.export.layout import (
    EXPORT_LOCK_FILE,
    WELL_KNOWN_INDEX,
    LockedSettings,
    detect_format,
    read_lock,
)
from tests.packages import write_package
from tests.support import SKILLS_CONTENT, open_library, write, write_skill

PLAIN = LockedSettings(format="plain", raw=False, select=())


def export(content: Path, target: Path, settings: LockedSettings = PLAIN) -> ExportReport:
    return export_skills(open_library(content).view(), target, settings)


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, and that no folder is empty."""
    assert all(any(each.iterdir()) for each in folder.rglob("*") if each.is_dir())
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.fixture
def content(tmp_path: Path) -> Path:
    root = tmp_path / "content"
    write_skill(root, "_root.md", body="For every task.")
    write_skill(root, "ui/auth.md", body="Sign in.", keywords=["login", "react"])
    write_package(root, "pdf", {"scripts/fill.py": "#!/usr/bin/env python3\n"})
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_a_skill_is_a_legal_package_with_the_rules_above_it(content: Path, target: Path) -> None:
    report = export(content, target)

    name = "auth"
    text = (target / name / "SKILL.md").read_text("utf-8")
    fields = yaml.safe_load(text.split("---\n")[1])
    assert report.skills == 2
    assert sorted(each.name for each in target.iterdir()) == [name, "pdf", EXPORT_LOCK_FILE]
    assert fields["name"] == name
    assert fields["metadata"] == {"keywords": "login, react", "path": "ui/auth"}
    assert text.index("For every task.") < text.index("Sign in.")
    assert "(from ui/auth.md) ===" in text


def test_files_lie_beside_it_and_programs_can_be_run(content: Path, target: Path) -> None:
    export(content, target)

    script = target / "pdf/scripts/fill.py"
    assert script.read_text() == "#!/usr/bin/env python3\n"
    assert os.access(script, os.X_OK)


def test_raw_leaves_the_rules_above_out(content: Path, target: Path) -> None:
    export(content, target, PLAIN.model_copy(update={"raw": True}))

    text = (target / "auth" / "SKILL.md").read_text("utf-8")
    assert text.endswith("---\n\nSign in.\n")


def test_the_same_content_has_the_same_bytes(content: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(content, tmp_path / "elsewhere/content")

    export(content, tmp_path / "one")
    export(moved, tmp_path / "two")

    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_a_second_export_has_nothing_to_do(content: Path, target: Path) -> None:
    export(content, target)
    before = {file: file.stat().st_ino for file in target.rglob("*")}

    report = export(content, target)

    assert report.is_current
    assert {file: file.stat().st_ino for file in target.rglob("*")} == before


def test_what_was_edited_or_is_of_others_is_kept_and_named(content: Path, target: Path) -> None:
    theirs = write(target / "mine/SKILL.md", "my own")
    taken = write(target / "pdf/SKILL.md", "was here before")
    export(content, target)
    edited = write(target / "auth" / "SKILL.md", "edited")
    write_skill(content, "ui/auth.md", body="Changed.")

    report = export(content, target)

    assert (theirs.read_text(), taken.read_text()) == ("my own", "was here before")
    assert edited.read_text() == "edited"
    assert report.kept == ["auth/SKILL.md"]


def test_what_is_gone_from_the_content_is_removed_unless_it_was_edited(
    content: Path, target: Path
) -> None:
    export(content, target)
    edited = write(target / "pdf/SKILL.md", "edited")
    shutil.rmtree(content / "pdf")
    (content / "ui/auth.md").unlink()

    report = export(content, target)

    assert sorted(tree(target)) == ["pdf/SKILL.md", EXPORT_LOCK_FILE]
    assert report.kept == ["pdf/SKILL.md"]
    assert edited.read_text() == "edited"


def test_nothing_is_written_through_a_link(content: Path, target: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target.mkdir()
    (target / "pdf").symlink_to(elsewhere)

    report = export(content, target)

    assert not [*elsewhere.iterdir()]
    assert (report.kept, report.skills) == ([], 2)


def test_a_check_writes_nothing_and_says_what_an_export_would_do(
    content: Path, target: Path
) -> None:
    export(content, target)
    before = tree(target)
    write_skill(content, "new.md")

    report = plan_export(open_library(content).view(), target, PLAIN)

    assert report.written == ["new/SKILL.md"]
    assert not report.is_current
    assert tree(target) == before


def test_each_kind_of_difference_is_found(content: Path, target: Path) -> None:
    export(content, target)
    assert verify_folder(target)[1] == ()
    (target / "pdf/SKILL.md").unlink()
    write(target / "pdf/scripts/fill.py", "edited")
    write(target / "pdf/more.md", "added")
    write(target / "other/SKILL.md", "of somebody else")

    found = verify_folder(target)[1]

    assert {(each.kind, each.file) for each in found} == {
        ("missing", "pdf/SKILL.md"),
        ("edited", "pdf/scripts/fill.py"),
        ("added", "pdf/more.md"),
    }


@pytest.mark.parametrize("name", ["../mine", "/etc", "pdf/../../mine", ""])
def test_a_lock_that_names_files_elsewhere_is_refused(
    content: Path, target: Path, name: str
) -> None:
    theirs = write(target.parent / "mine/SKILL.md", "my own")
    export(content, target)
    lock = json.loads((target / EXPORT_LOCK_FILE).read_text())
    digest = sha256(b"my own").hexdigest()
    lock["skills"][name] = {"path": "x", "files": {"SKILL.md": digest}}
    (target / EXPORT_LOCK_FILE).write_text(json.dumps(lock))

    with pytest.raises(ExportError, match="which is no path in the folder"):
        export(content, target)
    with pytest.raises(ExportError, match="which is no path in the folder"):
        verify_folder(target)

    assert theirs.read_text() == "my own"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', "\0"])
def test_a_lock_that_cannot_be_read_stops_the_export(
    content: Path, target: Path, text: str
) -> None:
    export(content, target)
    (target / EXPORT_LOCK_FILE).write_text(text)
    before = tree(target)

    with pytest.raises(ExportError, match="cannot be read"):
        export(content, target)

    assert tree(target) == before


@pytest.mark.parametrize(
    "folder, name",
    [
        (".claude/skills", "claude"),
        ("a/.agents/skills", "agents"),
        (".gemini/skills", "gemini"),
        (".github/skills", "copilot"),
        ("out", "plain"),
    ],
)
def test_the_folder_says_for_whom_it_is(folder: str, name: str) -> None:
    assert detect_format(Path(folder)) == name


def test_keys_of_claude_code_are_for_claude_code(content: Path, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"argument-hint": "[file]", "license": "MIT"}
    write_package(content, "pdf", **fields)

    export(content, tmp_path / "a", PLAIN.model_copy(update={"format": "claude"}))
    export(content, tmp_path / "b")

    claude, plain = (tmp_path / each / "pdf/SKILL.md" for each in "ab")
    assert "argument-hint" in claude.read_text()
    assert "argument-hint" not in plain.read_text()
    assert "license" in plain.read_text()


_FILES = ("a.md", "b/_index.md", "b/c.md", "b/c/assets/x.txt", "_root.md")
_PACKAGES = ("p/SKILL.md", "q/p/SKILL.md", "p/ref", "p/ref/x.md")
_STATES = st.dictionaries(
    st.sampled_from((*_FILES, *_PACKAGES)), st.sampled_from("xyz"), max_size=7
)


def _fill(folder: Path, state: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file, word in sorted(state.items()):
        if any(f"{each}/" in file for each in state):
            continue  # a file cannot be a folder, too
        if file.endswith("SKILL.md"):
            write_package(folder, file.removesuffix("/SKILL.md"), body=word)
        elif file.endswith(".md") and "ref" not in file:
            assets = [{"file": "assets/x.txt"}] if file == "b/c.md" else []
            write_skill(folder, file, body=word, assets=assets)
        else:
            write(folder / file, word)


def _read_lock(folder: Path) -> str:
    return (folder / EXPORT_LOCK_FILE).read_text("utf-8")


@given(st.lists(_STATES, min_size=2, max_size=4))
def test_after_any_change_the_folder_is_a_fresh_export(
    states: list[dict[str, str]],
) -> None:
    with TemporaryDirectory() as place:
        content, target = Path(place) / "content", Path(place) / "out"
        for number, state in enumerate(states):
            _fill(content, state)
            if number:  # the names of the lock stay
                write(Path(place) / str(number) / EXPORT_LOCK_FILE, _read_lock(target))
            export(content, Path(place) / str(number))
            report = export(content, target)
            assert tree(target) == tree(Path(place) / str(number))
            assert report.kept == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from skills_mcp.features.export.commands import export as folder
from tests.features.export.test_folder import export

left = int(sys.argv[3])
write = folder._write_file

def write_some(place, data):
    global left
    if left == 0:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder._derive_staging_path(place, folder._digest(data)).write_bytes(data[:3])
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    write(place, data)

folder._write_file = write_some
export(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_an_export_that_was_killed_is_healed_by_the_next(
    content: Path, target: Path, tmp_path: Path, writes: int
) -> None:
    export(content, target)
    theirs = write(target / "mine/.new-1", "my own")
    write_skill(content, "_root.md", body="Other rules.")
    write_skill(content, "new.md")
    arguments = (str(content), str(target), str(writes))
    done = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False)
    killed = [each.kind for each in verify_folder(target)[1]]
    write_skill(content, "_root.md", body="Rules of a third commit.")

    report = export(content, target)

    theirs.unlink()
    theirs.parent.rmdir()
    export(content, tmp_path / "fresh")
    assert done.returncode == -signal.SIGKILL
    assert "interrupted" in killed
    assert report.kept == []
    assert tree(target) == tree(tmp_path / "fresh")


def test_the_sample_content_is_exported_whole(target: Path) -> None:
    export(SKILLS_CONTENT, target)

    lock = read_lock(target)
    assert lock is not None
    assert len(lock.skills) == 16
    assert {each.path for each in lock.skills.values()} >= {"ui/react/auth"}


def test_a_marketplace_has_a_plugin_for_each_folder_at_the_top(content: Path, target: Path) -> None:
    settings = PLAIN.model_copy(update={"format": "marketplace"})
    export(content, target, settings)
    first = json.loads((target / ".claude-plugin/marketplace.json").read_text())
    write_skill(content, "ui/auth.md", body="Changed.", keywords=["login"])

    report = export(content, target, settings)

    second = json.loads((target / ".claude-plugin/marketplace.json").read_text())
    versions = [[p["version"] for p in each["plugins"]] for each in (first, second)]
    assert [p["name"] for p in first["plugins"]] == ["general", "ui"]
    assert (target / first["plugins"][0]["source"] / "skills/pdf/SKILL.md").is_file()
    assert versions[0][0] == versions[1][0]
    assert versions[0][1] != versions[1][1]
    assert len(report.written) == 3
    assert verify_folder(target)[1] == ()


def test_the_well_known_index_has_the_digest_of_each_file(content: Path, target: Path) -> None:
    export(content, target, PLAIN.model_copy(update={"format": "well-known"}))

    index = json.loads((target / WELL_KNOWN_INDEX).read_text())
    types = {each["name"]: each["type"] for each in index["skills"]}
    assert types == {"pdf": "archive", "auth": "skill-md"}
    for each in index["skills"]:
        data = (target / each["url"].removeprefix("/")).read_bytes()
        assert each["digest"] == f"sha256:{sha256(data).hexdigest()}"
    with tarfile.open(target / ".well-known/agent-skills/pdf/pdf.tar.gz") as archive:
        assert archive.getnames() == ["SKILL.md", "scripts/fill.py"]
    assert verify_folder(target)[1] == ()
