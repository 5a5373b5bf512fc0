"""A bare Git repository and the files of its commits.  The only module that knows Git.

Rule 1: nothing is ever checked out. Files are written from the object database,
so no hook, filter or attribute of anybody's runs.
Rule 2: nothing of the user's project reaches Git: the working directory, the
environment and, when there is a token, the configuration are ours.
Rule 3: a token travels in the environment of the child only (see `remote`).
"""

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from skills_mcp.content.advice import find_advice
from skills_mcp.content.listing import Listing, parse_listing
from skills_mcp.content.remote import TOKEN_VARIABLE, USER_VARIABLE, Remote
from skills_mcp.errors import SyncError
from skills_mcp.process_group import GROUP_OPTIONS, kill_group

_REF = "refs/skills/published"

_SETTINGS = (
    "protocol.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "fetch.fsckObjects=true",
    "submodule.recurse=false",
    "http.followRedirects=false",
    # A stalled transfer ends by itself; a slow one may take until the deadline.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=15",
    "gc.auto=0",
)

# Where the certificates are says nothing about any repository.
_KEPT_VARIABLES = frozenset({"GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PYTHON_REFRESH"})


class DamagedStoreError(SyncError):
    """Git cannot work with its store; with a new one it may."""


class GitRepository:
    """A bare repository that follows one branch, tag or commit of one remote."""

    def __init__(self, directory: Path, remote: Remote) -> None:
        self._directory = directory
        self._remote = remote
        self._closed = False
        self._running: set[int] = set()
        self._gate = threading.Lock()  # nothing starts while `close` looks

    def fetch(self, lock: IO[Any], *, timeout_seconds: float) -> str:
        """Fetch what the remote stands for, whatever happened to it; return its commit.

        The ref is our own and forced, so a force-push or a rollback is followed
        exactly (DESIGN §3.9). Of an annotated tag it is the commit that it marks.

        Raises:
            SyncError: With what to do about it.
            DamagedStoreError: The cause is not the remote.
        """
        self._prepare(lock)
        self._run(
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--end-of-options",
            self._remote.url,
            f"+{self._remote.wanted}:{_REF}",
            lock=lock,
            timeout_seconds=timeout_seconds,
        )
        return self._run("rev-parse", "--verify", f"{_REF}^{{commit}}").decode().strip()

    def list_files(self, commit: str) -> Listing:
        """Return the files of a commit.

        Raises:
            SyncError: The commit is not in the store.
        """
        listing = self._run("ls-tree", "-r", "-z", "--full-tree", commit)
        return parse_listing(listing)

    def diff(self, before: str, after: str) -> frozenset[str]:
        """Return the files that differ between two commits, in whatever way.

        Raises:
            SyncError: One of them is not in the store.
        """
        options = ("-r", "-z", "--name-only", "--no-renames", "--end-of-options")
        names = self._run("diff-tree", *options, before, after)
        return frozenset(names.decode("utf-8", "surrogateescape").split("\0")[:-1])

    def write(self, commit: str, directory: Path) -> tuple[str, ...]:
        """Write the files of a commit below an empty folder; return what is left out.

        Raises:
            DamagedStoreError: An object is missing.
        """
        listing = self.list_files(commit)
        with tempfile.TemporaryFile() as wanted:
            wanted.write("".join(f"{e.blob}\n" for e in listing.entries).encode())
            wanted.seek(0)
            process = self._start("cat-file", "--batch", stdin=wanted)
            try:
                for entry in listing.entries:
                    _write_file(directory / entry.file, _next_blob(process.stdout))
            finally:
                self._end(process)
        return listing.left_out

    def close(self) -> None:
        """End the command that is running; every later one fails."""
        with self._gate:
            self._closed = True
            for pid in self._running:
                kill_group(pid)

    def _prepare(self, lock: IO[Any]) -> None:
        """Make sure that there is a usable repository.

        With the lock held nobody else writes here, so every lock file of Git's
        was left behind by somebody who died.
        """
        if not (self._directory / "HEAD").is_file():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._run("init", "--quiet", "--bare", "--template=", lock=lock)
        for leftover in (*self._directory.rglob("*.lock"), *self._temporary_packs()):
            leftover.unlink(missing_ok=True)

    def _temporary_packs(self) -> Iterator[Path]:
        return self._directory.glob("objects/**/tmp_*")

    def _run(
        self,
        *arguments: str,
        lock: IO[Any] | None = None,
        timeout_seconds: float = 60,
    ) -> bytes:
        process = self._start(*arguments, lock=lock)
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise SyncError(
                f"git {arguments[0]} took longer than {timeout_seconds:.0f} seconds. "
                "It is tried again later"
            ) from error
        finally:
            self._end(process)
        if process.returncode != 0:
            raise self._explain(stderr.decode("utf-8", "replace"))
        return stdout

    def _start(
        self, *arguments: str, stdin: Any = None, lock: IO[Any] | None = None
    ) -> "subprocess.Popen[bytes]":
        git = _load_gitpython()
        settings = (*_SETTINGS, self._allowed_protocol)
        flags = [word for setting in settings for word in ("-c", setting)]
        inherited = {"pass_fds": (lock.fileno(),)} if lock and _CAN_PASS_FILES else {}
        with self._gate, _without_inherited_variables():
            if self._closed:
                raise SyncError("the server is ending")
            try:
                started = git.Git(self._directory).execute(
                    ["git", f"--git-dir={self._directory}", *flags, *arguments],
                    istream=stdin,
                    as_process=True,
                    env=self._environment(),
                    **GROUP_OPTIONS,
                    **inherited,
                )
            except git.GitCommandNotFound as error:
                raise SyncError("Git is not installed, or not in PATH") from error
            process: subprocess.Popen[bytes] = started.proc
            # Ours from here: GitPython ends the child, and leaves its children.
            started.proc = None
            self._running.add(process.pid)
        return process

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Leave no process of the group behind, whatever happened."""
        with self._gate:
            self._running.discard(process.pid)
        # Also when Git itself has ended: its transport, or a helper that it left in
        # the background, may still be there, with the lock that it inherited.
        kill_group(process.pid)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()

    @property
    def _allowed_protocol(self) -> str:
        return f"protocol.{self._remote.scheme}.allow=always"

    def _environment(self) -> Mapping[str, str]:
        environment = {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
            "GIT_CEILING_DIRECTORIES": str(self._directory.parent),
        }
        token = self._remote.usable_token
        if token is None:
            return environment  # the user's own configuration and helpers apply
        settings = self._remote.credential_settings()
        for number, (key, value) in enumerate(settings.items()):
            environment[f"GIT_CONFIG_KEY_{number}"] = key
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        return environment | {
            "GIT_CONFIG_COUNT": str(len(settings)),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            TOKEN_VARIABLE: token,
            USER_VARIABLE: self._remote.user,
        }

    def _explain(self, stderr: str) -> SyncError:
        """Say what happened in words that a person can act on, without secrets."""
        said = " ".join(stderr.split())
        advice = find_advice(said, is_pinned=bool(self._remote.pin))
        kind = SyncError if advice else DamagedStoreError
        if self._remote.token and not self._remote.usable_token:
            said += " (the token was not sent: it travels over https only)"
        message = f"{self._remote}: {advice or 'Git failed'}. Git said: {said}"
        return kind(self._remote.redact(message))


_ENVIRONMENT_GATE = threading.Lock()

_CAN_PASS_FILES = hasattr(os, "killpg")  # where there are process groups, files inherit


def _load_gitpython() -> Any:
    """Import GitPython late: the server answers before it needs Git."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    import git

    return git


@contextmanager
def _without_inherited_variables() -> Iterator[None]:
    """Hide what a Git hook or a shell set for some other repository.

    GitPython starts children with our environment and can only add to it. There
    is one environment for all threads, so only one of them has it at a time.
    """
    with _ENVIRONMENT_GATE:
        hidden = {
            name: os.environ.pop(name)
            for name in tuple(os.environ)
            if name.startswith("GIT_") and name not in _KEPT_VARIABLES
        }
        try:
            yield
        finally:
            os.environ.update(hidden)


def _next_blob(stream: IO[bytes] | None) -> bytes:
    """Read one object of `cat-file --batch`: a header line, the bytes, a newline."""
    if stream is None:
        raise DamagedStoreError("Git has no output")
    match stream.readline().split():
        case [_, b"blob", size]:
            data = stream.read(int(size))
        case _:
            raise DamagedStoreError("an object is missing from Git's store")
    stream.read(1)
    return data


def _write_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)  # a snapshot never changes, not even by accident
