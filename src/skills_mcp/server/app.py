"""MCP server for a skill library: tools, instructions, dispatch of calls.

Tool descriptions and instructions cost context in each session: the descriptions stay
below 6 KB together, the instructions below 2 KB.

Of changed skills, each initialised client is notified until 2025-11-25; since 2026-07-28
clients subscribe. Clients with different access form separate audiences, each notified
only of changes visible to them.
"""

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptsCapability,
    ResourceListChangedNotification,
    ServerCapabilities,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from skills_mcp.about import NOTHING_TO_SERVE, __version__
from skills_mcp.config import Config
from skills_mcp.config.values import ConfirmDemand
from skills_mcp.errors import (
    ConfigError,
    NotConfirmedError,
    RefreshLimitError,
    SkillsError,
)
from skills_mcp.library import LibraryView, SkillLibrary
from skills_mcp.server import replies
from skills_mcp.server.callers import (
    Context,
    RateLimit,
    caller_of,
    client_of,
    view_of,
    wait_for_view,
    with_stated_project,
)
from skills_mcp.server.replies import (
    ReplyRules,
    derive_rules,
    render_tool_result,
    use_reply_rules,
)
from skills_mcp.server.resources import (
    PathCompletion,
    Resources,
    SkillPrompt,
    SkillsExtension,
    declare_extension,
)
from skills_mcp.server.tools import CORE_TOOLS, NOT_AN_OBJECT, ToolSpec, parse_arguments
from skills_mcp.skills.access import EVERYTHING, READ, Access
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.tokens import estimate_tokens

logger = logging.getLogger(__name__)

_MAX_STREAMS = 10_000
"""Per audience; over HTTP a lower limit holds for all together."""

# Longer than a client that reads needs, and no other client waits for it.
_NOTIFY_TIMEOUT_SECONDS = 10.0


@dataclass(eq=False)
class _Audience:
    """Clients with the same visible skills."""

    listing: Hashable
    """Listing at the last notification."""
    sessions: list[ServerSession] = field(default_factory=list)
    streams: int = 0

    def __post_init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus, max_subscriptions=_MAX_STREAMS)

    @property
    def is_empty(self) -> bool:
        return not self.sessions and not self.streams


class ListChangeNotifier:
    """Notifies clients of a changed list of skills.

    Args:
        find_listing: Identity of the list visible to an access; blocking. Never called
            with `EVERYTHING`: each announcement changes that list.
    """

    def __init__(self, find_listing: Callable[[Access], Hashable]) -> None:
        self._find_listing = find_listing
        self._announcements = 0
        self._audiences: dict[Access, _Audience] = {}
        self._wake_callbacks: list[Callable[[], object]] = []

    def announce(self) -> None:
        """Announce a change. Thread-safe and non-blocking."""
        self._announcements += 1
        for wake in tuple(self._wake_callbacks):
            try:
                wake()
            except RuntimeError:  # its loop has ended, and with it its clients
                logger.debug("No client is left to notify of new skills")

    @asynccontextmanager
    async def run_notifier(self, _: Server[Any]) -> AsyncIterator[None]:
        """Notify clients of announced changes until the block ends."""
        changed = asyncio.Event()
        # Not anyio's own way into a loop: that waits until the loop has time.
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        self._wake_callbacks.append(wake)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._notify_forever, changed)
                yield
                tasks.cancel_scope.cancel()
        finally:
            self._wake_callbacks.remove(wake)

    async def remember(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Store the session of an initialised client: it is notified unasked."""
        is_new = ctx.method == "notifications/initialized"
        if is_new and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            access = caller_of(ctx).access
            audience = await self._find(access)
            # Each message has a session of its own, and a client may initialise twice.
            client = ctx.session.client_params
            others = (s for s in audience.sessions if s.client_params is not client)
            audience.sessions = [*others, ctx.session]
            # The SDK offers this for clean-up, but no public way to it from a message.
            connection = ctx.session._connection  # noqa: SLF001
            connection.exit_stack.callback(self._forget, access, ctx.session)
        return await call_next(ctx)

    async def listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen` (2026-07-28)."""
        access = caller_of(ctx).access
        audience = await self._find(access)
        audience.streams += 1
        try:
            return await audience.listen(ctx, params)
        finally:
            audience.streams -= 1
            self._drop_if_empty(access)

    def end_streams(self) -> None:
        """Close all subscription streams; each ends with its result."""
        for audience in self._audiences.values():
            audience.listen.close()

    async def _find(self, access: Access) -> _Audience:
        if access not in self._audiences:
            listing = await self._identify(access)
            self._audiences.setdefault(access, _Audience(listing))
        return self._audiences[access]

    async def _identify(self, access: Access) -> Hashable:
        if access == EVERYTHING:
            return self._announcements
        return await anyio.to_thread.run_sync(self._find_listing, access)

    def _forget(self, access: Access, session: ServerSession) -> None:
        if audience := self._audiences.get(access):
            audience.sessions = [s for s in audience.sessions if s is not session]
            self._drop_if_empty(access)

    def _drop_if_empty(self, access: Access) -> None:
        audience = self._audiences.get(access)
        if audience and audience.is_empty:
            del self._audiences[access]

    async def _notify_forever(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            changed.clear()
            async with anyio.create_task_group() as tasks:
                for access, audience in tuple(self._audiences.items()):
                    tasks.start_soon(self._notify_if_changed, access, audience)

    async def _notify_if_changed(self, access: Access, audience: _Audience) -> None:
        listing = await self._identify(access)
        if listing == audience.listing:
            return
        audience.listing = listing
        # The tools stay the same, but their answers do not. Some hosts listen to
        # nothing else.
        await audience.bus.publish(ResourcesListChanged())
        await audience.bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as tasks:
            for session in tuple(audience.sessions):
                tasks.start_soon(self._tell, access, session)

    async def _tell(self, access: Access, session: ServerSession) -> None:
        try:
            with anyio.move_on_after(_NOTIFY_TIMEOUT_SECONDS):
                await session.send_notification(ResourceListChangedNotification())
                await session.send_notification(ToolListChangedNotification())
        except Exception:
            logger.exception("A client cannot be notified of new skills")
            self._forget(access, session)


_MINUTE_SECONDS = 60.0

_REPORT_INTERVAL_SECONDS = 1.0

# Views of scopes, which callers choose, are made one at a time in any case: those that
# wait for it take no thread from calls that wait for nothing.
_MAX_SCOPED_VIEWS = 1

# The tools are part of the program, so a client may cache the list.
_STATIC = CacheHint(ttl_ms=24 * 60 * 60 * 1000, scope="public")

_SHARED_HINTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": _STATIC,
    "server/discover": _STATIC,
    "resources/templates/list": _STATIC,
    "prompts/list": _STATIC,
}

# Which tools there are for a caller depends on the token, and so do the core skills.
_PRIVATE = CacheHint(ttl_ms=5 * 60 * 1000, scope="private")

_PER_CALLER_HINTS: dict[CacheableMethod, CacheHint] = {
    **_SHARED_HINTS,
    "tools/list": _PRIVATE,
    "server/discover": _PRIVATE,
}

# A client answers at once; one that never does is not waited for.
_ROOTS_SECONDS = 2.0

_OPENINGS = ("initialize", "server/discover")
"""Methods whose result carries the instructions."""

_LIST_CHANGED = NotificationOptions(resources_changed=True, tools_changed=True)


def create_server(library: SkillLibrary, *, is_shared: bool = False) -> "SkillsServer":
    """Create a server for both protocol eras; `library.refresher.run` must run, too.

    A shared server has callers on other machines: nothing runs here, and callers run
    scripts in their own shells.
    """
    tools = _Tools(library, is_shared=is_shared)
    first_response = _FirstResponse(library, tools, is_shared=is_shared)
    libraries = [library, *filter(None, [library.early])]
    notices = ListChangeNotifier(partial(_derive_listing_key, libraries))
    resources, extension = Resources(library), SkillsExtension(library)
    prompts, completion = SkillPrompt(library, tools.find_offered), PathCompletion(library)
    subscriptions = ExitStack()
    for each in libraries:
        subscriptions.callback(each.current.watch(notices.announce))

    server = SkillsServer(
        "skills-mcp",
        notices=notices,
        unsubscribe=subscriptions.close,
        version=__version__,
        title="Skills of this organisation",
        lifespan=notices.run_notifier,
        cache_hints=_PER_CALLER_HINTS if is_shared else _SHARED_HINTS,
        # Without it the SDK lists all tools in each call over HTTP, to see whether one
        # wants an argument in a header, too. None of ours does.
        get_tool_input_schema=lambda _: None,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        on_completion=completion.complete,
        on_subscriptions_listen=notices.listen,
    )

    server.middleware += [
        first_response.answer,
        tools.name_offered,
        tools.roots.watch,
        _wrap_invalid_arguments,
        notices.remember,
    ]
    extension.register(server)
    return server


class _FirstResponse:
    """Middleware for the first response of a connection."""

    def __init__(self, library: SkillLibrary, tools: "_Tools", *, is_shared: bool) -> None:
        self._library = library
        self._tools = tools
        self._is_shared = is_shared

    async def answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Start loading content, but only after the client has its response."""
        try:
            result = await call_next(ctx)
            if ctx.method in _OPENINGS and isinstance(result, dict):
                return await self._instruct(ctx, result)
            return result
        finally:
            self._library.refresher.wake()

    async def _instruct(self, ctx: Context, result: dict[str, Any]) -> dict[str, Any]:
        """Add the instructions, with the core skills of the caller."""
        if ctx.method == "initialize":
            result = declare_extension(result)
        seen = view_of(self._library, ctx)
        offered = self._tools.find_offered(ctx)
        instructions = await _compose_for_caller(seen, offered, is_shared=self._is_shared)
        tokens = self._tools.measure_start(ctx, instructions)["tokens"]
        cost = f"\nThis text and the tools have about {tokens:,} tokens.\n"
        return {**result, "instructions": f"{instructions}{cost}"}


class _Tools:
    """Tools of the enabled tool sets; content cannot add one.

    Instructions sent before content was loaded name no core skills. The first reply to
    a task names them instead.
    """

    def __init__(self, library: SkillLibrary, *, is_shared: bool) -> None:
        self._library = library
        self._is_shared = is_shared
        specs = select_tools(library.config, is_shared=is_shared)
        self._specs = {spec.name: spec for spec in specs}
        self._advertised = {spec.name: spec.advertise(is_shared=is_shared) for spec in specs}
        self._core_skills_pending = not (is_shared or library.is_ready)
        per_minute = library.config.http.refreshes_per_minute
        self._refreshes = RateLimit(per_minute, per_minute / _MINUTE_SECONDS)
        self._scope_limiter = anyio.CapacityLimiter(_MAX_SCOPED_VIEWS)
        self.roots = _ClientRoots(library)

    def find_offered(self, context: Context) -> tuple[str, ...]:
        """Names of the tools of a caller."""
        caller = caller_of(context)
        return tuple(name for name, spec in self._specs.items() if caller.may(spec.scope))

    def measure_start(self, context: Context, instructions: str) -> dict[str, int]:
        """Estimate the start of a session: its instructions and tools."""
        texts = [self._advertised[n].model_dump_json() for n in self.find_offered(context)]
        text = "".join((instructions, *texts))
        return {"tokens": estimate_tokens(text), "characters": len(text)}

    async def list_tools(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[self._advertised[n] for n in self.find_offered(context)])

    async def name_offered(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: name only tools of the caller in protocol errors."""
        try:
            return await call_next(ctx)
        except MCPError as error:
            if ctx.method != "tools/call":
                offered = self.find_offered(ctx)
                message = replies.replace_unavailable_tools(error.error.message, offered)
                error.error = error.error.model_copy(update={"message": message})
            raise

    async def call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        config, offered = self._library.config, self.find_offered(context)
        if params.name not in offered:
            raise MCPError(
                code=INVALID_PARAMS,
                message=f"Unknown tool: {params.name}. There are: {', '.join(offered)}",
            )
        spec = self._specs[params.name]
        rules = derive_rules(_client_name(context), config.responses)
        with use_reply_rules(rules):
            reply = await replies.reply_or_error(self._reply(spec, context, params))
        if isinstance(reply, InputRequiredResult):
            return reply
        if self._is_shared:
            reply = replies.for_remote_client(reply)
        if reply.is_error:
            reply = replies.with_available_tools(reply, offered)
        return render_tool_result(reply, rules)

    async def _reply(
        self, spec: ToolSpec, context: Context, params: CallToolRequestParams
    ) -> replies.Reply | InputRequiredResult:
        """Answer a call; report progress if it may take long."""
        library, raw = self._library, params.arguments or {}
        demand = library.config.scripts.confirm
        is_off = spec.name == "run_script" and not library.config.scripts.enabled
        if spec.runs_code and demand != "never" and not is_off:
            values = parse_arguments(spec.arguments, spec.name, raw).model_dump()
            note = await anyio.to_thread.run_sync(self._note_script, context, values)
            if question := await confirm_run(context, params, demand, note):
                return question
        if self._is_shared and spec.name == "refresh_skills":
            self._limit_refreshes(context)
        is_waiting = spec.needs_content and not library.is_ready
        if not (is_waiting or spec.is_slow):
            return await self._answer(spec, context, raw)
        activity = "Waiting for the first sync" if is_waiting else spec.title
        async with progress_reports(
            context.session, activity, partial(self._find_step, spec, context)
        ):
            return await self._answer(spec, context, raw, is_waiting=is_waiting)

    def _limit_refreshes(self, context: Context) -> None:
        """Refuse a caller in a loop: the Git host's rate limit is everyone's."""
        client = client_of(context.request.scope) if context.request else ""
        if wait_seconds := self._refreshes.take(client):
            raise RefreshLimitError(
                "You have called refresh_skills too often. The server fetches by "
                "itself every few minutes; go on with the skills that it has, or call "
                f"refresh_skills again in {math.ceil(wait_seconds)} s."
            )

    async def _answer(
        self,
        spec: ToolSpec,
        context: Context,
        raw: dict[str, Any],
        *,
        is_waiting: bool = False,
    ) -> replies.Reply:
        arguments = parse_arguments(spec.arguments, spec.name, raw)
        library = self._library
        if spec.name in _FIRST_TOOLS and not self._is_shared:
            async with self.roots.asking:
                await self.roots.find_project(context)
        view = await wait_for_view(library, context) if is_waiting else view_of(library, context)
        # The first call of a caller who sees as no other.
        if view.served and not view.served.is_prepared_for(view.access):
            limiter = self._scope_limiter if view.access.is_scoped else None
            await anyio.to_thread.run_sync(_prepare, view, limiter=limiter)
        reply = await spec.answer(with_stated_project(view, context), arguments)
        if spec.name == "list_skills":
            offered = self.find_offered(context)
            instructions = await _compose_for_caller(view, offered, is_shared=self._is_shared)
            start = self.measure_start(context, instructions)
            reply = replace(reply, data={**reply.data, "session_start": start})
        if library.config.responses.powers == "note":
            reply = await anyio.to_thread.run_sync(_with_powers, view, reply)
        if self._core_skills_pending and spec.name in _FIRST_TOOLS:
            self._core_skills_pending = False
            reply = replies.with_core_skills(reply, view.core_skills())
        return reply

    def _note_script(self, context: Context, values: Mapping[str, Any]) -> str:
        """The powers of a script, for the question to the user.  Blocking.

        Raises:
            SkillsError: No, several or a hidden skill, so that there is nothing to ask.
        """
        view = view_of(self._library, context)
        if not view.served:
            return ""
        index = view.snapshot.index
        path = index.resolve(values.get("skill_path") or values["skill_name"]).path
        file = values.get("file", "")
        notes = (audit.note_script_powers(index, path, file) for audit in load_audits() if file)
        return "; ".join(filter(None, notes))

    def _find_step(self, spec: ToolSpec, context: Context) -> str:
        view = view_of(self._library, context)
        return view.sync_step if spec.name == "refresh_skills" or not view.served else ""


def _prepare(view: LibraryView) -> None:
    view.snapshot.prepare()


def _derive_listing_key(libraries: Sequence[SkillLibrary], access: Access) -> bytes:
    """Digest of paths, names and descriptions.  Blocks once after a refresh.

    With a rollout it is of both versions: an access does not tell which one is served.
    """
    views = (library.view(access) for library in libraries)
    return b"".join(view.snapshot.indexes.listing_key for view in views if view.served)


class _ClientRoots:
    """Roots of a client that has started the server elsewhere, such as in a home.

    Clients of the newest protocol version have none (SEP-2577).
    """

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._started_in = library.project
        self.asking = anyio.Lock()
        """Held while the client is asked: calls at once are answered for the same project."""
        self._is_asked = False

    async def watch(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: ask again after a change."""
        if ctx.method == "notifications/roots/list_changed":
            self._is_asked = False
        return await call_next(ctx)

    async def find_project(self, context: Context) -> None:
        """Ask once for the roots, unless the working directory is a project."""
        params = context.session.client_params
        if self._is_asked or params is None or params.capabilities.roots is None:
            return
        self._is_asked = True
        own = self._started_in
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS or (own and own.is_found):
            return
        with anyio.move_on_after(_ROOTS_SECONDS), suppress(MCPError, ValidationError):
            listed = await context.session.send_request(ListRootsRequest(), ListRootsResult)
            folders = (parse_file_uri(str(root.uri)) for root in listed.roots)
            if folder := next(filter(None, folders), None):
                self._library.open_project({}, folder)


def parse_file_uri(uri: str) -> Path | None:
    """Parse the URI of a folder on this machine.

    >>> parse_file_uri("file:///home/ada/my%20shop") == Path("/home/ada/my shop")
    True
    """
    from urllib.request import url2pathname  # late: start-up

    parts = urlsplit(uri)
    is_here = parts.scheme == "file" and parts.netloc in {"", "localhost"}
    return Path(url2pathname(parts.path)) if is_here else None


class SkillsServer(Server[Any]):
    """MCP server with adjusted capabilities.

    List changes are declared for resources and tools, not for prompts; resources have
    no subscriptions. The SDK declares those as soon as clients can listen.
    """

    def __init__(
        self,
        name: str,
        *,
        notices: ListChangeNotifier,
        unsubscribe: Callable[[], None],
        **handlers: Any,
    ) -> None:
        super().__init__(name, **handlers)
        self._notices = notices
        self.announce = notices.announce
        self.end_streams = notices.end_streams
        self.close = unsubscribe
        """Lets the library go, which other servers go on using."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,  # noqa: ARG002 - ours
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        served = super().get_capabilities(
            _LIST_CHANGED,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        assert served.resources is not None, "create_server serves them"  # noqa: S101
        resources = served.resources.model_copy(update={"subscribe": False})
        prompts = PromptsCapability(list_changed=False)
        return served.model_copy(update={"resources": resources, "prompts": prompts})


def _client_name(context: Context) -> str:
    client_params = context.session.client_params
    return client_params.client_info.name if client_params else ""


async def _wrap_invalid_arguments(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Wrap arguments of a wrong type, so `parse_arguments` rejects them.

    The SDK would answer with a protocol error, invisible to models.
    """
    value = (ctx.params or {}).get("arguments")
    if ctx.method == "tools/call" and not isinstance(value, Mapping | None):
        arguments = {NOT_AN_OBJECT: value}
        ctx = replace(ctx, params={**(ctx.params or {}), "arguments": arguments})
    return await call_next(ctx)


@asynccontextmanager
async def progress_reports(
    session: ServerSession, activity: str, step: Callable[[], str]
) -> AsyncIterator[None]:
    """Report progress to a client once a second until the block ends.

    Without a progress token of the client nothing is sent. `step` returns the current
    step of the sync, or an empty text.
    """
    failure: SkillsError | MemoryError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_send_progress, session, activity, step)
        try:
            yield
        except (SkillsError, MemoryError) as error:
            failure = error  # or the group would wrap it
        tasks.cancel_scope.cancel()
    if failure:
        raise failure


async def _send_progress(session: ServerSession, activity: str, step: Callable[[], str]) -> None:
    started = time.monotonic()
    while True:
        seconds = time.monotonic() - started
        at = f"{known}, " if (known := step()) else ""
        await session.report_progress(seconds, message=f"{activity}: {at}{seconds:.0f} s")
        await anyio.sleep(_REPORT_INTERVAL_SECONDS)


_CORE_INSTRUCTIONS = """\
Call get_skill with a description of the task before you write or change code: it \
returns this organisation's rules, templates and scripts for exactly that task. \
They take precedence over your general habits.

1. get_skill(context="add login to the React app"). The reply is one of:
   - a match: follow "content" (general rules first, the specific ones last win);
   - "ambiguous": call get_skill again with the skill_path that fits;
   - "no_match": take one under "near" by its skill_path if it fits, else go on \
without; do not retry with other words more than once.
2. Fetch the assets you need with get_asset instead of writing them from memory. \
{scripts}3. When the task is done, call report_usage, above all when a skill was wrong.

list_skills shows everything there is. Call refresh_skills only when the user says \
that skills have just changed.
"""

_PACKAGES_HINT = """
To pick a skill yourself: search_skills, then load_skill with its name or path, \
then read_skill_file for the files that its text mentions.
"""

_RUN_BY_SERVER = """\
Scripts with execution "claude": fetch with get_asset and run them in your shell. \
Scripts with execution "server": call run_script.
"""

_RUN_BY_CALLER = """\
Scripts, too: fetch them with get_asset and run them in your own shell.
"""

_LOCAL_FOLDER = """\
Run scripts in your own shell, in the folder that load_skill names as "path".
"""

_REMOTE_FOLDER = """\
Fetch scripts, too, and run them in your own shell.
"""

_COMMANDS = """
Without a shell of your own: run_skill_command runs a script of a skill, and \
run_skill_entry the one that it names as its "entry".
"""

_PACKAGES_INSTRUCTIONS = """\
Call search_skills with a description of the task before you write or change code: \
this organisation's skills take precedence over your general habits.

1. search_skills(query="extract invoice numbers from a PDF") lists the skills that \
fit best, with name, description and path.
2. load_skill(skill_name="pdf") returns one of them; follow its instructions.
3. read_skill_file(skill_name="pdf", file_path="references/forms.md") reads a file \
that they mention; find_skill_files lists all. {scripts}
Call refresh_skills only when the user says that skills have just changed, or a \
reply says so.
"""

# What some hosts show of the instructions.
_MAX_BYTES = 2048

# The tools that a task begins with.
_FIRST_TOOLS = frozenset({"get_skill", "search_skills"})

# Every tool set needs it: a folder is read again on request only.
_REFRESH_TOOLS = tuple(spec for spec in CORE_TOOLS if spec.name == "refresh_skills")


def select_tools(config: Config, *, is_shared: bool = False) -> tuple[ToolSpec, ...]:
    """Tools of the enabled tool sets; none that runs code on a shared server."""
    chosen: tuple[ToolSpec, ...] = ()
    if "core" in config.toolsets:
        chosen += CORE_TOOLS
    if "packages" in config.toolsets:
        from skills_mcp.server.tools import COMMAND_TOOLS, PACKAGE_TOOLS

        chosen += PACKAGE_TOOLS
        chosen += COMMAND_TOOLS if config.commands.enabled else ()
    chosen = chosen if "core" in config.toolsets else (*chosen, *_REFRESH_TOOLS)
    return tuple(spec for spec in chosen if not (is_shared and spec.runs_code))


def compose_server_instructions(
    config: Config, core_skills: Sequence[str] = (), *, is_shared: bool = False
) -> str:
    """Instructions; core skills are named within the size limit, the rest counted."""
    more = _COMMANDS if config.commands.enabled and not is_shared else ""
    scripts = _RUN_BY_CALLER if is_shared else _RUN_BY_SERVER
    core = _CORE_INSTRUCTIONS.format(scripts=scripts)
    if "packages" not in config.toolsets:
        text, tool = core, "get_skill and its skill_path"
    elif "core" not in config.toolsets:
        where = _REMOTE_FOLDER if is_shared else _LOCAL_FOLDER
        text, tool = _PACKAGES_INSTRUCTIONS.format(scripts=where) + more, "load_skill"
    else:
        text, tool = core + _PACKAGES_HINT + more, "get_skill and its skill_path"
    return text + _core_skills_sentence(core_skills, tool, _MAX_BYTES - len(text.encode()))


def _compose_for_library(library: LibraryView, *, is_shared: bool) -> str:
    core_skills = library.core_skills() if library.served else ()
    return compose_server_instructions(library.config, core_skills, is_shared=is_shared)


async def _compose_for_caller(
    library: LibraryView, offered: Collection[str], *, is_shared: bool
) -> str:
    """Compose the instructions, without tools for which the caller has no scope."""
    work = partial(_compose_for_library, library, is_shared=is_shared)
    # No first answer on standard input waits for a thread.
    text = await anyio.to_thread.run_sync(work) if is_shared else work()
    return _drop_sentences(text, offered)


def _drop_sentences(instructions: str, offered: Collection[str]) -> str:
    """Drop the sentences about tools for which a caller has no scope."""
    for spec in CORE_TOOLS:
        if spec.name not in offered and spec.scope != READ:
            sentence = rf"[^.\n]*\b{spec.name}\b[^.\n]*\."
            pattern = rf"^(?:\d\. )?{sentence}\n| {sentence}"
            instructions = re.sub(pattern, "", instructions, flags=re.MULTILINE)
    return instructions


def _core_skills_sentence(paths: Sequence[str], tool: str, max_bytes: int) -> str:
    for number in range(len(paths), 0, -1):
        rest = len(paths) - number
        others = f" and {rest:,} more" if rest else ""
        text = (
            f"\nCore skills hold for every task. Read them first, with {tool}: "
            f"{', '.join(paths[:number])}{others}.\n"
        )
        if len(text.encode()) <= max_bytes:
            return text
    return ""


_KEY = "run"

_NO_FIELDS = {"type": "object", "properties": {}}
"""Accept or decline is the whole answer."""

_MAX_VALUE_CHARACTERS = 2_000  # characters of a value that are shown

_CANNOT_ASK = (
    "scripts.confirm is always, and this client cannot ask its user. Use a client that "
    "supports elicitation; the operator can set scripts.confirm to if_possible."
)
_NOT_ALLOWED = "The user did not allow this run. Ask the user how to go on."


async def confirm_run(
    ctx: Context, params: CallToolRequestParams, demand: ConfirmDemand, note: str = ""
) -> InputRequiredResult | None:
    """Question still to be answered; None: the program may run.

    Since 2026-07-28 the question is the result of the call, and the client repeats the
    call with the answer. Earlier clients receive an elicitation request.

    Raises:
        NotConfirmedError: The user declined, or cannot be asked.
    """
    if not _supports_elicitation(ctx):
        if demand == "always":
            raise NotConfirmedError(_CANNOT_ASK)
        return None
    form = ElicitRequestFormParams(
        message=_compose_question(params, note), requested_schema=_NO_FIELDS
    )
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # An answer counts for the run that it was asked for.
        state = _derive_state(params)
        answer = (params.input_responses or {}).get(_KEY)
        if not isinstance(answer, ElicitResult) or params.request_state != state:
            question = ElicitRequest(params=form)
            return InputRequiredResult(input_requests={_KEY: question}, request_state=state)
    else:
        answer = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
    if answer.action != "accept":
        raise NotConfirmedError(_NOT_ALLOWED)
    return None


def _supports_elicitation(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    # A client that names no mode has the one that there was first.
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


def _compose_question(params: CallToolRequestParams, note: str) -> str:
    arguments = params.arguments or {}
    lines = [f"Run this on your machine? ({params.name})"]
    for name, value in arguments.items():
        text = json.dumps(value, ensure_ascii=False)
        cut = f"{text[:_MAX_VALUE_CHARACTERS]} … ({len(text):,} characters)"
        lines.append(
            f"{abbreviate_value(name)}: {text if len(text) <= _MAX_VALUE_CHARACTERS else cut}"
        )
    if note:
        lines.append(f"Powers that were found in it: {note}")
    return "\n".join(lines)


def _derive_state(params: CallToolRequestParams) -> str:
    call = json.dumps([params.name, params.arguments], sort_keys=True)
    return sha256(call.encode()).hexdigest()


_TELL_POWERS = (
    "Tell your user in one line that the skill {path} has powers that no rule allows: {note}"
)


def _with_powers(view: LibraryView, reply: replies.Reply) -> replies.Reply:
    """Add the note to a reply that hands out the text of a skill.  Blocking."""
    path = reply.data.get("skill_path")
    if not isinstance(path, str) or reply.data.keys().isdisjoint({"content", "digest"}):
        return reply
    snapshot = view.snapshot
    skill = snapshot.index.get(path)
    if skill is None:
        return reply
    folders = [part.checkout.directory for part in snapshot.content.parts]
    notes = (audit.note_powers(snapshot.index, skill, folders) for audit in load_audits())
    note = "; ".join(filter(None, notes))
    if not note:
        return reply
    return replace(reply, data={**reply.data, "powers": _TELL_POWERS.format(path=path, note=note)})


_PLAIN_RULES = ReplyRules("json", 10_000)

_RESTART_HINT = "Then restart this MCP server in your agent, or the agent."


def create_unconfigured_server(error: ConfigError) -> Server[Any]:
    """Create a server that answers each call with a configuration error.

    Hosts show no reason for a server that exits, so this one stays until its client
    leaves.
    """
    config_error = ConfigError(f"{error} {_RESTART_HINT}")

    async def list_tools(_context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[spec.advertise() for spec in CORE_TOOLS])

    async def call_tool(_context: Context, _: CallToolRequestParams) -> CallToolResult:
        return render_tool_result(replies.error_reply(config_error), _PLAIN_RULES)

    return Server(
        "skills-mcp",
        version=__version__,
        title="Skills of this organisation",
        instructions=f"{NOTHING_TO_SERVE}; tell the user why. {config_error}",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
