"""Runs of scripts, commands and entries for an agent.

Every run takes the same steps: policy, preparation, execution; then one event and one
audit record.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from skills_mcp.config import Scripts
from skills_mcp.errors import SandboxUnavailableError, SkillsError
from skills_mcp.events.tracker import Tracker
from skills_mcp.library.answers import Provenance, RanScript, derive_file_provenance
from skills_mcp.scripts.execution import AuditEntry, AuditFile, RunKind, SandboxName, ScriptResult
from skills_mcp.scripts.policy import (
    CommandRequest,
    EntryRequest,
    ScriptRequest,
    derive_command,
    require_allowed_command,
    require_commands_enabled,
)
from skills_mcp.scripts.prepared_runs import (
    PreparedRun,
    ScriptEnvironment,
    permit_script,
    prepare_command_run,
    prepare_script_run,
)
from skills_mcp.scripts.sandbox import Choice
from skills_mcp.scripts.script_runner import ScriptRunner
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.skill_snapshot import Snapshot


@dataclass(slots=True, kw_only=True)
class _Run:
    """A permitted run, and how far it has come."""

    kind: RunKind
    skill: Skill
    file: str
    provenance: Provenance
    execution: str = "server"
    arguments: tuple[str, ...] = ()
    started_at: float = field(default_factory=time.monotonic)
    prepared: PreparedRun | None = None
    result: ScriptResult | None = None
    has_started: bool = False

    def start(self) -> None:
        self.has_started = True

    @property
    def seconds(self) -> float:
        return self.result.duration_seconds if self.result else time.monotonic() - self.started_at

    @property
    def sandbox(self) -> SandboxName | None:
        return self.prepared.command.sandbox if self.prepared else None


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs permitted scripts and commands, and records each."""

    _tracker: Tracker
    _runner: ScriptRunner
    _audit: AuditFile
    _script_environment: ScriptEnvironment

    def choose_sandbox(self, rules: Scripts) -> Choice | None:
        if not rules.enabled:
            return None
        try:
            return self._script_environment.sandbox.choose(rules.sandbox)
        except SandboxUnavailableError as error:
            return Choice("none", refusal=str(error))

    def close(self) -> None:
        self._runner.close()

    async def run_script(self, snapshot: Snapshot, request: ScriptRequest) -> RanScript:
        """Run a declared script after all policy checks.

        Raises:
            SkillsError: The policy refuses it; `permit_script` lists the subclasses.
            BusyError: The queue is full.
            RunnerNotFoundError: The runner is not installed.
        """
        rules = snapshot.config.scripts
        permitted = await anyio.to_thread.run_sync(
            permit_script, request, snapshot.index, rules, self._script_environment
        )
        run = _Run(
            kind="script",
            skill=permitted.skill,
            file=permitted.script.file,
            provenance=derive_file_provenance(snapshot.content, permitted.owner, request.file),
            execution=permitted.script.execution,
            arguments=tuple(sorted(request.args)),
        )
        preparing = prepare_script_run(permitted, rules, self._script_environment)
        return await self._execute(run, preparing)

    async def run_command(
        self, snapshot: Snapshot, request_or_entry: CommandRequest | EntryRequest
    ) -> RanScript:
        """Run a program or a skill's entry in a private copy of its folder.

        Raises:
            ScriptRefusedError: Not allowed, or no entry declared; see the subclass.
            SkillsError: No, several or a hidden skill; see the subclass.
            InvalidArgumentsError: An argument cannot be passed on.
        """
        rules = snapshot.config
        require_commands_enabled(rules.commands)
        skill = snapshot.index.resolve(request_or_entry.skill_name)
        request = derive_command(request_or_entry, skill)
        require_allowed_command(request, rules.commands)
        run = _Run(
            kind="entry" if isinstance(request_or_entry, EntryRequest) else "command",
            skill=skill,
            file=request.command,
            provenance=derive_file_provenance(snapshot.content, skill),
        )
        preparing = prepare_command_run(request, skill, rules, self._script_environment)
        return await self._execute(run, preparing)

    async def _execute(
        self, run: _Run, preparing: AbstractContextManager[PreparedRun]
    ) -> RanScript:
        try:
            async with _entered_in_thread(preparing) as prepared:
                run.prepared = prepared
                run.result = await self._runner.run(prepared.command, run.start)
        except SkillsError as error:
            await self._audit_run(run, error.code)
            raise
        except anyio.get_cancelled_exc_class():
            if run.has_started:  # 001 §12.2
                self._track(run)
                await self._audit_run(run, "cancelled")
            raise
        self._track(run)
        await self._audit_run(run, "ended")
        return RanScript(run.result, run.provenance, sha256=prepared.sha256, words=prepared.words)

    def _track(self, run: _Run) -> None:
        result = run.result
        self._tracker.track(
            "script_executed",
            skill_path=run.skill.path,
            file=run.file,
            execution_mode=run.execution,
            success=result is not None and result.success,
            exit_code=result.exit_code if result else None,
            duration_ms=round(run.seconds * 1000),
            args_provided=list(run.arguments),
            timed_out=result is not None and result.timed_out,
            sandbox=run.sandbox,
            content_commit=run.provenance.commit,
        )

    async def _audit_run(self, run: _Run, outcome: str) -> None:
        entry = AuditEntry(
            kind=run.kind,
            skill_path=run.skill.path,
            file=run.file,
            commit=run.provenance.commit,
            sha256=run.prepared.sha256 if run.prepared else None,
            arguments=run.arguments,
            sandbox=run.sandbox,
            outcome=outcome,
            result=run.result,
            duration_seconds=run.seconds,
        )
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._audit.append, entry)


@asynccontextmanager
async def _entered_in_thread(
    preparing: AbstractContextManager[PreparedRun],
) -> AsyncIterator[PreparedRun]:
    """Enter and exit in a thread: both copy or delete files."""
    ready = await anyio.to_thread.run_sync(preparing.__enter__)
    try:
        yield ready
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(preparing.__exit__, None, None, None)
