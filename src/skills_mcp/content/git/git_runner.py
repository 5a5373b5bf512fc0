"""Execution of Git commands: started safely, monitored, ended with all children.

Rule 1: nothing of the user's project reaches Git: the working directory, the variables
and the configuration are ours.
Rule 2: a command has a deadline, and its output has a limit.
Rule 3: no process of a command's group outlives it, however the command ends.
"""

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from skills_mcp.content.git.command import CommandMonitor, GitProcess, limit_memory
from skills_mcp.content.git.failures import (
    compose_error,
    find_advice,
    find_local_advice,
)
from skills_mcp.content.git.git_environment import (
    SETTINGS,
    RemoteAccess,
    Setting,
    build_environment,
    build_user_environment,
    load_popen,
    open_access,
    parse_user_settings,
    require_version,
)
from skills_mcp.content.git.remote import Remote, check_address
from skills_mcp.content.git.transcript import Response
from skills_mcp.content.source import SHUTTING_DOWN, ShutdownError
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from skills_mcp.text.redaction import redact

_CAN_PASS_FILES = hasattr(os, "killpg")  # systems with process groups pass files on

_SETTINGS_SECONDS = 30.0  # a home on a network may be slow


@dataclass(frozen=True, slots=True)
class CommandOutput:
    stdout: bytes
    stderr: str
    returncode: int
    response: Response | None = None

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "surrogateescape").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandInput:
    lock: IO[Any] | None = None
    settings: tuple[str, ...] = ()
    access: RemoteAccess = field(default_factory=RemoteAccess)
    stdin: bytes = b""
    reads_user: bool = False


class Git:
    """Git with one bare store and one remote."""

    def __init__(self, directory: Path, remote: Remote, policy: SyncPolicy) -> None:
        self.directory = directory
        self._remote = remote
        self._policy = policy
        self._closed = threading.Event()
        self._is_new_enough = False
        self._running: set[int] = set()
        self._gate = threading.Lock()  # nothing starts while `close` runs

    def with_directory(self, directory: Path) -> "Git":
        """Copy with another store and the same remote; `close` ends both."""
        other = copy(self)
        other.directory = directory
        return other

    def run(  # noqa: PLR0913 - each of them is a fact about the one command
        self,
        *arguments: str,
        lock: IO[Any] | None = None,
        timeout_seconds: float = 60.0,
        settings: tuple[str, ...] = (),
        access: RemoteAccess | None = None,
        stdin: bytes = b"",
        on_progress: Callable[[str, float], None] | None = None,
        max_growth_bytes: int | None = None,
        is_ok: tuple[int, ...] = (0,),
    ) -> CommandOutput:
        """Run one command to completion.

        Args:
            arguments: Subcommand and arguments.
            lock: A locked file; it stays locked until the last child has ended.
            timeout_seconds: Deadline for the process group.
            settings: Git settings as `key=value`, without secrets.
            access: Credentials for the remote; None for a local command.
            stdin: Standard input.
            on_progress: Called with Git's step and the completed share, 0 to 1.
            max_growth_bytes: Growth limit of the store.
            is_ok: Exit statuses of a success.

        Raises:
            SyncError: It failed; the message has advice.
            ShutdownError: The process is ending.
            DamagedStoreError: It failed, and the cause is not the remote.
            LimitExceededError: The store became too large.
        """
        setup = _CommandInput(
            lock=lock, settings=settings, access=access or RemoteAccess(), stdin=stdin
        )
        watch = CommandMonitor(self.directory, on_progress, max_growth_bytes)
        command = self._run_to_end(arguments, setup, timeout_seconds, watch)
        status = command.process.returncode
        if status not in is_ok:
            raise self._derive_error(command, arguments[0], setup)
        transcript = command.transcript
        printed = bytes(command.printed)
        return CommandOutput(printed, transcript.text, status, transcript.response)

    @contextmanager
    def stream(self, *arguments: str, stdin: bytes = b"") -> Iterator[IO[bytes]]:
        """Stream the output of a command until a sync's deadline; leaving kills it.

        Raises:
            SyncError: It took too long.
            ShutdownError: The process is ending.
            DamagedStoreError: It failed.
        """
        setup = _CommandInput(stdin=stdin)
        timeout_seconds = self._policy.timeout_seconds
        is_done = False
        with self._started(arguments, setup) as command:
            command.end_after(timeout_seconds)
            output = command.output
            try:
                yield output
            except Exception:
                # Output that was cut off looks like a damaged store.
                self._require_normal_exit(command, arguments[0], timeout_seconds)
                raise
            is_done = not output.read(1)
            if is_done:
                command.process.wait()
        self._require_normal_exit(command, arguments[0], timeout_seconds)
        if is_done and command.process.returncode != 0:
            raise self._derive_error(command, arguments[0], setup)

    def open_access(self) -> RemoteAccess:
        """Prepare credentials for the remote, with the current token.

        Raises:
            AccessRefusedError: The token cannot be read.
            SyncError: Nothing is fetched from such an address, or Git cannot be used.
        """
        try:
            check_address(self._remote.url)
        except ConfigError as error:
            raise SyncError(str(error)) from error
        self._require_version()
        return open_access(self._remote, self._read_user_settings())

    def close(self) -> None:
        """Kill the running commands; later ones fail."""
        with self._gate:
            self._closed.set()
            for pid in self._running:
                kill_group(pid)

    def read_version(self) -> str:
        """Read the output of `git version`.

        Raises:
            SyncError: There is no Git, or it is too old.
        """
        printed = bytes(self._run_user_command("version").printed)
        require_version(printed)
        return printed.decode("utf-8", "replace").strip()

    def _require_version(self) -> None:
        if not self._is_new_enough:
            self.read_version()
            self._is_new_enough = True

    def _read_user_settings(self) -> tuple[Setting, ...]:
        words = ("config", "--list", "--null", "--show-scope", "--includes")
        command = self._run_user_command(*words)
        if command.process.returncode != 0:
            raise SyncError(
                "your Git configuration cannot be read. Repair it until `git config "
                f"--list` works. Git said: {redact(command.transcript.summary)}"
            )
        return parse_user_settings(bytes(command.printed))

    def _run_user_command(self, *words: str) -> GitProcess:
        """Run a command without the possibly damaged store."""
        return self._run_to_end(
            words,
            _CommandInput(reads_user=True),
            _SETTINGS_SECONDS,
            CommandMonitor(self.directory),
        )

    def _run_to_end(
        self,
        arguments: tuple[str, ...],
        setup: _CommandInput,
        timeout_seconds: float,
        watch: CommandMonitor,
    ) -> GitProcess:
        with self._started(arguments, setup) as command:
            command.wait(timeout_seconds, lambda: watch.check(command))
        self._require_normal_exit(command, arguments[0], timeout_seconds)
        watch.check(command)
        return command

    @contextmanager
    def _started(self, arguments: tuple[str, ...], setup: _CommandInput) -> Iterator[GitProcess]:
        command = GitProcess(self._start(arguments, setup))
        try:
            yield command
        finally:
            with self._gate:
                self._running.discard(command.process.pid)
            command.end()

    def _start(self, arguments: tuple[str, ...], setup: _CommandInput) -> "subprocess.Popen[bytes]":
        # Without --git-dir, Git would search for a project in the folders above.
        store = self.directory / "none" if setup.reads_user else self.directory
        words = ("git", f"--git-dir={store}", *self._flags(setup), *arguments)
        lock = setup.lock if _CAN_PASS_FILES else None
        start = load_popen()
        with _open_input(setup.stdin) as stdin, self._gate:
            if self._closed.is_set():
                raise ShutdownError(SHUTTING_DOWN)
            try:
                process: subprocess.Popen[bytes] = start(
                    words,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=self._working_directory(),
                    env=self._variables(setup),
                    pass_fds=(lock.fileno(),) if lock else (),
                    **GROUP_OPTIONS,
                )
            except FileNotFoundError as error:
                raise SyncError("Git is not installed, or not in PATH") from error
            except (OSError, ValueError) as error:
                raise SyncError(redact(f"Git cannot be started: {error}")) from error
            self._running.add(process.pid)
        if not setup.access.starts_helpers:  # theirs may need more than Git does
            limit_memory(process.pid)
        return process

    def _flags(self, setup: _CommandInput) -> Iterator[str]:
        scheme = self._remote.scheme
        for setting in (*SETTINGS, f"protocol.{scheme}.allow=always", *setup.settings):
            yield from ("-c", setting)

    def _variables(self, setup: _CommandInput) -> dict[str, str]:
        if setup.reads_user:
            return build_user_environment(os.environ, self.directory)
        return build_environment(os.environ, self.directory, self._remote, setup.access)

    def _working_directory(self) -> Path:
        folders = (self.directory, *self.directory.parents)
        return next(folder for folder in folders if folder.is_dir())

    def _require_normal_exit(self, command: GitProcess, name: str, timeout_seconds: float) -> None:
        if self._closed.is_set():
            raise ShutdownError(SHUTTING_DOWN)
        if command.has_timed_out:
            raise SyncError(
                f"git {name} took longer than {timeout_seconds:.0f} seconds. If the "
                "network is slow, raise sync.timeout_seconds"
            )
        if command.has_exceeded_output:
            raise SyncError(f"git {name} printed too much: more than 64 MiB")

    def _derive_error(self, command: GitProcess, name: str, setup: _CommandInput) -> SyncError:
        transcript, status = command.transcript, command.process.returncode
        if status < 0:
            return SyncError(f"git {name} was killed by signal {-status}. Try again")
        if not setup.access.is_open:
            advice = find_local_advice(transcript.summary)
            otherwise = f"git {name} cannot use its store"
            return compose_error(advice, transcript.summary, otherwise)
        advice = find_advice(transcript, self._remote, datetime.now(UTC))
        return compose_error(advice, transcript.summary, "Git failed", self._remote)


def _open_input(data: bytes) -> IO[bytes]:
    """Write the input to a temporary file: a pipe would need a feeding thread."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        file.write(data)
        file.seek(0)
    except OSError as error:
        raise SyncError(f"no temporary file can be written: {error}") from error
    return file
