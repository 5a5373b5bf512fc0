"""The unit is one that systemd takes, confines the server, and starts what exists."""

import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, known_variables, load_config, parse_command

UNIT = DEPLOY / "systemd" / "skills-mcp.service"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def directives() -> dict[str, list[str]]:
    """Return the values of each directive."""
    found = defaultdict(list)
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


def analyze(verb: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["systemd-analyze", verb, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_and_the_variables_exist() -> None:
    [command] = directives()["ExecStart"]
    given = [
        part.partition("=")[0] for value in directives()["Environment"] for part in value.split()
    ]

    program, *arguments = command.split()
    parsed = parse_command(arguments)

    assert Path(program).name == "skills-mcp"
    assert parsed["transport"] == "http"
    assert set(given) <= known_variables() | {"HOME"}


def test_it_has_the_time_to_end() -> None:
    http = load_config(DEPLOY / "kubernetes" / "config.yaml").http
    [seconds] = directives()["TimeoutStopSec"]

    assert http.drain_seconds + http.shutdown_seconds + 10 <= int(seconds)


@needs_systemd
def test_systemd_takes_it(tmp_path: Path) -> None:
    [command] = directives()["ExecStart"]
    text = UNIT.read_text(encoding="utf-8").replace(command.split()[0], sys.executable)
    copy = tmp_path / UNIT.name
    copy.write_text(text, encoding="utf-8")

    done = analyze("verify", "--man=no", copy)

    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_what_is_left_to_it_is_the_network_and_its_own_folder() -> None:
    exposure = 15  # tenths; a unit that confines nothing has 96

    done = analyze("security", "--offline=true", f"--threshold={exposure}", UNIT)

    assert done.returncode == 0, done.stdout
