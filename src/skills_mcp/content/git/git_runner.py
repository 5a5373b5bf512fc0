"""Runs Git commands: started safely, watched, and ended with all their children.

Rule 1: nothing of the user's project reaches Git: the working directory, the variables
and the configuration are ours (see `git_environment` for what passes).
Rule 2: a command has a deadline, and what it writes has a limit.
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

from skills_mcp.content.git.command import GitCommand, Watch, limit_memory
from skills_mcp.content.git.failures import (
    compose_error,
    find_advice,
    find_local_advice,
)
from skills_mcp.content.git.git_environment import (
    SETTINGS,
    RemoteAccess,
    Setting,
    derive_user_variables,
    derive_variables,
    load_starter,
    open_access,
    parse_user_settings,
    require_version,
)
from skills_mcp.content.git.remote import Remote, check_address
from skills_mcp.content.git.transcript import Response
from skills_mcp.content.source import ENDING, EndingError
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from skills_mcp.text.redaction import redact

_CAN_PASS_FILES = hasattr(os, "killpg")  # systems with process groups pass files on

_SETTINGS_SECONDS = 30.0  # a home on a network may be slow


@dataclass(frozen=True, slots=True)
class Output:
    """The output and the exit status of a command."""

    stdout: bytes
    stderr: str
    returncode: int
    response: Response | None = None
    """The last answer of the host, if it was asked over HTTP."""

    @property
    def text(self) -> str:
        """The standard output as text, stripped."""
        return self.stdout.decode("utf-8", "surrogateescape").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    """The input and the credentials of one command."""

    lock: IO[Any] | None = None
    settings: tuple[str, ...] = ()
    access: RemoteAccess = field(default_factory=RemoteAccess)
    stdin: bytes = b""
    reads_user: bool = False
    """Whether it reads the user's configuration instead of a store."""


class Git:
    """Git with one bare store, for one remote."""

    def __init__(self, directory: Path, remote: Remote, policy: SyncPolicy) -> None:
        self.directory = directory
        self._remote = remote
        self._policy = policy
        self._closed = threading.Event()
        self._is_new_enough = False
        self._running: set[int] = set()
        self._gate = threading.Lock()  # nothing starts while `close` runs

    def beside(self, directory: Path) -> "Git":
        """Return Git with another store, for the same remote; `close` ends both."""
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
    ) -> Output:
        """Run one command to its end.

        Args:
            arguments: What follows `git`.
            lock: A locked file; it stays locked until the last child has ended.
            timeout_seconds: Then all of it is killed.
            settings: More of Git's configuration, as `key=value`; none is a secret.
            access: The credentials for the remote; None for a local command.
            stdin: Its standard input.
            on_progress: Called with Git's step and the share that is done, 0 to 1.
            max_growth_bytes: How much larger the store may become.
            is_ok: Exit statuses that are no failure.

        Raises:
            SyncError: It failed, with what to do about it.
            EndingError: The process is ending.
            DamagedStoreError: It failed, and the cause is not the remote.
            LimitExceededError: The store became too large.
        """
        setup = _Setup(
            lock=lock, settings=settings, access=access or RemoteAccess(), stdin=stdin
        )
        watch = Watch(self.directory, on_progress, max_growth_bytes)
        command = self._finish(arguments, setup, timeout_seconds, watch)
        status = command.process.returncode
        if status not in is_ok:
            raise self._explain(command, arguments[0], setup)
        transcript = command.transcript
        printed = bytes(command.printed)
        return Output(printed, transcript.text, status, transcript.response)

    @contextmanager
    def stream(self, *arguments: str, stdin: bytes = b"") -> Iterator[IO[bytes]]:
        """Yield the output of a command as it comes; leaving the block kills it.

        Its deadline is that of a sync.

        Raises:
            SyncError: It took too long.
            EndingError: The process is ending.
            DamagedStoreError: It failed.
        """
        setup = _Setup(stdin=stdin)
        timeout_seconds = self._policy.timeout_seconds
        is_done = False
        with self._started(arguments, setup) as command:
            command.end_after(timeout_seconds)
            output = command.output
            try:
                yield output
            except Exception:
                # Output that was cut off looks like a damaged store.
                self._check_end(command, arguments[0], timeout_seconds)
                raise
            is_done = not output.read(1)
            if is_done:
                command.process.wait()
        self._check_end(command, arguments[0], timeout_seconds)
        if is_done and command.process.returncode != 0:
            raise self._explain(command, arguments[0], setup)

    def open_access(self) -> RemoteAccess:
        """Return the credentials for the remote, with the current token.

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
        """Kill the commands that are running; later ones fail."""
        with self._gate:
            self._closed.set()
            for pid in self._running:
                kill_group(pid)

    def read_version(self) -> str:
        """Return what `git version` prints.

        Raises:
            SyncError: There is no Git, or it is too old.
        """
        printed = bytes(self._read_user("version").printed)
        require_version(printed)
        return printed.decode("utf-8", "replace").strip()

    def _require_version(self) -> None:
        """Check Git's version, once."""
        if not self._is_new_enough:
            self.read_version()
            self._is_new_enough = True

    def _read_user_settings(self) -> tuple[Setting, ...]:
        words = ("config", "--list", "--null", "--show-scope", "--includes")
        command = self._read_user(*words)
        if command.process.returncode != 0:
            raise SyncError(
                "your Git configuration cannot be read. Repair it until `git config "
                f"--list` works. Git said: {redact(command.transcript.said)}"
            )
        return parse_user_settings(bytes(command.printed))

    def _read_user(self, *words: str) -> GitCommand:
        """Run a command that does not read the store, which may be damaged."""
        return self._finish(
            words,
            _Setup(reads_user=True),
            _SETTINGS_SECONDS,
            Watch(self.directory),
        )

    def _finish(
        self,
        arguments: tuple[str, ...],
        setup: _Setup,
        timeout_seconds: float,
        watch: Watch,
    ) -> GitCommand:
        """Run a command until it ends, and raise an error if it met a limit."""
        with self._started(arguments, setup) as command:
            command.wait(timeout_seconds, lambda: watch.check(command))
        self._check_end(command, arguments[0], timeout_seconds)
        watch.check(command)
        return command

    @contextmanager
    def _started(
        self, arguments: tuple[str, ...], setup: _Setup
    ) -> Iterator[GitCommand]:
        command = GitCommand(self._start(arguments, setup))
        try:
            yield command
        finally:
            with self._gate:
                self._running.discard(command.process.pid)
            command.end()

    def _start(
        self, arguments: tuple[str, ...], setup: _Setup
    ) -> "subprocess.Popen[bytes]":
        # Without --git-dir, Git would search for a project in the folders above.
        store = self.directory / "none" if setup.reads_user else self.directory
        words = ("git", f"--git-dir={store}", *self._flags(setup), *arguments)
        lock = setup.lock if _CAN_PASS_FILES else None
        start = load_starter()
        with _open_input(setup.stdin) as stdin, self._gate:
            if self._closed.is_set():
                raise EndingError(ENDING)
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

    def _flags(self, setup: _Setup) -> Iterator[str]:
        scheme = self._remote.scheme
        for setting in (*SETTINGS, f"protocol.{scheme}.allow=always", *setup.settings):
            yield from ("-c", setting)

    def _variables(self, setup: _Setup) -> dict[str, str]:
        if setup.reads_user:
            return derive_user_variables(os.environ, self.directory)
        return derive_variables(os.environ, self.directory, self._remote, setup.access)

    def _working_directory(self) -> Path:
        """Return the store; if it does not exist yet, the nearest folder above."""
        folders = (self.directory, *self.directory.parents)
        return next(folder for folder in folders if folder.is_dir())

    def _check_end(
        self, command: GitCommand, name: str, timeout_seconds: float
    ) -> None:
        """Raise an error unless the command has ended by itself."""
        if self._closed.is_set():
            raise EndingError(ENDING)
        if command.is_late:
            raise SyncError(
                f"git {name} took longer than {timeout_seconds:.0f} seconds. If the "
                "network is slow, raise sync.timeout_seconds"
            )
        if command.has_printed_too_much:
            raise SyncError(f"git {name} printed too much: more than 64 MiB")

    def _explain(self, command: GitCommand, name: str, setup: _Setup) -> SyncError:
        """Return the error for a command that has failed, with what to do about it."""
        transcript, status = command.transcript, command.process.returncode
        if status < 0:
            return SyncError(f"git {name} was killed by signal {-status}. Try again")
        if not setup.access.is_open:
            advice = find_local_advice(transcript.said)
            otherwise = f"git {name} cannot use its store"
            return compose_error(advice, transcript.said, otherwise)
        advice = find_advice(transcript, self._remote, datetime.now(UTC))
        return compose_error(advice, transcript.said, "Git failed", self._remote)


def _open_input(data: bytes) -> IO[bytes]:
    """Return the input as a file: a pipe would need a thread to feed it."""
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        file.write(data)
        file.seek(0)
    except OSError as error:
        raise SyncError(f"no temporary file can be written: {error}") from error
    return file
