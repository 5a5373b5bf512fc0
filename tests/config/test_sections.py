"""Defaults, and the example that shows them."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from skills_mcp.config import (
    Config,
    Settings,
    Source,
    load_file,
)
from tests.config.places import DEFAULTS_OF_001, EXAMPLE, operator

DEFAULTS_OF_000: dict[str, dict[str, Any]] = {
    "search": {"limit": 10, "threshold": 0.2},
    "embedding": {
        "provider": "none",
        "model": "",
        "base_url": "",
        "api_key_env": "",
        "dimensions": 0,
    },
    "files": {"max_bytes": 65536},
    "commands": {
        "enabled": False,
        "allowed": ["python", "python3", "uv", "node", "cat", "ls", "grep"],
        "timeout_seconds": 60,
        "max_output_bytes": 65536,
    },
    "visibility": {
        "enabled_skills": [],
        "enabled_categories": [],
        "allow": [],
        "deny": [],
    },
}


@pytest.mark.spec("11.2")
def test_the_defaults_are_those_of_the_specification() -> None:
    defaults = Config().model_dump(mode="json")

    for section, values in DEFAULTS_OF_001.items():
        assert values.items() <= defaults[section].items()


def test_by_default_a_branch_is_followed_wherever_it_goes_and_by_anybody() -> None:
    defaults = Config()

    assert defaults.sync.allow_non_fast_forward
    assert not defaults.sync.allowed_signers
    assert not defaults.sync.offline
    assert not any(Source().model_dump(exclude={"branch"}).values())


def test_the_defaults_of_packages_are_those_of_skillhub() -> None:
    defaults = Config().model_dump(mode="json")

    for section, values in DEFAULTS_OF_000.items():
        assert values.items() <= defaults[section].items()
    assert defaults["toolsets"] == ["core"]
    assert defaults["discover"] is False


@pytest.mark.spec("11.2")
def test_the_example_sets_every_key_to_its_default() -> None:
    layer = load_file(EXAMPLE)

    assert layer.values == Config().model_dump(mode="json")
    assert Settings((layer,)).resolve() == Config()


def test_the_example_has_a_source_with_every_key() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    _, _, shown = text.partition("# One of them, with every key:\n")
    shown, _, _ = shown.partition("\n\n")
    lines = [line.removeprefix("# ") for line in shown.splitlines()]

    values = yaml.safe_load("\n".join(lines))
    [source] = operator(**values).resolve().sources

    assert list(values["sources"][0]) == list(Source.model_fields)
    assert source.mount == "teams/web"


def test_the_example_names_its_schema_first() -> None:
    first = EXAMPLE.read_text(encoding="utf-8").splitlines()[0]

    assert first == "# yaml-language-server: $schema=./config.schema.json"


def test_settings_cannot_be_changed_behind_the_servers_back() -> None:
    config = Config()

    with pytest.raises(ValidationError):
        config.matching.min_score = 0.9
