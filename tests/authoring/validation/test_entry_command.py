"""The command that a package is entered by."""

from pathlib import Path

import pytest

from tests.authoring.validation.findings import problems
from tests.packages import write_package

FILES = {"scripts/run.py": "print(1)\n", "run.sh": "true\n"}


def found(root: Path, entry: str) -> list[tuple[str, str, int]]:
    folder = write_package(root, "pdf", FILES, metadata={"entry": entry})

    return [
        (p.rule, p.level, p.line)
        for p in problems(folder)
        if p.rule.startswith("entry")
    ]


@pytest.mark.parametrize(
    "entry",
    [
        "python3 scripts/run.py",
        "python3 ./scripts/run.py --out=result.py data.csv",
        "bash run.sh out/report.txt",
        "python3 -m http",
        "uv run scripts/run.py",
        "cat",
    ],
)
def test_an_entry_that_can_run_is_fine(tmp_path: Path, entry: str) -> None:
    assert found(tmp_path, entry) == []


@pytest.mark.parametrize("entry", ["./run.sh", "/bin/cat x", "'' run", "a\\\\b"])
def test_an_entry_begins_with_the_bare_name_of_a_program(
    tmp_path: Path, entry: str
) -> None:
    assert found(tmp_path, entry) == [("entry-program", "warning", 4)]


@pytest.mark.parametrize(
    "entry",
    ["python3 run.py", "bash ../run.sh", "bash /run.sh", "python3 -u Scripts/run.py"],
)
def test_a_program_file_that_is_not_there_is_missed(tmp_path: Path, entry: str) -> None:
    assert found(tmp_path, entry) == [("entry-file", "warning", 4)]


def test_a_broken_entry_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, "bash 'run.sh") == [("entry-type", "warning", 4)]
