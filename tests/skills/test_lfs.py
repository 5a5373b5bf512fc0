"""Pointers of Git LFS: nobody gets one for the content that it stands for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from skills_mcp.errors import LfsPointerError
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.policy import CommandRequest, ScriptRequest
from skills_mcp.skills.skill_files import MAX_LFS_POINTER_BYTES, LineRange, is_lfs_pointer
from tests.packages import write_package
from tests.support import open_library, write, write_skill

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n"
)
COMMANDS = {"commands": {"enabled": True, "allowed": ["cat"]}}


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    """Return a rule and a package whose files are pointers."""
    script = {"file": "scripts/check.sh", "execution": "server"}
    logo = {"file": "assets/logo.png"}
    write_skill(tmp_path, "ui/auth.md", assets=[logo], scripts=[script])
    write(tmp_path / "ui/auth/scripts/check.sh", POINTER)
    write(tmp_path / "ui/auth/assets/logo.png", POINTER)
    files: dict[str, str | bytes] = {
        "model.bin": POINTER,
        "examples/a.md": POINTER,
        "notes.md": "Notes\n",
    }
    write_package(tmp_path, "pdf", files)
    return open_library(tmp_path, settings=COMMANDS)


def run_script(library: SkillLibrary) -> object:
    request = ScriptRequest(skill_path="ui/auth", file="scripts/check.sh", args={})
    return anyio.run(library.view().run, request)


def ask_lines(library: SkillLibrary) -> object:
    return library.view().read_file("pdf", "model.bin", LineRange(1, 1))


@pytest.mark.parametrize(
    "ask",
    [
        lambda library: library.view().read_asset("ui/auth", "assets/logo.png"),
        lambda library: library.view().read_file("pdf", "model.bin"),
        ask_lines,
        run_script,
    ],
    ids=["read_asset", "read_file", "read_lines", "run_script"],
)
def test_a_pointer_is_refused_with_what_its_author_can_do(
    library: SkillLibrary, ask: Callable[[SkillLibrary], object]
) -> None:
    with pytest.raises(LfsPointerError, match="git lfs migrate export") as raised:
        ask(library)

    assert raised.value.code == "LFS_POINTER"


def test_files_beside_a_pointer_are_read(library: SkillLibrary) -> None:
    read = library.view().read_file("pdf", "notes.md")

    assert read.part.content.data == b"Notes\n"


def test_an_example_that_is_a_pointer_is_left_out_and_said(
    library: SkillLibrary,
) -> None:
    loaded = library.view().load_examples("pdf", "anything", 3).loaded

    assert loaded.examples == ()
    assert "Git LFS" in loaded.notes[0]


async def test_a_command_gets_its_folder_whole_with_the_pointer_as_it_is(
    library: SkillLibrary,
) -> None:
    request = CommandRequest(skill_name="pdf", command="cat", args=("model.bin",))

    ran = await library.view().run(request)

    assert ran.result.stdout == POINTER


@pytest.mark.parametrize("file", ["ui/forms.md", "word/SKILL.md"])
def test_a_skill_whose_own_file_is_a_pointer_is_a_problem(tmp_path: Path, file: str) -> None:
    write_skill(tmp_path, "other.md")
    write(tmp_path / file, POINTER)

    snapshot = open_library(tmp_path).view().snapshot

    [problem] = snapshot.problems
    assert (problem.file, problem.level) == (file, "error")
    assert "Git LFS" in problem.reason
    assert "git lfs migrate export" in problem.hint


@pytest.mark.parametrize(
    "data, expected",
    [
        (POINTER.encode(), True),
        (POINTER.encode().ljust(MAX_LFS_POINTER_BYTES, b"x"), True),
        (POINTER.encode().ljust(MAX_LFS_POINTER_BYTES + 1, b"x"), False),
        (b"version https://git-lfs.github.com/sp", False),
        (b"\n" + POINTER.encode(), False),
        (b"", False),
    ],
)
def test_a_pointer_is_short_and_begins_like_one(data: bytes, expected: Any) -> None:
    assert is_lfs_pointer(data) is expected
