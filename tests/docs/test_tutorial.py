"""The tutorial prints what it says, and the Python of the pages runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import DOCS, PAGES, Block, blocks
from tests.support import GIT_IDENTITY, PROJECT, SKILLS_CONTENT

_MARK = "-- next step --"


def steps(console: Block) -> list[tuple[str, str]]:
    """Split a console block into commands and what they print."""
    parts = re.split(r"^\$ (.*)\n", console.text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def shell_script(page: Path) -> str:
    """Return a page as one shell script, so that folders and variables last."""
    lines = ["exec 2>&1"]
    for each in blocks(page):
        if each.title:
            lines.append(f"mkdir -p {Path(each.title).parent.as_posix()}")
            lines.append(f"cat > {each.title} <<'END OF FILE'\n{each.text}END OF FILE")
        elif each.language == "console":
            for command, _ in steps(each):
                lines += [command, f"echo '{_MARK}'"]
    return "\n".join(lines)


def run_page(page: Path, folder: Path, path: str) -> list[str]:
    """Run a page in an empty folder and return what each command printed."""
    done = subprocess.run(
        ["bash", "-c", shell_script(page)],
        cwd=folder,
        env={**os.environ, **GIT_IDENTITY, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.replace(str(folder), "/home/ada").split(f"{_MARK}\n")[:-1]


def normalised(text: str) -> str:
    """Blank out what differs from run to run, or between machines."""
    text = re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"(?m)^(Scripts +).*", r"\1SANDBOX", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_the_tutorial_prints_what_it_says(tmp_path: Path, shell_path: str) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    page = DOCS / "tutorial.md"
    shown = [step for each in blocks(page, "console") for step in steps(each)]

    printed = run_page(page, folder, shell_path)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command


def test_the_readme_prints_what_it_says(tmp_path: Path, shell_path: str) -> None:
    shutil.copytree(SKILLS_CONTENT, tmp_path / "fixtures" / SKILLS_CONTENT.name)
    page = PROJECT / "README.md"
    shown = [step for each in blocks(page, "console") for step in steps(each)]

    printed = run_page(page, tmp_path, shell_path)

    for (command, expected), real in zip(shown, printed, strict=True):
        assert normalised(real) == normalised(expected), command
    assert shown


def test_python_of_the_pages_runs(tmp_path: Path, shell_path: str) -> None:
    shutil.copytree(SKILLS_CONTENT / "skills", tmp_path / "skills")
    programs = [
        each.text
        for page in PAGES
        for each in blocks(page, "python")
        if not each.title and "not-run" not in each.words
    ]

    for text in programs:
        subprocess.run(
            [sys.executable, "-c", text],
            cwd=tmp_path,
            env={**os.environ, "PATH": shell_path},
            check=True,
        )

    assert programs
