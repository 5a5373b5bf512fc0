"""`validate --scanner`: findings of a program or of a file."""

import json
import sys
from pathlib import Path
from shlex import quote

import pytest

from tests.cli.conftest import Run
from tests.support import write_skill


@pytest.fixture
def content(tmp_path: Path) -> Path:
    write_skill(tmp_path / "content", "skills/ui.md")
    return tmp_path / "content"


@pytest.fixture
def sarif(tmp_path: Path) -> Path:
    """A log with an error in the skill."""
    location = {"artifactLocation": {"uri": "skills/ui.md"}, "region": {"startLine": 2}}
    result = {
        "ruleId": "X1",
        "level": "error",
        "message": {"text": "bad"},
        "locations": [{"physicalLocation": location}],
    }
    log = {"runs": [{"tool": {"driver": {"name": "other"}}, "results": [result]}]}
    file = tmp_path / "log.sarif"
    file.write_text(json.dumps(log))
    return file


def test_a_file_and_a_command_give_the_same_findings(
    invoke: Run, content: Path, sarif: Path
) -> None:
    code = f"print(open({str(sarif)!r}).read())"
    command = f"{quote(sys.executable)} -c {quote(code)}"

    done = [
        invoke("validate", str(content), "--select", "scanner", "--scanner", each)
        for each in (str(sarif), command)
    ]

    assert {each.returncode for each in done} == {1}
    assert done[0].stdout == done[1].stdout
    assert "skills/ui.md:2: error[scanner] other, X1: 'bad'" in done[0].stdout


@pytest.mark.parametrize(
    "scanner, said",
    [("no-such-scanner", "there is no program"), (f"{quote(sys.executable)} -c pass", "no SARIF")],
    ids=["no program", "no SARIF"],
)
def test_a_scanner_that_cannot_be_used_is_named(
    invoke: Run, content: Path, scanner: str, said: str
) -> None:
    done = invoke("validate", str(content), "--scanner", scanner)

    assert done.returncode == 3
    assert said in done.stderr
