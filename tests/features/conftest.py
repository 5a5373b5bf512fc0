"""The program as a person runs it, for the commands of features."""

from tests.cli.conftest import invoke, run

__all__ = ["invoke", "run"]
