"""The skills inside another program: for `async` code, and for other code.

Rule: everything here may be called from any thread and from any event loop, and nothing
waits without a bound.
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

from skills_mcp.api.background import Session, take_result
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
from skills_mcp.skills.assets import Lines
from skills_mcp.skills.model import Problem, Scope, Skill
from skills_mcp.skills.scoping import Scoping
from skills_mcp.skills.tree import TreeNode

if TYPE_CHECKING:
    from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
    from skills_mcp.library.skill_folder import SkillFolder

_DEFAULT_LINES = 200  # as the tool read_skill_file
_DEFAULT_EXAMPLES = 3  # as the tool load_skill_examples
_WAITING_CHANGES = 1000  # of a program that has stopped to read them

_Result = TypeVar("_Result")


class SyncSkills:
    """The skills, for programs without `async`; see `Skills` for what each call does.

    Made by `open_sync`. It is thread-safe. `with` opens and closes it.
    """

    def __init__(self, session: Session, library: SkillLibrary | None = None) -> None:
        self._session = session
        self._seen = library or session.background.library
        self._is_part = library is not None

    def __repr__(self) -> str:
        return f"<SyncSkills of {self._seen.source_name}>"

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
        """Load the content, and keep it fresh from now on. Again, it does nothing.

        Raises:
            SyncError: The first content cannot be had; the subclass says why.
            ContentUnavailableError: It has not come in `wait_seconds`.
        """
        self._session.open()
        return self

    def close(self) -> None:
        """End what runs in the background. Again, it does nothing.

        For narrowed skills it does nothing either: others look at what is open.
        """
        if not self._is_part:
            self._session.close()

    def to_sync(self) -> "SyncSkills":
        """Return these skills."""
        return self

    def to_async(self) -> "Skills":
        """Return the same open skills for `async` code."""
        return Skills(self)

    def narrow(self, *allow: str, deny: str | Sequence[str] = ()) -> "SyncSkills":
        """Return these skills as if there were no others; see `Skills.narrow`."""
        hidden = (deny,) if isinstance(deny, str) else tuple(deny)
        require_texts(**{f"pattern {p!r}": p for p in (*allow, *hidden)})
        if not all((*allow, *hidden)):
            raise InvalidArgumentsError(
                "narrow: a pattern is empty. Write `**` for all skills."
            )
        return SyncSkills(self._session, self._seen.narrow(allow, hidden))

    @property
    def revision(self) -> str:
        """A digest of what is served; see `Skills.revision`."""
        return self._library.revision

    def watch(self, callback: Callable[[SkillChanges], None]) -> Callable[[], None]:
        """Call back after each change; see `Skills.watch`."""
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
        """Find the skill for a task; see `Skills.route`."""
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
        """Return the skills that fit a query best; see `Skills.search`."""
        require_texts(query=query)
        require_counts(limit=limit)
        scoping = _derive_scoping(within, category, scope)
        return self._library.search(query, limit=limit, scoping=scoping)

    def load(self, name: str, *, known_digest: str | None = None) -> LoadedSkill:
        """Return a skill by its path or name; see `Skills.load`."""
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
        """Return a file of a skill; see `Skills.read`."""
        require_texts(name=name, file=file)
        require_counts(start_line=start_line, max_lines=max_lines)
        is_part = start_line is not None or max_lines is not None
        lines = Lines(start_line or 1, max_lines or _DEFAULT_LINES) if is_part else None
        return self._library.read_file(name, file, lines)

    def open_folder(self, name: str) -> "SkillFolder":
        """Return a skill's text and files without an event; see `Skills`."""
        require_texts(name=name)
        return self._library.open_folder(name)

    def find_files(
        self, name: str, *, pattern: str = "**/*", contains: str = ""
    ) -> FoundFiles:
        """Return the files of a skill that fit; see `Skills.find_files`."""
        require_texts(name=name, pattern=pattern, contains=contains)
        return self._library.find_files(name, pattern=pattern, contains=contains)

    def load_examples(
        self, name: str, query: str, *, top_k: int = _DEFAULT_EXAMPLES
    ) -> ServedExamples:
        """Return the examples that fit a query best; see `Skills.load_examples`."""
        require_texts(name=name, query=query)
        return self._library.load_examples(name, query, top_k)

    def list(self) -> tuple[Skill, ...]:
        """Return every skill that is offered; see `Skills.list`."""
        return tuple(self._library.skills)

    def tree(self, path: str | None = None) -> TreeNode:
        """Return the folders of the skills; see `Skills.tree`."""
        require_texts(path=path or "")
        return self._library.tree(path)

    def compose_catalog(
        self,
        style: "CatalogStyle" = "skills_context",
        *,
        max_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> "SkillCatalog":
        """Return the list of skills for a system prompt; see `Skills`."""
        from skills_mcp.library.catalog import RENDERERS

        require_choice("style", style, tuple(RENDERERS))
        require_counts(max_entries=max_entries, max_bytes=max_bytes)
        return self._library.compose_catalog(
            style, max_entries=max_entries, max_bytes=max_bytes
        )

    def run_script(
        self,
        skill_path: str,
        file: str,
        args: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
    ) -> RanScript:
        """Run a script that a skill declares; see `Skills.run_script`."""
        return take_result(self._start_script(skill_path, file, args, cwd))

    def run_command(
        self, name: str, command: str, args: Sequence[str] = ()
    ) -> RanScript:
        """Run an allowed program in a copy of a skill; see `Skills.run_command`."""
        return take_result(self._start_command(name, command, args))

    def run_entry(self, name: str, args: str = "") -> RanScript:
        """Run the entry that a skill declares; see `Skills.run_entry`."""
        return take_result(self._start_entry(name, args))

    def report(
        self, skill_path: str, *, useful: bool, comment: str | None = None
    ) -> None:
        """Record whether a skill helped; see `Skills.report`."""
        require_texts(skill_path=skill_path, comment=comment or "")
        self._library.report(skill_path, useful=useful, comment=comment)

    def refresh(self) -> Refreshed:
        """Bring the newest content; see `Skills.refresh`."""
        return take_result(self._start_refresh())

    def states(self) -> tuple[SourceState, ...]:
        """Return what is served of each source; see `Skills.states`."""
        return self._library.states()

    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with the files of the skills; see `Skills`."""
        return self._library.snapshot.problems

    def _watch(
        self,
        callback: Callable[[SkillChanges], None],
        on_end: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        return self._session.background.watch(self._seen, callback, on_end)

    @property
    def _library(self) -> SkillLibrary:
        self._session.background.require_open()
        return self._seen

    def _start_script(
        self,
        skill_path: str,
        file: str,
        args: Mapping[str, str] | None,
        cwd: str | None,
    ) -> Future[RanScript]:
        from skills_mcp.library import ScriptRequest

        require_texts(skill_path=skill_path, file=file, cwd=cwd or "")
        require_texts(
            **{f"args[{name!r}]": value for name, value in (args or {}).items()}
        )
        request = ScriptRequest(
            skill_path=skill_path, file=file, args=dict(args or {}), cwd=cwd
        )
        return self._session.background.start(self._library.run_script, request)

    def _start_command(
        self, name: str, command: str, args: Sequence[str]
    ) -> Future[RanScript]:
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


def _derive_scoping(within: str, category: str, scope: Scope | None) -> Scoping:
    require_texts(within=within, category=category)
    require_choice("scope", scope, (None, *get_args(Scope)))
    return Scoping(within, category, scope)


class Skills:
    """The skills of a folder, a repository, or several of them.

    Made by `open`. `async with` opens and closes it. It is thread-safe, and works from
    any event loop: nothing blocks the loop of the caller. Every answer comes from one
    complete commit; a refresh replaces what is served in one step.
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
        """Load the content, and keep it fresh from now on. Again, it does nothing.

        What an earlier process has left in the cache is served at once, and a sync
        follows in the background. Only without a cache does it wait for the first sync.

        Raises:
            SyncError: The first content cannot be had; the subclass says why.
            ContentUnavailableError: It has not come in `wait_seconds`.
        """
        try:
            await anyio.to_thread.run_sync(self._sync.open, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            Thread(target=self._sync.close, daemon=True).start()
            raise
        return self

    async def close(self) -> None:
        """End what runs in the background: syncs, scripts. Again, it does nothing.

        For narrowed skills it does nothing either: others look at what is open.
        """
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._sync.close)

    def to_sync(self) -> SyncSkills:
        """Return the same open skills for code without `async`."""
        return self._sync

    def to_async(self) -> "Skills":
        """Return these skills."""
        return self

    def narrow(self, *allow: str, deny: str | Sequence[str] = ()) -> "Skills":
        """Return these skills as if there were no others than these.

        What is hidden does not exist for the result: it is not found, not listed, and
        its rules are not inherited. It is cheap, shares what is open, and follows each
        refresh. A second call narrows further.

        Args:
            allow: Patterns of paths or names, such as `ui/**`; none for all.
            deny: A pattern, or several, of those to hide although `allow` fits.

        Raises:
            InvalidArgumentsError: A pattern is empty.
        """
        return Skills(self._sync.narrow(*allow, deny=deny))

    @property
    def revision(self) -> str:
        """A digest of all that is served: skills, their texts and files.

        It is another one as soon as a refresh has changed something. Equal in all
        processes that serve the same content.
        """
        return self._sync.revision

    def watch(self, callback: Callable[[SkillChanges], None]) -> Callable[[], None]:
        """Call back after each change, in order, on a thread of its own.

        It may ask the skills, and refresh. Nothing is told of the first content.

        Returns:
            What ends it; changes from before are still told.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        return self._sync.watch(callback)

    async def changes(self) -> AsyncIterator[SkillChanges]:
        """Iterate over the changes from now on, until the skills are closed.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        token = anyio.lowlevel.current_token()
        waiting: deque[SkillChanges] = deque(maxlen=_WAITING_CHANGES)
        arrived, has_ended = anyio.Event(), False

        def wake() -> None:
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(arrived.set, token=token)

        def deliver(changes: SkillChanges) -> None:
            waiting.append(changes)
            wake()

        def finish() -> None:
            nonlocal has_ended
            has_ended = True
            wake()

        end = self._sync._watch(deliver, finish)  # noqa: SLF001 - its twin
        try:
            while waiting or not has_ended:
                while waiting:
                    yield waiting.popleft()
                arrived = anyio.Event()
                if not waiting and not has_ended:
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
        """Find the skill for a task, with all the rules that it inherits.

        Args:
            context: The task, in free text.
            skill_path: The skill that was picked, after an `Ambiguous` answer.
            known_digest: The `digest` of an earlier answer: if it is still the same,
                the answer has `is_known`.
            within: Choose only below this folder, such as `ui/react`.
            category: Choose only from this category.
            scope: Choose only from the skills of `org`, `repo` or `user`.

        Raises:
            SkillNotFoundError: There is no skill at `skill_path`, or none to choose
                from.
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
        """Return the skills that fit a query best, best first.

        Args:
            query: A task, a question, or a name.
            limit: The most hits; without it `search.limit` of the settings.
            within: Search only below this folder.
            category: Search only in this category.
            scope: Search only in the skills of `org`, `repo` or `user`.

        Raises:
            InvalidArgumentsError: The query is empty.
            SkillNotFoundError: There is no skill where to search.
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
        """Return a skill's instructions, below the rules that it inherits.

        Args:
            name: A path, or a name that only one skill has.
            known_digest: The `digest` of an earlier answer: if it is still the same,
                the answer has `is_known`.

        Raises:
            SkillNotFoundError: There is no such skill; the message names similar ones.
            AmbiguousNameError: Several have this name; the message has their paths.
            SkillDisabledError: The operator does not offer it.
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
        """Return a file of a skill, or of a skill that it inherits from.

        Args:
            name: A path, or a name that only one skill has.
            file: As the skill lists it.
            start_line: The first line, counted from 1; without both, the beginning.
            max_lines: The most lines; 200 if only `start_line` is given.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            FileError: The file cannot be handed out; the subclass says why.
            InvalidArgumentsError: The file has no such lines.
        """
        return await self._run(
            self._sync.read, name, file, start_line=start_line, max_lines=max_lines
        )

    async def open_folder(self, name: str) -> "SkillFolder":
        """Return a skill's text and files, for a list, a search or a copy.

        It is no event, and does not count in the report: only what is given to an
        agent does, with `load` and `read`.

        Args:
            name: A path, or a name that only one skill has.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        return await self._run(self._sync.open_folder, name)

    async def find_files(
        self, name: str, *, pattern: str = "**/*", contains: str = ""
    ) -> FoundFiles:
        """Return the files of a skill that fit, at most 200.

        Args:
            name: A path, or a name that only one skill has.
            pattern: Of paths, such as `references/**`.
            contains: Only files with this text, in any case.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        return await self._run(
            self._sync.find_files, name, pattern=pattern, contains=contains
        )

    async def load_examples(
        self, name: str, query: str, *, top_k: int = _DEFAULT_EXAMPLES
    ) -> ServedExamples:
        """Return the examples of a skill that fit a query best.

        Args:
            name: A path, or a name that only one skill has.
            query: The task.
            top_k: How many; fewer than 1 count as 1, more than 10 as 10.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        return await self._run(self._sync.load_examples, name, query, top_k=top_k)

    async def list(self) -> tuple[Skill, ...]:
        """Return every skill that is offered, in path order."""
        return await self._run(self._sync.list)

    async def tree(self, path: str | None = None) -> TreeNode:
        """Return the folders of the skills, or those below a folder.

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
        """Choose the skills to list in a system prompt; its `text` is the list.

        Args:
            style: The form of the list.
            max_entries: The most skills; without it `catalog.max_entries`.
            max_bytes: The most bytes of the text; without it `catalog.max_bytes`.
        """
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
        """Run a script that a skill declares for the server, in the sandbox.

        A script that fails or times out is a result, and no exception. If the caller
        is cancelled, the script is ended.

        Args:
            skill_path: The skill, or one that inherits the script.
            file: As the skill lists it.
            args: The named arguments.
            cwd: The absolute path of a folder below `scripts.roots`.

        Raises:
            SkillsError: The script may not run, or cannot; the subclass says why.
        """
        return await _wait(self._sync._start_script(skill_path, file, args, cwd))  # noqa: SLF001 - its twin

    async def run_command(
        self, name: str, command: str, args: Sequence[str] = ()
    ) -> RanScript:
        """Run a program of `commands.allowed` in a private copy of a skill's folder.

        Raises:
            SkillsError: The command may not run, or cannot; the subclass says why.
        """
        return await _wait(self._sync._start_command(name, command, args))  # noqa: SLF001 - its twin

    async def run_entry(self, name: str, args: str = "") -> RanScript:
        """Run the command that a skill declares as its `entry`, with more words.

        Raises:
            SkillsError: The command may not run, or cannot; the subclass says why.
        """
        return await _wait(self._sync._start_entry(name, args))  # noqa: SLF001 - its twin

    async def report(
        self, skill_path: str, *, useful: bool, comment: str | None = None
    ) -> None:
        """Record whether a skill helped, if the operator records events.

        Raises:
            SkillDisabledError: The operator does not offer the skill.
        """
        await self._run(self._sync.report, skill_path, useful=useful, comment=comment)

    async def refresh(self) -> Refreshed:
        """Bring the newest content, and serve it.

        A failure is a result, too, and no exception: `error` says why, and what was
        served is served on.
        """
        return await _wait(self._sync._start_refresh())  # noqa: SLF001 - its twin

    async def states(self) -> tuple[SourceState, ...]:
        """Return what is served of each source: commit, age, and the last error."""
        return await self._run(self._sync.states)

    async def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with the files of the skills: file, line and reason.

        A skill that cannot be read is not served, and is among them. Narrowed skills
        have none: a problem may name a file that they hide.
        """
        return await self._run(self._sync.problems)

    async def _run(
        self, function: Callable[..., _Result], *args: Any, **options: Any
    ) -> _Result:
        return await anyio.to_thread.run_sync(
            partial(function, *args, **options), abandon_on_cancel=True
        )


async def _wait(future: Future[_Result]) -> _Result:
    """Wait without blocking the loop; if the caller is cancelled, so is the work."""
    # A thread of its own: such work is slow, and must not use up those of others.
    alone = anyio.CapacityLimiter(1)
    try:
        return await anyio.to_thread.run_sync(
            take_result, future, abandon_on_cancel=True, limiter=alone
        )
    except anyio.get_cancelled_exc_class():
        future.cancel()
        raise
