"""What keeps a server over HTTP from starting, and what to do about it."""

import subprocess
import sys

import pytest

from tests.cli.conftest import Run
from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - it is refused

WITHOUT_EXTRA = """
import sys
from importlib import util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name == "prometheus_client" else find(name)
sys.argv = ["skills-mcp", "--transport", "http", "--skills-dir", sys.argv[1]]
from skills_mcp.cli import run_program
run_program()
"""


@pytest.mark.usefixtures("started_anew")
def test_a_missing_extra_is_named() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA, str(SKILLS_CONTENT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert ended.returncode == 3
    assert "[http]" in ended.stderr
    assert "prometheus_client" in ended.stderr


def test_skills_of_one_person_are_not_served_to_many(run: Run) -> None:
    ended = run("--transport", "http", "--port", "0", SKILLS_MCP_DISCOVER="true")

    assert ended.returncode == 3
    assert "Switch it off with --no-discover" in ended.stderr


def test_an_address_of_the_network_asks_for_a_sign_in(run: Run) -> None:
    folder = str(SKILLS_CONTENT)

    ended = run(
        *("--transport", "http", "--host", EVERY_ADDRESS, "--port", "0"),
        *("--operations-port", "0", "--base-url", "http://skills.example"),
        SKILLS_DIR=folder,
    )

    assert ended.returncode == 3
    assert "http.auth.issuer" in ended.stderr
    assert "http.anonymous" in ended.stderr
