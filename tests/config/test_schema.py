"""The JSON Schema of the settings, as an editor uses it."""

from functools import cache
from typing import Any

import jsonschema
import pytest

from skills_mcp.config import (
    load_file,
)
from skills_mcp.errors import ConfigError
from tests.config.places import EXAMPLE, operator
from tests.docs.settings import json_schema


@cache
def validator() -> jsonschema.Draft202012Validator:
    """Make the validator once: `validate` checks the schema itself each time."""
    return jsonschema.Draft202012Validator(json_schema())


def test_the_example_satisfies_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())

    validator().validate(load_file(EXAMPLE).values)


@pytest.mark.parametrize(
    "values",
    [
        {"matchng": {}},
        {"matching": {"min_scor": 0.2}},
        {"matching": {"min_score": 1.5}},
        {"refresh": {"interval_minutes": 0}},
        {"scripts": {"runners": {".sh": 1}}},
        {"responses": {"format": "xml"}},
        {"toolsets": []},
        {"toolsets": ["core", "pakages"]},
        {"commands": {"allowed": ["rm -rf"]}},
        {"visibility": {"deny": [""]}},
        {"sources": [{}]},
        {"sources": [{"folder": "a", "repo": "b"}]},
        {"sources": [{"repo": "a", "branch": "next", "ref": "v1"}]},
        {"sources": [{"folder": "a", "ref": "v1"}]},
        {"sources": [{"folder": "a", "branch": "next"}]},
        {"sources": [{"folder": "a", "mount": "/b"}]},
        {"sources": [{"folder": "a", "subfolder": "b\\c"}]},
        {"sources": [{"folder": "a", "allowed_signers": "b"}]},
        {"sources": [{"folder": "a", "verify": "commit"}]},
        {"sources": [{"repo": "a", "allowed_signers": "b", "verify": "tag"}]},
        {"sources": [{"repo": "a", "allowed_signers": "b", "verify": "both"}]},
        {"sources": [{"repo": "a", "verify": "signed"}]},
        {"sync": {"verify": "signed"}},
        {"sync": {"timeout_seconds": 0}},
        {"limits": {"max_total_bytes": 1 << 41}},
    ],
)
def test_an_editor_with_the_schema_sees_what_the_server_would_refuse(
    values: dict[str, Any],
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(values)
    with pytest.raises(ConfigError):
        operator(**values).resolve()


@pytest.mark.parametrize(
    "source",
    [
        {"folder": "a"},
        {"folder": "a", "repo": "", "branch": "main", "ref": ""},
        {"repo": "a", "folder": ""},
        {"repo": "a", "branch": "next"},
        {"repo": "a", "branch": "main", "ref": "v1"},
        {"repo": "a", "branch": "HEAD", "everywhere": True},
        {"repo": "a", "ref": "v1", "allowed_signers": "b", "verify": "tag"},
        {"repo": "a", "allowed_signers": "b", "verify": "commit"},
        {"folder": "a", "allowed_signers": "", "verify": None},
        {"repo": "a", "mount": "teams/web", "subfolder": "."},
        {"repo": "a", "mount": "./teams/web/", "subfolder": "./skills/"},
    ],
)
def test_an_editor_with_the_schema_takes_a_source_that_the_server_takes(
    source: dict[str, object],
) -> None:
    validator().validate({"sources": [source]})

    [taken] = operator(sources=[source]).resolve().sources

    assert taken.folder or taken.repo
