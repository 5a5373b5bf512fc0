"""The MCP server around a library: its capabilities, and the way of one call."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ServerCapabilities,
)

from skills_mcp.about import __version__
from skills_mcp.library import SkillLibrary
from skills_mcp.server.arguments import NOT_AN_OBJECT, parse
from skills_mcp.server.error_replies import answered
from skills_mcp.server.notices import Notices
from skills_mcp.server.replies import Reply, render
from skills_mcp.server.resources import Resources
from skills_mcp.server.tools import instructions_for, tools_for
from skills_mcp.server.toolspec import ToolSpec

_Context = ServerRequestContext[Any, Any]

# A clone of a large repository over a slow line takes about this long; hosts wait
# at least as long for a tool, and the message says what to do.
_FIRST_CONTENT_SECONDS = 55.0

_REPORT_INTERVAL_SECONDS = 1.0

# The tools are part of the program, so a client may cache the list.
_STATIC = CacheHint(ttl_ms=24 * 60 * 60 * 1000, scope="public")

_STATIC_METHODS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "server/discover",
    "resources/templates/list",
)

_TOLD = NotificationOptions(resources_changed=True, tools_changed=True)


def create_server(library: SkillLibrary) -> Server[Any]:
    """Return a server for both protocol eras; `library.run` must run beside it."""
    tools, notices = _Tools(library), Notices()
    resources = Resources(library, wait_seconds=_FIRST_CONTENT_SECONDS)
    library.watch(notices.announce)

    async def wake_after_the_first_answer(
        ctx: _Context, call_next: CallNext
    ) -> HandlerResult:
        # DESIGN §3.7: nothing is read or fetched before a client has its answer.
        try:
            return await call_next(ctx)
        finally:
            library.wake()

    server = _Server(
        "skills-mcp",
        version=__version__,
        title="Skills of this organisation",
        instructions=instructions_for(library.config),
        lifespan=notices.telling,
        cache_hints=dict.fromkeys(_STATIC_METHODS, _STATIC),
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_subscriptions_listen=notices.listen,
    )
    server.middleware += [
        wake_after_the_first_answer,
        _keep_arguments_readable,
        notices.remember,
    ]
    return server


class _Tools:
    """The tools of the tool sets that are on; content cannot add one."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._specs = {spec.name: spec for spec in tools_for(library.config)}
        self._advertised = [spec.advertise() for spec in self._specs.values()]

    async def list_tools(
        self, _: _Context, __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=self._advertised)

    async def call_tool(
        self, context: _Context, params: CallToolRequestParams
    ) -> CallToolResult:
        spec = self._specs.get(params.name)
        if spec is None:
            known = ", ".join(self._specs)
            raise MCPError(
                code=INVALID_PARAMS,
                message=f"Unknown tool: {params.name}. There are: {known}",
            )
        reply = await _call(self._library, spec, context, params.arguments or {})
        return render(reply, self._library.config.responses.format)


class _Server(Server[Any]):
    """Declares that lists change, and that no single resource can be subscribed to.

    The SDK leaves the first to its caller, and declares subscriptions wherever a
    client can listen.
    """

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,  # noqa: ARG002 - ours
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Return the capabilities for either protocol version."""
        served = super().get_capabilities(
            _TOLD,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        assert served.resources is not None, "create_server serves them"  # noqa: S101
        resources = served.resources.model_copy(update={"subscribe": False})
        return served.model_copy(update={"resources": resources})


async def _keep_arguments_readable(ctx: _Context, call_next: CallNext) -> HandlerResult:
    """Let `parse` refuse arguments that are not an object.

    The SDK would answer with a protocol error, which models do not see.
    """
    given = (ctx.params or {}).get("arguments")
    if ctx.method == "tools/call" and not isinstance(given, Mapping | None):
        arguments = {NOT_AN_OBJECT: given}
        ctx = replace(ctx, params={**(ctx.params or {}), "arguments": arguments})
    return await call_next(ctx)


async def _call(
    library: SkillLibrary, spec: ToolSpec, context: _Context, given: dict[str, Any]
) -> Reply:
    """Answer a call, and report the progress of one that may take long."""
    is_waiting = spec.needs_content and not library.is_ready
    if not is_waiting and not spec.is_slow:
        return await answered(_answer(library, spec, given))
    doing = "Waiting for the first sync" if is_waiting else spec.title
    async with reported(context.session, doing, lambda: _step(library, spec)):
        return await answered(_answer(library, spec, given))


@asynccontextmanager
async def reported(
    session: ServerSession, doing: str, step: Callable[[], str]
) -> AsyncIterator[None]:
    """Report progress to a client once a second until the block ends.

    Args:
        session: That of the client; without a progress token nothing is sent.
        doing: What the call is for.
        step: Returns the step of the sync, such as `Receiving objects 45 %`, or
            nothing.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_report, session, doing, step)
        yield
        tasks.cancel_scope.cancel()


async def _report(session: ServerSession, doing: str, step: Callable[[], str]) -> None:
    started = time.monotonic()
    while True:
        seconds = time.monotonic() - started
        at = f"{known}, " if (known := step()) else ""
        said = f"{doing}: {at}{seconds:.0f} s"
        await session.report_progress(seconds, message=said)
        await anyio.sleep(_REPORT_INTERVAL_SECONDS)


def _step(library: SkillLibrary, spec: ToolSpec) -> str:
    """Return the step of the sync that a call waits for; a script waits for none."""
    waits = spec.name == "refresh_skills" or not library.is_ready
    return library.sync_step if waits else ""


async def _answer(
    library: SkillLibrary, spec: ToolSpec, given: dict[str, Any]
) -> Reply:
    arguments = parse(spec.arguments, spec.name, given)
    if spec.needs_content:
        await library.wait_until_ready(_FIRST_CONTENT_SECONDS)
    return await spec.handler(library, arguments)
