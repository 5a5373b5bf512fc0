"""A private PostgreSQL for tests, which is started, killed and started again."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.support import wait_for

_WHERE = "/usr/lib/postgresql"
"""Debian keeps the programs of a cluster outside of PATH."""

_numbers = count()


def find_programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL; None if there is none."""
    found = sorted(Path(_WHERE).glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


class Cluster:
    """One server of PostgreSQL that is reached by a socket in its folder.

    Args:
        programs: The folder of its programs.
        folder: Where it keeps everything.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _find_user()

    def create(self) -> None:
        """Make the files of the cluster."""
        if self._user:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        arguments = ("-U", "skills", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._run("initdb", "-D", str(self._data), *arguments)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        wait_for(self._try_to_start)

    def kill(self) -> None:
        """End all of its processes with SIGKILL, and wait for them."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        name = f"events_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name}", database="postgres")
        return f"postgresql+psycopg://skills@/{name}?host={self._folder}"

    def execute(self, statement: str, *, database: str) -> list[tuple[Any, ...]]:
        """Run a statement; return the rows of its answer."""
        import psycopg

        with psycopg.connect(
            host=str(self._folder), user="skills", dbname=database, autocommit=True
        ) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def drop(self, url: str) -> None:
        """Delete a database, also while it is used."""
        name = url.partition("@/")[2].partition("?")[0]
        self.execute(f"DROP DATABASE {name} WITH (FORCE)", database="postgres")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _try_to_start(self) -> bool:
        """Start it unless it runs; processes of a killed one may still be ending."""
        if self._process is None or self._process.poll() is not None:
            settings = ("listen_addresses=", "fsync=off", "max_connections=60")
            more = (word for each in settings for word in ("-c", each))
            place = ("-D", str(self._data), "-k", str(self._folder))
            self._process = subprocess.Popen(
                self._command("postgres", *place, *more),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        asked = (str(self._programs / "pg_isready"), "-h", str(self._folder), "-q")
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(self._command(program, *arguments), check=True, capture_output=True, cwd="/")

    def _command(self, program: str, *arguments: str) -> Sequence[str]:
        command = (str(self._programs / program), *arguments)
        if self._user is None:
            return command
        ids = f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}"
        # A test that is killed leaves no server behind.
        return "setpriv", *ids, "--clear-groups", "--pdeathsig=QUIT", *command


@contextmanager
def opened_cluster(programs: Path) -> Iterator[Cluster]:
    """Yield a cluster that runs; its files are deleted afterwards."""
    # The path of a socket is short, and another user has to reach it.
    folder = Path(tempfile.mkdtemp(prefix="skills-pg-"))
    cluster = Cluster(programs, folder)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _find_user() -> pwd.struct_passwd | None:
    """Return who runs the programs: they refuse to run as root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
