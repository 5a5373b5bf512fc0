"""Which tier confines a run: the strongest that works here and the operator wants."""

import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

from skills_mcp.config import Scripts
from skills_mcp.config.values import SandboxDemand
from skills_mcp.errors import RunnerNotFoundError, SandboxUnavailableError
from skills_mcp.scripts.execution import (
    HOLDING,
    Grants,
    PreparedCommand,
    ProcessLimits,
    SandboxName,
)
from skills_mcp.scripts.sandbox import programs
from skills_mcp.scripts.sandbox.seatbelt import SANDBOX_EXEC, derive_seatbelt
from skills_mcp.scripts.sandbox.tiers import (
    BUBBLEWRAP,
    derive_landlock,
    prepare_bubblewrap,
)

Tier = Callable[[Grants], tuple[str, ...]]
"""Returns the words that stand before those of a command."""

_PROBE_SECONDS = 20  # a hundred times what the slowest tier takes on a busy machine
_PROBE = 'read -r _ < "$1" && ! read -r _ < "$2" && echo held'
_MAX_FAULT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tier a run would get, and why not a stronger one."""

    name: SandboxName
    missing: tuple[str, ...] = ()
    """Why each stronger tier does not work, in a few words each."""
    refusal: str = ""
    """Why no script runs: the operator requires a tier that holds. Else empty."""

    @property
    def confines(self) -> bool:
        """Whether it keeps a run away from what it was not granted."""
        return self.name in HOLDING


class Sandbox:
    """The sandbox of this machine, probed once, with the first run.  Thread-safe."""

    def __init__(
        self,
        home: Path,
        search_path: str,
        offered: Sequence[SandboxName] = HOLDING,
    ) -> None:
        """Store what the probes need.

        Args:
            home: The user's home; never opened as a whole.
            search_path: Where `bwrap` is looked for, as in PATH.
            offered: The tiers to probe.
        """
        self._home = home
        self._search_path = search_path
        self._offered = offered
        self._lock = Lock()
        self._best: Choice | None = None
        self._tiers: dict[SandboxName, Tier] = {}

    def choose(self, demand: SandboxDemand) -> Choice:
        """Return the tier that runs get.  Blocking, the first time.

        Raises:
            SandboxUnavailableError: `demand` is `required`, and no tier works here;
                or the files of a probe cannot be written.
        """
        if demand == "off":
            return Choice("none")
        with self._lock, _refusing():
            self._best = best = self._best or self._probe()
        if demand == "required" and not best.confines:
            raise SandboxUnavailableError(
                "This machine has no sandbox that works, and the operator requires "
                f"one (scripts.sandbox). {_explain(best)} With best_effort, scripts "
                "run and are not confined."
            )
        return best

    def wrap(
        self, command: PreparedCommand, grants: Grants, rules: Scripts
    ) -> PreparedCommand:
        """Return the command inside the sandbox, with its limits.  Blocking.

        The program is looked for in the PATH of the command's own environment.

        Args:
            command: The command without a sandbox and without limits.
            grants: What it may reach.
            rules: The operator's tier, limits and further readable paths.

        Raises:
            SandboxUnavailableError: The operator requires a sandbox that holds, and
                none works here; or its files cannot be written.
            RunnerNotFoundError: The program is not installed, or names an
                interpreter that is not.
        """
        search_path = command.environment.get("PATH", "")
        program = programs.require_program(command.words[0], search_path)
        if fault := programs.find_start_fault(program, search_path):
            raise RunnerNotFoundError(
                f"{command.words[0]!r} cannot be started: {fault}. The operator can "
                "repair it, or configure another program."
            )
        choice = self.choose(rules.sandbox)
        words = (str(program), *command.words[1:])
        if choice.name == "none":
            return replace(command, words=words, sandbox="none", limits=None)
        if choice.confines:
            own = programs.find_program_folders(program, search_path, self._home)
            named = (expand_home(path, self._home) for path in rules.readable)
            existing = (path.resolve() for path in named if path.exists())
            grants = replace(
                grants,
                readable=(*grants.readable, *own, *existing),
                home_bytes=rules.max_file_bytes,
            )
            with _refusing():
                words = (*self._tiers[choice.name](grants), *words)
            readable = (*grants.readable, *grants.writable)
            search_path = programs.keep_readable(search_path, readable)
        return replace(
            command,
            words=words,
            environment={**command.environment, "PATH": search_path},
            sandbox=choice.name,
            limits=_derive_limits(rules),
        )

    def _probe(self) -> Choice:
        missing: list[str] = []
        for name, tier in self._find_tiers():
            if name not in self._offered:
                continue
            fault = find_fault(tier) if tier else "it is not installed"
            if tier and not fault:
                self._tiers[name] = tier
                return Choice(name, tuple(missing))
            missing.append(f"{name}: {fault}")
        has_limits = importlib.util.find_spec("resource") is not None
        return Choice("limits" if has_limits else "none", tuple(missing))

    def _find_tiers(self) -> Iterator[tuple[SandboxName, Tier | None]]:
        if SANDBOX_EXEC.exists():  # then the kernel has nothing else
            yield "seatbelt", derive_seatbelt
            return
        bwrap = programs.find_program(BUBBLEWRAP, self._search_path)
        found = partial(prepare_bubblewrap, bwrap) if bwrap else None
        yield "bubblewrap", found
        # Only where a kernel has it is there a descriptor that does nothing but name.
        yield "landlock", derive_landlock if hasattr(os, "O_PATH") else None


def _explain(best: Choice) -> str:
    """Return why no tier holds here, and what to do about it."""
    faults = f"{'; '.join(best.missing)}. " if best.missing else ""
    if SANDBOX_EXEC.exists():
        return (
            f"{faults}No sandbox of macOS can be made inside of another one, such as "
            "that of an agent's host: start the server outside of it."
        )
    if os.name == "nt":
        return "Windows has none: run the server in WSL 2 or in a container."
    return f"{faults}Install bubblewrap 0.8 or newer, or use Linux 6.2 or newer."


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a run for which the files of the sandbox cannot be written."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailableError(
            f"The sandbox cannot be prepared: {error.strerror}. Run it in your own "
            "shell, or ask the operator to look at TMPDIR."
        ) from error


def _derive_limits(rules: Scripts) -> ProcessLimits:
    return ProcessLimits(
        memory_bytes=rules.max_memory_bytes,
        file_bytes=rules.max_file_bytes,
        processes=rules.max_processes,
    )


def expand_home(path: str, home: Path) -> Path:
    """Return a path that an operator has written, with `~` for the home.

    >>> str(expand_home("~/src", Path("/home/ada")))
    '/home/ada/src'
    """
    first, _, rest = path.partition("/")
    return home / rest if first == "~" else Path(path)


def find_fault(tier: Tier) -> str:
    """Return why a tier does not work on this machine, or "".  Blocking.

    The tier is run once.  It has to let a granted file be read and keep another one
    away: a program that is called bwrap and only starts its arguments does not pass.
    """
    with tempfile.TemporaryDirectory(prefix="skills-mcp-probe-") as name:
        folder = Path(name).resolve()
        for part in ("home", "open", "closed"):
            (folder / part).mkdir()
            (folder / part / "file").write_text("text\n")
        grants = Grants(home=folder / "home", readable=(folder / "open",))
        files = (str(folder / part / "file") for part in ("open", "closed"))
        try:
            words = (*tier(grants), "/bin/sh", "-c", _PROBE, "sh", *files)
        except NotImplementedError as missing:
            return str(missing)
        return _run_probe(words, folder / "open")


def _run_probe(words: tuple[str, ...], folder: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a sandbox around our own words
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin"},
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_MAX_FAULT_CHARACTERS]
    if done.returncode == 0 and done.stdout == b"held\n":
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    fault = lines[-1] if lines else "it does not restrict access to files"
    return fault[:_MAX_FAULT_CHARACTERS]
