"""Which content a path is judged with."""

from pathlib import Path

import pytest

from skills_mcp.features.authoring.validation import find_validation_target, validate_paths
from tests.packages import write_package
from tests.support import write, write_skill


def place(path: Path, top: Path) -> tuple[str, str]:
    """Return top and focus, relative to a folder of the test."""
    found = find_validation_target(path)
    return tuple(each.relative_to(top).as_posix() for each in (found.top, found.focus))  # type: ignore[return-value]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with packages and rules in `skills`, and settings beside it."""
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    write(folder / "config.yaml")
    write(folder / "README.md")
    write_package(folder, "skills/office/pdf", {"references/forms.md": "x"})
    write_skill(folder, "skills/ui/auth.md")
    return folder


@pytest.mark.parametrize(
    "path, focus",
    [
        (".", "."),
        ("skills", "skills"),
        ("skills/office", "skills/office"),
        ("skills/office/pdf", "skills/office/pdf"),
        ("skills/office/pdf/SKILL.md", "skills/office/pdf"),
        (
            "skills/office/pdf/references/forms.md",
            "skills/office/pdf/references/forms.md",
        ),
        ("skills/ui/auth.md", "skills/ui/auth.md"),
        ("README.md", "README.md"),
        ("config.yaml", "config.yaml"),
    ],
)
def test_all_of_a_repository_is_judged_with_its_settings(
    repository: Path, path: str, focus: str
) -> None:
    assert place(repository / path, repository) == (".", focus)


def test_without_anything_beside_it_the_folder_of_skills_is_the_top(
    tmp_path: Path,
) -> None:
    write_package(tmp_path, ".agents/skills/pdf")

    path = tmp_path / ".agents/skills/pdf/SKILL.md"

    assert place(path, tmp_path) == (".agents/skills", ".agents/skills/pdf")
    assert find_validation_target(path).subfolder == ".", "nothing below it is another top"


def test_a_folder_of_any_name_with_rules_for_everything_is_a_top(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "rules/_root.md")
    write_skill(tmp_path, "rules/ui/react/auth.md")

    path = tmp_path / "rules/ui/react/auth.md"

    assert place(path, tmp_path) == ("rules", "rules/ui/react/auth.md")


def test_a_package_that_stands_alone_is_judged_alone(tmp_path: Path) -> None:
    write_package(tmp_path, "downloads/pdf", {"references/deep/forms.md": "x"})
    package = tmp_path / "downloads/pdf"

    for path, focus in [
        (package, "."),
        (package / "SKILL.md", "."),
        (package / "references", "references"),
        (package / "references/deep/forms.md", "references/deep/forms.md"),
    ]:
        assert place(path, package) == (".", focus)


def test_a_file_that_stands_alone_is_judged_with_its_folder(tmp_path: Path) -> None:
    write_skill(tmp_path, "notes/auth.md")

    assert place(tmp_path / "notes/auth.md", tmp_path) == ("notes", "notes/auth.md")


def test_nothing_above_the_repository_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "repository"
    (folder / ".git").mkdir(parents=True)
    write_skill(folder, "rules/auth.md")

    path = folder / "rules" / "auth.md"

    assert place(path, folder) == ("rules", "rules/auth.md")


def test_a_package_with_a_folder_called_skills_stays_in_its_tree(
    tmp_path: Path,
) -> None:
    write_package(tmp_path, "skills/pdf", {"skills/notes.txt": "x"})

    assert place(tmp_path / "skills/pdf", tmp_path) == ("skills", "skills/pdf")


def test_a_relative_path_is_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path, "skills/pdf")
    monkeypatch.chdir(tmp_path / "skills" / "pdf")

    assert place(Path("SKILL.md"), tmp_path) == ("skills", "skills/pdf")


@pytest.mark.parametrize("name", ["skills", "content"])
def test_the_name_of_the_folder_of_a_clone_changes_nothing(tmp_path: Path, name: str) -> None:
    clone = tmp_path / name
    (clone / ".git").mkdir(parents=True)
    write_skill(clone, "fixtures/one/auth.md")
    write_package(clone, "skills/pdf")

    assert place(clone, clone) == (".", ".")
    assert place(clone / "skills/pdf", clone) == (".", "skills/pdf")
    assert place(clone / "fixtures/one", clone) == ("fixtures/one", "fixtures/one")
    assert find_validation_target(clone).subfolder == ""
    assert find_validation_target(clone / "fixtures/one").subfolder == ""


@pytest.mark.parametrize("name", ["skills", "content", "skills/SKILL.md"])
def test_a_folder_with_settings_is_a_top_below_any_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path / name / "fixtures/one/config.yaml", "matching: [")
    write_skill(tmp_path / name, "fixtures/one/auth.md")

    assert place(tmp_path / name / "fixtures/one", tmp_path / name / "fixtures/one") == (".", ".")
    assert "config" in {p.rule for p in validate_paths(tmp_path / name / "fixtures/one").problems}
