"""The door of each framework says what to install where the framework is missing."""

import tomllib
from pathlib import Path

import pytest

import skills_mcp
from tests.support import PROJECT, run_python

_FILE = PROJECT / "pyproject.toml"
_EXTRAS = tomllib.loads(_FILE.read_text("utf-8"))["project"]["optional-dependencies"]
_PACKAGE = Path(skills_mcp.__file__).parent
_DOORS = {extra: extra.replace("-", "_") for extra in _EXTRAS}
_ADAPTERS = [e for e, door in _DOORS.items() if (_PACKAGE / f"{door}.py").exists()]


@pytest.mark.parametrize("extra", _ADAPTERS)
def test_a_missing_framework_is_named_with_its_extra(extra: str) -> None:
    door = _DOORS[extra]
    code = f"""
try:
    import skills_mcp.{door}
except ImportError as error:
    print(error)
"""

    said = run_python(code)

    assert said.startswith(f"skills_mcp.{door} needs ")
    assert f"[{extra}]'" in said
