"""The tool set `packages`: agents search, load and read skills by name."""

import base64
import shlex
from dataclasses import replace
from typing import Any

from skills_mcp.library import (
    MAX_LISTED_FILES,
    CommandRequest,
    EntryRequest,
    FoundFiles,
    LibraryView,
    LoadedSkill,
    RanScript,
    ReadFile,
    ServedExamples,
    render_applies,
    render_relations,
    render_status,
    sha256_of,
)
from skills_mcp.routing.search import Hit, SearchResult
from skills_mcp.server import replies, tools
from skills_mcp.server.reply_rendering import current_rules
from skills_mcp.skills.skill_examples import FittingExample
from skills_mcp.skills.skill_files import LineRange
from skills_mcp.skills.skill_index import SkillFilter

_DEFAULT_LINES = 200  # 003
_DEFAULT_EXAMPLES = 3  # 003


def _search_skills(library: LibraryView, arguments: tools.SearchSkills) -> replies.Reply:
    scoping = SkillFilter(arguments.within or "", arguments.category or "", arguments.scope)
    found = library.search(arguments.query, limit=arguments.limit, scoping=scoping)
    return search_result(found)


def _load_skill(library: LibraryView, arguments: tools.LoadSkill) -> replies.Reply:
    known_digest = None if arguments.full else arguments.known_digest
    loaded = library.load_skill(arguments.skill_name, known_digest=known_digest)
    return replace(skill_result(loaded), part=arguments.part or 1)


def _read_skill_file(library: LibraryView, arguments: tools.ReadSkillFile) -> replies.Reply:
    is_partial = arguments.start_line is not None or arguments.max_lines is not None
    start = arguments.start_line or 1
    lines = LineRange(start, arguments.max_lines or _DEFAULT_LINES) if is_partial else None
    max_bytes = current_rules().text_bytes
    read = library.read_file(arguments.skill_name, arguments.file_path, lines, max_bytes=max_bytes)
    return file_result(read)


def _find_skill_files(library: LibraryView, arguments: tools.FindSkillFiles) -> replies.Reply:
    pattern, contains = arguments.pattern or "**/*", arguments.contains or ""
    return files_result(
        library.find_files(arguments.skill_name, pattern=pattern, contains=contains)
    )


def _load_skill_examples(library: LibraryView, arguments: tools.LoadSkillExamples) -> replies.Reply:
    top_k = _DEFAULT_EXAMPLES if arguments.top_k is None else arguments.top_k
    limit = current_rules().max_characters
    loaded = library.load_examples(
        arguments.skill_name, arguments.query, top_k, max_characters=limit
    )
    return examples_result(loaded)


async def _run_skill_command(
    library: LibraryView, arguments: tools.RunSkillCommand
) -> replies.Reply:
    request = CommandRequest(
        skill_name=arguments.skill_name,
        command=arguments.command,
        args=tuple(arguments.args or ()),
    )
    return command_result(await library.run(request))


async def _run_skill_entry(library: LibraryView, arguments: tools.RunSkillEntry) -> replies.Reply:
    request = EntryRequest(skill_name=arguments.skill_name, args=arguments.args or "")
    return entry_result(await library.run(request))


PACKAGE_TOOLS = (
    tools.ToolSpec(
        name="search_skills",
        title="Search the skills",
        description=(
            "List the skills that fit a task or a question best, with name, "
            "description, path and score. Load the one that fits with load_skill."
        ),
        arguments=tools.SearchSkills,
        handler=_search_skills,
        annotations=tools.ONLY_READS,
        meta=tools.LARGE_RESULT,
    ),
    tools.ToolSpec(
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
        arguments=tools.LoadSkill,
        handler=_load_skill,
        annotations=tools.ONLY_READS,
        meta=tools.LARGE_RESULT,
    ),
    tools.ToolSpec(
        name="read_skill_file",
        title="Read a skill's file",
        description=(
            "Read a file that belongs to a skill: a reference, a template, a script. "
            'Long texts are cut: go on with start_line set to "next_line".'
        ),
        arguments=tools.ReadSkillFile,
        handler=_read_skill_file,
        annotations=tools.ONLY_READS,
        meta=tools.LARGE_RESULT,
    ),
    tools.ToolSpec(
        name="find_skill_files",
        title="Find files of a skill",
        description=(
            "List the files of a skill, all of them or those whose path fits a "
            "pattern or whose text contains some words."
        ),
        arguments=tools.FindSkillFiles,
        handler=_find_skill_files,
        annotations=tools.ONLY_READS,
    ),
    tools.ToolSpec(
        name="load_skill_examples",
        title="Load examples of a skill",
        description=(
            "Return the examples of a skill that fit a query best: how others did it, "
            "and the tasks it is for. Cut texts go on in read_skill_file."
        ),
        arguments=tools.LoadSkillExamples,
        handler=_load_skill_examples,
        annotations=tools.ONLY_READS,
        meta=tools.LARGE_RESULT,
    ),
)

COMMAND_TOOLS = (
    tools.ToolSpec(
        name="run_skill_command",
        title="Run a command of a skill",
        description=(
            "Run one of the allowed programs in a copy of the skill's folder and "
            "return its exit code, stdout and stderr. The copy is deleted afterwards: "
            "print what you need. If you have a shell of your own, use that instead, "
            "with the path that load_skill returns."
        ),
        arguments=tools.RunSkillCommand,
        handler=_run_skill_command,
        annotations=tools.RUNS_ANYTHING,
        runs_code=True,
        is_slow=True,
    ),
    tools.ToolSpec(
        name="run_skill_entry",
        title="Run a skill's entry",
        description=(
            'Run the command that load_skill names as "entry", in the same way, with '
            "your args behind it."
        ),
        arguments=tools.RunSkillEntry,
        handler=_run_skill_entry,
        annotations=tools.RUNS_ANYTHING,
        runs_code=True,
        is_slow=True,
    ),
)
"""Only with `commands.enabled`."""


_SOURCE_PATH = "source_path"  # `path` is SkillHub's word for the folder


def search_result(found: SearchResult) -> replies.Reply:
    data: dict[str, Any] = {
        "skills": [_hit(hit) for hit in found.hits],
        "count": len(found.hits),
        "truncated": found.total > len(found.hits),
    }
    if not found.hits:
        data["message"] = "No skill fits. Go on without one, or try other words once."
    return replies.Reply(data, lists=("skills",), cut_key="truncated")


def skill_result(loaded: LoadedSkill) -> replies.Reply:
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
        data |= replies.unchanged_text(skill, loaded.outline)
        data |= replies.render_provenance(loaded.provenance, _SOURCE_PATH)
        return replies.Reply(data, local_paths=("path",), lists=replies.OUTLINE_LISTS)
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
        **replies.render_inventory(skill.inventory),
        "sha256": sha256_of(loaded.instructions),
        **replies.render_provenance(loaded.provenance, _SOURCE_PATH),
    }
    return replies.Reply(
        data,
        prose="instructions",
        local_paths=("path",),
        lists=("files", "also_at", *replies.INVENTORY_LISTS),
        cut_key="files_truncated",
    )


def file_result(read: ReadFile) -> replies.Reply:
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
        **replies.render_provenance(read.provenance),
    }
    return replies.Reply(data, prose=None if part.content.is_binary else "content")


def files_result(found: FoundFiles) -> replies.Reply:
    files = [
        {"file": file, "size_bytes": found.skill.files[file].size_bytes} for file in found.files
    ]
    return replies.Reply(
        {
            "skill_path": found.skill.path,
            "files": files,
            "truncated": found.truncated,
            "digest": found.digest,
            **replies.render_provenance(found.provenance),
        },
        lists=("files",),
        cut_key="truncated",
    )


def examples_result(served: ServedExamples) -> replies.Reply:
    loaded = served.loaded
    data: dict[str, Any] = {
        "skill_path": loaded.skill.path,
        "examples": list(map(_example, loaded.examples)),
        "total": loaded.total,
    }
    if loaded.notes:
        data["notes"] = list(loaded.notes)
    return replies.Reply(data | replies.render_provenance(served.provenance), lists=("notes",))


def command_result(ran: RanScript) -> replies.Reply:
    return replies.Reply(_result(ran) | replies.render_provenance(ran.provenance))


def entry_result(ran: RanScript) -> replies.Reply:
    """Reply of `run_skill_entry`, with the executed command."""
    command = {"command": list(ran.words)}
    return replies.Reply(_result(ran) | command | replies.render_provenance(ran.provenance))


def _result(ran: RanScript) -> dict[str, Any]:
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


def _example(fitting: FittingExample) -> dict[str, Any]:
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


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "name": hit.skill.name,
        "description": replies.cut_description(hit.skill.description),
        "score": round(hit.score, 4),
        "category": hit.skill.category or None,
        "skill_path": hit.skill.path,
        "scope": hit.skill.scope,
        "reason": hit.reason,
        **replies.name_near_copies(hit.near_copies),
        **render_status(hit.skill),
    }
