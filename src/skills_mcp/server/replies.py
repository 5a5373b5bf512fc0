"""The JSON replies of the tool set `core`, and what any tool replies to an error."""

import base64
import json
from bisect import bisect_right
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skills_mcp.errors import (
    AmbiguousNameError,
    InvalidArgumentsError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    SkillsError,
    UndeclaredFileError,
)
from skills_mcp.library import (
    MAX_LISTED_FILES,
    Listing,
    Match,
    Provenance,
    RanScript,
    Refreshed,
    ServedFile,
    SkillChanges,
    SourceState,
    derive_sha256,
    render_error,
    render_state,
)
from skills_mcp.processes.memory import out_of_memory_named
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.matcher import Candidate
from skills_mcp.server.offered_names import name_offered
from skills_mcp.skills.model import Asset, Inventory, Script, Skill
from skills_mcp.text.rendering import cut_text, render_time, shorten

if TYPE_CHECKING:
    from skills_mcp.routing.explanation import Explanation

MAX_LISTED_CHANGES = 50
"""The most skills of each list in a refresh; a first sync may bring thousands."""

_NEAR = (
    "The nearest ones are under near: call get_skill again with the skill_path of one "
    "that fits, or go on without a skill."
)

# As many characters as the Agent Skills standard allows.
_LONGEST_DESCRIPTION = 1024

_LONGEST_PATH = 1024  # more than a path of a skill can have

# Of what says how to go on, and of the paths of core skills in one reply.
_MESSAGE_CHARACTERS = 700
_CORE_CHARACTERS = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """A JSON object, and the key of the text that is worth reading unescaped."""

    data: Mapping[str, Any]
    prose: str | None = None
    """The key of the text that has a block of its own in Markdown, and parts."""
    is_inline: bool = False
    """Whether the text is so short that it stays in the JSON."""
    part: int = 1
    """Which part of the text was asked for, from 1."""
    is_error: bool = False
    lists: tuple[str, ...] = ()
    """The keys of the lists that may be cut, where they are there.

    `a.b` is the key `b` of the object `a`.
    """
    places: tuple[str, ...] = ()
    """The keys of folders on this machine, which say nothing on another one."""
    cut_key: str = ""
    """The key that becomes true if one of them is cut, besides `<list>_count`."""


def take_fitting(items: Sequence[T], max_characters: int) -> list[T]:
    """Return the first of some items, as many as have room in a reply."""
    ends = accumulate(map(measure, items))
    return list(items[: bisect_right(list(ends), max_characters)])


def measure(value: object) -> int:
    """Return the number of characters that a value takes up in a reply."""
    return len(json.dumps(value, ensure_ascii=False)) + len(", ")


def no_match(decision: NoMatch) -> Reply:
    """Return the reply of `get_skill` if no skill matches, with the near misses."""
    said = "No skill matches the given context."
    if not decision.near:
        return Reply({"no_match": True, "message": said})
    near = [
        {
            "skill_path": each.skill.path,
            "score": float(each.score),
            "description": cut_description(each.skill.description),
        }
        for each in decision.near
    ]
    return Reply({"no_match": True, "near": near, "message": f"{said} {_NEAR}"})


def ambiguous(decision: Ambiguous) -> Reply:
    """Return the reply of `get_skill` with several candidates."""
    return Reply(
        {
            "ambiguous": True,
            "candidates": [_candidate(each) for each in decision.candidates],
            "message": "Multiple skills match. Specify your need or pick a skill_path.",
        },
        lists=("candidates",),
    )


INVENTORY_LISTS = (
    "file_inventory.scriptFiles",
    "file_inventory.referenceFiles",
    "file_inventory.templateFiles",
)

_GUIDANCE_LISTS = ("assets", "scripts", "inherited_assets", "inherited_scripts")


def match(found: Match) -> Reply:
    """Return the reply of `get_skill` with one skill."""
    skill = found.skill
    data: dict[str, Any] = {
        "skill_path": skill.path,
        "score": float(found.score),
        "matched_keywords": list(found.matched_keywords),
    }
    if found.is_known:
        data |= {"digest": found.digest, **reminder(skill)}
        return Reply(data | origin(found.provenance))
    data |= {
        "content": found.content,
        "assets": [_asset(each) for each in skill.assets[:MAX_LISTED_FILES]],
        "scripts": [_script(each) for each in skill.scripts[:MAX_LISTED_FILES]],
        "inherited_assets": [
            {**_asset(item.entry), "from": item.source}
            for item in found.inherited_assets
        ],
        "inherited_scripts": [
            {**_script(item.entry), "from": item.source}
            for item in found.inherited_scripts
        ],
        "digest": found.digest,
        **inventory(skill.inventory),
        "sha256": derive_sha256(found.content),
    }
    if max(len(skill.assets), len(skill.scripts)) > MAX_LISTED_FILES:
        data["files_truncated"] = True
    return Reply(
        data | origin(found.provenance),
        prose="content",
        lists=(*_GUIDANCE_LISTS, *INVENTORY_LISTS),
        cut_key="files_truncated",
    )


def explained(reply: Reply, explanation: "Explanation") -> Reply:
    """Return a reply with the explanation of why it is the answer."""
    from skills_mcp.routing.explanation import render_explanation

    data = {**reply.data, "explanation": render_explanation(explanation)}
    return replace(reply, data=data)


def with_core_skills(reply: Reply, paths: Sequence[str]) -> Reply:
    """Return a reply that names the core skills, too, if there are any."""
    if not paths:
        return reply
    hint = "The core_skills hold for every task: read them, too, unless you have."
    named = {**_name_core_skills(paths), "core_skills_hint": hint}
    return replace(reply, data={**reply.data, **named})


def with_offered_names(reply: Reply, offered: Collection[str]) -> Reply:
    """Return a refusal that names no tool that is not offered."""
    error = reply.data.get("error")
    if not isinstance(error, Mapping):
        return reply
    told = {**error, "message": name_offered(str(error.get("message", "")), offered)}
    return replace(reply, data={**reply.data, "error": told})


_SCRIPT_LISTS = ("scripts", "inherited_scripts")


def for_another_machine(reply: Reply) -> Reply:
    """Return a reply for an agent that shares no disk with the server.

    Running each script is left to the agent, and no folder of the server is named.
    """
    data = dict(reply.data)
    for key in _SCRIPT_LISTS:
        if key in data:
            data[key] = [{**script, "execution": "claude"} for script in data[key]]
    if "sources" in data:
        data["sources"] = list(map(_without_folder, data["sources"]))
    return replace(reply, data=data | dict.fromkeys(reply.places))


def _without_folder(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source; of a folder only its last name."""
    is_folder = source.get("mode") == "local"
    return (
        {**source, "name": PurePath(source["name"]).name} if is_folder else {**source}
    )


def _name_core_skills(paths: Sequence[str]) -> dict[str, Any]:
    shown = take_fitting(paths, _CORE_CHARACTERS)
    data: dict[str, Any] = {"core_skills": shown}
    if len(shown) < len(paths):
        data["core_skills_count"] = len(paths)
    return data


def beside_tree(
    algorithm: str,
    states: Iterable[SourceState],
    core_skills: Sequence[str],
    max_characters: int,
) -> dict[str, Any]:
    """Return what `list_skills` says besides the tree: algorithm, sources, core skills.

    Sources and core skills that have no room are counted.
    """
    sources = list(map(render_state, states))
    data: dict[str, Any] = {
        "algorithm": algorithm,
        "sources": take_fitting(sources, max_characters // 4),
    }
    if len(data["sources"]) < len(sources):
        data["sources_count"] = len(sources)
    return data | (_name_core_skills(core_skills) if core_skills else {})


def room_for_tree(beside: Mapping[str, Any], max_characters: int) -> int:
    """Return how many characters the tree of `list_skills` may have."""
    return max_characters - measure(beside) - _MESSAGE_CHARACTERS


def listing(part: Listing, beside: Mapping[str, Any]) -> Reply:
    """Return the reply of `list_skills`.

    A host may cut a long text, so the way on stands in front of the tree.
    """
    whole = {"tree": part.tree, **beside, "total": part.total}
    if part.depth is None:
        return Reply(whole)
    data: dict[str, Any] = {
        "message": " ".join(_describe_part(part)),
        "total": part.total,
        "shown": part.shown,
        "depth": part.depth,
    }
    if part.next_cursor is not None:
        data["next_cursor"] = part.next_cursor
    return Reply(data | whole)


def _describe_part(part: Listing) -> Iterator[str]:
    yield f"This reply shows {part.shown:,} of {part.total:,} skills."
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
    """Return the reply of `get_asset`: text, or Base64 with a MIME type."""
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
    data |= {"sha256": derive_sha256(served.content.data)}
    data |= origin(served.provenance)
    return Reply(
        data,
        prose=None if served.content.is_binary else "content",
        is_inline=size <= inline_text_max_bytes,
    )


def script_result(file: str, ran: RanScript) -> Reply:
    """Return the reply of `run_script`: how it ended, its sandbox, and what ran."""
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
            **origin(ran.provenance),
        }
    )


def feedback(skill_path: str) -> Reply:
    """Return the reply of `report_usage`; a text that is no path is escaped."""
    is_plain = skill_path.isprintable() and len(skill_path) <= _LONGEST_PATH
    shown = skill_path if is_plain else shorten(skill_path)
    return Reply({"recorded": True, "message": f"Feedback recorded for {shown}"})


_CHANGE_LISTS = ("added", "changed", "removed", "broken", "sources")


def refreshed(result: Refreshed) -> Reply:
    """Return the reply of `refresh_skills`; after a failure, what is served on."""
    if result.mode == "git":
        data: dict[str, Any] = {
            "success": result.error is None,
            "commit_hash": result.commit,
            "files_changed": result.files_changed,
            "skills_reindexed": result.skills_reindexed,
            "last_sync": _time(result.synced_at),
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


def inventory(found: Inventory | None) -> dict[str, Any]:
    """Return the file inventory of a package; empty for a rule file."""
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


def reminder(skill: Skill) -> dict[str, Any]:
    """Return what replaces a text that is in the conversation already."""
    message = (
        f"You have the current text of {skill.path} already: nothing has changed. "
        "Leave known_digest out to get it again."
    )
    return {"unchanged": True, "message": message}


def origin(provenance: Provenance, path_key: str = "path") -> dict[str, Any]:
    """Return where content comes from; commits of inherited rules where they differ."""
    data: dict[str, Any] = {"commit": provenance.commit, path_key: provenance.path}
    if provenance.inherited_commits:
        data["inherited_commits"] = dict(provenance.inherited_commits)
    return data


def _changes(changes: SkillChanges) -> dict[str, Any]:
    """Return the skills that were added, changed and removed; counts of cut lists."""
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
    return data


def _time(moment: datetime | None) -> str | None:
    return render_time(moment) if moment else None


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "skill_path": candidate.skill.path,
        "score": float(candidate.score),
        "description": cut_description(candidate.skill.description),
        "matched_keywords": list(candidate.matched_keywords),
    }


def cut_description(description: str) -> str:
    """Cut a description that is longer than the standard allows."""
    return cut_text(description, _LONGEST_DESCRIPTION)


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
    AmbiguousNameError,
    InvalidPathError,
    SkillDisabledError,
    SkillNotFoundError,
    UndeclaredFileError,
)


async def answered(work: Awaitable[Reply]) -> Reply:
    """Await an answer; a `SkillsError` becomes a reply that a model can act on."""
    try:
        with out_of_memory_named():
            return await work
    except SkillsError as error:
        return refused(error)


def refused(error: SkillsError) -> Reply:
    """Return the reply to a call that has failed."""
    _forget_frames(error)
    return Reply({"error": render_error(error)}, is_error=True)


def derive_protocol_error(
    error: SkillsError, protocol_version: str, uri: str
) -> MCPError:
    """Return the protocol error for a resource that cannot be read.

    `data` has the URI, and the code of the `SkillsError`, which says more than the
    protocol's.
    """
    if isinstance(error, _NOT_FOUND):
        is_modern = protocol_version in MODERN_PROTOCOL_VERSIONS
        code = INVALID_PARAMS if is_modern else _NOT_FOUND_BEFORE_2026
    elif isinstance(error, InvalidArgumentsError):
        code = INVALID_PARAMS
    else:
        code = INTERNAL_ERROR
    _forget_frames(error)
    told = render_error(error)
    data = {"code": told["code"], "uri": uri}
    return MCPError(code=code, message=told["message"], data=data)


def _forget_frames(error: BaseException) -> None:
    """Drop the tracebacks, which keep the local variables of failed functions alive.

    A thread's answer and the frame that waits for it refer to each other, so the
    snapshot of a refused call, with its open files, would live until the next
    garbage collection.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
