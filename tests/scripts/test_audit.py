import fcntl
import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.scripts.execution import AuditEntry, AuditFile, ScriptResult
from skills_mcp.text.redaction import register_secret
from tests.support import running_python

posix = pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")

ENTRY = AuditEntry(
    kind="script",
    skill_path="ui/auth",
    file="scripts/greet.sh",
    commit="0" * 40,
    sha256="1" * 64,
    arguments=("name", "client-id"),
    sandbox="bubblewrap",
    outcome="ended",
    result=ScriptResult(
        exit_code=143,
        stdout="private output",
        stderr="",
        duration_seconds=1.5,
        timed_out=False,
        signal="SIGTERM",
        stdout_bytes=14,
    ),
    duration_seconds=1.5,
)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_has_names_and_numbers_and_nothing_that_was_printed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "new/audit.jsonl"

    AuditFile(file).append(ENTRY)

    [line] = lines(file)
    assert line.pop("time")
    assert line == {
        "outcome": "ended",
        "kind": "script",
        "skill_path": "ui/auth",
        "file": "scripts/greet.sh",
        "commit": "0" * 40,
        "sha256": "1" * 64,
        "arguments": ["client-id", "name"],
        "sandbox": "bubblewrap",
        "exit_code": 143,
        "signal": "SIGTERM",
        "timed_out": False,
        "duration_ms": 1500,
        "stdout_bytes": 14,
        "stderr_bytes": 0,
    }


def test_a_line_is_added_to_those_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text('{"time": "before"}\n')

    AuditFile(file).append(ENTRY)
    AuditFile(file).append(replace(ENTRY, outcome="cancelled", result=None))

    assert [line.get("outcome") for line in lines(file)] == [None, "ended", "cancelled"]


@posix
def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.touch(mode=0o666)

    AuditFile(file).append(ENTRY)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_is_not_written(tmp_path: Path) -> None:
    register_secret("hunter2-hunter2")
    file = tmp_path / "audit.jsonl"

    AuditFile(file).append(
        replace(ENTRY, file="hunter2-hunter2.sh", arguments=("hunter2-hunter2",))
    )

    [line] = lines(file)
    assert (line["file"], line["arguments"]) == ("***.sh", ["***"])


WRITE_MANY = """
import sys
from pathlib import Path
from dataclasses import replace
from skills_mcp.scripts.execution import AuditFile
from tests.scripts.test_audit import ENTRY

log = AuditFile(Path(sys.argv[1]))
for number in range(100):
    log.append(replace(ENTRY, file=f"{sys.argv[2]}-{number}" + "x" * 8000))
print("done", flush=True)
"""


def test_lines_of_several_windows_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"

    with (
        running_python(WRITE_MANY, file, "a") as first,
        running_python(WRITE_MANY, file, "b") as second,
        running_python(WRITE_MANY, file, "c") as third,
    ):
        for window in (first, second, third):
            assert window.stdout is not None
            assert window.stdout.read() == b"done\n"

    written = [line["file"].rstrip("x") for line in lines(file)]
    assert sorted(written) == sorted(f"{w}-{n}" for w in "abc" for n in range(100))


@posix
def test_a_window_that_was_stopped_with_the_lock_stops_no_other(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"

    with file.open("ab") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        AuditFile(file).append(ENTRY)

    assert len(lines(file)) == 1


LIMITED = """
import resource, signal, sys
from pathlib import Path
from skills_mcp.scripts.execution import AuditFile
from tests.scripts.test_audit import ENTRY

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = Path(sys.argv[1])
AuditFile(file).append(ENTRY)
most = file.stat().st_size + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
AuditFile(file).append(ENTRY)
print("done", flush=True)
"""


@posix
def test_a_disk_that_takes_half_a_line_is_left_with_whole_ones(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"

    with running_python(LIMITED, file) as window:
        assert window.stdout is not None
        assert window.stdout.read() == b"done\n"

    assert file.read_bytes().endswith(b"}\n")
    assert len(lines(file)) == 1


@posix
@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_file_is_said_in_the_log_and_left_alone(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, elsewhere = tmp_path / "audit.jsonl", tmp_path / "elsewhere"
    elsewhere.write_text("mine\n")
    if kind == "folder":
        file.mkdir()
    elif kind == "link":
        file.symlink_to(elsewhere)
    else:
        os.mkfifo(file)

    AuditFile(file).append(ENTRY)

    assert "audit.jsonl takes no line" in caplog.text
    assert '"file": "scripts/greet.sh"' in caplog.text
    assert elsewhere.read_text() == "mine\n"
