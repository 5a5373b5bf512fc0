"""Names with accents: declared in one encoding, on the disk in the other."""

from pathlib import Path
from unicodedata import normalize

import pytest

from skills_mcp.errors import UndeclaredFileError
from skills_mcp.skills.discovery import load_skills
from skills_mcp.skills.spelling import spell_as_disk
from tests.support import make_skill, open_library, skill_text, write

COMPOSED, DECOMPOSED = (normalize(form, "Résumé/modèle.md") for form in ("NFC", "NFD"))


def write_rules(root: Path, declared: str, on_disk: str) -> None:
    entry = [{"file": declared, "description": "D"}]
    write(root / "cv.md", skill_text(assets=entry))
    write(root / "cv" / on_disk, "the file")


@pytest.mark.parametrize("asked", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("declared", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("on_disk", [COMPOSED, DECOMPOSED])
def test_a_file_is_found_in_every_encoding_of_its_name(
    tmp_path: Path, declared: str, on_disk: str, asked: str
) -> None:
    write_rules(tmp_path / "content", declared, on_disk)
    library = open_library(tmp_path / "content")

    served = library.read_asset("cv", asked)
    read = library.read_file("cv", asked)

    assert served.content.data == read.part.content.data == b"the file"
    assert served.file == read.file
    assert normalize("NFC", served.file) == COMPOSED
    library.close()


@pytest.mark.parametrize("asked", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("on_disk", [COMPOSED, DECOMPOSED])
def test_a_file_of_a_package_is_found_in_every_encoding(
    tmp_path: Path, on_disk: str, asked: str
) -> None:
    write(tmp_path / "content/cv/SKILL.md", "---\nname: cv\ndescription: D\n---\nText")
    write(tmp_path / "content/cv" / on_disk, "the file")
    library = open_library(tmp_path / "content")

    read = library.read_file("cv", asked)

    assert read.part.content.data == b"the file"
    assert normalize("NFC", read.file) == COMPOSED
    library.close()


def test_two_files_of_a_package_that_look_the_same_are_both_left_out(
    tmp_path: Path,
) -> None:
    root = tmp_path / "content"
    write(root / "cv/SKILL.md", "---\nname: cv\ndescription: D\n---\nText")
    for name in ("é.md", "x.md"):
        for form in ("NFC", "NFD"):
            write(root / "cv" / normalize(form, name))
    if len(list((root / "cv").iterdir())) < 4:
        pytest.skip("this disk keeps only one of them")

    loaded = load_skills(root)

    [skill] = loaded.skills
    assert list(skill.files) == ["SKILL.md", "x.md"]
    assert [(p.rule, p.level) for p in loaded.problems] == [
        ("file-name", "warning")
    ] * 2
    with pytest.raises(UndeclaredFileError):
        open_library(root).read_file("cv", "é.md")


def test_names_without_accents_cost_no_look_at_the_disk(tmp_path: Path) -> None:
    skill = make_skill("absent", directory=tmp_path / "absent")

    assert spell_as_disk(tmp_path / "nowhere", skill) is skill
