"""What runs on behalf of an agent: scripts, commands and entries of skills.

Every run goes the same way, whatever started it: the rules are asked, the skill's
bytes are prepared, the runner runs them, and one event and one line of the audit file
tell of it.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread

from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Scripts
from skills_mcp.errors import SandboxUnavailableError, SkillsError
from skills_mcp.library.answers import RanScript
from skills_mcp.library.provenance import Provenance, derive_place
from skills_mcp.scripts.audit import AuditEntry, AuditFile, RunKind
from skills_mcp.scripts.commands import (
    CommandRequest,
    EntryRequest,
    derive_request,
    prepared,
    require_allowed,
    require_enabled,
)
from skills_mcp.scripts.execution import PreparedCommand, ScriptResult
from skills_mcp.scripts.permission import ScriptRequest, permit, prepared_script
from skills_mcp.scripts.runner import ScriptRunner
from skills_mcp.scripts.sandbox import Choice
from skills_mcp.scripts.script_environment import ScriptEnvironment
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.snapshot import Snapshot


class _IsReady(Protocol):
    """A run whose bytes are in place."""

    @property
    def command(self) -> PreparedCommand: ...

    @property
    def sha256(self) -> str | None: ...


_Ready = TypeVar("_Ready", bound=_IsReady)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run that the rules allow, in the words in which it is told of."""

    kind: RunKind
    skill: Skill
    file: str
    """The script, or the program."""
    place: Provenance
    execution: str = "server"
    arguments: tuple[str, ...] = ()
    """Their names."""


@dataclass(slots=True)
class _Course:
    """How far a run has come; it fills while it runs."""

    began: float
    ready: _IsReady | None = None
    has_started: bool = False

    def start(self) -> None:
        self.has_started = True

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class Runs:
    """Runs what the rules allow, and tells the tracker and the audit file."""

    def __init__(
        self,
        tracker: Tracker,
        runner: ScriptRunner,
        audit: AuditFile,
        script_environment: ScriptEnvironment,
    ) -> None:
        self._tracker = tracker
        self._runner = runner
        self._audit = audit
        self._script_environment = script_environment

    def choose_sandbox(self, rules: Scripts) -> Choice | None:
        """Return the sandbox that scripts would get; None if they would be refused."""
        try:
            sandbox = self._script_environment.sandbox
            return sandbox.choose(rules.sandbox) if rules.enabled else None
        except SandboxUnavailableError:
            return None

    def close(self) -> None:
        """End everything that runs, and let nothing begin that waits."""
        self._runner.close()

    async def run_script(self, snapshot: Snapshot, request: ScriptRequest) -> RanScript:
        """Run a declared script, if every rule allows it (001 §8.4).

        Raises:
            SkillsError: Everything that `permit` raises.
            BusyError: Too many run and wait already.
            RunnerNotFoundError: The runner is not installed.
        """
        rules = snapshot.config.scripts
        permitted = await anyio.to_thread.run_sync(
            permit, request, snapshot.index, rules, self._script_environment
        )
        run = _Run(
            kind="script",
            skill=permitted.skill,
            file=permitted.script.file,
            place=derive_place(snapshot.content, permitted.owner, request.file),
            execution=permitted.script.execution,
            arguments=tuple(sorted(request.args)),
        )
        folder = prepared_script(permitted, request, rules, self._script_environment)
        result, ready = await self._carry_out(run, folder)
        return RanScript(result, run.place, sha256=ready.sha256)

    async def run_command(
        self, snapshot: Snapshot, asked: CommandRequest | EntryRequest
    ) -> RanScript:
        """Run a program in a private copy of a skill's folder (000 §3.5, 003).

        Raises:
            ScriptRefusedError: The operator does not allow it, or the skill declares
                no entry; the subclass says why.
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            InvalidArgumentsError: An argument cannot be passed on.
        """
        rules = snapshot.config
        require_enabled(rules.commands)
        skill = snapshot.index.resolve(asked.skill_name)
        request = derive_request(asked, skill)
        require_allowed(request, rules.commands)
        run = _Run(
            kind="entry" if isinstance(asked, EntryRequest) else "command",
            skill=skill,
            file=request.command,
            place=derive_place(snapshot.content, skill),
        )
        folder = prepared(request, skill, rules, self._script_environment)
        result, ready = await self._carry_out(run, folder)
        return RanScript(result, run.place, sha256=ready.sha256, words=ready.words)

    async def _carry_out(
        self, run: _Run, preparing: AbstractContextManager[_Ready]
    ) -> tuple[ScriptResult, _Ready]:
        """Prepare and run what is allowed, and tell of it, however it ends."""
        course = _Course(time.monotonic())
        try:
            async with _entered(preparing) as ready:
                course.ready = ready
                result = await self._runner.run(ready.command, course.start)
        except SkillsError as error:
            await self._note(run, course, error.code)
            raise
        except anyio.get_cancelled_exc_class():
            if course.has_started:  # so it is tracked, too (001 §12.2)
                self._track(run, course)
                await self._note(run, course, "cancelled")
            raise
        self._track(run, course, result)
        await self._note(run, course, "ended", result)
        return result, ready

    def _track(
        self, run: _Run, course: _Course, result: ScriptResult | None = None
    ) -> None:
        seconds = result.duration_seconds if result else course.seconds
        self._tracker.track(
            "script_executed",
            skill_path=run.skill.path,
            file=run.file,
            execution_mode=run.execution,
            success=result is not None and result.success,
            exit_code=result.exit_code if result else None,
            duration_ms=round(seconds * 1000),
            args_provided=list(run.arguments),
            timed_out=result is not None and result.timed_out,
            sandbox=course.ready.command.sandbox if course.ready else None,
            content_commit=run.place.commit,
        )

    async def _note(
        self,
        run: _Run,
        course: _Course,
        outcome: str,
        result: ScriptResult | None = None,
    ) -> None:
        """Write the line of the audit file, also for a call that was given up."""
        entry = AuditEntry(
            kind=run.kind,
            skill_path=run.skill.path,
            file=run.file,
            commit=run.place.commit,
            sha256=course.ready.sha256 if course.ready else None,
            arguments=run.arguments,
            sandbox=course.ready.command.sandbox if course.ready else None,
            outcome=outcome,
            result=result,
            duration_seconds=result.duration_seconds if result else course.seconds,
        )
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._audit.append, entry)


@asynccontextmanager
async def _entered(
    folder: AbstractContextManager[_Ready],
) -> AsyncIterator[_Ready]:
    """Enter and leave in a thread: to copy and to delete files takes time."""
    ready = await anyio.to_thread.run_sync(folder.__enter__)
    try:
        yield ready
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(folder.__exit__, None, None, None)
