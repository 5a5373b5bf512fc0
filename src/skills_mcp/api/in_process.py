"""In-process Python API: `open`, `open_sync`, `Skills` and `SyncSkills`.

Rule: every method is safe on any thread and event loop, and nothing waits without a
bound.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from skills_mcp.api.background import Session, wait_for_result
from skills_mcp.api.requirements import (
    require_choice,
    require_counts,
    require_texts,
)
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.library import (
    FoundFiles,
    LoadedSkill,
    Match,
    RanScript,
    ReadFile,
    Refreshed,
    ServedExamples,
    SkillChanges,
    SkillLibrary,
    SourceState,
)
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.search import SearchResult
from skills_mcp.skills.assets import LineRange
from skills_mcp.skills.model import Problem, Scope, Skill
from skills_mcp.skills.scoping import SkillFilter
from skills_mcp.skills.tree import TreeNode

if TYPE_CHECKING:
    from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
    from skills_mcp.library.skill_folder import SkillFolder

_DEFAULT_LINES = 200  # as the tool read_skill_file
_DEFAULT_EXAMPLES = 3  # as the tool load_skill_examples
_MAX_QUEUED_CHANGES = 1000  # of a program that has stopped to read them

_Result = TypeVar("_Result")


class SyncSkills:
    """Synchronous API; see the methods of `Skills`.

    Made by `open_sync`. Thread-safe; a context manager.
    """

    def __init__(self, session: Session, library: SkillLibrary | None = None) -> None:
        self._session = session
        self._view = library or session.background.library
        self._is_narrowed = library is not None

    def __repr__(self) -> str:
        return f"<SyncSkills of {self._view.source_name}>"

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> Self:
        self._session.open()
        return self

    def close(self) -> None:
        """Stop background work; idempotent. No effect on narrowed skills."""
        if not self._is_narrowed:
            self._session.close()

    def to_sync(self) -> "SyncSkills":
        return self

    def to_async(self) -> "Skills":
        """The same open skills for `async` code."""
        return Skills(self)

    def narrow(self, *allow: str, deny: str | Sequence[str] = ()) -> "SyncSkills":
        hidden = (deny,) if isinstance(deny, str) else tuple(deny)
        require_texts(**{f"pattern {p!r}": p for p in (*allow, *hidden)})
        if not all((*allow, *hidden)):
            raise InvalidArgumentsError("narrow: a pattern is empty. Write `**` for all skills.")
        return SyncSkills(self._session, self._view.narrow(allow, hidden))

    @property
    def revision(self) -> str:
        return self._library.revision

    def watch(self, callback: Callable[[SkillChanges], None]) -> Callable[[], None]:
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
        require_texts(
            context=context,
            skill_path=skill_path or "",
            known_digest=known_digest or "",
        )
        scoping = _derive_scoping(within, category, scope)
        return self._library.route(context, skill_path, known_digest, scoping=scoping)

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        within: str = "",
        category: str = "",
        scope: Scope | None = None,
    ) -> SearchResult:
        require_texts(query=query)
        require_counts(limit=limit)
        scoping = _derive_scoping(within, category, scope)
        return self._library.search(query, limit=limit, scoping=scoping)

    def load(self, name: str, *, known_digest: str | None = None) -> LoadedSkill:
        require_texts(name=name, known_digest=known_digest or "")
        return self._library.load_skill(name, known_digest=known_digest)

    def read(
        self,
        name: str,
        file: str,
        *,
        start_line: int | None = None,
        max_lines: int | None = None,
    ) -> ReadFile:
        require_texts(name=name, file=file)
        require_counts(start_line=start_line, max_lines=max_lines)
        is_part = start_line is not None or max_lines is not None
        lines = LineRange(start_line or 1, max_lines or _DEFAULT_LINES) if is_part else None
        return self._library.read_file(name, file, lines)

    def open_folder(self, name: str) -> "SkillFolder":
        require_texts(name=name)
        return self._library.open_folder(name)

    def find_files(self, name: str, *, pattern: str = "**/*", contains: str = "") -> FoundFiles:
        require_texts(name=name, pattern=pattern, contains=contains)
        return self._library.find_files(name, pattern=pattern, contains=contains)

    def load_examples(
        self, name: str, query: str, *, top_k: int = _DEFAULT_EXAMPLES
    ) -> ServedExamples:
        require_texts(name=name, query=query)
        return self._library.load_examples(name, query, top_k)

    def list(self) -> tuple[Skill, ...]:
        return tuple(self._library.skills)

    def tree(self, path: str | None = None) -> TreeNode:
        require_texts(path=path or "")
        return self._library.tree(path)

    def compose_catalog(
        self,
        style: "CatalogStyle" = "skills_context",
        *,
        max_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> "SkillCatalog":
        from skills_mcp.library.catalog import RENDERERS

        require_choice("style", style, tuple(RENDERERS))
        require_counts(max_entries=max_entries, max_bytes=max_bytes)
        return self._library.compose_catalog(style, max_entries=max_entries, max_bytes=max_bytes)

    def run_script(
        self,
        skill_path: str,
        file: str,
        args: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
    ) -> RanScript:
        return wait_for_result(self._start_script(skill_path, file, args, cwd))

    def run_command(self, name: str, command: str, args: Sequence[str] = ()) -> RanScript:
        return wait_for_result(self._start_command(name, command, args))

    def run_entry(self, name: str, args: str = "") -> RanScript:
        return wait_for_result(self._start_entry(name, args))

    def report(self, skill_path: str, *, useful: bool, comment: str | None = None) -> None:
        require_texts(skill_path=skill_path, comment=comment or "")
        self._library.report(skill_path, useful=useful, comment=comment)

    def refresh(self) -> Refreshed:
        return wait_for_result(self._start_refresh())

    def states(self) -> tuple[SourceState, ...]:
        return self._library.states()

    def problems(self) -> tuple[Problem, ...]:
        return self._library.snapshot.problems

    def _watch(
        self,
        callback: Callable[[SkillChanges], None],
        on_end: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        return self._session.background.watch(self._view, callback, on_end)

    @property
    def _library(self) -> SkillLibrary:
        self._session.background.require_open()
        return self._view

    def _start_script(
        self,
        skill_path: str,
        file: str,
        args: Mapping[str, str] | None,
        cwd: str | None,
    ) -> Future[RanScript]:
        from skills_mcp.library import ScriptRequest

        require_texts(skill_path=skill_path, file=file, cwd=cwd or "")
        require_texts(**{f"args[{name!r}]": value for name, value in (args or {}).items()})
        request = ScriptRequest(skill_path=skill_path, file=file, args=dict(args or {}), cwd=cwd)
        return self._session.background.start(self._library.run_script, request)

    def _start_command(self, name: str, command: str, args: Sequence[str]) -> Future[RanScript]:
        from skills_mcp.library import CommandRequest

        require_texts(name=name, command=command)
        if isinstance(args, str):
            raise InvalidArgumentsError('args: is a text. Give a list: ["-v", "a.txt"]')
        require_texts(**{f"args[{i}]": word for i, word in enumerate(args)})
        request = CommandRequest(skill_name=name, command=command, args=tuple(args))
        return self._session.background.start(self._library.run_command, request)

    def _start_entry(self, name: str, args: str) -> Future[RanScript]:
        from skills_mcp.library import EntryRequest

        require_texts(name=name, args=args)
        request = EntryRequest(skill_name=name, args=args)
        return self._session.background.start(self._library.run_command, request)

    def _start_refresh(self) -> Future[Refreshed]:
        return self._session.background.start(self._library.refresh)


def _derive_scoping(within: str, category: str, scope: Scope | None) -> SkillFilter:
    require_texts(within=within, category=category)
    require_choice("scope", scope, (None, *get_args(Scope)))
    return SkillFilter(within, category, scope)


class Skills:
    """Asynchronous in-process API.

    Made by `open`. Thread-safe; an asynchronous context manager for any event loop,
    never
    blocking the caller's. Every answer comes from one complete commit; a refresh
    replaces
    the content in one step.
    """

    def __init__(self, skills: SyncSkills) -> None:
        self._sync = skills

    def __repr__(self) -> str:
        return repr(self._sync).replace("SyncSkills", "Skills", 1)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> Self:
        """Load the content and keep it fresh; idempotent.

        Cached content is served at once, followed by a sync in the background.

        Raises:
            SyncError: The first content cannot be loaded; see the subclass.
            ContentUnavailableError: It has not come in `wait_seconds`.
        """
        try:
            await anyio.to_thread.run_sync(self._sync.open, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            Thread(target=self._sync.close, daemon=True).start()
            raise
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
        return self._sync.revision

    def watch(self, callback: Callable[[SkillChanges], None]) -> Callable[[], None]:
        """Call back after each change, in order, on a separate thread.

        The callback may query and refresh. The first content is not reported. The
        result
        unsubscribes after queued changes.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        return self._sync.watch(callback)

    async def changes(self) -> AsyncIterator[SkillChanges]:
        """Iterate over future changes until the skills are closed.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        token = anyio.lowlevel.current_token()
        queue: deque[SkillChanges] = deque(maxlen=_MAX_QUEUED_CHANGES)
        arrived, has_ended = anyio.Event(), False

        def wake() -> None:
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(arrived.set, token=token)

        def deliver(changes: SkillChanges) -> None:
            queue.append(changes)
            wake()

        def finish() -> None:
            nonlocal has_ended
            has_ended = True
            wake()

        end = self._sync._watch(deliver, finish)  # noqa: SLF001 - its twin
        try:
            while queue or not has_ended:
                while queue:
                    yield queue.popleft()
                arrived = anyio.Event()
                if not queue and not has_ended:
                    await arrived.wait()
        finally:
            end()

    async def route(  # noqa: PLR0913 - most are keywords
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
            known_digest: The `digest` of an earlier answer: if unchanged, `is_known` is
            set.
            within: Candidates below this folder only, such as `ui/react`.
            category: Candidates of this category only.
            scope: Candidates of `org`, `repo` or `user` only.

        Raises:
            SkillNotFoundError: There is no skill at `skill_path`, or no candidate.
        """
        return await self._run(
            self._sync.route,
            context,
            skill_path=skill_path,
            known_digest=known_digest,
            within=within,
            category=category,
            scope=scope,
        )

    async def search(
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
        return await self._run(
            self._sync.search,
            query,
            limit=limit,
            within=within,
            category=category,
            scope=scope,
        )

    async def load(self, name: str, *, known_digest: str | None = None) -> LoadedSkill:
        """Load a skill's instructions, including inherited rules.

        With an unchanged `known_digest`, the answer has `is_known`.

        Raises:
            SkillNotFoundError: There is no such skill; the message names similar ones.
            AmbiguousNameError: Several have this name; the message has their paths.
            SkillDisabledError: The operator hides it.
        """
        return await self._run(self._sync.load, name, known_digest=known_digest)

    async def read(
        self,
        name: str,
        file: str,
        *,
        start_line: int | None = None,
        max_lines: int | None = None,
    ) -> ReadFile:
        """Read a file of a skill or an ancestor.

        `start_line` counts from 1; `max_lines` defaults to 200 with it. Without both,
        the
        beginning.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
            FileError: The file cannot be read; see the subclass.
            InvalidArgumentsError: The file has no such lines.
        """
        return await self._run(
            self._sync.read, name, file, start_line=start_line, max_lines=max_lines
        )

    async def open_folder(self, name: str) -> "SkillFolder":
        """Text and files of a skill, for a list, a search or a copy.

        Not an event in the report: only `load` and `read` are.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        return await self._run(self._sync.open_folder, name)

    async def find_files(
        self, name: str, *, pattern: str = "**/*", contains: str = ""
    ) -> FoundFiles:
        """Files of a skill by path pattern and case-insensitive content, at most 200.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        return await self._run(self._sync.find_files, name, pattern=pattern, contains=contains)

    async def load_examples(
        self, name: str, query: str, *, top_k: int = _DEFAULT_EXAMPLES
    ) -> ServedExamples:
        """Best-fitting examples of a skill; `top_k` is clamped to 1 … 10.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        return await self._run(self._sync.load_examples, name, query, top_k=top_k)

    async def list(self) -> tuple[Skill, ...]:
        """Offered skills in path order."""
        return await self._run(self._sync.list)

    async def tree(self, path: str | None = None) -> TreeNode:
        """Tree of all skills, or of a folder.

        Raises:
            SkillNotFoundError: There is nothing at `path`.
        """
        return await self._run(self._sync.tree, path)

    async def compose_catalog(
        self,
        style: "CatalogStyle" = "skills_context",
        *,
        max_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> "SkillCatalog":
        """Skills for a system prompt; limits default to the setting `catalog`."""
        return await self._run(
            self._sync.compose_catalog,
            style,
            max_entries=max_entries,
            max_bytes=max_bytes,
        )

    async def run_script(
        self,
        skill_path: str,
        file: str,
        args: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
    ) -> RanScript:
        """Run a script declared for the server, in the sandbox.

        Failure and timeout are results, not exceptions. Cancellation kills the script.
        `cwd` is
        the absolute path of a folder below `scripts.roots`.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        return await _wait_without_blocking(self._sync._start_script(skill_path, file, args, cwd))  # noqa: SLF001 - its twin

    async def run_command(self, name: str, command: str, args: Sequence[str] = ()) -> RanScript:
        """Run a program of `commands.allowed` in a private copy of a skill's folder.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        return await _wait_without_blocking(self._sync._start_command(name, command, args))  # noqa: SLF001 - its twin

    async def run_entry(self, name: str, args: str = "") -> RanScript:
        """Run a skill's declared `entry` with further arguments.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        return await _wait_without_blocking(self._sync._start_entry(name, args))  # noqa: SLF001 - its twin

    async def report(self, skill_path: str, *, useful: bool, comment: str | None = None) -> None:
        """Record feedback on a skill, if the operator records events.

        Raises:
            SkillDisabledError: The operator hides the skill.
        """
        await self._run(self._sync.report, skill_path, useful=useful, comment=comment)

    async def refresh(self) -> Refreshed:
        """Fetch and serve the newest content.

        A failure is a result, not an exception: see `error`. The old content stays
        served.
        """
        return await _wait_without_blocking(self._sync._start_refresh())  # noqa: SLF001 - its twin

    async def states(self) -> tuple[SourceState, ...]:
        """Commit, age and last error of each source."""
        return await self._run(self._sync.states)

    async def problems(self) -> tuple[Problem, ...]:
        """Problems of the skills' files: file, line and reason.

        Unreadable skills are included. Narrowed skills have none: a problem may name a
        hidden
        file.
        """
        return await self._run(self._sync.problems)

    async def _run(self, function: Callable[..., _Result], *args: Any, **options: Any) -> _Result:
        return await anyio.to_thread.run_sync(
            partial(function, *args, **options), abandon_on_cancel=True
        )


async def _wait_without_blocking(future: Future[_Result]) -> _Result:
    """Wait without blocking the loop; cancellation cancels the work."""
    # A thread of its own: such work is slow, and must not use up those of others.
    limiter = anyio.CapacityLimiter(1)
    try:
        return await anyio.to_thread.run_sync(
            wait_for_result, future, abandon_on_cancel=True, limiter=limiter
        )
    except anyio.get_cancelled_exc_class():
        future.cancel()
        raise
