"""Runs of one case: a fresh copy of its files, the agent in the sandbox, the checks.

An arm is the files of a skill for an agent.

Rule: a run sees its own copy and HOME, the agent's installation and what `--read` names.
The other arms, the cases and the results are not among it.
"""

import json
import os
import re
import shlex
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args
from uuid import uuid4

import anyio
import anyio.to_thread

from skills_mcp.config import Scripts
from skills_mcp.errors import MissingFileError, SkillsError
from skills_mcp.features.authoring.cases import EVALS, Case, Check, find_in_json
from skills_mcp.features.effect.agents import Agent, AgentOutput, Via, parse_output
from skills_mcp.features.effect.evidence import DIGITS, Result, digest_text
from skills_mcp.features.export.layout import (
    ExportedLocations,
    FolderFormat,
    LockedSettings,
    assign_names,
    package_skill,
)
from skills_mcp.files.opening import open_inside
from skills_mcp.library import Snapshot
from skills_mcp.library.skill_folder import publish_skills, render_skill_file
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from skills_mcp.scripts.execution import Grants, PreparedCommand, ScriptResult
from skills_mcp.scripts.policy import derive_run_variables
from skills_mcp.scripts.prepared_runs import PrivateFolder, ScriptEnvironment, make_private_folder
from skills_mcp.scripts.sandbox import find_executable, find_program_folders
from skills_mcp.scripts.script_runner import ScriptRunner
from skills_mcp.skills.composition import compose_skill
from skills_mcp.skills.inheritance import compose
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_parser import SKILL_MD
from skills_mcp.text.redaction import redact

ArmName = Literal["without", "with", "inherited", "before"]
ARM_NAMES: tuple[ArmName, ...] = get_args(ArmName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The files of a skill that an agent gets; none without it."""

    name: ArmName
    digest: str = ""
    """Digest of the composed text."""
    package: str = ""
    """Digest of all files."""
    folder: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        return self.files[SKILL_MD].decode() if self.files else ""


def build_arm(name: ArmName, snapshot: Snapshot, skill: Skill, folder_format: FolderFormat) -> Arm:
    """Build an arm of one skill.  Blocking: reads its files.

    Its cases are left out: they say what a good result is.
    """
    if name == "without":
        return Arm(name=name)
    settings = LockedSettings(format=folder_format, raw=False, select=())
    published = publish_skills(snapshot)
    names = assign_names(published.names.published, {})
    locations = ExportedLocations(published.snapshot.index, names.get, lambda _: "")
    packaged = package_skill(published, skill.path, names[skill.path], settings, locations)
    files = {
        file: data
        for file, data in packaged.files.items()
        if not file.startswith(f"{EVALS}/") and (name != "inherited" or file not in skill.files)
    }
    text = compose_skill(snapshot.index, skill).instructions
    if name == "inherited":
        text = compose(snapshot.index.contributors(skill)[:-1])
        files[SKILL_MD] = render_skill_file(skill, packaged.name, text).encode()
    hashes = {file: sha256(data).hexdigest() for file, data in sorted(files.items())}
    return Arm(
        name=name,
        digest=digest_text(skill, text),
        package=sha256(json.dumps(hashes).encode()).hexdigest()[:DIGITS],
        folder=packaged.name,
        files=files,
    )


MAX_OUTPUT_BYTES = 4 * 1024 * 1024
"""Kept of an output: a transcript of agents has some hundred kilobytes."""
MAX_DISK_BYTES = 2 * 1024**3
"""Of a work folder and its HOME: dependencies of a large project fit."""
_MAX_FILE_BYTES = 512 * 1024**2
_MAX_MEMORY_BYTES = 16 * 1024**3  # agents reserve more than they use
_MAX_PROCESSES = 512
_MAX_READ_BYTES = 16 * 1024**2  # of a file that a check reads
_MAX_JUDGED_BYTES = 64 * 1024  # of the changed files that a judge gets
_LOOK_SECONDS = 0.5  # between two looks at the size of a folder
_CHECK_SECONDS = 300.0
_JUDGE_SECONDS = 300.0
_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """What all runs of an experiment have in common."""

    agent: Agent
    via: Via
    sandbox: Scripts
    """The operator's rules for scripts, of which the sandbox counts."""
    environment: ScriptEnvironment
    readable: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Named credentials in variables."""
    credentials: Mapping[str, Path] = field(default_factory=dict)
    """Named credentials in files, by their path in HOME."""
    network: bool = True
    judge: Sequence[str] = ()
    version: str = ""
    """Of the agent."""
    max_disk_bytes: int = MAX_DISK_BYTES


class RunFaultError(Exception):
    """A run that says nothing about the skill: it is not counted, and not kept."""


class CaseRunner:
    """Runs cases, each to its end."""

    def __init__(self, rules: RunRules) -> None:
        self._rules = rules
        changed = {
            "network": rules.network,
            "environment": (*rules.sandbox.environment, *rules.variables),
            "readable": (*rules.sandbox.readable, *map(str, rules.readable)),
            "max_memory_bytes": _MAX_MEMORY_BYTES,
            "max_file_bytes": min(_MAX_FILE_BYTES, rules.max_disk_bytes),
            "max_processes": _MAX_PROCESSES,
        }
        # Not validated: an agent may have more than a setting for scripts allows.
        self._limits = rules.sandbox.model_copy(update=changed)

    async def run(self, skill: str, case: Case, arm: Arm) -> tuple[Result, str]:
        """Run a case of a skill once; give its result and its transcript.

        Raises:
            RunFaultError: The agent could not work, or the case could not be prepared.
            SkillsError: The agent is not installed, or a required sandbox is missing.
        """
        async with _opened_folder() as folder:
            workplace = _Workplace(folder, self._rules.agent.folder)
            options = await anyio.to_thread.run_sync(self._prepare, workplace, case, arm)
            for command in case.setup:
                done = await self._run_shell(workplace, command, case.timeout_seconds)
                if not done.success:
                    raise RunFaultError(f"setup {command!r} failed: {_last_line(done)}")
            before = await anyio.to_thread.run_sync(workplace.list_files)
            done, state = await self._run_agent(workplace, case, arm, options)
            output = self._parse(done, state)
            after = await anyio.to_thread.run_sync(workplace.list_files)
            changed = sorted(
                f for f in before.keys() | after.keys() if before.get(f) != after.get(f)
            )
            checked = [await self._check(workplace, c, output, changed) for c in case.checks]
            judged, reasons = await self._judge(workplace, case, output, changed, state)
        failed = [f"{c}: {fault}" for c, fault in zip(case.checks, checked, strict=True) if fault]
        agent, checks = self._rules.agent, [not fault for fault in checked]
        result = Result(
            id=uuid4().hex[:16],
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            skill=skill,
            arm="with" if arm.name == "before" else arm.name,  # of this text, for good
            digest=arm.digest,
            package=arm.package,
            case=case.id,
            case_digest=case.digest,
            agent=agent.name,
            model=agent.model,
            via=self._rules.via,
            state=state,
            passed=state == "ended" and all((*checks, *judged)),
            checks=checks,
            judged=judged,
            reasons=list(map(_shorten, (*_describe_state(state, done), *failed, *reasons))),
            seconds=round(done.duration_seconds, 3),
            cost=output.cost,
            tokens=output.tokens,
            turns=output.turns,
            version=self._rules.version,
            reported_model=output.model,
            sandbox=done.sandbox,
        )
        return result, redact("\n".join(filter(None, (done.stdout, done.stderr))))

    def _prepare(self, workplace: "_Workplace", case: Case, arm: Arm) -> tuple[str, ...]:
        """Write the files of a case and of an arm; give more options of the agent."""
        rules, agent = self._rules, self._rules.agent
        workplace.work.mkdir()
        workplace.user.mkdir()
        for file, data in case.files.items():
            _write(workplace.work / file, data)
        for file, source in rules.credentials.items():
            _write(workplace.user / file, source.read_bytes(), 0o600)
        if not arm.files or rules.via == "prompt":
            return ()
        folder = workplace.arm if rules.via == "mcp" else workplace.work / agent.folder
        for file, data in arm.files.items():
            _write(folder / arm.folder / file, data, 0o755 if data[:2] == b"#!" else 0o644)
        if rules.via != "mcp" or agent.connect is None:
            return ()
        server = ("/usr/bin/env", "SKILLS_MCP_SHARE=0", "DO_NOT_TRACK=1", sys.executable)
        served = ("-m", "skills_mcp", "serve", "--skills-dir", str(folder))
        return agent.connect(workplace.user, (*server, *served))

    async def _run_agent(
        self, workplace: "_Workplace", case: Case, arm: Arm, options: Sequence[str]
    ) -> tuple[ScriptResult, str]:
        is_in_prompt = self._rules.via == "prompt" and bool(arm.text)
        prompt = f"{arm.text}\n\n---\n\n{case.prompt}" if is_in_prompt else case.prompt
        words = self._rules.agent.command_line(prompt, options)
        started = time.monotonic()
        done: ScriptResult | None = None
        error: SkillsError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_size, workplace, self._rules.max_disk_bytes, tasks.cancel_scope)
            try:
                done = await self._run_words(workplace, words, case.timeout_seconds)
            except SkillsError as raised:  # a group would wrap it
                error = raised
            tasks.cancel_scope.cancel()
        if error:
            raise error
        if done:
            return done, "timeout" if done.timed_out else "ended"
        seconds = time.monotonic() - started
        done = ScriptResult(
            exit_code=1, stdout="", stderr="", duration_seconds=seconds, timed_out=False
        )
        return done, "stopped"

    def _parse(self, done: ScriptResult, state: str) -> AgentOutput:
        output = parse_output(done.stdout, self._rules.agent.name)
        if state != "ended":
            return replace(output, fault="")
        fault = output.fault
        if not fault and done.exit_code and not output.turns:
            by = f" ({done.signal})" if done.signal else ""
            fault = f"ended with exit code {done.exit_code}{by}"
        if fault:
            raise RunFaultError(_shorten(redact(f"{fault}; {_last_line(done)}")))
        return output

    async def _run_shell(
        self, workplace: "_Workplace", command: str, seconds: float
    ) -> ScriptResult:
        return await self._run_words(workplace, ("/bin/sh", "-c", command), seconds, command)

    async def _run_words(
        self, workplace: "_Workplace", words: Sequence[str], seconds: float, shell: str = ""
    ) -> ScriptResult:
        environment = self._rules.environment
        variables = derive_run_variables(environment.variables, {}, self._limits)
        command = PreparedCommand(
            words=tuple(words),
            environment={**variables, **self._rules.agent.variables, **workplace.variables},
            working_directory=workplace.work,
            timeout_seconds=seconds,
            max_output_bytes=MAX_OUTPUT_BYTES,
        )
        grants = Grants(
            home=workplace.scratch,
            readable=tuple(self._find_readable(workplace, words, shell)),
            writable=(workplace.work, workplace.user),
            network=self._rules.network,
        )
        wrap = partial(environment.sandbox.wrap, command, grants, self._limits)
        return await ScriptRunner().run(await anyio.to_thread.run_sync(wrap))

    def _find_readable(
        self, workplace: "_Workplace", words: Sequence[str], shell: str
    ) -> Iterator[Path]:
        environment = self._rules.environment
        search_path = environment.variables.get("PATH", os.defpath)
        with suppress(ValueError):
            words = (*words[:1], *shlex.split(shell)[:1])
        for program in filter(None, (find_executable(word, search_path) for word in words)):
            yield from find_program_folders(program, search_path, environment.home)
            parts = Path(os.path.realpath(program)).parts
            if "node_modules" in parts:  # of an installation without a prefix
                yield Path(*parts[: parts.index("node_modules") + 1])
        if workplace.arm.exists():
            prefixes = {Path(sys.prefix), Path(sys.base_prefix)} - {Path("/usr")}
            yield from (workplace.arm, *prefixes, Path(__file__).parents[2])  # for the MCP server

    async def _check(
        self, workplace: "_Workplace", check: Check, output: AgentOutput, changed: Sequence[str]
    ) -> str:
        """Reason for which a check fails; empty if it passes."""
        match check.verb:
            case "command":
                done = await self._run_shell(workplace, check.subject, _CHECK_SECONDS)
                return "" if done.success else f"exit code {done.exit_code}: {_last_line(done)}"
            case "changes_only":
                others = [f for f in changed if not any(fnmatchcase(f, g) for g in check.value)]
                return f"{', '.join(others[:3])} changed, too" if others else ""
            case "output":
                return _test_text(check, output.text)
            case _:
                return await anyio.to_thread.run_sync(_check_file, workplace.work, check)

    async def _judge(
        self,
        workplace: "_Workplace",
        case: Case,
        output: AgentOutput,
        changed: Sequence[str],
        state: str,
    ) -> tuple[Sequence[bool], Sequence[str]]:
        """Ask the judge about the assertions; it is not told of the arm.

        Raises:
            RunFaultError: It fails, or does not answer as it should.
        """
        if not (case.assertions and self._rules.judge) or state != "ended":
            return (), ()
        asked = {
            "prompt": case.prompt,
            "assertions": case.assertions,
            "output": output.text,
            "files": await anyio.to_thread.run_sync(workplace.read_texts, changed),
        }
        return _parse_verdicts(await _ask(self._rules.judge, json.dumps(asked)), case)


class _Workplace:
    """Folders of a run: its copy, its HOME, and an arm that a server serves."""

    def __init__(self, folder: PrivateFolder, skills: str) -> None:
        self.work, self.user, self.arm = (folder.path / n for n in ("work", "user", "arm"))
        self.scratch = folder.home  # the HOME of scripts: empty for each command
        self._hidden = {".git", PurePosixPath(skills).parts[0]}
        temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self.scratch))
        self.variables = {"HOME": str(self.user), "USERPROFILE": str(self.user), **temporary}

    def list_files(self) -> dict[str, str]:
        """Digests of the files in the work folder, without Git's and the skills."""
        found = {}
        for folder, folders, files in os.walk(self.work):
            inside = Path(folder).relative_to(self.work)
            folders[:] = [f for f in folders if f not in self._hidden or inside.parts]
            for name in files:
                found[(inside / name).as_posix()] = _digest(Path(folder, name))
        return found

    def read_texts(self, files: Sequence[str]) -> dict[str, str]:
        left, texts = _MAX_JUDGED_BYTES, {}
        for file in files:
            with suppress(OSError, MissingFileError, UnicodeDecodeError):
                text = _read(self.work, file).decode()[:left]
                texts[file], left = text, left - len(text)
        return texts

    def measure(self) -> int:
        """Bytes of all files, without an error for one that vanishes."""
        total = 0
        for top in (self.work, self.user):
            for folder, _, files in os.walk(top):
                for name in files:
                    with suppress(OSError):
                        total += Path(folder, name).lstat().st_blocks * 512
        return total


@asynccontextmanager
async def _opened_folder() -> AsyncIterator[PrivateFolder]:
    """Private folder of a run, made and removed in a thread."""
    opened = make_private_folder()
    folder = await anyio.to_thread.run_sync(opened.__enter__)
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_open_permissions, folder.path)
            await anyio.to_thread.run_sync(opened.__exit__, None, None, None)


def _open_permissions(folder: Path) -> None:
    """Let folders be removed from which a run has taken the permissions."""
    for above, folders, _ in os.walk(folder):
        for name in folders:
            with suppress(OSError):
                if not Path(above, name).is_symlink():
                    Path(above, name).chmod(0o700)


async def _watch_size(workplace: _Workplace, limit: int, scope: anyio.CancelScope) -> None:
    """Cancel a run that writes too much: no tier of the sandbox limits a folder."""
    while await anyio.to_thread.run_sync(workplace.measure) <= limit:  # noqa: ASYNC110 - a folder has no event
        await anyio.sleep(_LOOK_SECONDS)
    scope.cancel()


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _digest(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link {path.readlink()}"
        if not path.is_file():
            return "special"
        with path.open("rb") as handle:
            return file_digest(handle, sha256).hexdigest()
    except OSError:
        return "unreadable"


def _read(work: Path, file: str) -> bytes:
    with open_inside(work, PurePosixPath(file).parts) as handle:
        return handle.read(_MAX_READ_BYTES)


def _check_file(work: Path, check: Check) -> str:
    if check.test == "exists":
        exists = os.path.lexists(work / check.subject)
        return "" if exists is check.value else "exists" if exists else "does not exist"
    try:
        text = _read(work, check.subject).decode("utf-8", "replace")
    except (OSError, MissingFileError):
        return "does not exist, or is no file"
    if check.verb == "file":
        return _test_text(check, text)
    try:
        found = find_in_json(json.loads(text), check.test)
    except LookupError:
        return "there is no such value"
    except (ValueError, RecursionError):
        return "is not JSON"
    return "" if found == check.value else f"it is {json.dumps(found)}"


def _test_text(check: Check, text: str) -> str:
    if check.test == "matches":
        return "" if re.search(check.value, text, re.MULTILINE) else "no match"
    is_in = check.value in text
    if check.test == "lacks":
        return "it occurs" if is_in else ""
    return "" if is_in else "it does not occur"


async def _ask(words: Sequence[str], text: str) -> bytes:
    try:
        with anyio.fail_after(_JUDGE_SECONDS):
            async with await anyio.open_process(words, stderr=None, **GROUP_OPTIONS) as process:
                try:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_feed, process, text)
                        assert process.stdout is not None, "asked for above"  # noqa: S101
                        chunks = [chunk async for chunk in process.stdout]
                    code = await process.wait()
                finally:
                    kill_group(process.pid)
    except (OSError, TimeoutError) as error:
        raise RunFaultError(f"the judge {words[0]!r} did not answer: {error}") from error
    if code:
        raise RunFaultError(f"the judge {words[0]!r} ended with exit code {code}")
    return b"".join(chunks)


async def _feed(process: Any, text: str) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(text.encode())
        await process.stdin.aclose()


def _parse_verdicts(answer: bytes, case: Case) -> tuple[Sequence[bool], Sequence[str]]:
    try:
        data = json.loads(answer)
        passed, reasons = [*data["passed"]], [*(data.get("reasons") or ())]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunFaultError(
            'the judge has to print {"passed": [true, …], "reasons": […]}'
        ) from error
    count = len(case.assertions)
    if len(passed) != count or not all(each in (True, False) for each in passed):
        raise RunFaultError(f"the judge has to decide {count} assertions, each with true or false")
    return tuple(map(bool, passed)), tuple(map(str, reasons))


def _describe_state(state: str, done: ScriptResult) -> Iterator[str]:
    if state == "timeout":
        yield "it did not end in time"
    if state == "stopped":
        yield "it wrote more than the disk of a run holds"
    if done.truncated_stdout:
        yield f"it printed {done.stdout_bytes:,} bytes, of which the middle is left out"


def _last_line(done: ScriptResult) -> str:
    lines = [
        line for line in (*done.stdout.splitlines(), *done.stderr.splitlines()) if line.strip()
    ]
    return lines[-1].strip() if lines else "it printed nothing"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_REASON_CHARACTERS else f"{text[:_MAX_REASON_CHARACTERS]}…"
