"""Which tier holds a run: the strongest that works here and the operator wants."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

from skills_mcp.config import Scripts
from skills_mcp.config.values import SandboxDemand
from skills_mcp.errors import RunnerNotFoundError, SandboxUnavailableError
from skills_mcp.scripts.execution import PreparedCommand, ProcessLimits, SandboxName
from skills_mcp.scripts.sandbox import bubblewrap, landlock, programs
from skills_mcp.scripts.sandbox.first_line import find_fault as find_start_fault
from skills_mcp.scripts.sandbox.grants import Grants, expand
from skills_mcp.scripts.sandbox.probe import find_fault

Tier = Callable[[Grants], tuple[str, ...]]
"""Returns what stands before the words of a command."""

HOLDING: tuple[SandboxName, ...] = ("bubblewrap", "landlock")
"""The tiers that keep a run away from what it was not granted."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tier a run would get, and why it is no stronger one."""

    name: SandboxName
    missing: tuple[str, ...] = ()
    """What is wrong with each stronger tier, in a few words each."""


class Sandbox:
    """The sandbox of this machine, probed once, with the first run.  Thread-safe."""

    def __init__(
        self,
        home: Path,
        search_path: str,
        offered: Sequence[SandboxName] = HOLDING,
    ) -> None:
        """Take what is needed to look for the tiers.

        Args:
            home: Of the user; never opened as a whole.
            search_path: Where `bwrap` may lie, as in PATH.
            offered: The tiers to look for.
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
            SandboxUnavailableError: `demand` is `required`, and none works here; or
                there is no room to try.
        """
        if demand == "off":
            return Choice("none")
        with self._lock, _said():
            self._best = best = self._best or self._probe()
        if demand == "required" and best.name not in HOLDING:
            raise SandboxUnavailableError(
                "This machine has no sandbox, and the operator requires one "
                f"(scripts.sandbox). {'; '.join(best.missing)}. Install bubblewrap "
                "0.8 or newer, or use Linux 6.2 or newer; best_effort runs without."
            )
        return best

    def wrap(
        self, command: PreparedCommand, grants: Grants, rules: Scripts
    ) -> PreparedCommand:
        """Return the command inside the sandbox, with its limits.  Blocking.

        The program is looked for in the PATH of the command's own environment.

        Args:
            command: As it would run without; neither `sandbox` nor `limits` counts.
            grants: What it may reach.
            rules: The operator's: which tier, which limits, what else is readable.

        Raises:
            SandboxUnavailableError: The operator requires one, and none works here.
            RunnerNotFoundError: The program is not installed, or names an
                interpreter that is not.
        """
        search_path = command.environment.get("PATH", "")
        program = programs.require_program(command.words[0], search_path)
        if fault := find_start_fault(program, search_path):
            raise RunnerNotFoundError(
                f"{command.words[0]!r} cannot be started: {fault}. The operator can "
                "repair it, or configure another program."
            )
        choice = self.choose(rules.sandbox)
        words = (str(program), *command.words[1:])
        if choice.name == "none":
            return replace(command, words=words, sandbox="none", limits=None)
        if choice.name in HOLDING:
            around = programs.find_folders(program, search_path, self._home)
            named = (expand(path, self._home) for path in rules.readable)
            more = (path.resolve() for path in named if path.exists())
            widened = replace(
                grants,
                readable=(*grants.readable, *around, *more),
                home_bytes=rules.max_file_bytes,
            )
            with _said():
                words = (*self._tiers[choice.name](widened), *words)
            opened = (*widened.readable, *widened.writable)
            search_path = programs.keep_open(search_path, opened)
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
        bwrap = programs.find_program(bubblewrap.PROGRAM, self._search_path)
        found = partial(bubblewrap.prepare_words, bwrap) if bwrap else None
        yield "bubblewrap", found
        # Only where a kernel has it is there a descriptor that does nothing but name.
        yield "landlock", landlock.derive_words if hasattr(os, "O_PATH") else None


@contextmanager
def _said() -> Iterator[None]:
    """Say that a file of the sandbox cannot be written; it is no reason for less."""
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
