"""What the files in `deploy/` name: our program, its settings and its ports."""

from pathlib import Path
from typing import Any

import click
import yaml

from skills_mcp.cli import program
from skills_mcp.config import Config, Layer, Settings
from tests.docs.pages import CONFIGURATION, code, section, table
from tests.support import PROJECT

DEPLOY = PROJECT / "deploy"


def load_all(file: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    documents = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return [each for each in documents if each]


def load_config(file: Path) -> Config:
    """Return the settings of an operator's file, which must all exist."""
    [values] = load_all(file)
    return Settings((Layer(file.name, values),)).resolve()


def known_variables() -> set[str]:
    """Return the names of the environment variables that we document."""
    rows = table(section(CONFIGURATION, "## Environment variables"))
    return {code(row["Variable"]) for row in rows}


def parse_command(arguments: list[str]) -> dict[str, Any]:
    """Return what our command line makes of arguments; it refuses wrong ones."""
    name, *options = arguments
    # Below the program's own context: a command keeps the help option of its first one.
    above = click.Context(program, **program.context_settings)
    command = program.get_command(above, name)
    assert command
    return command.make_context(name, list(options), parent=above).params
