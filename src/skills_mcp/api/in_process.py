"""In-process Python API: `open`, `open_sync`, `Skills` and `SyncSkills`.

Rule: every method is safe on any thread and event loop, and nothing waits without a
bound. An event loop on a daemon thread refreshes the skills: a program without a call of
`close` still ends, and so do its scripts.
"""

import atexit
import logging
import os
import re
import weakref
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import chain, count
from os import PathLike
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, get_args

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from skills_mcp.api.representation import Rows, make_readable
from skills_mcp.bootstrap import Application, Options, build
from skills_mcp.config.variables import clear_placeholders
from skills_mcp.errors import (
    ConfigError,
    ContentUnavailableError,
    InvalidArgumentsError,
    SkillsError,
)
from skills_mcp.library import (
    DEFAULT_EXAMPLES,
    DEFAULT_LINES,
    FIRST_CONTENT_SECONDS,
    FoundFiles,
    LibraryView,
    LoadedSkill,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    Refreshed,
    ServedExamples,
    SkillChanges,
    SourceState,
)
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.search import Hit, SearchResult
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.model import Inventory, Problem, Scope, Skill
from skills_mcp.skills.skill_files import FilePart, LineRange
from skills_mcp.skills.skill_index import SkillFilter
from skills_mcp.skills.skill_parser import derive_slug
from skills_mcp.skills.source_layout import SKILLS_FOLDER
from skills_mcp.skills.tree_node import TreeNode

if TYPE_CHECKING:
    from skills_mcp.library import CommandRequest, EntryRequest, ScriptRequest
    from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
    from skills_mcp.library.skill_folder import SkillFolder

logger = logging.getLogger(__name__)

make_readable(
    *(Ambiguous, Candidate, FilePart, FoundFiles, Hit, Inventory, LoadedSkill, Match, NoMatch),
    *(Problem, Provenance, RanScript, ReadFile, Refreshed, SearchResult, ServedExamples, Skill),
    *(SkillChanges, SourceState),
)

# A library prints nothing by itself; the program decides what becomes of a log.
logging.getLogger("skills_mcp").addHandler(logging.NullHandler())


def _require_texts(**arguments: object) -> None:
    for name, value in arguments.items():
        _require(isinstance(value, str), name, "a text", value)


def _exclude_none(**arguments: object) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}


def _require_mapping(name: str, value: Mapping[str, str] | None) -> None:
    _require(isinstance(value, Mapping | None), name, "a mapping of texts", value)
    for key, text in (value or {}).items():
        _require_texts(**{f"{name}, key {key!r}": key, f"{name}[{key!r}]": text})


def _require_counts(**arguments: int | None) -> None:
    for name, value in arguments.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
        _require(value is None or is_count, name, "a whole number from 1 on", value)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    _require(value in choices, name, f"one of {', '.join(map(repr, choices))}", value)


def _require(is_valid: bool, name: str, expected: str, value: object) -> None:  # noqa: FBT001
    if not is_valid:
        text = repr(value)
        # Bytes are where a text is due, which may be a secret.
        is_shown = len(text) <= _MAX_VALUE_CHARACTERS and not isinstance(value, bytes)
        found = text if is_shown else f"a value of the type {type(value).__name__}"
        raise InvalidArgumentsError(f"{name}: must be {expected}, not {found}.")


_MAX_VALUE_CHARACTERS = 60
_MAX_QUEUED_CHANGES = 1000  # of a program that has stopped to read them

_Result = TypeVar("_Result")


_FINAL_PUBLISH_SECONDS = 1.0


class Session:
    """Shared state of all views; closed with the owner, or by the garbage collector."""

    def __init__(
        self, application: Application, wait_seconds: float, *, has_source: bool = True
    ) -> None:
        self.background = BackgroundLoop(application, wait_seconds)
        self._has_source = has_source
        self.users: set[object] = set()
        """Callers that wait for the content; None once a caller has not given up."""
        self._finalizer = weakref.finalize(self, _close_on_new_thread, self.background)
        self._finalizer.atexit = False  # the background has a way of its own

    def open(self) -> None:
        """Load the content and keep it fresh.

        Idempotent. Raises as `BackgroundLoop.open`.
        """
        try:
            with _naming_arguments(self._has_source):
                self.background.open()
        except BaseException:
            self.close()
            raise

    def open_if_new(self) -> BlockingPortal:
        """Open at the first call; idempotent."""
        self.users.add(None)
        if self.background.is_new:
            self.open()
        return self.background.require_open()

    def close(self) -> None:
        # The finalizer would keep the background, and an error of it, for ever.
        self._finalizer.detach()
        self.background.close()


def _close_on_new_thread(background: "BackgroundLoop") -> None:
    # The garbage is collected on any thread, also on one that must not wait.
    Thread(target=background.close, daemon=True).start()


class Subscription:
    """Delivers changes in order to one callback, on its own daemon thread.

    Loading never waits for a callback, so a callback may refresh.
    """

    def __init__(
        self, callback: Callable[[SkillChanges], None], on_end: Callable[[], None]
    ) -> None:
        self._waiting: SimpleQueue[SkillChanges | None] = SimpleQueue()
        self._callback = callback
        self._on_end = on_end
        Thread(target=self._run, name="skills-mcp-watch", daemon=True).start()

    def deliver(self, changes: SkillChanges) -> None:
        self._waiting.put(changes)

    def end(self) -> None:
        self._waiting.put(None)

    def _run(self) -> None:
        while (changes := self._waiting.get()) is not None:
            try:
                self._callback(changes)
            except Exception:
                logger.exception("A callback of `watch` has failed")
        self._on_end()


class BackgroundLoop:
    def __init__(self, application: Application, wait_seconds: float) -> None:
        self.library = application.library
        self._publisher = application.publisher
        self._wait_seconds = wait_seconds
        self._opening = Lock()
        self._lock = Lock()
        self._is_closed = False
        self._is_loaded = False
        self._failure: SkillsError | None = None
        self._process = 0
        self._running: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._subscriptions: set[Subscription] = set()

    def open(self) -> None:
        """Load the content and keep it fresh; idempotent, also concurrently.

        Raises:
            SyncError: The first content cannot be loaded.
            ContentUnavailableError: It has not come in time.
        """
        with self._opening:
            if not self.is_new:
                self.require_open()
                return
            try:
                wait_for_result(self._start().start_task_soon(self._load))
            except BaseException as error:
                self._failure = error if isinstance(error, SkillsError) else None
                self.close()
                raise
            self._is_loaded = True

    def _start(self) -> BlockingPortal:
        with self._lock:
            if self._is_closed:
                raise self._failure or _not_open_error("are closed", _OPEN_NEW)
            self._running = start_blocking_portal(name="skills-mcp")
            self._portal = portal = self._running.__enter__()
            self._process = os.getpid()
        atexit.register(self.close)
        for work in (self.library.refresher.run, self._publisher.run):
            portal.start_task_soon(_run_logged, work)
        return portal

    async def _load(self) -> None:
        self.library.refresher.wake()
        try:
            await self.library.refresher.wait_until_ready(self._wait_seconds)
        except ContentUnavailableError:
            raise await anyio.to_thread.run_sync(self._explain_missing_content) from None

    def _explain_missing_content(self) -> SkillsError:
        if self._is_closed:
            return _not_open_error("were closed", _OPEN_NEW)
        for state in self.library.view().states():
            if state.error:
                return state.error
        step = self.library.mounts.doing
        return ContentUnavailableError(
            f"{self.library.mounts.name}: the first content has not come in "
            f"{self._wait_seconds:g} s{f' ({step})' if step else ''}. Call "
            "skills_mcp.open or open_sync again with a larger wait_seconds: what has "
            "been fetched is kept"
        )

    @property
    def is_new(self) -> bool:
        """Whether a call opens them, or waits until another one has."""
        return not self._is_loaded and self._process in {0, os.getpid()}

    def require_open(self) -> BlockingPortal:
        """Portal to the event loop.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        if self._is_closed:
            raise _not_open_error("are closed", _OPEN_NEW)
        if self._portal is None:
            raise _not_open_error("are not open", _OPEN_FIRST)
        if self._process != os.getpid():
            raise _not_open_error("were opened in another process", _OPEN_NEW)
        return self._portal

    def watch(
        self,
        access: Access,
        callback: Callable[[SkillChanges], None],
        on_end: Callable[[], None],
    ) -> Callable[[], None]:
        """Call back after each change, on a new thread; the result unsubscribes.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        self.require_open()
        subscription = Subscription(callback, on_end)
        unsubscribe = self.library.watch_changes(subscription.deliver, access)
        with self._lock:
            self._subscriptions.add(subscription)
            is_closed = self._is_closed

        def end() -> None:
            unsubscribe()
            self._subscriptions.discard(subscription)
            subscription.end()

        if is_closed:
            end()
        return end

    def close(self) -> None:
        with self._lock:
            running, portal = self._running, self._portal
            was_closed, self._is_closed = self._is_closed, True
            subscriptions = tuple(self._subscriptions)
        is_elsewhere = self._process != os.getpid()  # that process closes it
        if was_closed or running is None or portal is None or is_elsewhere:
            return
        atexit.unregister(self.close)
        for subscription in subscriptions:
            subscription.end()
        self.library.close()
        with suppress(Exception):  # events that are not sent now are sent later
            last = portal.start_task_soon(self._publisher.publish)
            last.result(_FINAL_PUBLISH_SECONDS)
        with suppress(RuntimeError):
            portal.call(portal.stop, True)  # noqa: FBT003 - the portal's signature
        running.__exit__(None, None, None)


async def _run_logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        logger.exception("The background work of the skills has ended")


def wait_for_result(future: Future[_Result]) -> _Result:
    """Wait for a result.  Blocking.

    Raises:
        ContentUnavailableError: The skills were closed meanwhile.
    """
    try:
        return future.result()
    except CancelledError:
        raise _not_open_error("were closed", _OPEN_NEW) from None


_OPEN_NEW = "Open new ones with skills_mcp.open(…) or skills_mcp.open_sync(…)."
_OPEN_FIRST = (
    "Use them inside of `async with skills_mcp.open(…) as skills:`, or await open() or "
    "another method first."
)


def _not_open_error(state: str, advice: str) -> ContentUnavailableError:
    return ContentUnavailableError(f"These skills {state}. {advice}")


class SyncSkills:
    """Synchronous in-process API.

    Made by `open_sync`. Thread-safe; opened by the first call, and closed at exit or as a
    context manager. Every answer comes from one
    complete commit; a refresh replaces the content in one step.
    """

    def __init__(self, session: Session, access: Access | None = None) -> None:
        self._session = session
        self._access = access or EVERYTHING
        self._is_narrowed = access is not None

    def __repr__(self) -> str:
        return f"<SyncSkills of {self._session.background.library.mounts.name}>"

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_error: object) -> None:
        self.close()

    def open(self) -> Self:
        """Load the content and keep it fresh; idempotent.

        Cached content is served at once, followed by a sync in the background.

        Raises:
            SyncError: The first content cannot be loaded; see the subclass.
            ContentUnavailableError: It has not come in `wait_seconds`.
        """
        self._session.open_if_new()
        return self

    def close(self) -> None:
        """Stop background work; idempotent. No effect on narrowed skills."""
        if not self._is_narrowed:
            self._session.close()

    def to_sync(self) -> "SyncSkills":
        """The same open skills for synchronous code."""
        return self

    def to_async(self) -> "Skills":
        """The same open skills for `async` code."""
        return Skills(self)

    def narrow(self, *allow: str, deny: str | Sequence[str] = ()) -> "SyncSkills":
        """Cheap view of a subset, following each refresh; calls accumulate.

        Patterns match paths or names, such as `ui/**`; no `allow` means all, and `deny`
        prevails. Hidden skills are not found, not listed, and not inherited.

        Raises:
            InvalidArgumentsError: A pattern is empty.
        """
        _require(isinstance(deny, Iterable), "deny", "a pattern or a list of patterns", deny)
        hidden = (deny,) if isinstance(deny, str) else tuple(deny)
        _require_texts(**{f"pattern {p!r}": p for p in (*allow, *hidden)})
        if not all((*allow, *hidden)):
            raise InvalidArgumentsError("narrow: a pattern is empty. Write `**` for all skills.")
        return SyncSkills(self._session, self._access.narrow(tuple(allow), hidden))

    @property
    def revision(self) -> str:
        """Digest of all skills with their texts and files.

        Changes with the content. Equal in all processes with the same content.
        """
        return self._library.revision

    def watch(self, callback: Callable[[SkillChanges], None]) -> Callable[[], None]:
        """Call back after each change, in order, on a separate thread.

        The callback may query and refresh. The first content is not reported. The result
        unsubscribes after queued changes.

        Raises:
            ContentUnavailableError: The skills are closed.
        """
        self._session.open_if_new()
        return self._watch(callback)

    def route(  # noqa: PLR0913 - most are keywords
        self,
        context: str,
        *,
        skill_path: str | None = None,
        known_digest: str | None = None,
        within: str = "",
        category: str = "",
        scope: Scope | None = None,
    ) -> Match | Ambiguous | NoMatch:
        """Find the skill for a task, with all inherited rules.

        Args:
            context: The task, in free text.
            skill_path: The pick after an `Ambiguous` answer.
            known_digest: The `digest` of an earlier answer: if unchanged, `is_known` is set.
            within: Candidates below this folder only, such as `ui/react`.
            category: Candidates of this category only.
            scope: Candidates of `org`, `repo` or `user` only.

        Raises:
            SkillNotFoundError: There is no skill at `skill_path`, or no candidate.
        """
        _require_texts(
            context=context, **_exclude_none(skill_path=skill_path, known_digest=known_digest)
        )
        scoping = _derive_scoping(within, category, scope)
        found = self._library.route(context, skill_path, known_digest, scoping=scoping)
        match found:
            case Ambiguous():
                return replace(found, candidates=Rows(found.candidates))
            case NoMatch():
                return replace(found, near=Rows(found.near))
            case _:
                return found

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        within: str = "",
        category: str = "",
        scope: Scope | None = None,
    ) -> SearchResult:
        """Search skills, best first; `limit` defaults to `search.limit`.

        Raises:
            InvalidArgumentsError: The query is empty.
            SkillNotFoundError: There is no skill in the scope.
        """
        _require_texts(query=query)
        _require_counts(limit=limit)
        scoping = _derive_scoping(within, category, scope)
        found = self._library.search(query, limit=limit, scoping=scoping)
        return replace(found, hits=Rows(found.hits))

    def load(self, name: str, *, known_digest: str | None = None) -> LoadedSkill:
        """Load a skill's instructions, including inherited rules.

        With an unchanged `known_digest`, the answer has `is_known`.

        Raises:
            SkillNotFoundError: There is no such skill; the message names similar ones.
            AmbiguousNameError: Several have this name; the message has their paths.
            SkillDisabledError: The operator hides it.
        """
        _require_texts(name=name, **_exclude_none(known_digest=known_digest))
        return self._library.load_skill(name, known_digest=known_digest)

    def read(
        self, name: str, file: str, *, start_line: int | None = None, max_lines: int | None = None
    ) -> ReadFile:
        """Read a file of a skill or an ancestor.

        `start_line` counts from 1; `max_lines` defaults to 200 with it. Without both, the
        beginning.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
            FileError: The file cannot be read; see the subclass.
            InvalidArgumentsError: The file has no such lines.
        """
        _require_texts(name=name, file=file)
        _require_counts(start_line=start_line, max_lines=max_lines)
        is_part = start_line is not None or max_lines is not None
        lines = LineRange(start_line or 1, max_lines or DEFAULT_LINES) if is_part else None
        return self._library.read_file(name, file, lines)

    def open_folder(self, name: str) -> "SkillFolder":
        """Text and files of a skill, for a list, a search or a copy.

        Not an event in the report: only `load` and `read` are.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        from skills_mcp.library.skill_folder import SkillFolder

        make_readable(SkillFolder)
        _require_texts(name=name)
        return self._library.open_folder(name)

    def find_files(self, name: str, *, pattern: str = "**/*", contains: str = "") -> FoundFiles:
        """Files of a skill by path pattern and case-insensitive content, at most 200.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        _require_texts(name=name, pattern=pattern, contains=contains)
        return self._library.find_files(name, pattern=pattern, contains=contains)

    def load_examples(
        self, name: str, query: str, *, top_k: int = DEFAULT_EXAMPLES
    ) -> ServedExamples:
        """Best-fitting examples of a skill; `top_k` is clamped to 1 … 10.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        from skills_mcp.skills.skill_examples import Example, FittingExample, LoadedExamples

        make_readable(Example, FittingExample, LoadedExamples)
        _require_texts(name=name, query=query)
        _require(isinstance(top_k, int), "top_k", "a whole number", top_k)
        return self._library.load_examples(name, query, top_k)

    def list(self) -> tuple[Skill, ...]:
        """Offered skills in path order."""
        return Rows(self._library.snapshot.index.offered)

    def tree(self, path: str | None = None) -> TreeNode:
        """Tree of all skills, or of a folder.

        Raises:
            SkillNotFoundError: There is nothing at `path`.
        """
        _require_texts(**_exclude_none(path=path))
        return self._library.tree(path)

    def compose_catalog(
        self,
        style: "CatalogStyle" = "skills_context",
        *,
        max_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> "SkillCatalog":
        """Skills for a system prompt; limits default to the setting `catalog`."""
        from skills_mcp.library.catalog import RENDERERS, CatalogEntry, SkillCatalog

        make_readable(CatalogEntry, SkillCatalog)
        _require_choice("style", style, tuple(RENDERERS))
        _require_counts(max_entries=max_entries, max_bytes=max_bytes)
        return self._library.compose_catalog(style, max_entries=max_entries, max_bytes=max_bytes)

    def run_script(
        self,
        skill_path: str,
        file: str,
        args: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
    ) -> RanScript:
        """Run a script declared for the server, in the sandbox.

        Failure and timeout are results, not exceptions. Cancellation kills the script.
        `cwd` is the absolute path of a folder below `scripts.roots`.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        from skills_mcp.library import ScriptRequest

        _require_texts(skill_path=skill_path, file=file, **_exclude_none(cwd=cwd))
        _require_mapping("args", args)
        request = ScriptRequest(skill_path=skill_path, file=file, args=dict(args or {}), cwd=cwd)
        return self._run_request(request)

    def run_command(self, name: str, command: str, args: Sequence[str] = ()) -> RanScript:
        """Run a program of `commands.allowed` in a private copy of a skill's folder.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        from skills_mcp.library import CommandRequest

        _require_texts(name=name, command=command)
        _require(_is_list(args), "args", 'a list of texts, such as ["-v", "a.txt"]', args)
        _require_texts(**{f"args[{i}]": word for i, word in enumerate(args)})
        return self._run_request(CommandRequest(skill_name=name, command=command, args=tuple(args)))

    def run_entry(self, name: str, args: str = "") -> RanScript:
        """Run a skill's declared `entry` with further arguments.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        from skills_mcp.library import EntryRequest

        _require_texts(name=name, args=args)
        return self._run_request(EntryRequest(skill_name=name, args=args))

    def _run_request(self, request: "ScriptRequest | CommandRequest | EntryRequest") -> RanScript:
        from skills_mcp.library import ScriptResult

        make_readable(ScriptResult)
        return self._run(self._library.run, request)

    def report(self, skill_path: str, *, useful: bool, comment: str | None = None) -> None:
        """Record feedback on a skill, if the operator records events.

        Raises:
            SkillDisabledError: The operator hides the skill.
        """
        _require_texts(skill_path=skill_path, **_exclude_none(comment=comment))
        _require(isinstance(useful, bool), "useful", "true or false", useful)
        self._library.report(skill_path, useful=useful, comment=comment)

    def refresh(self) -> Refreshed:
        """Fetch and serve the newest content.

        A failure is a result, not an exception: see `error`. The old content stays served.
        """
        return self._run(self._session.background.library.refresh, self._access)

    def states(self) -> tuple[SourceState, ...]:
        """Commit, age and last error of each source."""
        return Rows(self._library.states())

    def problems(self) -> tuple[Problem, ...]:
        """Problems of the skills' files: file, line and reason.

        Unreadable skills are included. Narrowed skills have none: a problem may name a
        hidden file.
        """
        return Rows(self._library.snapshot.problems)

    def _watch(
        self, callback: Callable[[SkillChanges], None], on_end: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        _require(callable(callback), "callback", "a function", callback)
        return self._session.background.watch(self._access, callback, on_end)

    @property
    def _library(self) -> LibraryView:
        self._session.open_if_new()
        return self._session.background.library.view(self._access)

    def _run(self, work: Callable[..., Awaitable[_Result]], *request: object) -> _Result:
        # Cancelling the future cancels the work.
        return wait_for_result(self._start(work, *request))

    def _start(self, work: Callable[..., Awaitable[_Result]], *request: object) -> Future[_Result]:
        return self._session.open_if_new().start_task_soon(work, *request)


class _StartedSkills(SyncSkills):
    """The same skills, whose slow methods return a future at once."""

    _run: Any = SyncSkills._start  # noqa: SLF001 - of its base class


def _derive_scoping(within: str, category: str, scope: Scope | None) -> SkillFilter:
    _require_texts(within=within, category=category)
    _require_choice("scope", scope, (None, *get_args(Scope)))
    return SkillFilter(within, category, scope)


_Arguments = ParamSpec("_Arguments")
_Sync = Callable[Concatenate[SyncSkills, _Arguments], _Result]
_Async = Callable[Concatenate["Skills", _Arguments], Coroutine[Any, Any, _Result]]


def _run_in_thread(method: _Sync[_Arguments, _Result]) -> _Async[_Arguments, _Result]:
    """Asynchronous twin of a method of `SyncSkills`."""

    @wraps(method)
    async def run(
        self: "Skills", /, *args: _Arguments.args, **options: _Arguments.kwargs
    ) -> _Result:
        call = partial(method, self.to_sync(), *args, **options)
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)

    return run


def _run_cancellable(method: _Sync[_Arguments, _Result]) -> _Async[_Arguments, _Result]:
    """Asynchronous twin of a slow method; cancellation cancels the work."""

    @wraps(method)
    async def run(
        self: "Skills", /, *args: _Arguments.args, **options: _Arguments.kwargs
    ) -> _Result:
        session, access = self.to_sync()._session, self.to_sync()._access  # noqa: SLF001 - its twin
        if session.background.is_new:
            await anyio.to_thread.run_sync(session.open_if_new, abandon_on_cancel=True)
        future: Any = method(_StartedSkills(session, access), *args, **options)
        # A thread of its own: such work is slow, and must not use up those of others.
        limiter = anyio.CapacityLimiter(1)
        try:
            return await anyio.to_thread.run_sync(
                wait_for_result, future, abandon_on_cancel=True, limiter=limiter
            )
        except anyio.get_cancelled_exc_class():
            future.cancel()
            raise

    return run


class Skills:
    """Asynchronous in-process API.

    Made by `open`. Thread-safe; opened by the first call that is awaited, and closed at
    exit or as an asynchronous context manager; never blocks the caller's event loop. Every
    answer comes from one complete commit; a refresh replaces the content in one step.
    """

    def __init__(self, skills: SyncSkills) -> None:
        self._sync = skills

    def __repr__(self) -> str:
        return repr(self._sync).replace("SyncSkills", "Skills", 1)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def open(self) -> Self:
        """Load the content and keep it fresh; idempotent.

        Cached content is served at once, followed by a sync in the background.

        Raises:
            SyncError: The first content cannot be loaded; see the subclass.
            ContentUnavailableError: It has not come in `wait_seconds`.
        """
        session, user = self._sync._session, object()  # noqa: SLF001 - its twin
        session.users.add(user)
        try:
            await anyio.to_thread.run_sync(session.open, abandon_on_cancel=True)
            session.users.add(None)
        except anyio.get_cancelled_exc_class():
            session.users.discard(user)
            if not session.users:
                Thread(target=self._sync.close, daemon=True).start()
            raise
        finally:
            session.users.discard(user)
        return self

    async def close(self) -> None:
        """Stop syncs and scripts; idempotent. No effect on narrowed skills."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._sync.close)

    def to_sync(self) -> SyncSkills:
        """The same open skills for synchronous code."""
        return self._sync

    def to_async(self) -> "Skills":
        """The same object."""
        return self

    def narrow(self, *allow: str, deny: str | Sequence[str] = ()) -> "Skills":
        """Cheap view of a subset, following each refresh; calls accumulate.

        Patterns match paths or names, such as `ui/**`; no `allow` means all, and `deny`
        prevails. Hidden skills are not found, not listed, and not inherited.

        Raises:
            InvalidArgumentsError: A pattern is empty.
        """
        return Skills(self._sync.narrow(*allow, deny=deny))

    @property
    def revision(self) -> str:
        """Digest of all skills with their texts and files.

        Changes with the content. Equal in all processes with the same content.
        """
        self._sync._session.background.require_open()  # noqa: SLF001 - opening blocks the loop
        return self._sync.revision

    def watch(self, callback: Callable[[SkillChanges], None]) -> Callable[[], None]:
        """Call back after each change, in order, on a separate thread.

        The callback may query and refresh. The first content is not reported. The result
        unsubscribes after queued changes.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        return self._sync._watch(callback)  # noqa: SLF001 - opening blocks the loop

    async def changes(self) -> AsyncIterator[SkillChanges]:
        """Iterate over future changes until the skills are closed.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        token = anyio.lowlevel.current_token()
        queue: deque[SkillChanges | None] = deque(maxlen=_MAX_QUEUED_CHANGES)
        arrived = anyio.Event()

        def deliver(changes: SkillChanges | None) -> None:
            queue.append(changes)
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(arrived.set, token=token)

        end = self._sync._watch(deliver, partial(deliver, None))  # noqa: SLF001 - its twin
        try:
            while True:
                while queue:
                    if (changes := queue.popleft()) is None:  # they are closed
                        return
                    yield changes
                arrived = anyio.Event()
                if not queue:
                    await arrived.wait()
        finally:
            end()

    route = _run_in_thread(SyncSkills.route)
    search = _run_in_thread(SyncSkills.search)
    load = _run_in_thread(SyncSkills.load)
    read = _run_in_thread(SyncSkills.read)
    open_folder = _run_in_thread(SyncSkills.open_folder)
    find_files = _run_in_thread(SyncSkills.find_files)
    load_examples = _run_in_thread(SyncSkills.load_examples)
    list = _run_in_thread(SyncSkills.list)
    tree = _run_in_thread(SyncSkills.tree)
    compose_catalog = _run_in_thread(SyncSkills.compose_catalog)
    run_script = _run_cancellable(SyncSkills.run_script)
    run_command = _run_cancellable(SyncSkills.run_command)
    run_entry = _run_cancellable(SyncSkills.run_entry)
    report = _run_in_thread(SyncSkills.report)
    refresh = _run_cancellable(SyncSkills.refresh)
    states = _run_in_thread(SyncSkills.states)
    problems = _run_in_thread(SyncSkills.problems)


Place = str | PathLike[str]
"""Path of a file or folder."""


def open(  # noqa: A001, PLR0913 - `skills_mcp.open` reads well; each is a keyword
    directory: Place | Sequence[Place] | None = None,
    *,
    repo: str | None = None,
    branch: str = "",
    ref: str = "",
    token: str | None = None,
    config: Place | Mapping[str, Any] | None = None,
    home: Place | None = None,
    offline: bool | None = None,
    environment: Mapping[str, str] | None = None,
    wait_seconds: float = FIRST_CONTENT_SECONDS,
) -> "Skills":
    """Skills of folders or of a repository, opened by `async with` or by the first call.

    Without `directory` and `repo`, the sources are those of `config`, or of `SKILLS_DIR`
    and `SKILLS_REPO`. See `docs/how-to/python.md`.

    Args:
        directory: A folder with skills, or several; then each is served below its own
            name, such as `codex/pdf` for a skill of `~/.codex/skills`.
        repo: URL of a Git repository with skills.
        branch: Branch to follow; default `main`, else the default branch.
        ref: Tag or full commit SHA to pin, instead of the branch.
        token: For a private repository; never written to a disk.
        config: A settings file, or settings as a mapping, on top of the operator's file.
            See `docs/reference/configuration.md`.
        home: Folder of settings, cache and events; default `SKILLS_MCP_HOME`, or
            the folders of the user.
        offline: Whether to make no network request.
        environment: Instead of `os.environ`.
        wait_seconds: Timeout for the first content.

    Raises:
        ConfigError: A setting is wrong, or there is nothing to serve.
    """
    return Skills(
        open_sync(
            directory=directory,
            repo=repo,
            branch=branch,
            ref=ref,
            token=token,
            config=config,
            home=home,
            offline=offline,
            environment=environment,
            wait_seconds=wait_seconds,
        )
    )


def open_sync(  # noqa: PLR0913 - each is a keyword
    directory: Place | Sequence[Place] | None = None,
    *,
    repo: str | None = None,
    branch: str = "",
    ref: str = "",
    token: str | None = None,
    config: Place | Mapping[str, Any] | None = None,
    home: Place | None = None,
    offline: bool | None = None,
    environment: Mapping[str, str] | None = None,
    wait_seconds: float = FIRST_CONTENT_SECONDS,
) -> "SyncSkills":
    """Synchronous `open`.

    Raises:
        ConfigError: A setting is wrong, or there is nothing to serve.
    """
    _require_folders(directory)
    _require_place("home", home)
    _require_texts(**_exclude_none(repo=repo, branch=branch, ref=ref, token=token))
    _require_mapping("environment", environment)
    _require(isinstance(wait_seconds, int | float), "wait_seconds", "a number", wait_seconds)
    _require(wait_seconds >= 0, "wait_seconds", "a number from 0 on", wait_seconds)  # not NaN
    variables = dict(os.environ if environment is None else environment)
    for message in clear_placeholders(variables):
        logger.warning("%s", message)
    if token is not None:
        variables["GITHUB_TOKEN"] = token
        variables.pop("SKILLS_MCP_TOKEN_FILE", None)
    if home is not None:
        variables["SKILLS_MCP_HOME"] = os.fspath(home)
    settings: dict[str, Any] = {}
    if isinstance(config, Mapping):
        settings, config = dict(config), None
    _require_place("config", config)
    named_sources = _NamedSources(resolve_folders(directory), repo, branch, ref)
    named_sources.check(is_private=token is not None)
    if len(named_sources.folders) > 1:
        settings["sources"] = derive_mounted_sources(named_sources.folders)
    options = Options(
        **named_sources.derive_source(settings, variables, has_file=config is not None),
        offline=offline,
        config_file=Path(config) if config is not None else None,
        settings=settings,
    )
    # A library that waits for nothing yet must not be tied to the caller's event loop.
    has_source = bool(named_sources.folders or named_sources.repo)
    with ThreadPoolExecutor(1, "skills-mcp-open") as executor, _naming_arguments(has_source):
        application = executor.submit(build, options, variables).result()
    return SyncSkills(Session(application, wait_seconds, has_source=has_source))


@contextmanager
def _naming_arguments(has_source: bool) -> Iterator[None]:  # noqa: FBT001 - one word at each use
    """Let errors name arguments of `open` instead of options and variables.

    A variable is named where it has said what to open.
    """
    try:
        yield
    except SkillsError as error:
        message = str(error)
        for pattern, name in (*_OPTIONS, *(_VARIABLES if has_source else ())):
            message = re.sub(pattern, name, message)
        error.args = (message, *error.args[1:])
        raise


_OPTIONS = (
    (r"--repo or --skills-dir", "repo or directory"),
    (r"--discover serves", "discover in config serves"),
    (r"--offline|command line: sync\.offline", "offline"),
    (r" \((SKILLS_SUBFOLDER, --subfolder|`branch` in `sources`)\)", ""),
)
_VARIABLES = (
    (r"SKILLS_DIR", "directory"),
    (r"SKILLS_REPO", "repo"),
    (r"SKILLS_BRANCH", "branch"),
    (r"SKILLS_REF", "ref"),
    (r"GITHUB_TOKEN", "token"),
)


@dataclass(frozen=True, slots=True)
class _NamedSources:
    folders: list[str]
    repo: str | None
    branch: str
    ref: str

    def check(self, *, is_private: bool) -> None:
        """Refuse arguments that contradict each other or have no effect."""
        if self.folders and self.repo is not None:
            raise ConfigError(
                "directory and repo: only one of them can be given. To serve both, "
                'write them into sources: config={"sources": [{"folder": …}, '
                '{"repo": …}]}'
            )
        if self.repo is not None and not self.repo.strip():
            raise ConfigError("repo: is empty. Give the URL of a Git repository.")
        if (self.branch or self.ref) and self.repo is None:
            raise ConfigError(
                "branch and ref belong to repo, which is not given. Of a source in "
                "config, they are keys of that source."
            )
        if is_private and self.folders:
            raise ConfigError(
                "token belongs to a repository, and directory names a folder. Give "
                "only one of them."
            )

    def derive_source(
        self, settings: Mapping[str, Any], variables: Mapping[str, str], *, has_file: bool
    ) -> dict[str, Any]:
        if self.repo:
            return {"repo": self.repo, "branch": self.branch, "pin": self.ref}
        if len(self.folders) == 1:
            return {"skills_dir": self.folders[0]}
        if has_file or settings.get("sources"):
            return {}
        return _read_sources(variables)


def derive_mounted_sources(folders: Sequence[Place], **keys: object) -> list[dict[str, Any]]:
    """Settings of several folders, each mounted below its own name.

    The name is the folder's; for one called `skills`, its parent's. So `~/.codex/skills`
    and `work/shop/skills` are served as `codex` and `shop`. A single folder is served at
    the top of the tree. `keys` are further settings of each source.
    """
    sources: list[dict[str, Any]] = [{"folder": os.fspath(folder), **keys} for folder in folders]
    if len(sources) < 2:  # noqa: PLR2004 - several of them share one tree
        return sources
    used_names: set[str] = set()
    for source, folder in zip(sources, folders, strict=True):
        name = _derive_mount(Path(folder))
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        source["mount"] = next(candidate for candidate in names if candidate not in used_names)
        used_names.add(source["mount"])
    return sources


def _derive_mount(folder: Path) -> str:
    parts = folder.relative_to(folder.anchor).parts
    named = (part for part in reversed(parts) if part.casefold() != SKILLS_FOLDER)
    return derive_slug(next(named, SKILLS_FOLDER))


def resolve_folders(directory: Place | Sequence[Place] | None) -> list[str]:
    """Absolute paths without duplicates: settings are relative to another folder."""
    places = [directory] if isinstance(directory, str | PathLike) else directory or []
    folders = [os.path.abspath(os.path.expanduser(place)) for place in places]  # noqa: PTH100, PTH111 - a link is followed later
    unique: dict[str, str] = {}
    for folder in folders:
        unique.setdefault(os.path.realpath(folder), folder)
    return list(unique.values())


def _require_folders(directory: object) -> None:
    places: Sequence[Any] = directory if _is_list(directory) else [directory]  # type: ignore[assignment]
    for place in places:
        _require_place("directory", place)
    if directory is not None and not (directory and all(map(os.fspath, places))):
        raise ConfigError(
            'directory: is empty. Give the path of a folder with skills; "." is the '
            "working directory."
        )


def _require_place(name: str, value: object) -> None:
    _require(value is None or isinstance(value, str | PathLike), name, "a path", value)


def _read_sources(environment: Mapping[str, str]) -> dict[str, Any]:
    names = {
        "skills_dir": "SKILLS_DIR",
        "repo": "SKILLS_REPO",
        "branch": "SKILLS_BRANCH",
        "pin": "SKILLS_REF",
    }
    return {option: environment[name] for option, name in names.items() if environment.get(name)}
