"""The program as a person runs it."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from skills_mcp.cli import program
from tests.support import PATIENCE_SECONDS

_CONTEXT = click.Context(program, **program.context_settings)
COMMANDS: dict[str, click.Command] = {
    name: command
    for name in program.list_commands(_CONTEXT)
    if (command := program.get_command(_CONTEXT, name))
}
"""Each command by its name."""

# A command freezes what it imports; whatever is imported next would count that first.
gc.unfreeze()

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
            timeout=PATIENCE_SECONDS,
        )

    return run


@pytest.fixture
def invoke() -> Run:
    """Do the same within this process, which takes a fifth of the time."""

    def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        done = CliRunner(catch_exceptions=False).invoke(
            program, arguments, prog_name="skills-mcp", env=environment
        )
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    return run
