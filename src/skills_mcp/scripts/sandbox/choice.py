"""Choice of the tier."""

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
    CONFINING_TIERS,
    Grants,
    PreparedCommand,
    ProcessLimits,
    SandboxName,
)
from skills_mcp.scripts.sandbox import programs
from skills_mcp.scripts.sandbox.seatbelt import SANDBOX_EXEC, derive_seatbelt_prefix
from skills_mcp.scripts.sandbox.tiers import (
    BUBBLEWRAP,
    derive_landlock_prefix,
    prepare_bubblewrap_prefix,
)

Tier = Callable[[Grants], tuple[str, ...]]

_PROBE_SECONDS = 20  # a hundred times what the slowest tier takes on a busy machine
_PROBE = 'read -r _ < "$1" && ! read -r _ < "$2" && echo held'
_MAX_FAULT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """Selected tier, with the faults of stronger ones."""

    name: SandboxName
    missing: tuple[str, ...] = ()
    refusal: str = ""
    """Reason for refusing every run: a required sandbox is missing. Else empty."""

    @property
    def confines(self) -> bool:
        return self.name in CONFINING_TIERS


class Sandbox:
    """Sandbox of this machine, probed once, with the first run.  Thread-safe."""

    def __init__(
        self,
        home: Path,
        search_path: str,
        offered: Sequence[SandboxName] = CONFINING_TIERS,
    ) -> None:
        self._home = home
        self._search_path = search_path
        self._offered = offered
        self._lock = Lock()
        self._best: Choice | None = None
        self._tiers: dict[SandboxName, Tier] = {}

    def choose(self, demand: SandboxDemand) -> Choice:
        """Tier of the runs.  Blocking, the first time.

        Raises:
            SandboxUnavailableError: `demand` is `required`, and no tier works here; or
            the
                files of a probe cannot be written.
        """
        if demand == "off":
            return Choice("none")
        with self._lock, _translate_file_errors():
            self._best = best = self._best or self._probe()
        if demand == "required" and not best.confines:
            raise SandboxUnavailableError(
                "This machine has no sandbox that works, and the operator requires "
                f"one (scripts.sandbox). {_explain_faults(best)} With best_effort, scripts "
                "run and are not confined."
            )
        return best

    def wrap(self, command: PreparedCommand, grants: Grants, rules: Scripts) -> PreparedCommand:
        """Add sandbox and limits to a command, resolved in its own PATH.  Blocking.

        Raises:
            SandboxUnavailableError: A required sandbox does not work here, or its files
                cannot be written.
            RunnerNotFoundError: The program or its interpreter is not installed.
        """
        search_path = command.environment.get("PATH", "")
        program = programs.require_executable(command.words[0], search_path)
        if fault := programs.find_shebang_fault(program, search_path):
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
            named = (expand_home_folder(path, self._home) for path in rules.readable)
            existing = (path.resolve() for path in named if path.exists())
            grants = replace(
                grants,
                readable=(*grants.readable, *own, *existing),
                home_bytes=rules.max_file_bytes,
            )
            with _translate_file_errors():
                words = (*self._tiers[choice.name](grants), *words)
            readable = (*grants.readable, *grants.writable)
            search_path = programs.filter_search_path(search_path, readable)
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
            fault = probe_tier(tier) if tier else "it is not installed"
            if tier and not fault:
                self._tiers[name] = tier
                return Choice(name, tuple(missing))
            missing.append(f"{name}: {fault}")
        has_limits = importlib.util.find_spec("resource") is not None
        return Choice("limits" if has_limits else "none", tuple(missing))

    def _find_tiers(self) -> Iterator[tuple[SandboxName, Tier | None]]:
        if SANDBOX_EXEC.exists():  # then the kernel has nothing else
            yield "seatbelt", derive_seatbelt_prefix
            return
        bwrap = programs.find_executable(BUBBLEWRAP, self._search_path)
        found = partial(prepare_bubblewrap_prefix, bwrap) if bwrap else None
        yield "bubblewrap", found
        # Only where a kernel has it is there a descriptor that does nothing but name.
        yield "landlock", derive_landlock_prefix if hasattr(os, "O_PATH") else None


def _explain_faults(best: Choice) -> str:
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
def _translate_file_errors() -> Iterator[None]:
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


def expand_home_folder(path: str, home: Path) -> Path:
    """Expand `~` in an operator's path.

    >>> str(expand_home_folder("~/src", Path("/home/ada")))
    '/home/ada/src'
    """
    first, _, rest = path.partition("/")
    return home / rest if first == "~" else Path(path)


def probe_tier(tier: Tier) -> str:
    """Probe a tier by running it once; the fault, or "".  Blocking.

    It must allow a granted file and deny another: a program called bwrap and merely
    starting its arguments does not pass.
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
