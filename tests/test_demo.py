import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PROJECT


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `make demo` prints where there is no terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "demo.run"],
        cwd=PROJECT,
        env=os.environ | {"HOME": str(tmp_path_factory.mktemp("home"))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "shown",
    [
        "── incident-response",
        "ui/react/auth  0.60  react, auth, component",
        "=== GLOBAL RULES (from _root.md) ===",
        "=== UI > REACT > AUTH (from ui/react/auth.md) ===",
        "get_skill(context='fix the auth', skill_path='api/auth')",
        "No skill matches the given context.",
        "// AuthProvider: makes the gateway session available",
        "image/png, 13,430 bytes, 640 x 260 pixels",
        "from ui/_index",
        "exit code 0",
        "Feedback recorded for ui/react/auth",
        "1 file changed, 28 skills served",
        "ui/feature-flags  0.50  feature-flag, flag",
    ],
)
def test_the_demo_shows_the_main_job(transcript: str, shown: str) -> None:
    assert shown in transcript


def test_the_demo_is_plain_where_there_is_no_terminal(transcript: str) -> None:
    assert "\x1b" not in transcript


def test_the_demo_shows_no_path_of_this_machine(transcript: str) -> None:
    assert str(Path.home()) not in transcript
    assert str(PROJECT) not in transcript
