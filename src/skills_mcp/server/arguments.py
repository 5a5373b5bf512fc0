"""Tools: their arguments, their specification, and the tool set `core`.

Arguments have one pydantic model per tool, advertised as JSON Schema.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library import MAX_DEPTH
from skills_mcp.text.rendering import abbreviate_value

# Of a task, into which people paste tickets and logs, and of any other text.
_MAX_TASK = 200_000
_MAX_TEXT = 10_000
_MAX_PATTERN = 1024  # as long as a path; ten times as many take seconds to understand

NOT_AN_OBJECT = "arguments that are no object"
"""Key for arguments of a wrong type, for `parse_arguments`."""

_MAX_HITS = 50  # 002 §9
_MAX_ARGS = 200
_MAX_FINDINGS = 10  # enough to repair a call; a list of thousands is no help
_MAX_LINES = 10_000

LineNumber = Annotated[int, Field(ge=1)]
LineCount = Annotated[int, Field(ge=1, le=_MAX_LINES)]
Text = Annotated[str, Field(max_length=_MAX_TEXT)]
Task = Annotated[str, Field(max_length=_MAX_TASK)]
Pattern = Annotated[str, Field(max_length=_MAX_PATTERN)]
# A host may send null for what it leaves out; the schema need not say so.
OptionalText = Text | SkipJsonSchema[None]


# Of a long text, for a host that would cut it; a text has fewer parts than lines.
Part = Annotated[int, Field(ge=1, le=_MAX_LINES)]

_PART = "The next_part of the reply before."
_WITHIN = 'Choose only from this part of the tree: "ui/react".'
_CATEGORY = "Choose only from skills of this category."

# Pydantic reports a wrong optional value twice: by its type, and as not null.
_NULL_ERROR = "none_required"


class Arguments(BaseModel):
    """Arguments of a tool. Strict: no conversion, no unknown names."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,  # a tool that is off must not delay the first answer
    )


class GetSkill(Arguments):
    context: Task = Field(
        description="The task in your own words, with the technologies involved: "
        '"add login to the React app".'
    )
    skill_path: OptionalText = Field(
        default=None,
        description="A path from an ambiguous answer or from list_skills, to get "
        "exactly that skill.",
    )
    known_digest: OptionalText = Field(
        default=None,
        description="The digest of the text you have already: if it is still "
        "current, you get a reminder instead of the text.",
    )
    within: OptionalText = Field(default=None, description=_WITHIN)
    category: OptionalText = Field(default=None, description=_CATEGORY)
    explain: bool | SkipJsonSchema[None] = Field(
        default=None, description="Whether to explain the answer."
    )
    part: Part | SkipJsonSchema[None] = Field(default=None, description=_PART)


class ListSkills(Arguments):
    path: OptionalText = Field(
        default=None, description='Only this part of the tree: "ui" or "api/_index".'
    )
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] | SkipJsonSchema[None] = Field(
        default=None, description="How many levels to show."
    )
    cursor: OptionalText = Field(default=None, description="The next_cursor of the reply before.")


class GetAsset(Arguments):
    skill_path: Text = Field(description="The skill_path that get_skill returned.")
    file: Text = Field(description="The file exactly as get_skill lists it.")
    part: Part | SkipJsonSchema[None] = Field(default=None, description=_PART)


class RunScript(Arguments):
    skill_path: Text = Field(description="The skill_path that get_skill returned.")
    file: Text = Field(description="The script exactly as get_skill lists it.")
    args: dict[str, str] = Field(
        description="The script's arguments by name, all as strings; {} for none."
    )
    cwd: OptionalText = Field(
        default=None,
        description="Absolute path of the folder to run in, such as the project's.",
    )


class ReportUsage(Arguments):
    skill_path: Text = Field(description="The skill you used.")
    useful: bool = Field(description="Whether it helped with the task.")
    comment: OptionalText = Field(
        default=None, description="What was missing, wrong or especially good."
    )


class RefreshSkills(Arguments):
    """No arguments."""


class SearchSkills(Arguments):
    query: Task = Field(description="The task or question in your own words, or a skill's name.")
    limit: Annotated[int, Field(ge=1, le=_MAX_HITS)] | SkipJsonSchema[None] = Field(
        default=None, description="The most skills to list."
    )
    scope: Literal["org", "repo", "user"] | SkipJsonSchema[None] = Field(
        default=None,
        description="Only the organisation's skills, the project's or the user's.",
    )
    within: OptionalText = Field(default=None, description=_WITHIN)
    category: OptionalText = Field(default=None, description=_CATEGORY)


class LoadSkill(Arguments):
    skill_name: Text = Field(description="The skill's name, or its skill_path where names repeat.")
    known_digest: OptionalText = Field(
        default=None,
        description="The digest of the text you have already: if it is still "
        "current, you get a reminder instead of the text.",
    )
    part: Part | SkipJsonSchema[None] = Field(default=None, description=_PART)


class ReadSkillFile(Arguments):
    skill_name: Text = Field(description="The skill's name, or its skill_path where names repeat.")
    file_path: Text = Field(
        description="The file, relative to the skill's folder: references/forms.md"
    )
    start_line: LineNumber | SkipJsonSchema[None] = Field(
        default=None, description="The first line to read, from 1."
    )
    max_lines: LineCount | SkipJsonSchema[None] = Field(
        default=None, description="How many lines to read, 200 by default."
    )


class FindSkillFiles(Arguments):
    skill_name: Text = Field(description="The skill's name, or its skill_path where names repeat.")
    pattern: Pattern | SkipJsonSchema[None] = Field(
        default=None, description="A pattern of paths: *.md or scripts/*.py"
    )
    contains: OptionalText = Field(
        default=None, description="Only text files that contain this, in any case."
    )


class LoadSkillExamples(Arguments):
    skill_name: Text = Field(description="The skill's name, or its skill_path where names repeat.")
    query: Text = Field(description="What the example should show.")
    # Not refused outside of 1 to 10 but moved there (003).
    top_k: int | SkipJsonSchema[None] = Field(
        default=None, description="How many, 1 to 10, 3 by default."
    )


class RunSkillCommand(Arguments):
    skill_name: Text = Field(description="The skill's name, or its skill_path where names repeat.")
    command: Text = Field(description="The program: python, node, cat, …")
    args: Annotated[list[str], Field(max_length=_MAX_ARGS)] | SkipJsonSchema[None] = Field(
        default=None, description='Its arguments: ["scripts/check.py", "in.pdf"]'
    )


class RunSkillEntry(Arguments):
    skill_name: Text = Field(description="The skill's name, or its skill_path where names repeat.")
    args: OptionalText = Field(
        default=None, description="More words for its command: in.pdf --page 2"
    )


Model = TypeVar("Model", bound=Arguments)


def parse_arguments(model: type[Model], tool: str, values: Mapping[str, Any]) -> Model:
    """Validate arguments against the model of a tool.

    Raises:
        InvalidArgumentsError: Lists each invalid argument, and the allowed ones.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        details = [d for d in error.errors() if d["type"] != _NULL_ERROR]
        findings = [_describe_error(detail, model) for detail in details[:_MAX_FINDINGS]]
        if more := len(details) - len(findings):
            findings.append(f"and {more:,} more")
        fields = model.model_fields.items()
        takes = ", ".join(
            name if field.is_required() else f"{name} (optional)" for name, field in fields
        )
        raise InvalidArgumentsError(
            f"{tool}: {'; '.join(findings)}. It takes: {takes or 'no arguments'}."
        ) from error


def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """JSON Schema for hosts: small and portable."""
    schema = model.model_json_schema()
    properties = {
        name: _without(field, "title", "default")
        for name, field in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _without(schema: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}


def _describe_error(detail: ErrorDetails, model: type[Arguments]) -> str:
    name = _argument_path(detail["loc"], model)
    match detail["type"]:
        case "missing":
            return f"{name} is missing"
        case "extra_forbidden" if name == NOT_AN_OBJECT:
            return f"the arguments must be an object (got {abbreviate_value(detail['input'])})"
        case "string_too_long":
            return f"{name} must have at most {detail['ctx']['max_length']:,} characters"
        case "too_long":
            return f"{name} must have at most {detail['ctx']['max_length']} items"
        case "extra_forbidden":
            return f"{name} is unknown"
        case _:
            message = detail["msg"].removeprefix("Input should be ")
            return f"{name} must be {message} (got {abbreviate_value(detail['input'])})"


def _argument_path(location: tuple[int | str, ...], model: type[Arguments]) -> str:
    """Path of an argument, such as `args.2`; quoted if it has odd characters."""
    field, *rest = location
    known = model.model_fields.get(str(field))
    if known and not known.is_required():
        rest = rest[1:]  # which kind of value pydantic tried, and null is the other
    name = ".".join(map(str, (field, *rest)))
    quoted = abbreviate_value(name)
    return name if quoted == f"'{name}'" else quoted
