"""OpenAPI document, generated from the reply types."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from skills_mcp.about import __version__
from skills_mcp.features.web.rest_replies import (
    PreviewReply,
    RefusalReply,
    ReportReply,
    SkillListReply,
    UploadReply,
)
from skills_mcp.features.web.usage_page import MAX_REPORT_DAYS
from skills_mcp.library.browsing import FACETS, MAX_PAGE_SIZE

_SERIALISED: JsonSchemaMode = "serialization"

_REFUSALS = {
    "400": "A parameter cannot be read.",
    "401": "The token is missing or refused; where sign-in is configured.",
    "403": "The operator does not offer the skill, or the token lacks a scope.",
    "404": "There is no such skill or file for this caller, or no event is kept.",
    "503": "Nothing is loaded yet, the events cannot be read, or the server is busy. "
    "Try again after the seconds of `Retry-After`.",
}

_FACET_MEANINGS = {
    "source": "Where the source stands in the tree; `.` for the top.",
    "area": "The first folder of the path; `.` for none.",
    "format": "`package` or `rule`.",
    "owner": "The person or team that the author names; `.` for none.",
    "origin": "`org`, `repo` or `user`: whose skill it is.",
    "problems": "`yes` or `no`.",
    "used": "`yes` or `no`, where it is known.",
}


def build_openapi_document() -> Mapping[str, Any]:
    kinds = (SkillListReply, PreviewReply, UploadReply, ReportReply, RefusalReply)
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
            "/api/skills/upload-install": {"post": _upload_operation()},
            "/api/skills/{path}/preview": {"get": _preview_operation()},
            "/api/skills/{path}/files/{file}": {"get": _file_operation()},
            "/api/report": {"get": _report_operation()},
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _list_operation() -> Mapping[str, Any]:
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": 50}
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


def _report_operation() -> Mapping[str, Any]:
    days = {"type": "integer", "minimum": 1, "maximum": MAX_REPORT_DAYS, "default": 30}
    return {
        "operationId": "readReport",
        "summary": "Return what agents asked for, for callers with skills:report",
        "parameters": [
            _query("days", "The number of days, up to today in UTC.", days),
            _query("area", "The part of the tree whose skills the lists have."),
            _query("around", "A commit, or how it begins, to compare around."),
        ],
        "responses": _responses(_json(ReportReply)),
    }


def _upload_operation() -> Mapping[str, Any]:
    archive = {
        "type": "string",
        "format": "binary",
        "description": "A .zip or .tar.gz of one skill, called by its kind.",
    }
    form = {"type": "object", "required": ["file"], "properties": {"file": archive}}
    return {
        "operationId": "uploadSkill",
        "summary": "Add a skill from an archive, where the operator allows it",
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": form}},
        },
        "responses": {
            "201": _json(UploadReply),
            "400": _refusal("There is no archive in the body."),
            "401": _refusal(_REFUSALS["401"]),
            "403": _refusal("The caller lacks the scope `skills:upload`."),
            "404": _refusal("The operator has not turned on adding skills."),
            "409": _refusal(
                "The folder or the repository cannot take it; what was there still is."
            ),
            "413": _refusal("The request is larger than `http.max_body_bytes`."),
            "422": _refusal("The archive is unsafe, damaged, or holds no skill."),
            "503": _refusal(_REFUSALS["503"]),
        },
    }


def _query(name: str, meaning: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
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
