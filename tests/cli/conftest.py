"""The program as a person runs it: in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    """Run the program to its end, with arguments and environment variables."""

    def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "skills_mcp", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            timeout=30,
        )

    return run
