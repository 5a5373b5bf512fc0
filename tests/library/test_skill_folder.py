"""A skill as a folder: what it holds, and that nobody counts a look into it."""

from pathlib import Path

import pytest

from skills_mcp.analytics.spool import Spool
from skills_mcp.errors import (
    FileTooLargeError,
    SkillDisabledError,
    SkillNotFoundError,
    UndeclaredFileError,
)
from skills_mcp.library.skill_library import SkillLibrary
from tests.packages import write_package
from tests.support import open_library, spooled, write, write_skill

COUNTED = {"analytics": {"enabled": True, "context": "full"}}


@pytest.fixture
def content(tmp_path: Path) -> Path:
    root = tmp_path / "content"
    note = {"file": "assets/note.txt", "description": "A note", "type": "template"}
    write_skill(root, "_root.md", body="Never commit secrets.", assets=[note])
    write(root / "_root/assets/note.txt", "Dear all\n")
    write_package(root, "pdf", description="Fills in forms.", body="Read forms.md.")
    write(root / "pdf/references/forms.md", "# Forms\n")
    return root


@pytest.fixture
def library(content: Path) -> SkillLibrary:
    return open_library(content)


def test_a_folder_has_the_text_that_is_loaded(library: SkillLibrary) -> None:
    folder = library.open_folder("pdf")

    assert folder.compose() == library.load_skill("pdf").instructions
    assert "Never commit secrets." in folder.compose()


def test_a_folder_has_inherited_files_and_not_its_own_markdown(
    library: SkillLibrary,
) -> None:
    folder = library.open_folder("pdf")

    assert folder.files == {"assets/note.txt": 9, "references/forms.md": 8}
    assert folder.read("assets/note.txt").data == b"Dear all\n"
    assert folder.read("references/forms.md").data == b"# Forms\n"


def test_the_own_file_comes_before_the_inherited_one(content: Path) -> None:
    write(content / "pdf/assets/note.txt", "Dear form\n")

    folder = open_library(content).open_folder("pdf")

    assert folder.read("assets/note.txt").data == b"Dear form\n"


def test_a_file_that_a_rule_declares_and_does_not_have_is_not_there(
    content: Path,
) -> None:
    (content / "_root/assets/note.txt").unlink()

    folder = open_library(content).open_folder("pdf")

    assert folder.files == {"references/forms.md": 8}


def test_a_look_into_a_folder_is_no_event(content: Path, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    library = open_library(content, settings=COUNTED, spool=spool)

    folder = library.open_folder("pdf")
    folder.compose()
    folder.read("references/forms.md")

    assert spooled(spool) == []


@pytest.mark.parametrize("file", ["SKILL.md", "../_root.md", "missing.md"])
def test_no_other_file_is_read(library: SkillLibrary, file: str) -> None:
    with pytest.raises(UndeclaredFileError, match="has no file"):
        library.open_folder("pdf").read(file)


def test_a_file_above_the_limit_is_refused(content: Path) -> None:
    library = open_library(content, settings={"assets": {"max_size_bytes": 7}})

    with pytest.raises(FileTooLargeError, match="max_size_bytes"):
        library.open_folder("pdf").read("references/forms.md")


def test_a_hidden_skill_has_no_folder(content: Path) -> None:
    library = open_library(content, settings={"visibility": {"deny": ["pdf"]}})

    with pytest.raises(SkillDisabledError):
        library.open_folder("pdf")
    with pytest.raises(SkillNotFoundError):
        library.narrow(["other"], []).open_folder("pdf")
