"""`validate --fix`: what is repaired, and that nothing else changes."""

from pathlib import Path

import pytest

from skills_mcp.features.authoring.commands.validate import fix_findings
from skills_mcp.features.authoring.validation import validate_paths
from tests.support import write, write_skill

LONG = "Fill in a PDF form. Use it when a form has fields to be filled in."


def package(tmp_path: Path, head: str, *, name: str = "SKILL.md") -> Path:
    text = f"---\n{head}\n---\n# Forms\n\nText.\n"
    return write(tmp_path / "skills/pdf-forms" / name, text)


def mend(folder: Path) -> list[str]:
    """Repair a folder, and return the rules that are left."""
    fix_findings(validate_paths(folder).problems)
    left = validate_paths(folder).problems
    assert fix_findings(left) == ()  # a second time finds nothing to do
    return [problem.rule for problem in left]


@pytest.mark.parametrize(
    "before, after",
    [
        ("name: PDF Forms", "name: pdf-forms"),
        ('name: "pdf--forms"  # ours', "name: pdf-forms  # ours"),
        ("name: other", "name: pdf-forms"),
        ("name:", "name: pdf-forms"),
        ("name: pdf-forms\nallowed-tools: Read, Bash(git a:*, git b:*)",
         "name: pdf-forms\nallowed-tools: Read Bash(git a:*, git b:*)"),
        ("name: pdf-forms\nallowed-tools:\n  - Read\n  - Grep\nlicense: MIT",
         "name: pdf-forms\nallowed-tools: Read Grep\nlicense: MIT"),
        ("name: pdf-forms\nmetadata:\n  # Since\n  version: 1.10 # kept\n  ok: a",
         'name: pdf-forms\nmetadata:\n  # Since\n  version: "1.10" # kept\n  ok: a'),
        ("name: pdf-forms\nmetadata:\n  tags: [pdf, form]\n  on: true",
         'name: pdf-forms\nmetadata:\n  tags: pdf, form\n  on: "true"'),
        ("name: pdf-forms\nmetadata:\n  tags:\n    - pdf\n    - form\n  x: y",
         "name: pdf-forms\nmetadata:\n  tags: pdf, form\n  x: y"),
        ("name: pdf-forms\nkeywords: [pdf, form]\nlicense: MIT",
         "name: pdf-forms\nlicense: MIT\nmetadata:\n  keywords: pdf, form"),
        ("name: pdf-forms\npriority: 5\nmetadata:\n    a: b",
         'name: pdf-forms\nmetadata:\n    priority: "5"\n    a: b'),
    ],
)  # fmt: skip
def test_the_frontmatter_of_a_package_is_repaired(tmp_path: Path, before: str, after: str) -> None:
    file = package(tmp_path, f"{before}\ndescription: {LONG}")

    left = mend(tmp_path / "skills")

    text = file.read_text("utf-8")
    assert left == []
    head = text.split("---\n")[1]
    moved = [line for line in head.splitlines() if not line.startswith("description")]
    assert sorted(moved) == sorted(after.splitlines())
    assert text.endswith("---\n# Forms\n\nText.\n")


def test_an_edit_keeps_all_other_bytes_however_they_are_written(tmp_path: Path) -> None:
    others = (
        "description: Fill in\n  a PDF form\n"
        "license:   MIT     # as aligned\n"
        "metadata: # of two\n"
        "    'tags': \"pdf,\n      form\"\n"
        "\n\n"
        "    author: ada  "
    )
    file = package(tmp_path, f"name: PDF Forms\n{others}")

    mend(tmp_path / "skills")

    assert file.read_text("utf-8") == f"---\nname: pdf-forms\n{others}\n---\n# Forms\n\nText.\n"


@pytest.mark.parametrize(
    "head",
    [
        "name: pdf-forms\nversion: 1.0",
        "name: pdf-forms\nmetadata:\n  nested: {a: b}",
        "name: pdf-forms\nmetadata:\n  tags: ['a, b', c]",
        "name: pdf-forms\nkeywords: [a]\nmetadata:\n  keywords: b",
        "name: pdf-forms\nexamples: [fill in a form]",
        "name: [a\nmetadata: 1",
    ],
)
def test_what_needs_thought_is_left_to_the_byte(tmp_path: Path, head: str) -> None:
    file = package(tmp_path, f"{head}\ndescription: {LONG}")
    before = file.read_bytes()

    left = mend(tmp_path / "skills")

    assert left
    assert file.read_bytes() == before


def test_hidden_and_control_characters_are_taken_out_of_every_file(
    tmp_path: Path,
) -> None:
    file = package(tmp_path, f"name: pdf-forms\ndescription: {LONG}")
    file.write_text(file.read_text().replace("Text.", "Te\u200bxt \x1b[1m👩\u200d💻."))
    other = write(file.parent / "references/a.md", "A\u2060B\n")
    rule = write_skill(tmp_path, "skills/rule.md", body="One\u200b.")

    left = mend(tmp_path / "skills")

    assert not {"hidden-character", "control-characters"} & set(left)
    assert "Text [1m👩\u200d💻." in file.read_text("utf-8")
    assert other.read_text("utf-8") == "AB\n"
    assert rule.read_text("utf-8").endswith("\nOne.\n")


def test_line_ends_the_mode_and_a_name_are_kept_or_repaired(tmp_path: Path) -> None:
    file = package(tmp_path, f"name: X\ndescription: {LONG}", name="skill.md")
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    file.chmod(0o644)

    left = mend(tmp_path / "skills")

    new = file.with_name("SKILL.md")
    raw = new.read_bytes()
    assert left == []
    assert [each.name for each in file.parent.iterdir()] == ["SKILL.md"]
    assert raw.startswith(b"---\r\nname: pdf-forms\r\n")
    assert raw.count(b"\r\n") == raw.count(b"\n")
    assert new.stat().st_mode & 0o777 == 0o644
