"""The OpenAPI document of REST, derived from the types of its replies."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from skills_mcp.about import __version__
from skills_mcp.library.browsing import FACETS, MAX_BROWSED
from skills_mcp.web.rest_replies import PreviewReply, RefusalReply, SkillListReply

_SERIALISED: JsonSchemaMode = "serialization"

_REFUSALS = {
    "400": "A parameter cannot be read.",
    "401": "The token is missing or refused; where sign-in is configured.",
    "403": "The operator does not offer the skill.",
    "404": "There is no such skill or file for this caller.",
    "503": "Nothing is loaded yet, or the server is busy. Try again.",
}

_FACET_MEANINGS = {
    "source": "Where the source stands in the tree; `.` for the top.",
    "area": "The first folder of the path; `.` for none.",
    "format": "`package` or `rule`.",
    "owner": "`org`, `repo` or `user`.",
    "problems": "`yes` or `no`.",
    "used": "`yes` or `no`, where it is known.",
}


def derive_document() -> Mapping[str, Any]:
    """Return the document."""
    kinds = (SkillListReply, PreviewReply, RefusalReply)
    inputs = [(kind, _SERIALISED, TypeAdapter(kind)) for kind in kinds]
    _, schemas = TypeAdapter.json_schemas(
        inputs, by_alias=True, ref_template="#/components/schemas/{model}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skills",
            "version": __version__,
            "description": "The skills that a caller may see, for catalogues and "
            "scripts. Agents ask over MCP.",
        },
        "paths": {
            "/api/skills": {"get": _list_operation()},
            "/api/skills/{path}/preview": {"get": _preview_operation()},
            "/api/skills/{path}/files/{file}": {"get": _file_operation()},
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _list_operation() -> Mapping[str, Any]:
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_BROWSED, "default": 50}
    return {
        "operationId": "listSkills",
        "summary": "List the skills, found by words and narrowed by facets",
        "parameters": [
            _query("q", "A task, a name or a path; without it, all skills."),
            _query("limit", "The most skills of a page.", limit),
            _query("cursor", "`next` of the page before."),
            *(_query(name, _FACET_MEANINGS[name]) for name in FACETS),
            _query("scope", "Patterns of skills, with commas: as if no others were."),
        ],
        "responses": _responses(_json(SkillListReply)),
    }


def _preview_operation() -> Mapping[str, Any]:
    return {
        "operationId": "previewSkill",
        "summary": "Return the text of a skill as an agent gets it, and its files",
        "parameters": [_PATH],
        "responses": _responses(_json(PreviewReply)),
    }


def _file_operation() -> Mapping[str, Any]:
    file = {"schema": {"type": "string", "contentMediaType": "text/plain"}}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {
        "text/plain": file,
        "application/octet-stream": binary,
        "image/*": binary,
    }
    named = "The file within the skill's folder, with slashes."
    return {
        "operationId": "readSkillFile",
        "summary": "Return a file of a skill",
        "parameters": [_PATH, _in_path("file", named)],
        "responses": {
            **_responses({"description": "The file.", "content": content}),
            "413": _refusal("The file is larger than `assets.max_size_bytes`."),
        },
    }


def _query(
    name: str, meaning: str, schema: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": meaning,
        "schema": schema or {"type": "string"},
    }


def _in_path(name: str, meaning: str) -> dict[str, Any]:
    return {**_query(name, meaning), "in": "path", "required": True}


_PATH = _in_path("path", "The path of the skill, with slashes, or a name of its own.")


def _json(kind: type[object]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {
        "description": (kind.__doc__ or "").strip(),
        "content": {"application/json": {"schema": schema}},
    }


def _refusal(meaning: str) -> dict[str, Any]:
    return {**_json(RefusalReply), "description": meaning}


def _responses(found: Mapping[str, Any]) -> dict[str, Any]:
    refused = {status: _refusal(meaning) for status, meaning in _REFUSALS.items()}
    return {"200": found, **refused}
