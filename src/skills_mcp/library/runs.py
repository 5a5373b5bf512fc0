"""Runs of scripts, commands and entries of skills, on behalf of an agent.

Every run goes the same way: the rules are asked, the skill's bytes are prepared, the
runner runs them, and one event and one line of the audit file record it.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread

from skills_mcp.config import Scripts
from skills_mcp.errors import SandboxUnavailableError, SkillsError
from skills_mcp.events.tracker import Tracker
from skills_mcp.library.answers import Provenance, RanScript, derive_place
from skills_mcp.scripts.audit import AuditEntry, AuditFile, RunKind
from skills_mcp.scripts.execution import ScriptResult
from skills_mcp.scripts.policy import (
    CommandRequest,
    EntryRequest,
    ScriptRequest,
    derive_command,
    require_command,
    require_commands_enabled,
)
from skills_mcp.scripts.preparation import (
    PreparedRun,
    permit,
    prepared_command,
    prepared_script,
)
from skills_mcp.scripts.sandbox import Choice
from skills_mcp.scripts.script_environment import ScriptEnvironment
from skills_mcp.scripts.script_runner import ScriptRunner
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run that the rules allow, as events and the audit file describe it."""

    kind: RunKind
    skill: Skill
    file: str
    """The script's file, or the name of a command's program."""
    place: Provenance
    execution: str = "server"
    arguments: tuple[str, ...] = ()
    """The names of a script's arguments."""


@dataclass(slots=True)
class _Course:
    """How far a run has come."""

    began: float
    ready: PreparedRun | None = None
    has_started: bool = False

    def start(self) -> None:
        self.has_started = True

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class Runs:
    """Runs what the rules allow, and records each run."""

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
        """Return the sandbox that scripts would get; None if scripts are off."""
        if not rules.enabled:
            return None
        try:
            return self._script_environment.sandbox.choose(rules.sandbox)
        except SandboxUnavailableError as error:
            return Choice("none", refusal=str(error))

    def close(self) -> None:
        """End every run, and start none of those that wait."""
        self._runner.close()

    async def run_script(self, snapshot: Snapshot, request: ScriptRequest) -> RanScript:
        """Run a declared script, if every rule allows it.

        Raises:
            SkillsError: A rule forbids it; `permit` lists the subclasses.
            BusyError: Too many runs are running and waiting.
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
        preparing = prepared_script(permitted, rules, self._script_environment)
        return await self._carry_out(run, preparing)

    async def run_command(
        self, snapshot: Snapshot, asked: CommandRequest | EntryRequest
    ) -> RanScript:
        """Run a program, or the entry of a skill, in a private copy of its folder.

        Raises:
            ScriptRefusedError: The operator does not allow it, or the skill declares
                no entry; the subclass says why.
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            InvalidArgumentsError: An argument cannot be passed on.
        """
        rules = snapshot.config
        require_commands_enabled(rules.commands)
        skill = snapshot.index.resolve(asked.skill_name)
        request = derive_command(asked, skill)
        require_command(request, rules.commands)
        run = _Run(
            kind="entry" if isinstance(asked, EntryRequest) else "command",
            skill=skill,
            file=request.command,
            place=derive_place(snapshot.content, skill),
        )
        preparing = prepared_command(request, skill, rules, self._script_environment)
        return await self._carry_out(run, preparing)

    async def _carry_out(
        self, run: _Run, preparing: AbstractContextManager[PreparedRun]
    ) -> RanScript:
        """Prepare and run what is allowed, and record it, however it ends."""
        course = _Course(time.monotonic())
        try:
            async with _entered(preparing) as ready:
                course.ready = ready
                result = await self._runner.run(ready.command, course.start)
        except SkillsError as error:
            await self._note(run, course, error.code)
            raise
        except anyio.get_cancelled_exc_class():
            if course.has_started:  # 001 §12.2
                self._track(run, course)
                await self._note(run, course, "cancelled")
            raise
        self._track(run, course, result)
        await self._note(run, course, "ended", result)
        return RanScript(result, run.place, sha256=ready.sha256, words=ready.words)

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
        """Write a line of the audit file, also for a cancelled call."""
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
    preparing: AbstractContextManager[PreparedRun],
) -> AsyncIterator[PreparedRun]:
    """Enter and leave in a thread, because both copy or delete files."""
    ready = await anyio.to_thread.run_sync(preparing.__enter__)
    try:
        yield ready
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(preparing.__exit__, None, None, None)
