"""The MCP server around a library: what it says of itself, and one call's way."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from skills_mcp.about import __version__
from skills_mcp.library import SkillLibrary
from skills_mcp.server.arguments import NOT_AN_OBJECT, parse
from skills_mcp.server.errors import answered
from skills_mcp.server.progress import reported
from skills_mcp.server.replies import Reply, render
from skills_mcp.server.tools import instructions_for, tools_for
from skills_mcp.server.toolspec import ToolSpec

_Context = ServerRequestContext[Any, Any]

# A clone of a large repository over a slow line takes about this long; hosts wait
# at least as long for a tool, and the message says what to do.
_FIRST_CONTENT_SECONDS = 55.0

# The tools are part of the program, so a client may keep the list for its life.
_STATIC = CacheHint(ttl_ms=24 * 60 * 60 * 1000, scope="public")


def create_server(library: SkillLibrary) -> Server[Any]:
    """Return a server for both protocol eras; `library.run` must run beside it."""
    config = library.config  # the operator's: no content can add a tool
    specs = {spec.name: spec for spec in tools_for(config)}
    tools = [spec.advertise() for spec in specs.values()]

    async def list_tools(
        _: _Context, __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(
        context: _Context, params: CallToolRequestParams
    ) -> CallToolResult:
        spec = specs.get(params.name)
        if spec is None:
            known = ", ".join(specs)
            raise MCPError(
                code=INVALID_PARAMS,
                message=f"Unknown tool: {params.name}. There are: {known}",
            )
        reply = await _call(library, spec, context, params.arguments or {})
        return render(reply, library.config.responses.format)

    async def wake_after_the_first_answer(
        ctx: _Context, call_next: CallNext
    ) -> HandlerResult:
        # DESIGN §3.7: nothing is read or fetched before a client has its answer.
        try:
            return await call_next(ctx)
        finally:
            library.shelf.wake()

    server: Server[Any] = Server(
        "skills-mcp",
        version=__version__,
        title="Skills of this organisation",
        instructions=instructions_for(config),
        cache_hints={"tools/list": _STATIC, "server/discover": _STATIC},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware += [wake_after_the_first_answer, _keep_arguments_readable]
    return server


async def _keep_arguments_readable(ctx: _Context, call_next: CallNext) -> HandlerResult:
    """Let `parse` explain arguments that are no object.

    The SDK would answer them with a protocol error, which no model ever sees.
    """
    given = (ctx.params or {}).get("arguments")
    if ctx.method == "tools/call" and not isinstance(given, Mapping | None):
        arguments = {NOT_AN_OBJECT: given}
        ctx = replace(ctx, params={**(ctx.params or {}), "arguments": arguments})
    return await call_next(ctx)


async def _call(
    library: SkillLibrary, spec: ToolSpec, context: _Context, given: dict[str, Any]
) -> Reply:
    """Answer a call; one that may take long shows that it is alive."""
    is_waiting = spec.needs_content and not library.is_ready
    if not is_waiting and not spec.is_slow:
        return await answered(_answer(library, spec, given))
    doing = "Waiting for the first sync" if is_waiting else spec.title
    async with reported(context.session, doing):
        return await answered(_answer(library, spec, given))


async def _answer(
    library: SkillLibrary, spec: ToolSpec, given: dict[str, Any]
) -> Reply:
    arguments = parse(spec.arguments, spec.name, given)
    if spec.needs_content:
        await library.shelf.wait_until_ready(_FIRST_CONTENT_SECONDS)
    return await spec.handler(library, arguments)
