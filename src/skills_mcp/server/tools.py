"""The tools of both sets: texts for the model, arguments, handlers.

With the tool set `packages`, agents search, load and read skills by name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal, TypeVar, assert_never

import anyio.to_thread
from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails, from_json

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library import (
    DEFAULT_EXAMPLES,
    DEFAULT_LINES,
    MAX_DEPTH,
    CommandRequest,
    EntryRequest,
    LibraryView,
    Match,
    ScriptRequest,
)
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.server import replies
from skills_mcp.server.replies import Reply, current_rules
from skills_mcp.skills.access import EVERYTHING, FEEDBACK, READ, REFRESH
from skills_mcp.skills.skill_files import LineRange
from skills_mcp.skills.skill_index import SkillFilter
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

# Arguments of several tools.
SkillPathFound = Annotated[Text, Field(description="The skill_path that get_skill returned.")]
SkillName = Annotated[
    Text, Field(description="The skill's name, or its skill_path where names repeat.")
]
KnownDigest = Annotated[
    OptionalText,
    Field(
        description="The digest of the text you have already: if it is still "
        "current, you get its headings and musts instead."
    ),
]
Full = Annotated[
    bool | SkipJsonSchema[None], Field(description="The whole text, in spite of known_digest.")
]
# Of a long text, for a host that would cut it; a text has fewer parts than lines.
Part = Annotated[
    Annotated[int, Field(ge=1, le=_MAX_LINES)] | SkipJsonSchema[None],
    Field(description="The next_part of the reply before."),
]
Within = Annotated[
    OptionalText, Field(description='Choose only from this part of the tree: "ui/react".')
]
Category = Annotated[OptionalText, Field(description="Choose only from skills of this category.")]

# Longer than the largest argument, and short enough to parse in no time.
_INTEGER = re.compile(r"-?[0-9]{1,10}(?:\.0{1,10})?")
_BOOLEANS = {"true": True, "false": False}

# Gemini refuses an object without properties, although its keys may be any.
_ANY_NAME: dict[str, JsonValue] = {
    "NAME": {"type": "string", "description": "Its value; NAME stands for each name."}
}

# Pydantic reports a wrong optional value twice: by its type, and as not null.
_NULL_ERROR = "none_required"


class Arguments(BaseModel):
    """Arguments of a tool. Strict: only `parse_arguments` converts; no unknown names."""

    # Deferred, as a tool that is off must not delay the first answer.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


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
    known_digest: KnownDigest = None
    full: Full = None
    within: Within = None
    category: Category = None
    explain: bool | SkipJsonSchema[None] = Field(
        default=None, description="Whether to explain the answer."
    )
    part: Part = None


class ListSkills(Arguments):
    path: OptionalText = Field(
        default=None, description='Only this part of the tree: "ui" or "api/_index".'
    )
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] | SkipJsonSchema[None] = Field(
        default=None, description="How many levels to show."
    )
    cursor: OptionalText = Field(default=None, description="The next_cursor of the reply before.")


class GetAsset(Arguments):
    skill_path: SkillPathFound
    file: Text = Field(description="The file exactly as get_skill lists it.")
    part: Part = None


class RunScript(Arguments):
    skill_path: SkillPathFound
    file: Text = Field(description="The script exactly as get_skill lists it.")
    args: dict[str, str] = Field(
        description="The script's arguments by name, all as strings; {} for none.",
        json_schema_extra={"properties": _ANY_NAME},
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
    within: Within = None
    category: Category = None


class LoadSkill(Arguments):
    skill_name: SkillName
    known_digest: KnownDigest = None
    full: Full = None
    part: Part = None


class ReadSkillFile(Arguments):
    skill_name: SkillName
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
    skill_name: SkillName
    pattern: Pattern | SkipJsonSchema[None] = Field(
        default=None, description="A pattern of paths: *.md or scripts/*.py"
    )
    contains: OptionalText = Field(
        default=None, description="Only text files that contain this, in any case."
    )


class LoadSkillExamples(Arguments):
    skill_name: SkillName
    query: Text = Field(description="What the example should show.")
    # Not refused outside of 1 to 10 but moved there (003).
    top_k: int | SkipJsonSchema[None] = Field(
        default=None, description="How many, 1 to 10, 3 by default."
    )


class RunSkillCommand(Arguments):
    skill_name: SkillName
    command: Text = Field(description="The program: python, node, cat, …")
    args: Annotated[list[str], Field(max_length=_MAX_ARGS)] | SkipJsonSchema[None] = Field(
        default=None, description='Its arguments: ["scripts/check.py", "in.pdf"]'
    )


class RunSkillEntry(Arguments):
    skill_name: SkillName
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
        return model.model_validate(_normalize(model, values))
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


def _normalize(model: type[Arguments], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the unmistakable values of hosts that fill in each argument as text.

    Empty optional arguments are omitted; 2.0, "2" and "true" get the declared type.
    """
    types = _json_types(model)
    optional = {name for name, known in model.model_fields.items() if not known.is_required()}
    return {
        name: _convert(value, types.get(name))
        for name, value in values.items()
        if not (name in optional and isinstance(value, str) and not value.strip())
    }


def _convert(value: Any, json_type: str | None) -> Any:
    """Value of a JSON type; anything ambiguous stays for the validation."""
    match json_type, value:
        case "integer", float() if value.is_integer():
            return int(value)
        case "integer", str() if _INTEGER.fullmatch(value.strip()):
            return int(float(value))
        case "boolean", str():
            return _BOOLEANS.get(value.strip().lower(), value)
        case (("object" | "array"), str()):
            return _parse_container(value, json_type)
        case _:
            return value


def _parse_container(text: str, json_type: str) -> Any:
    try:
        parsed = from_json(text)
    except ValueError:
        return text
    return parsed if isinstance(parsed, dict if json_type == "object" else list) else text


@cache
def _json_types(model: type[Arguments]) -> dict[str, str]:
    properties = input_schema(model)["properties"].items()
    return {name: schema["type"] for name, schema in properties}


def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """JSON Schema for hosts: small and portable."""
    schema = model.model_json_schema()
    properties = {
        name: {key: value for key, value in field.items() if key not in {"title", "default"}}
        for name, field in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


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


LARGE_RESULT = {"anthropic/maxResultSizeChars": 500_000}

ONLY_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


def _writes(*, destructive: bool = False, idempotent: bool = False) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=True,
    )


RUNS_ANYTHING = _writes(destructive=True)

Handler = Callable[[LibraryView, Any], Any]
"""Gives a reply, on a thread unless it is a coroutine function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool: texts for the model, arguments, handler."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    handler: Handler
    annotations: ToolAnnotations
    meta: dict[str, Any] = field(default_factory=dict)
    scope: str = READ
    """OAuth scope required from the caller."""
    needs_content: bool = True
    """The call waits for the first snapshot."""
    is_slow: bool = False
    shared_description: str = ""
    """Description on a shared server, if it differs."""
    runs_code: bool = False
    """Runs a program on the machine of the server."""

    async def answer(self, library: LibraryView, arguments: Arguments) -> Reply:
        if iscoroutinefunction(self.handler):
            reply: Reply = await self.handler(library, arguments)
        else:
            reply = await anyio.to_thread.run_sync(self.handler, library, arguments)
        return reply

    def advertise(self, *, is_shared: bool = False) -> Tool:
        description = self.shared_description if is_shared else ""
        return Tool(
            name=self.name,
            title=self.title,
            description=description or self.description,
            input_schema=input_schema(self.arguments),
            annotations=self.annotations.model_copy(update={"title": self.title}),
            _meta=self.meta or None,
        )


# To route a sentence takes less time than to start a thread; a pasted ticket more.
_LONG_CONTEXT = 500


async def get_skill(library: LibraryView, arguments: GetSkill) -> Reply:
    """Answer `get_skill`.

    Raises:
        SkillNotFoundError: There is no skill at `skill_path`.
    """

    def route() -> Reply:
        scoping = SkillFilter(arguments.within or "", arguments.category or "")
        known_digest = None if arguments.full else arguments.known_digest
        query = (arguments.context, arguments.skill_path, known_digest)
        reply = _render(library.route(*query, scoping=scoping))
        if arguments.explain:
            explanation = library.explain(*query[:2], scoping=scoping)
            reply = replies.with_explanation(reply, explanation)
        return replace(reply, part=arguments.part or 1)

    is_long = len(arguments.context) > _LONG_CONTEXT or arguments.explain
    may_block = library.library.current.waits_for_network or library.access != EVERYTHING
    if is_long or may_block:
        return await anyio.to_thread.run_sync(route)
    return route()


def _render(answer: Match | Ambiguous | NoMatch) -> Reply:
    match answer:
        case NoMatch():
            return replies.no_match(answer)
        case Ambiguous():
            return replies.ambiguous(answer)
        case Match():
            return replies.match(answer)
    assert_never(answer)


def _list_skills(library: LibraryView, arguments: ListSkills) -> Reply:
    limit = current_rules().max_characters
    metadata = replies.tree_metadata(
        library.snapshot.algorithm, library.states(), library.core_skills(), limit
    )
    part = library.list_skills(
        arguments.path,
        depth=arguments.depth,
        cursor=arguments.cursor,
        max_characters=replies.tree_budget(metadata, limit),
    )
    return replies.listing(part, metadata)


def _get_asset(library: LibraryView, arguments: GetAsset) -> Reply:
    served = library.read_asset(arguments.skill_path, arguments.file)
    reply = replies.asset(served, library.config.assets.inline_text_max_bytes)
    return replace(reply, part=arguments.part or 1)


async def _run_script(library: LibraryView, arguments: RunScript) -> Reply:
    request = ScriptRequest(**arguments.model_dump())
    return replies.script_result(arguments.file, await library.run(request))


async def _report_usage(library: LibraryView, arguments: ReportUsage) -> Reply:
    library.report(arguments.skill_path, useful=arguments.useful, comment=arguments.comment)
    return replies.feedback_result(arguments.skill_path)


async def _refresh_skills(library: LibraryView, _: RefreshSkills) -> Reply:
    return replies.refresh_result(await library.library.refresh(library.access))


CORE_TOOLS = (
    ToolSpec(
        name="get_skill",
        title="Get the rules for a task",
        description=(
            "Find this organisation's skill for a task: the rules to follow (from "
            "global to specific), with the templates and scripts that belong to "
            "them. Call it before you write, change or review code, configuration "
            "or infrastructure, and again when the task moves to another area.\n\n"
            'Describe the task in "context" with the technologies involved. The '
            'reply is a match with "content" to follow; or "ambiguous" with '
            "candidates: call again with the skill_path that fits; or "
            '"no_match": go on without a skill, or look at one under "near". A long '
            'text comes in parts: call again with skill_path and part as "next_part" '
            "says."
        ),
        arguments=GetSkill,
        handler=get_skill,
        annotations=ONLY_READS,
        meta={
            "anthropic/alwaysLoad": True,
            "anthropic/searchHint": (
                "organisation rules, conventions, best practices, guidelines, "
                "standards, templates, how we do things here"
            ),
            **LARGE_RESULT,
        },
    ),
    ToolSpec(
        name="list_skills",
        title="Browse all skills",
        description=(
            "Show the tree of all skills with description, keywords and the number "
            "of assets and scripts, and how new each source is. Use it to see what "
            "exists or to find a skill_path; to work on a task, call get_skill "
            "instead. A large tree comes in parts: open a folder that has "
            '"skillCount" with path, and go on with cursor.'
        ),
        arguments=ListSkills,
        handler=_list_skills,
        annotations=ONLY_READS,
        meta=LARGE_RESULT,
    ),
    ToolSpec(
        name="get_asset",
        title="Get a template or script",
        description=(
            "Fetch a file that get_skill lists under assets, scripts, "
            "inherited_assets or inherited_scripts. Text comes as "
            '"content", everything else as "content_base64" with "mime_type". Use '
            "the skill_path you asked get_skill for, also for inherited files."
        ),
        arguments=GetAsset,
        handler=_get_asset,
        annotations=ONLY_READS,
        meta=LARGE_RESULT,
    ),
    ToolSpec(
        name="run_script",
        title="Run a skill's script",
        description=(
            'Run a script that a skill declares with execution "server" and return '
            "its exit code, stdout and stderr. It runs in a sandbox of this machine, "
            "mostly without network, and may only read cwd. Pass the arguments that "
            'get_skill lists for it. Scripts with execution "claude" are for your own '
            "shell: fetch them with get_asset."
        ),
        arguments=RunScript,
        handler=_run_script,
        annotations=RUNS_ANYTHING,
        runs_code=True,
        is_slow=True,
    ),
    ToolSpec(
        name="report_usage",
        title="Say whether a skill helped",
        description=(
            "Tell the skill's authors whether it helped, once per skill at the end "
            'of a task. Say in "comment" what was wrong, outdated or missing.'
        ),
        arguments=ReportUsage,
        handler=_report_usage,
        annotations=_writes(),
        scope=FEEDBACK,
    ),
    ToolSpec(
        name="refresh_skills",
        title="Fetch the newest skills",
        description=(
            "Fetch the newest skills now and say which commit is served, and which "
            "skills were added, changed or removed. Skills refresh by themselves "
            "every few minutes; call this only when the user has just merged a "
            "change or asks for it."
        ),
        arguments=RefreshSkills,
        handler=_refresh_skills,
        annotations=_writes(idempotent=True),
        scope=REFRESH,
        needs_content=False,
        is_slow=True,
    ),
)
"""Listed by hosts in this order, which never changes (prompt caches)."""


def _search_skills(library: LibraryView, arguments: SearchSkills) -> Reply:
    scoping = SkillFilter(arguments.within or "", arguments.category or "", arguments.scope)
    found = library.search(arguments.query, limit=arguments.limit, scoping=scoping)
    return replies.search_result(found)


def _load_skill(library: LibraryView, arguments: LoadSkill) -> Reply:
    known_digest = None if arguments.full else arguments.known_digest
    loaded = library.load_skill(arguments.skill_name, known_digest=known_digest)
    return replace(replies.skill_result(loaded), part=arguments.part or 1)


def _read_skill_file(library: LibraryView, arguments: ReadSkillFile) -> Reply:
    is_partial = arguments.start_line is not None or arguments.max_lines is not None
    start = arguments.start_line or 1
    lines = LineRange(start, arguments.max_lines or DEFAULT_LINES) if is_partial else None
    max_bytes = current_rules().text_bytes
    read = library.read_file(arguments.skill_name, arguments.file_path, lines, max_bytes=max_bytes)
    return replies.file_result(read)


def _find_skill_files(library: LibraryView, arguments: FindSkillFiles) -> Reply:
    pattern, contains = arguments.pattern or "**/*", arguments.contains or ""
    return replies.files_result(
        library.find_files(arguments.skill_name, pattern=pattern, contains=contains)
    )


def _load_skill_examples(library: LibraryView, arguments: LoadSkillExamples) -> Reply:
    top_k = DEFAULT_EXAMPLES if arguments.top_k is None else arguments.top_k
    limit = current_rules().max_characters
    loaded = library.load_examples(
        arguments.skill_name, arguments.query, top_k, max_characters=limit
    )
    return replies.examples_result(loaded)


async def _run_skill_command(library: LibraryView, arguments: RunSkillCommand) -> Reply:
    request = CommandRequest(
        skill_name=arguments.skill_name,
        command=arguments.command,
        args=tuple(arguments.args or ()),
    )
    return replies.command_result(await library.run(request))


async def _run_skill_entry(library: LibraryView, arguments: RunSkillEntry) -> Reply:
    request = EntryRequest(skill_name=arguments.skill_name, args=arguments.args or "")
    return replies.entry_result(await library.run(request))


PACKAGE_TOOLS = (
    ToolSpec(
        name="search_skills",
        title="Search the skills",
        description=(
            "List the skills that fit a task or a question best, with name, "
            "description, path and score. Load the one that fits with load_skill."
        ),
        arguments=SearchSkills,
        handler=_search_skills,
        annotations=ONLY_READS,
        meta=LARGE_RESULT,
    ),
    ToolSpec(
        name="load_skill",
        title="Load a skill",
        description=(
            'Return the instructions of one skill by its name, with its folder "path" '
            "and its files. Paths in the instructions are relative to that folder. "
            "Read a file with read_skill_file; run scripts in your own shell. A long "
            'text comes in parts: go on with part set to "next_part".'
        ),
        shared_description=(
            "Return the instructions of one skill by its name, and its files. Paths in "
            "the instructions are relative to the skill's folder. Read a file with "
            "read_skill_file; fetch scripts with it, too, and run them in your own "
            'shell. A long text comes in parts: go on with part set to "next_part".'
        ),
        arguments=LoadSkill,
        handler=_load_skill,
        annotations=ONLY_READS,
        meta=LARGE_RESULT,
    ),
    ToolSpec(
        name="read_skill_file",
        title="Read a skill's file",
        description=(
            "Read a file that belongs to a skill: a reference, a template, a script. "
            'Long texts are cut: go on with start_line set to "next_line".'
        ),
        arguments=ReadSkillFile,
        handler=_read_skill_file,
        annotations=ONLY_READS,
        meta=LARGE_RESULT,
    ),
    ToolSpec(
        name="find_skill_files",
        title="Find files of a skill",
        description=(
            "List the files of a skill, all of them or those whose path fits a "
            "pattern or whose text contains some words."
        ),
        arguments=FindSkillFiles,
        handler=_find_skill_files,
        annotations=ONLY_READS,
    ),
    ToolSpec(
        name="load_skill_examples",
        title="Load examples of a skill",
        description=(
            "Return the examples of a skill that fit a query best: how others did it, "
            "and the tasks it is for. Cut texts go on in read_skill_file."
        ),
        arguments=LoadSkillExamples,
        handler=_load_skill_examples,
        annotations=ONLY_READS,
        meta=LARGE_RESULT,
    ),
)

COMMAND_TOOLS = (
    ToolSpec(
        name="run_skill_command",
        title="Run a command of a skill",
        description=(
            "Run one of the allowed programs in a copy of the skill's folder and "
            "return its exit code, stdout and stderr. The copy is deleted afterwards: "
            "print what you need. If you have a shell of your own, use that instead, "
            "with the path that load_skill returns."
        ),
        arguments=RunSkillCommand,
        handler=_run_skill_command,
        annotations=RUNS_ANYTHING,
        runs_code=True,
        is_slow=True,
    ),
    ToolSpec(
        name="run_skill_entry",
        title="Run a skill's entry",
        description=(
            'Run the command that load_skill names as "entry", in the same way, with '
            "your args behind it."
        ),
        arguments=RunSkillEntry,
        handler=_run_skill_entry,
        annotations=RUNS_ANYTHING,
        runs_code=True,
        is_slow=True,
    ),
)
"""Only with `commands.enabled`."""
