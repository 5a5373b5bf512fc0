"""The prompt `skill`: a person adds a skill to a conversation. Completion of arguments.

Hosts show it as a command, such as `/skills:skill`. The messages are the task and the
Markdown reply of `get_skill`.
"""

from collections.abc import Iterable

import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    TextContent,
)

from skills_mcp.errors import SkillsError
from skills_mcp.library import LibraryView, SkillLibrary
from skills_mcp.processes.memory import translate_out_of_memory
from skills_mcp.server.callers import Context, find_stored_view, wait_for_view
from skills_mcp.server.replies import replace_unavailable_tools
from skills_mcp.server.reply_rendering import ReplyRules, render_tool_result
from skills_mcp.server.resources import TEMPLATES
from skills_mcp.server.tools import GetSkill, get_skill
from skills_mcp.text.rendering import abbreviate_value

PROMPT = Prompt(
    name="skill",
    title="Use a skill",
    description="Add this organisation's rules for a task to the conversation.",
    arguments=[
        PromptArgument(
            name="task",
            title="Task",
            description="The task in your words, or the path of a skill.",
            required=True,
        )
    ],
)


class SkillPrompt:
    """Handlers of `prompts/list` and `prompts/get`."""

    def __init__(self, library: SkillLibrary, tools: frozenset[str]) -> None:
        self._library = library
        self._tools = tools

    async def list(self, _: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[PROMPT])

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Messages for a task.

        Raises:
            MCPError: There is no such prompt, no task, or no content.
        """
        task = _require_task(params)
        try:
            library = await wait_for_view(self._library, ctx)
            with translate_out_of_memory():
                texts = await _compose(library, task)
        except SkillsError as error:
            raise MCPError(
                code=INTERNAL_ERROR, message=str(error), data={"code": error.code}
            ) from error
        return GetPromptResult(
            description=PROMPT.description,
            messages=[self._render(text) for text in texts],
        )

    def _render(self, text: str) -> PromptMessage:
        content = replace_unavailable_tools(text, self._tools) if text.startswith("{") else text
        return PromptMessage(role="user", content=TextContent(type="text", text=content))


def _require_task(params: GetPromptRequestParams) -> str:
    if params.name != PROMPT.name:
        message = f"Unknown prompt: {abbreviate_value(params.name)}. There is: {PROMPT.name}"
        raise MCPError(code=INVALID_PARAMS, message=message)
    task = (params.arguments or {}).get("task", "").strip()
    if not task:
        message = "task is missing: describe the task, or pass the path of a skill."
        raise MCPError(code=INVALID_PARAMS, message=message)
    return task


async def _compose(library: LibraryView, task: str) -> list[str]:
    skill = library.snapshot.index.get(task.strip("/"))
    path = skill.path if skill else None
    reply = await get_skill(library, GetSkill(context=task, skill_path=path))
    limit = library.config.responses.max_characters
    blocks = render_tool_result(reply, ReplyRules("markdown", limit)).content
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    introduction = (
        f"Follow this skill of this organisation in what comes next: {path}"
        if path
        else f"{task}\n\nThis organisation's skills say about it:"
    )
    return [introduction, *texts]


_MAX_VALUES = 100  # of the protocol


class PathCompletion:
    """Completes skill paths and file names."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Prefix matches before substring matches; never waits for the network."""
        library = await find_stored_view(self._library, ctx)
        if library is None:
            return _render([])
        return await anyio.to_thread.run_sync(_complete, library, params)


def _complete(library: LibraryView, params: CompleteRequestParams) -> CompleteResult:
    return _render(_rank_matches(_list_candidates(library, params), params.argument.value))


def _list_candidates(library: LibraryView, params: CompleteRequestParams) -> Iterable[str]:
    index, argument = library.snapshot.index, params.argument.name
    if isinstance(params.ref, PromptReference):
        is_path = (params.ref.name, argument) == (PROMPT.name, "task")
    else:
        is_ours = any(entry.uri_template == params.ref.uri for entry in TEMPLATES)
        is_path = is_ours and argument == "skill_path"
        if is_ours and argument == "file":
            context_arguments = (params.context.arguments if params.context else None) or {}
            skill = index.get(context_arguments.get("skill_path", ""))
            return [entry.file for entry in skill.entries()] if skill else ()
    return [row.path for row in index.listed] if is_path else ()


def _rank_matches(known: Iterable[str], typed: str) -> list[str]:
    query = typed.strip().casefold()
    found = sorted(value for value in known if query in value.casefold())
    return sorted(found, key=lambda value: not value.casefold().startswith(query))


def _render(values: list[str]) -> CompleteResult:
    return CompleteResult(
        completion=Completion(
            values=values[:_MAX_VALUES],
            total=len(values),
            has_more=len(values) > _MAX_VALUES,
        )
    )
