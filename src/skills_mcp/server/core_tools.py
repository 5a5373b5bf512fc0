"""The tool set `core`: six tools, with routing on the server."""

from dataclasses import replace
from typing import assert_never

import anyio.to_thread
from mcp_types import ToolAnnotations

from skills_mcp.library import Match, ScriptRequest, SkillLibrary
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.server import replies
from skills_mcp.server.arguments import (
    GetAsset,
    GetSkill,
    ListSkills,
    RefreshSkills,
    ReportUsage,
    RunScript,
)
from skills_mcp.server.known_clients import current_rules
from skills_mcp.server.replies import Reply
from skills_mcp.server.toolspec import (
    LARGE_RESULT,
    ONLY_READS,
    RUNS_ANYTHING,
    ToolSpec,
)
from skills_mcp.skills.principal import FEEDBACK, REFRESH
from skills_mcp.skills.scoping import SkillFilter

# To route a sentence takes less time than to start a thread; a pasted ticket more.
_LONG_CONTEXT = 500


async def get_skill(library: SkillLibrary, arguments: GetSkill) -> Reply:
    """Answer `get_skill`.

    Raises:
        SkillNotFoundError: There is no skill at `skill_path`.
    """

    def route() -> Reply:
        scoping = SkillFilter(arguments.within or "", arguments.category or "")
        query = (arguments.context, arguments.skill_path, arguments.known_digest)
        if not arguments.explain:
            reply = _render(library.route(*query, scoping=scoping))
        else:
            answer, explanation = library.route_explained(*query, scoping=scoping)
            reply = replies.with_explanation(_render(answer), explanation)
        return replace(reply, part=arguments.part or 1)

    is_long = len(arguments.context) > _LONG_CONTEXT or arguments.explain
    if is_long or library.may_block:
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


async def _list_skills(library: SkillLibrary, arguments: ListSkills) -> Reply:
    def browse() -> Reply:
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

    return await anyio.to_thread.run_sync(browse)


async def _get_asset(library: SkillLibrary, arguments: GetAsset) -> Reply:
    served = await anyio.to_thread.run_sync(
        library.read_asset, arguments.skill_path, arguments.file
    )
    reply = replies.asset(served, library.config.assets.inline_text_max_bytes)
    return replace(reply, part=arguments.part or 1)


async def _run_script(library: SkillLibrary, arguments: RunScript) -> Reply:
    request = ScriptRequest(
        skill_path=arguments.skill_path,
        file=arguments.file,
        args=arguments.args,
        cwd=arguments.cwd,
    )
    return replies.script_result(arguments.file, await library.run_script(request))


async def _report_usage(library: SkillLibrary, arguments: ReportUsage) -> Reply:
    library.report(arguments.skill_path, useful=arguments.useful, comment=arguments.comment)
    return replies.feedback_result(arguments.skill_path)


async def _refresh_skills(library: SkillLibrary, _: RefreshSkills) -> Reply:
    return replies.refresh_result(await library.refresh())


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
        annotations=ToolAnnotations(
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=False,
            open_world_hint=True,
        ),
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
        annotations=ToolAnnotations(
            read_only_hint=False,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=True,
        ),
        scope=REFRESH,
        needs_content=False,
        is_slow=True,
    ),
)
"""Listed by hosts in this order, which never changes (prompt caches)."""
