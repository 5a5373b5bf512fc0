"""Replies of tools: their JSON, errors, and how long texts are split for a client."""

import base64
import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skills_mcp import errors
from skills_mcp.config.sections import Responses
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library import (
    MAX_LISTED_FILES,
    FoundFiles,
    Listing,
    LoadedSkill,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    Refreshed,
    ServedExamples,
    ServedFile,
    SkillChanges,
    SourceState,
    render_applies,
    render_error,
    render_relations,
    render_state,
    render_status,
    sha256_of,
)
from skills_mcp.library.listing import json_length
from skills_mcp.processes.memory import translate_out_of_memory
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.search import Hit, SearchResult
from skills_mcp.skills.model import Asset, Inventory, Script, Skill, SkillPath
from skills_mcp.skills.skill_examples import FittingExample
from skills_mcp.skills.skill_parser import MAX_DESCRIPTION
from skills_mcp.text.rendering import abbreviate_value, render_time, truncate_text

if TYPE_CHECKING:
    from skills_mcp.routing.answer_explanation import Explanation
    from skills_mcp.skills.composition import Outline

# Where a tool is not offered, the one that comes nearest is named.
_EQUIVALENTS = {
    "list_skills": "search_skills",
    "search_skills": "list_skills",
    "get_skill": "load_skill",
    "load_skill": "get_skill",
    "get_asset": "read_skill_file",
    "read_skill_file": "get_asset",
    "find_skill_files": "get_skill",
}

# Without an equivalent: who may not ask for a sync has to wait for it.
_REFRESH_TOOL = "refresh_skills"
_REFRESH = re.compile(rf"([Cc])all {_REFRESH_TOOL}\b")
_WAITS = {"C": "Wait for the next sync", "c": "wait for the next sync"}

_NAME = re.compile(r"\b(?:" + "|".join(_EQUIVALENTS) + r")\b")
_REPETITION = re.compile(r"\b(\w+) or \1\b")


def replace_unavailable_tools(message: str, available: Collection[str]) -> str:
    """Replace names of unavailable tools by their nearest equivalent.

    Lower layers name one tool per operation, regardless of tool sets and caller.

    >>> replace_unavailable_tools("list_skills or search_skills shows all.", {"list_skills"})
    'list_skills shows all.'
    """

    def name(found: re.Match[str]) -> str:
        tool = found[0]
        return tool if tool in available else _EQUIVALENTS[tool]

    if _REFRESH_TOOL not in available:
        message = _REFRESH.sub(lambda found: _WAITS[found[1]], message)
    return _REPETITION.sub(r"\1", _NAME.sub(name, message))


MAX_LISTED_CHANGES = 50
"""Maximum length of each list in a refresh; a first sync may bring thousands."""

_NEAR_MISSES_HINT = (
    "The nearest ones are under near: call get_skill again with the skill_path of one "
    "that fits, or go on without a skill."
)

_LONGEST_PATH = 1024  # more than a path of a skill can have

# Of what says how to go on, and of the paths of core skills in one reply.
_MESSAGE_CHARACTERS = 700
_CORE_CHARACTERS = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """JSON object of a tool result, with hints for its rendering."""

    data: Mapping[str, Any]
    prose: str | None = None
    """Key of the long text: split into parts, and a separate block in Markdown."""
    is_inline: bool = False
    """The text is short enough to stay in the JSON."""
    part: int = 1
    """Requested part of the text, from 1."""
    is_error: bool = False
    lists: tuple[str, ...] = ()
    """Keys of lists that may be truncated, if present.

    `a.b` is the key `b` of the object `a`.
    """
    local_paths: tuple[str, ...] = ()
    """Keys with folders of this machine, meaningless to remote clients."""
    cut_key: str = ""
    """Key set to true on truncation, in addition to `<list>_count`."""


def take_within_budget(items: Sequence[T], max_characters: int) -> list[T]:
    ends = accumulate(map(json_length, items))
    return list(items[: bisect_right(list(ends), max_characters)])


def no_match(decision: NoMatch) -> Reply:
    message = "No skill matches the given context."
    if not decision.near:
        return Reply({"no_match": True, "message": message})
    near = [_near(candidate) for candidate in decision.near]
    return Reply({"no_match": True, "near": near, "message": f"{message} {_NEAR_MISSES_HINT}"})


def ambiguous(decision: Ambiguous) -> Reply:
    return Reply(
        {
            "ambiguous": True,
            "candidates": [_candidate(candidate) for candidate in decision.candidates],
            "message": _describe_choice(decision),
        },
        lists=("candidates",),
    )


def _describe_choice(decision: Ambiguous) -> str:
    message = "Multiple skills match. Specify your need or pick a skill_path."
    if not decision.is_low_confidence:
        return message
    if len(decision.candidates) == 1:
        message = "This skill may match. Pick its skill_path if it is for your task."
    return f"{message} If none of these fits, go on without."


INVENTORY_LISTS = (
    "file_inventory.scriptFiles",
    "file_inventory.referenceFiles",
    "file_inventory.templateFiles",
)

_GUIDANCE_LISTS = ("assets", "scripts", "inherited_assets", "inherited_scripts")


def match(found: Match) -> Reply:
    skill = found.skill
    data: dict[str, Any] = {
        "skill_path": skill.path,
        "score": found.score,
        "matched_keywords": list(found.matched_keywords),
        **name_near_copies(found.near_copies),
        **({"replaces": found.replaces} if found.replaces else {}),
        **_name_both(skill, found.also),
        **render_relations(skill, found.relations),
        **render_applies(found.applies),
    }
    if found.is_known:
        data |= {"digest": found.digest, **unchanged_text(skill, found.outline)}
        return Reply(data | render_provenance(found.provenance), lists=OUTLINE_LISTS)
    data |= {
        "content": found.content,
        "assets": [_asset(entry) for entry in skill.assets[:MAX_LISTED_FILES]],
        "scripts": [_script(entry) for entry in skill.scripts[:MAX_LISTED_FILES]],
        "inherited_assets": [
            {**_asset(item.entry), "from": item.source} for item in found.inherited_assets
        ],
        "inherited_scripts": [
            {**_script(item.entry), "from": item.source} for item in found.inherited_scripts
        ],
        "digest": found.digest,
        **render_inventory(skill.inventory),
        "sha256": sha256_of(found.content),
    }
    if max(len(skill.assets), len(skill.scripts)) > MAX_LISTED_FILES:
        data["files_truncated"] = True
    return Reply(
        data | render_provenance(found.provenance),
        prose="content",
        lists=(*_GUIDANCE_LISTS, *INVENTORY_LISTS),
        cut_key="files_truncated",
    )


def _name_both(skill: Skill, also: Skill | None) -> dict[str, Any]:
    if also is None:
        return {}
    message = (
        f"Both apply: {skill.path} and {also.path}. "
        f"For the files of {also.path}, call get_skill with it as skill_path."
    )
    return {"skill_paths": [skill.path, also.path], "message": message}


def with_explanation(reply: Reply, explanation: "Explanation") -> Reply:
    from skills_mcp.routing.answer_explanation import render_explanation

    data = {**reply.data, "explanation": render_explanation(explanation)}
    lists = ("explanation.candidates", "explanation.words", "explanation.notes")
    return replace(reply, data=data, lists=(*reply.lists, *lists))


def with_core_skills(reply: Reply, paths: Sequence[str]) -> Reply:
    if not paths:
        return reply
    hint = "The core_skills hold for every task: read them, too, unless you have."
    named = {**_name_core_skills(paths), "core_skills_hint": hint}
    return replace(reply, data={**reply.data, **named})


def with_available_tools(reply: Reply, available: Collection[str]) -> Reply:
    """Replace tools in an error message that the caller does not have."""
    error = reply.data.get("error")
    if not isinstance(error, Mapping):
        return reply
    details = {
        **error,
        "message": replace_unavailable_tools(str(error.get("message", "")), available),
    }
    return replace(reply, data={**reply.data, "error": details})


_SCRIPT_LISTS = ("scripts", "inherited_scripts")


def for_remote_client(reply: Reply) -> Reply:
    """Adapt a reply to an agent without access to the server's disk."""
    data = dict(reply.data)
    for key in _SCRIPT_LISTS:
        if key in data:
            data[key] = [{**script, "execution": "claude"} for script in data[key]]
    if "sources" in data:
        data["sources"] = list(map(_without_folder, data["sources"]))
    return replace(reply, data=data | dict.fromkeys(reply.local_paths))


def _without_folder(source: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a folder source to its last path component."""
    is_folder = source.get("mode") == "local"
    return {**source, "name": PurePath(source["name"]).name} if is_folder else {**source}


def _name_core_skills(paths: Sequence[str]) -> dict[str, Any]:
    listed = take_within_budget(paths, _CORE_CHARACTERS)
    data: dict[str, Any] = {"core_skills": listed}
    if len(listed) < len(paths):
        data["core_skills_count"] = len(paths)
    return data


def tree_metadata(
    algorithm: str,
    states: Iterable[SourceState],
    core_skills: Sequence[str],
    max_characters: int,
) -> dict[str, Any]:
    """Fields of `list_skills` around the tree; long lists are truncated and counted."""
    sources = list(map(render_state, states))
    data: dict[str, Any] = {
        "algorithm": algorithm,
        "sources": take_within_budget(sources, max_characters // 4),
    }
    if len(data["sources"]) < len(sources):
        data["sources_count"] = len(sources)
    return data | (_name_core_skills(core_skills) if core_skills else {})


def tree_budget(metadata: Mapping[str, Any], max_characters: int) -> int:
    """Character budget for the tree of `list_skills`."""
    return max_characters - json_length(metadata) - _MESSAGE_CHARACTERS


def listing(part: Listing, metadata: Mapping[str, Any]) -> Reply:
    """Reply of `list_skills`; hosts cut long texts, so the cursor precedes the tree."""
    body = {"tree": part.tree, **metadata, "total": part.total}
    if part.depth is None:
        return Reply(body)
    data: dict[str, Any] = {
        "message": " ".join(_describe_part(part)),
        "total": part.total,
        "shown": part.displayed,
        "depth": part.depth,
    }
    if part.next_cursor is not None:
        data["next_cursor"] = part.next_cursor
    return Reply(data | body)


def _describe_part(part: Listing) -> Iterator[str]:
    yield f"This reply shows {part.displayed:,} of {part.total:,} skills."
    if part.areas:
        yield (
            "A folder with skillCount is closed, and that many skills are in it: "
            "call list_skills with its path to open it."
        )
    if part.next_cursor is not None:
        yield "For the next part, call list_skills with next_cursor as cursor."
    if part.is_shortened:
        yield "Long descriptions, keywords and lists of copies are shortened."
    yield "To find the skill for a task, call get_skill instead."


def asset(served: ServedFile, inline_text_max_bytes: int) -> Reply:
    """Reply of `get_asset`: text, or Base64 with a MIME type."""
    size = len(served.content.data)
    data: dict[str, Any] = {"skill_path": served.skill_path, "file": served.file}
    if served.content.is_binary:
        data["content_base64"] = base64.b64encode(served.content.data).decode("ascii")
    else:
        data["content"] = served.content.data.decode("utf-8")
    data |= {"size_bytes": size, "type": served.type}
    if served.content.is_binary:
        data["mime_type"] = served.content.mime_type
    if served.resolved_from:
        data["resolved_from"] = served.resolved_from
    data |= {"sha256": sha256_of(served.content.data)}
    data |= render_provenance(served.provenance)
    return Reply(
        data,
        prose=None if served.content.is_binary else "content",
        is_inline=size <= inline_text_max_bytes,
    )


def script_result(file: str, ran: RanScript) -> Reply:
    result = ran.result
    return Reply(
        {
            "success": result.success,
            "exit_code": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "duration_ms": round(result.duration_seconds * 1000),
            "script": file,
            "timed_out": result.timed_out,
            "sandbox": result.sandbox,
            "confined": result.confined,
            "sha256": ran.sha256,
            "stdout_bytes": result.stdout_bytes,
            "stderr_bytes": result.stderr_bytes,
            "truncated": {
                "stdout": result.truncated_stdout,
                "stderr": result.truncated_stderr,
            },
            **render_provenance(ran.provenance),
        }
    )


def feedback_result(skill_path: str) -> Reply:
    is_plain = skill_path.isprintable() and len(skill_path) <= _LONGEST_PATH
    displayed = skill_path if is_plain else abbreviate_value(skill_path)
    return Reply({"recorded": True, "message": f"Feedback recorded for {displayed}"})


_CHANGE_LISTS = ("added", "changed", "removed", "broken", "sources")


def refresh_result(result: Refreshed) -> Reply:
    """Reply of `refresh_skills`; after a failure, of the content still served."""
    if result.mode == "git":
        data: dict[str, Any] = {
            "success": result.error is None,
            "commit_hash": result.commit,
            "files_changed": result.files_changed,
            "skills_reindexed": result.skills_reindexed,
            "last_sync": render_time(result.synced_at) if result.synced_at else None,
        }
    else:
        data = {
            "success": result.error is None,
            "mode": "local",
            "skills_reindexed": result.skills_reindexed,
        }
        if result.error is None:
            data["message"] = "Reindexed from local directory (no git sync configured)."
    data |= _changes(result.changes)
    data["sources"] = list(map(render_state, result.sources))
    if result.error:
        data["error"] = render_error(result.error)
    return Reply(
        data,
        is_error=result.error is not None,
        lists=_CHANGE_LISTS,
    )


def render_inventory(found: Inventory | None) -> dict[str, Any]:
    """File inventory of a package; empty for a rule file."""
    if found is None:
        return {}
    lists = {
        "scriptFiles": found.script_files,
        "referenceFiles": found.reference_files,
        "templateFiles": found.template_files,
    }
    return {
        "file_inventory": {
            "hasSkillMd": True,
            "hasScripts": bool(found.script_files),
            "hasReferences": bool(found.reference_files),
            **{key: list(files[:MAX_LISTED_FILES]) for key, files in lists.items()},
            "totalFiles": found.total_files,
            "totalSizeBytes": found.total_size_bytes,
        }
    }


OUTLINE_LISTS = ("headings", "must_lines", "inherited_must_lines")


def unchanged_text(skill: Skill, outline: "Outline | None") -> dict[str, Any]:
    """Fields instead of a text already in the conversation, with its outline."""
    message = (
        f"The text of {skill.path} that you had is still current. Its headings and must-lines are "
        "here; call again with full set to true for the whole text."
    )
    found = {name: list(getattr(outline, name, ())) for name in OUTLINE_LISTS}
    lists = {name: lines for name, lines in found.items() if lines}
    return {"unchanged": True, "message": message, **lists}


def render_provenance(provenance: Provenance, path_key: str = "path") -> dict[str, Any]:
    """Provenance; commits of inherited rules only where they differ."""
    data: dict[str, Any] = {"commit": provenance.commit, path_key: provenance.path}
    if provenance.inherited_commits:
        data["inherited_commits"] = dict(provenance.inherited_commits)
    return data


def _changes(changes: SkillChanges) -> dict[str, Any]:
    """Added, changed and removed skills; counts for truncated lists."""
    lists: dict[str, tuple[str, ...]] = {
        "added": changes.added,
        "changed": changes.changed,
        "removed": changes.removed,
    }
    if changes.broken:
        lists["broken"] = changes.broken
    data: dict[str, Any] = {}
    for name, paths in lists.items():
        data[name] = list(paths[:MAX_LISTED_CHANGES])
        if len(paths) > MAX_LISTED_CHANGES:
            data[f"{name}_count"] = len(paths)
    if changes.loss:
        data["warning"] = f"Tell the user: {changes.loss}."
    return data


def _near(candidate: Candidate) -> dict[str, Any]:
    return {
        "skill_path": candidate.skill.path,
        "score": candidate.score,
        "description": cut_description(candidate.skill.description),
        **name_near_copies(candidate.near_copies),
        **render_status(candidate.skill),
    }


def name_near_copies(paths: Sequence[SkillPath]) -> dict[str, Any]:
    return {"near_copies": list(paths)} if paths else {}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    keywords = {"matched_keywords": list(candidate.matched_keywords)}
    return {**_near(candidate), **keywords, **render_applies(candidate.applies)}


def cut_description(description: str) -> str:
    """Truncate to the limit of the Agent Skills standard."""
    return truncate_text(description, MAX_DESCRIPTION)


def _asset(asset: Asset) -> dict[str, Any]:
    return {"file": asset.file, "description": asset.description, "type": asset.type}


def _script(script: Script) -> dict[str, Any]:
    return {
        "file": script.file,
        "description": script.description,
        "execution": script.execution,
        "args": [
            {"name": a.name, "description": a.description, "required": a.required}
            for a in script.args
        ],
    }


_NOT_FOUND_BEFORE_2026 = -32002

_NOT_FOUND = (
    errors.AmbiguousNameError,
    errors.InvalidPathError,
    errors.SkillDisabledError,
    errors.SkillNotFoundError,
    errors.UndeclaredFileError,
)


async def reply_or_error(work: Awaitable[T]) -> T | Reply:
    """Await a reply; translate a `SkillsError` into an error reply."""
    try:
        with translate_out_of_memory():
            return await work
    except errors.SkillsError as error:
        return error_reply(error)


def error_reply(error: errors.SkillsError) -> Reply:
    _drop_tracebacks(error)
    return Reply({"error": render_error(error)}, is_error=True)


def derive_protocol_error(error: errors.SkillsError, protocol_version: str, uri: str) -> MCPError:
    """Protocol error for an unreadable resource, with the code of the `SkillsError`."""
    if isinstance(error, _NOT_FOUND):
        is_modern = protocol_version in MODERN_PROTOCOL_VERSIONS
        code = INVALID_PARAMS if is_modern else _NOT_FOUND_BEFORE_2026
    elif isinstance(error, errors.InvalidArgumentsError):
        code = INVALID_PARAMS
    else:
        code = INTERNAL_ERROR
    _drop_tracebacks(error)
    details = render_error(error)
    data = {"code": details["code"], "uri": uri}
    return MCPError(code=code, message=details["message"], data=data)


def _drop_tracebacks(error: BaseException) -> None:
    """Drop tracebacks: they keep local variables of failed functions alive.

    The result of a thread and the waiting frame form a reference cycle, so the snapshot
    of a refused call, with its open files, would live until the next garbage
    collection.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__


# Where a piece begins, from the best place for a cut to the worst.
_Border = Literal[0, 1, 2, 3]
_HEADING: _Border = 0
_BLOCK: _Border = 1
_LINE: _Border = 2
_INSIDE: _Border = 3

# How full a part has to be for a cut there; at a worse place it would be fuller.
_MIN_FILL: Sequence[tuple[_Border, float]] = (
    (_HEADING, 0.5),
    (_BLOCK, 0.25),
    (_LINE, 0.0),
)

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def split_markdown(text: str, limit: int, measure: Callable[[str], int]) -> tuple[str, ...]:
    """Split Markdown into parts, at headings if possible.

    The concatenated parts equal the text, byte for byte. A part measures at most
    `limit`, but has at least one character.
    """
    if measure(text) <= limit:
        return (text,)
    pieces = list(_split_lines(text, limit, measure))
    ends = list(accumulate(measure(piece) for piece, _ in pieces))
    borders = [border for _, border in pieces]
    parts, begin = [], 0
    while begin < len(pieces):
        end = _find_end(ends, borders, begin, limit)
        parts.append("".join(piece for piece, _ in pieces[begin:end]))
        begin = end
    return tuple(parts)


def _find_end(ends: Sequence[int], borders: Sequence[_Border], begin: int, limit: int) -> int:
    used = ends[begin - 1] if begin else 0
    last = begin + 1
    while last < len(ends) and ends[last] - used <= limit:
        last += 1
    if last == len(ends):
        return last
    for border, share in _MIN_FILL:
        for index in range(last, begin, -1):
            if ends[index - 1] - used < limit * share:
                break
            if borders[index] <= border:
                return index
    return last


def _split_lines(
    text: str, limit: int, measure: Callable[[str], int]
) -> Iterator[tuple[str, _Border]]:
    """Yield lines with the borders before them; overlong lines in pieces."""
    starts = _find_blocks(text)
    for number, line in enumerate(_LINES.findall(text)):
        border = starts.get(number, _LINE)
        while measure(line) > limit and len(line) > 1:
            size = _fitting_length(line, limit, measure)
            yield line[:size], border
            line, border = line[size:], _INSIDE  # noqa: PLW2901 - its rest
        yield line, border


def _fitting_length(line: str, limit: int, measure: Callable[[str], int]) -> int:
    """Longest prefix of a line within the limit, at least one character (bisection)."""
    low, high = 1, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(line[:middle]) <= limit else (low, middle - 1)
    return low


def _find_blocks(text: str) -> dict[int, _Border]:
    from markdown_it import MarkdownIt

    found: dict[int, _Border] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.level == 0 and token.map and token.nesting >= 0:
            kind = _HEADING if token.type == "heading_open" else _BLOCK
            found[token.map[0]] = kind
    return found


ReplyFormat = Literal["json", "markdown"]

# Beside a text: files, commit, and how to go on.
_METADATA_CHARACTERS = 4_000


class KnownClient(NamedTuple):
    """A client that truncates or escapes long replies."""

    name: str
    """Prefix of its `clientInfo.name`."""
    text_bytes: int
    text_lines: int | None = None
    """Maximum number of lines, if the client counts them."""


KNOWN_CLIENTS = (
    KnownClient("codex-mcp-client", 30_000),
    KnownClient("gemini-cli-mcp-client", 34_000),
    KnownClient("opencode", 44_000, 1_900),
    KnownClient("copilot-cli", 14_000),
)
"""Each below its measured limit, with a reserve for the metadata."""


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """Format and limits of the replies of one call."""

    format: ReplyFormat
    max_characters: int
    text_bytes: int | None = None
    """Of one part of a text, in UTF-8; None: never split."""
    text_lines: int | None = None

    def measure(self, text: str) -> int:
        """Share of `text_bytes` used by a text."""
        is_escaped = self.format == "json"
        written = json.dumps(text, ensure_ascii=False) if is_escaped else text
        size = len(written.encode("utf-8", "surrogatepass"))
        if self.text_bytes is None or self.text_lines is None:
            return size
        line = self.text_bytes // self.text_lines
        return max(size, line * text.count("\n"))


_RULES: ContextVar[ReplyRules] = ContextVar("reply_rules")


def derive_rules(client: str, responses: Responses) -> ReplyRules:
    """Reply rules for a client.

    Args:
        client: `clientInfo.name`, empty if unknown.
        responses: The settings; `auto` leaves the format to the table.
    """
    found = next(
        (client_limits for client_limits in KNOWN_CLIENTS if client.startswith(client_limits.name)),
        None,
    )
    if found is None:
        style: ReplyFormat = "markdown" if responses.format == "markdown" else "json"
        return ReplyRules(style, responses.max_characters)
    return ReplyRules(
        "json" if responses.format == "json" else "markdown",
        min(responses.max_characters, found.text_bytes + _METADATA_CHARACTERS),
        found.text_bytes,
        found.text_lines,
    )


@contextmanager
def use_reply_rules(rules: ReplyRules) -> Iterator[None]:
    """Set the rules for `current_rules` in the block and its threads."""
    token = _RULES.set(rules)
    try:
        yield
    finally:
        _RULES.reset(token)


def current_rules() -> ReplyRules:
    """Reply rules of the current call.

    Raises:
        LookupError: No call is being answered: a defect of this program.
    """
    return _RULES.get()


_MIN_SHARE = 8  # of a reply: what lists have beside a text that is as long as itself
_COUNT_CHARACTERS = 40  # characters of `"scriptFiles_count": 5000, `

_COMMIT_DIGITS = 12  # digits, as Git shows them

# Of a text with a block of its own, a model needs no more than how to use it.
_OMITTED_KEYS = frozenset(
    {
        "category",
        "description",
        "encoding",
        "file_inventory",
        "inherited_commits",
        "matched_keywords",
        "path",
        "scope",
        "score",
        "sha256",
        "size_bytes",
        "source_path",
    }
)
_ASSET_LISTS = ("assets", "inherited_assets")

_MORE_HINT = "This text has more: call again with part set to next_part before you act."

# What a later part repeats, so that it can be told whose it is.
_REPEATED = ("skill_path", "name", "file", "digest")


def render_tool_result(reply: Reply, rules: ReplyRules) -> CallToolResult:
    """Render a reply as MCP tool result.

    Without `structuredContent`: hosts show it instead of the text.
    """
    try:
        texts = _render_texts(reply, rules)
    except InvalidArgumentsError as error:
        reply = error_reply(error)
        texts = _render_texts(reply, rules)
    blocks = [TextContent(type="text", text=text) for text in texts]
    return CallToolResult(content=list(blocks), is_error=reply.is_error)


def _render_texts(reply: Reply, rules: ReplyRules) -> list[str]:
    data = _select_part(reply, rules)
    has_block = rules.format == "markdown" and not reply.is_inline
    if not reply.prose or not has_block or reply.prose not in data:
        text = _to_json(data)
        if len(text) > rules.max_characters:
            text = _to_json(truncate_lists(data, reply, rules.max_characters))
        return [text]
    text = data.pop(reply.prose)
    short = truncate_lists(_shorten(data), reply, rules.max_characters)
    return [json.dumps(short, ensure_ascii=False, separators=(",", ":")), text]


def _select_part(reply: Reply, rules: ReplyRules) -> dict[str, Any]:
    """Data with the requested part of the text."""
    data = dict(reply.data)
    text = data.get(reply.prose) if reply.prose else None
    parts: Sequence[str] = ("",)
    if text and rules.text_bytes is not None:
        parts = split_markdown(text, rules.text_bytes, rules.measure)
    if reply.part > len(parts):
        count = "1 part" if len(parts) == 1 else f"{len(parts)} parts"
        raise InvalidArgumentsError(
            f"part: this text has {count}. Leave part out to begin with the first."
        )
    if len(parts) == 1 or not reply.prose:
        return data
    if reply.part > 1:
        data = {key: data[key] for key in _REPEATED if key in data}
    navigation: dict[str, Any] = {"part": reply.part, "parts": len(parts)}
    if reply.part < len(parts):
        navigation |= {"next_part": reply.part + 1, "message": _MORE_HINT}
    return navigation | data | {reply.prose: parts[reply.part - 1]}


def _shorten(data: Mapping[str, Any]) -> dict[str, Any]:
    """Minimal metadata of a text: names, and usage of scripts.

    Inherited files are fetched and run like the skill's own.
    """
    fields = {
        key: value
        for key, value in data.items()
        if key not in _OMITTED_KEYS or (key == "path" and data.get("name"))
    }
    if fields.get("commit"):
        fields["commit"] = fields["commit"][:_COMMIT_DIGITS]
    assets = [entry for key in _ASSET_LISTS for entry in fields.pop(key, ())]
    scripts = [entry for key in _SCRIPT_LISTS for entry in fields.pop(key, ())]
    for_server = [entry for entry in scripts if entry["execution"] == "server"]
    fields |= {
        "assets": [entry["file"] for entry in assets],
        "scripts": [_usage(entry) for entry in scripts if entry not in for_server],
        "run_script": list(map(_usage, for_server)),
    }
    return {k: v for k, v in fields.items() if v not in (None, [], False)}


def _usage(script: Mapping[str, Any]) -> str:
    names = (
        argument["name"] if argument["required"] else f"[{argument['name']}]"
        for argument in script["args"]
    )
    return " ".join((script["file"], *names))


def truncate_lists(data: dict[str, Any], reply: Reply, max_characters: int) -> dict[str, Any]:
    """Truncate lists until the reply fits into `max_characters`.

    At least an eighth of the limit remains for lists, even with a text of maximal
    length.
    """
    if json_length(data) <= max_characters:
        return data
    data = {k: dict(v) if isinstance(v, dict) else v for k, v in data.items()}
    lists = [found for key in reply.lists if (found := _find_list(data, key))]
    sizes = {n: json_length(inner[key]) for n, (inner, key) in enumerate(lists)}
    budget = max_characters - json_length(data) + sum(sizes.values())
    budget = max(budget, max_characters // _MIN_SHARE) - (1 + len(lists)) * _COUNT_CHARACTERS
    for done, number in enumerate(sorted(sizes, key=sizes.__getitem__)):
        inner, key = lists[number]
        fitting = take_within_budget(inner[key], budget // (len(lists) - done))
        if len(fitting) < len(inner[key]):
            inner.setdefault(f"{key}_count", len(inner[key]))
            inner[key] = fitting
            data |= {reply.cut_key: True} if reply.cut_key else {}
        budget -= json_length(fitting)
    return data


def _find_list(data: dict[str, Any], key: str) -> tuple[dict[str, Any], str] | None:
    above, _, key = key.rpartition(".")
    inner = data.get(above, {}) if above else data
    return (inner, key) if key in inner else None


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# The tool set `packages`.

_SOURCE_PATH = "source_path"  # `path` is SkillHub's word for the folder


def search_result(found: SearchResult) -> Reply:
    data: dict[str, Any] = {
        "skills": [_render_hit(hit) for hit in found.hits],
        "count": len(found.hits),
        "truncated": found.total > len(found.hits),
    }
    if not found.hits:
        data["message"] = "No skill fits. Go on without one, or try other words once."
    return Reply(data, lists=("skills",), cut_key="truncated")


def skill_result(loaded: LoadedSkill) -> Reply:
    skill = loaded.skill
    # Each commit has a folder of its own, so a known skill may have moved.
    path = str(skill.directory) if skill.directory else None
    data: dict[str, Any] = {
        "name": skill.name,
        "skill_path": skill.path,
        "path": path,
        **render_relations(skill, loaded.relations),
        **render_applies(loaded.applies),
        "digest": loaded.digest,
    }
    if loaded.is_known:
        data |= unchanged_text(skill, loaded.outline)
        data |= render_provenance(loaded.provenance, _SOURCE_PATH)
        return Reply(data, local_paths=("path",), lists=OUTLINE_LISTS)
    files = [*skill.files, *loaded.plugin_files]
    data |= {
        "description": skill.description,
        "category": skill.category or None,
        "scope": skill.scope,
        **({"also_at": list(loaded.other_places)} if loaded.other_places else {}),
        "instructions": loaded.instructions,
        **({"entry": shlex.join(skill.entry)} if skill.entry else {}),
        "files": files[:MAX_LISTED_FILES],
        "files_truncated": len(files) > MAX_LISTED_FILES,
        **render_inventory(skill.inventory),
        "sha256": sha256_of(loaded.instructions),
        **render_provenance(loaded.provenance, _SOURCE_PATH),
    }
    return Reply(
        data,
        prose="instructions",
        local_paths=("path",),
        lists=("files", "also_at", *INVENTORY_LISTS),
        cut_key="files_truncated",
    )


def file_result(read: ReadFile) -> Reply:
    """Reply of `read_skill_file`: a range of lines, or Base64."""
    part = read.part
    data: dict[str, Any] = {"skill_path": read.skill.path, "file_path": read.file}
    if part.content.is_binary:
        encoded = base64.b64encode(part.content.data).decode("ascii")
        data |= {"content": encoded, "encoding": "base64"}
        data["mime_type"] = part.content.mime_type
    else:
        text = part.content.data.decode("utf-8")
        data |= {"content": text, "encoding": "utf-8"}
    data |= {"truncated": part.truncated, "size_bytes": part.size_bytes}
    lines = {
        "start_line": part.start_line,
        "end_line": part.end_line,
        "total_lines": part.total_lines,
        "next_line": read.next_line,
    }
    data |= {key: value for key, value in lines.items() if value is not None}
    if read.is_line_cut:
        data["line_truncated"] = True
    if read.resolved_from:
        data["resolved_from"] = read.resolved_from
    data |= {
        "sha256": sha256_of(part.content.data),
        **render_provenance(read.provenance),
    }
    return Reply(data, prose=None if part.content.is_binary else "content")


def files_result(found: FoundFiles) -> Reply:
    files = [
        {"file": file, "size_bytes": found.skill.files[file].size_bytes} for file in found.files
    ]
    return Reply(
        {
            "skill_path": found.skill.path,
            "files": files,
            "truncated": found.truncated,
            "digest": found.digest,
            **render_provenance(found.provenance),
        },
        lists=("files",),
        cut_key="truncated",
    )


def examples_result(served: ServedExamples) -> Reply:
    loaded = served.loaded
    data: dict[str, Any] = {
        "skill_path": loaded.skill.path,
        "examples": list(map(_render_example, loaded.examples)),
        "total": loaded.total,
    }
    if loaded.notes:
        data["notes"] = list(loaded.notes)
    return Reply(data | render_provenance(served.provenance), lists=("notes",))


def command_result(ran: RanScript) -> Reply:
    return Reply(_render_run(ran) | render_provenance(ran.provenance))


def entry_result(ran: RanScript) -> Reply:
    """Reply of `run_skill_entry`, with the executed command."""
    command = {"command": list(ran.words)}
    return Reply(_render_run(ran) | command | render_provenance(ran.provenance))


def _render_run(ran: RanScript) -> dict[str, Any]:
    result = ran.result
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "timeout": result.timed_out,
        "truncated": {
            "stdout": result.truncated_stdout,
            "stderr": result.truncated_stderr,
        },
        "sandbox": result.sandbox,
        "confined": result.confined,
        "sha256": ran.sha256,
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
    }


def _render_example(fitting: FittingExample) -> dict[str, Any]:
    example = fitting.example
    return {
        "title": example.title,
        "file": example.file,
        "tags": list(example.tags),
        "score": fitting.score,
        "text": example.text,
        "truncated": example.truncated,
        "sha256": sha256_of(example.text),
    }


def _render_hit(hit: Hit) -> dict[str, Any]:
    return {
        "name": hit.skill.name,
        "description": cut_description(hit.skill.description),
        "score": round(hit.score, 4),
        "category": hit.skill.category or None,
        "skill_path": hit.skill.path,
        "scope": hit.skill.scope,
        "reason": hit.reason,
        **name_near_copies(hit.near_copies),
        **render_status(hit.skill),
    }
