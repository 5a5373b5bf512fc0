"""JSON Schema of `config.yaml`, for editors."""

from typing import Any

from pydantic import BaseModel

from skills_mcp.config.sections import Config

_EMPTY = {"const": ""}
_NOT_EMPTY = {"not": _EMPTY}
_UNTOUCHED = {"enum": ["", "main"]}
_UNSET = {"enum": ["", None]}

_KINDS_OF_SOURCE = [
    {
        "required": ["folder"],
        "properties": {
            "folder": _NOT_EMPTY,
            "repo": _EMPTY,
            "branch": _UNTOUCHED,
            "ref": _EMPTY,
            "allow_non_fast_forward": _UNSET,
            "allowed_signers": _UNSET,
            "revoked_signers": _UNSET,
            "verify": _UNSET,
        },
    },
    {
        "required": ["repo"],
        "properties": {
            "repo": _NOT_EMPTY,
            "folder": _EMPTY,
            "ref": _EMPTY,
            # A branch has no tag to verify.
            "verify": {"enum": ["commit", None]},
        },
    },
    {
        "required": ["repo", "ref"],
        "properties": {
            "repo": _NOT_EMPTY,
            "folder": _EMPTY,
            "branch": _UNTOUCHED,
            "ref": _NOT_EMPTY,
        },
    },
]
"""A folder, a followed branch, or a pinned repository."""


def json_schema() -> dict[str, Any]:
    for field in Config.model_fields.values():
        if isinstance(field.default, BaseModel):
            type(field.default).model_rebuild()  # its default is a part of the schema
    schema = _without_titles(Config.model_json_schema())
    schema["$defs"]["Source"]["anyOf"] = _KINDS_OF_SOURCE
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _without_titles(node: Any) -> Any:
    """Drop titles, as they only repeat the keys."""
    if isinstance(node, list):
        return [_without_titles(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    return {key: _without_titles(node[key]) for key in node if key != "title"}
