"""Completion of prompt and resource arguments."""

from collections.abc import Iterable
from typing import Any

import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    PromptReference,
)

from skills_mcp.library import SkillLibrary
from skills_mcp.server.callers import caller_of
from skills_mcp.server.resources import TEMPLATES
from skills_mcp.server.skill_prompt import PROMPT

_MAX_VALUES = 100  # of the protocol

_Context = ServerRequestContext[Any, Any]


class PathCompletion:
    """Completes skill paths and file names.

    Args:
        wait_seconds: Timeout for content stored on this machine.
    """

    def __init__(self, library: SkillLibrary, *, wait_seconds: float) -> None:
        self._library = library
        self._wait_seconds = wait_seconds

    async def complete(self, ctx: _Context, params: CompleteRequestParams) -> CompleteResult:
        """Prefix matches before substring matches; never waits for the network."""
        await self._library.wait_for_stored(self._wait_seconds)
        if not self._library.is_ready:
            return _render([])
        library = self._library.seen_by(caller_of(ctx).access)
        return await anyio.to_thread.run_sync(_complete, library, params)


def _complete(library: SkillLibrary, params: CompleteRequestParams) -> CompleteResult:
    return _render(_rank_matches(_list_candidates(library, params), params.argument.value))


def _list_candidates(library: SkillLibrary, params: CompleteRequestParams) -> Iterable[str]:
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
