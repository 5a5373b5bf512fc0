"""Completion of paths, while a person types the argument of a prompt or a resource."""

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

_MOST_VALUES = 100  # of the protocol

_Context = ServerRequestContext[Any, Any]


class PathCompletion:
    """Completes the paths of skills and the names of their files.

    Args:
        library: The skills.
        wait_seconds: How long to wait for content that is on this machine.
    """

    def __init__(self, library: SkillLibrary, *, wait_seconds: float) -> None:
        self._library = library
        self._wait_seconds = wait_seconds

    async def complete(
        self, ctx: _Context, params: CompleteRequestParams
    ) -> CompleteResult:
        """Return what begins with the text, then what has it in the middle.

        Never waits for the network; without content there is nothing to complete.
        """
        await self._library.wait_for_stored(self._wait_seconds)
        if not self._library.is_ready:
            return _render([])
        library = self._library.seen_by(caller_of(ctx).access)
        return await anyio.to_thread.run_sync(_complete, library, params)


def _complete(library: SkillLibrary, params: CompleteRequestParams) -> CompleteResult:
    return _render(_choose(_find_known(library, params), params.argument.value))


def _find_known(library: SkillLibrary, params: CompleteRequestParams) -> Iterable[str]:
    """Return every value that an argument may have."""
    index, argument = library.snapshot.index, params.argument.name
    if isinstance(params.ref, PromptReference):
        is_path = (params.ref.name, argument) == (PROMPT.name, "task")
    else:
        is_ours = any(each.uri_template == params.ref.uri for each in TEMPLATES)
        is_path = is_ours and argument == "skill_path"
        if is_ours and argument == "file":
            given = (params.context.arguments if params.context else None) or {}
            skill = index.get(given.get("skill_path", ""))
            return [each.file for each in skill.entries()] if skill else ()
    return [row.path for row in index.listed] if is_path else ()


def _choose(known: Iterable[str], typed: str) -> list[str]:
    wanted = typed.strip().casefold()
    found = sorted(each for each in known if wanted in each.casefold())
    return sorted(found, key=lambda each: not each.casefold().startswith(wanted))


def _render(values: list[str]) -> CompleteResult:
    return CompleteResult(
        completion=Completion(
            values=values[:_MOST_VALUES],
            total=len(values),
            has_more=len(values) > _MOST_VALUES,
        )
    )
