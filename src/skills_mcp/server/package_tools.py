"""The tool set `packages`: the agent searches, loads and reads skills by name."""

import anyio.to_thread

from skills_mcp.library import CommandRequest, EntryRequest, SkillLibrary
from skills_mcp.server import package_replies
from skills_mcp.server.arguments import (
    FindSkillFiles,
    LoadSkill,
    LoadSkillExamples,
    ReadSkillFile,
    RunSkillCommand,
    RunSkillEntry,
    SearchSkills,
)
from skills_mcp.server.replies import Reply
from skills_mcp.server.toolspec import (
    LARGE_RESULT,
    ONLY_READS,
    RUNS_ANYTHING,
    ToolSpec,
)
from skills_mcp.skills.assets import Lines
from skills_mcp.skills.scoping import Scoping

_DEFAULT_LINES = 200  # 003
_DEFAULT_EXAMPLES = 3  # 003


async def _search_skills(library: SkillLibrary, arguments: SearchSkills) -> Reply:
    def search() -> Reply:
        scoping = Scoping(
            arguments.within or "", arguments.category or "", arguments.scope
        )
        found = library.search(arguments.query, limit=arguments.limit, scoping=scoping)
        return package_replies.found_skills(found)

    return await anyio.to_thread.run_sync(search)


async def _load_skill(library: SkillLibrary, arguments: LoadSkill) -> Reply:
    def load() -> Reply:
        loaded = library.load_skill(
            arguments.skill_name, known_digest=arguments.known_digest
        )
        return package_replies.loaded_skill(loaded)

    return await anyio.to_thread.run_sync(load)


async def _read_skill_file(library: SkillLibrary, arguments: ReadSkillFile) -> Reply:
    asked = arguments.start_line is not None or arguments.max_lines is not None
    start = arguments.start_line or 1
    lines = Lines(start, arguments.max_lines or _DEFAULT_LINES) if asked else None
    read = await anyio.to_thread.run_sync(
        library.read_file, arguments.skill_name, arguments.file_path, lines
    )
    return package_replies.read_file(read)


async def _find_skill_files(library: SkillLibrary, arguments: FindSkillFiles) -> Reply:
    def find() -> Reply:
        found = library.find_files(
            arguments.skill_name,
            pattern=arguments.pattern or "**/*",
            contains=arguments.contains or "",
        )
        return package_replies.found_files(found)

    return await anyio.to_thread.run_sync(find)


async def _load_skill_examples(
    library: SkillLibrary, arguments: LoadSkillExamples
) -> Reply:
    top_k = _DEFAULT_EXAMPLES if arguments.top_k is None else arguments.top_k
    loaded = await anyio.to_thread.run_sync(
        library.load_examples, arguments.skill_name, arguments.query, top_k
    )
    return package_replies.loaded_examples(loaded)


async def _run_skill_command(
    library: SkillLibrary, arguments: RunSkillCommand
) -> Reply:
    request = CommandRequest(
        skill_name=arguments.skill_name,
        command=arguments.command,
        args=tuple(arguments.args or ()),
    )
    return package_replies.command_result(await library.run_command(request))


async def _run_skill_entry(library: SkillLibrary, arguments: RunSkillEntry) -> Reply:
    request = EntryRequest(skill_name=arguments.skill_name, args=arguments.args or "")
    return package_replies.entry_result(await library.run_command(request))


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
            "Read a file with read_skill_file; run scripts in your own shell."
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
        is_slow=True,
    ),
)
"""Only if the operator has set `commands.enabled`."""
