"""Hostile scripts in every tier of the sandbox, observed from outside.

Each attempt is first made without the product: where it fails even then, it proves
nothing here, and is left out.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio

from skills_mcp.errors import SandboxUnavailableError
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.scripts.execution import SandboxName
from skills_mcp.scripts.policy import ScriptRequest
from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.scripts.attempts import ATTEMPTS, SECRET, Attempt, Stage
from tests.support import open_library, write, write_skill

TIERS: dict[str, tuple[SandboxName, ...]] = {
    "bubblewrap": ("bubblewrap",),
    "landlock": ("landlock",),
    "seatbelt": ("seatbelt",),
    "limits": (),
}
"""The tiers to offer so that this one is the strongest."""

_SYSTEMS = {"bubblewrap": "linux", "landlock": "linux", "seatbelt": "darwin"}
"""The only system that has a tier."""

OF_MACOS = frozenset({"live-on", "kill-supervisor", "memory"})
"""The attempts that may work in every tier of macOS: it has no means against them."""

ESCAPES: dict[str, frozenset[str]] = {
    "bubblewrap": frozenset(),
    "landlock": frozenset(
        {"chmod-skill", "chmod-key", "touch-key", "command-lines", "many-large-files"}
    ),
    "seatbelt": frozenset({"many-large-files"}) | OF_MACOS,
    "limits": frozenset(
        {
            *("environment-of-others", "command-lines", "ssh-key", "cache-of-others"),
            *("root-of-itself", "root-of-the-first", "root-of-others", "loader"),
            *("link-out-of-cwd", "shared-temporary-folder", "shadow"),
            *("shared-memory", "limit"),
            *("write-skill", "change-skill", "chmod-skill", "write-cwd"),
            *("link-of-skill", "socket-in-cwd", "socket-in-skill", "datagram-in-cwd"),
            *("name-with-nul", "vsock", "io-uring", "data-volume", "launchd"),
            *("write-elsewhere", "write-bashrc", "truncate-elsewhere"),
            *("tcp", "udp", "socket-with-path", "datagram-with-path"),
            *("abstract-socket", "kill", "trace", "output-of-others", "terminal"),
            *("kill-supervisor", "mount", "make-device", "user-namespace"),
            *("session-key", "many-large-files"),
            *("chmod-key", "touch-key", "attribute-of-key", "watch-home"),
            *("affinity", "priority", "scheduler", "descriptor"),
        }
    ),
}
"""Attempts that are known to work in each tier; see docs/explanation/security-of-scripts.md."""

OF_ROOT = frozenset({"many-processes"})
"""The attempts that work in every tier if the server runs as root."""

_FEWEST = 22
_MOST_OF_LANDLOCK = 5
_AT_ONCE = 4  # as many as one server runs
_CONTROL_SECONDS = 60
_SECRETS = ("GITHUB_TOKEN", "SSH_AUTH_SOCK", *(f"KEY_{n}" for n in range(18)))
_PRELUDE = "import os\na = lambda n: os.environ['SKILL_ARG_' + n.upper()]\n"
_ARGUMENTS = ("path", "port", "pid", "mark")


def break_out(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Run every attempt in every tier."""
    if sys.platform not in {"linux", "darwin"}:
        raise Unavailable("there are sandboxes on Linux and macOS only")
    possible = [each for each in ATTEMPTS if each.is_possible]
    proving = [each for each in possible if _works_outside(each, folder / "outside")]
    for tier in _tiers() if scale.is_full else set(_tiers()) & set(_SYSTEMS):
        yield from _try_tier(tier, proving, folder / tier)
    what = "attempts that succeed without any sandbox"
    enough = len(proving) >= _FEWEST
    yield Figure(35, what, str(len(proving)), f"at least {_FEWEST}", enough)


def see_no_secret(folder: Path, _: Scale) -> Iterator[Figure]:
    """Print the environment of a script; the server has twenty secrets in its own."""
    printing = [each for each in ATTEMPTS if each.name == "environment"]
    for tier in (*_tiers(), "none"):
        runs = _Runs(tier, printing, folder / tier)
        printed = anyio.run(runs.print_environment)
        seen = sum(f"{name}-{SECRET}" in printed for name in _SECRETS)
        yield Figure.none(38, f"{tier}: planted secrets seen", seen, len(_SECRETS))
        is_run = "SKILL_DIR" in printed
        yield Figure.every(38, f"{tier}: environments printed", int(is_run), 1)


def refuse_without(folder: Path, _: Scale) -> Iterator[Figure]:
    """Require a sandbox on a machine that has none."""
    runs = _Runs("limits", ATTEMPTS, folder / "limits", demand="required")
    ran = len(anyio.run(runs.find_started))
    yield Figure.none(35, "scripts run without the required one", ran, len(ATTEMPTS))


def compose_table() -> str:
    """Return the known attempts, as the table of docs/explanation/security-of-scripts.md."""
    head = f"| | What a script tries | {' | '.join(f'`{tier}`' for tier in TIERS)} |"
    rows = [head, f"| --- | --- |{' --- |' * len(TIERS)}"]
    group = ""
    for each in ATTEMPTS:
        shown = each.group if each.group != group else ""
        group = each.group
        cells = [_describe(each, tier) for tier in TIERS]
        rows.append(f"| {shown} | {each.what} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _describe(each: Attempt, tier: str) -> str:
    if {each.system, _SYSTEMS.get(tier)} == {"linux", "darwin"}:
        return ""
    return "**works**" if each.name in ESCAPES[tier] else "fails"


def _tiers() -> list[str]:
    """Return the tiers that this system can have."""
    return [tier for tier in TIERS if _SYSTEMS.get(tier) in {None, sys.platform}]


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("escapes", break_out),
    ("environment", see_no_secret),
    ("required", refuse_without),
)


def _try_tier(tier: str, proving: list[Attempt], folder: Path) -> Iterator[Figure]:
    runs = _Runs(tier, proving, folder)
    if runs.has != tier:
        raise Unavailable(f"{tier} does not work here; {runs.has} does")
    escaped = anyio.run(runs.find_escaped)
    may_work = OF_MACOS if sys.platform == "darwin" else frozenset()
    known = ESCAPES[tier] | may_work | (OF_ROOT if os.geteuid() == 0 else set())
    new = sorted(escaped - known)
    named = f" ({', '.join(new)})" if new else ""
    what = f"{tier}: escapes that are not documented{named}"
    yield Figure.none(35, what, len(new), len(proving))
    held = sorted({each.name for each in proving} & known - may_work - escaped)
    named = f" ({', '.join(held)})" if held else ""
    what = f"{tier}: documented escapes that are none{named}"
    yield Figure.none(35, what, len(held), len(proving))
    if tier == "landlock":
        what = "landlock: escapes of an ordinary user"
        count = len(escaped - OF_ROOT)
        yield Figure.at_most(35, what, count, _MOST_OF_LANDLOCK)


class _Runs:
    """Runs attempts as an agent would, in a home and with an environment of secrets."""

    def __init__(
        self,
        tier: str,
        attempts: list[Attempt],
        folder: Path,
        demand: str = "best_effort",
    ) -> None:
        self._attempts = attempts
        self._folder = folder
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        (folder / "projects").mkdir()
        for each in attempts:
            _write_attempt(folder / "content", each)
        self._library = self._open(tier, "off" if tier == "none" else demand)

    @property
    def has(self) -> str:
        """The tier that the scripts get."""
        choice = self._library.runs.choose_sandbox(self._library.config.scripts)
        return choice.name if choice else "none"

    async def find_escaped(self) -> set[str]:
        """Return the names of the attempts that worked."""
        escaped: set[str] = set()
        turns = anyio.Semaphore(_AT_ONCE)

        async def run(each: Attempt) -> None:
            async with turns:
                with each.watch(self._stage(each)) as (args, has_worked):
                    printed = await self._run(each, args)
                    if await anyio.to_thread.run_sync(has_worked, printed):
                        escaped.add(each.name)

        async with anyio.create_task_group() as tasks:
            for each in self._attempts:
                tasks.start_soon(run, each)
        return escaped

    async def find_started(self) -> list[str]:
        """Return the names of the attempts that were run."""
        started = []
        for each in self._attempts:
            try:
                await self._run(each, {})
            except SandboxUnavailableError:
                continue
            started.append(each.name)
        return started

    async def print_environment(self) -> str:
        """Return what the first attempt prints."""
        return await self._run(self._attempts[0], {})

    async def _run(self, each: Attempt, args: Mapping[str, str]) -> str:
        request = ScriptRequest(
            skill_path=each.name,
            file="scripts/try.py",
            args=args,
            cwd=str(_mkdir(self._folder / "projects" / each.name)),
        )
        result = (await self._library.view().run(request)).result
        return result.stdout

    def _stage(self, each: Attempt) -> Stage:
        return Stage(
            folder=_mkdir(self._folder / "stages" / each.name),
            home=self._home,
            skill=self._folder / "content" / each.name,
            project=_mkdir(self._folder / "projects" / each.name),
        )

    def _open(self, tier: str, demand: str) -> SkillLibrary:
        python = f"{sys.executable} -I -S"
        scripts = {
            "sandbox": demand,
            "roots": [str(self._folder / "projects")],
            "runners": {".py": python},
            "timeout_seconds": 20,
        }
        secrets = {name: f"{name}-{SECRET}" for name in _SECRETS}
        return open_library(
            self._folder / "content",
            settings={"scripts": scripts},
            environment={**os.environ, **secrets, "HOME": str(self._home)},
            offered=TIERS.get(tier, ()),
        )


def _write_attempt(content: Path, each: Attempt) -> None:
    declared = {
        "file": "scripts/try.py",
        "description": each.what,
        "execution": "server",
        "args": [{"name": name, "required": False} for name in _ARGUMENTS],
    }
    write_skill(content, f"{each.name}.md", scripts=[declared])
    scripts = content / each.name / "scripts"
    write(scripts / "try.py", f"{_PRELUDE}{each.script}\n")
    write(scripts / "neighbour.py", "")
    write(scripts / "linked.py", "")


def _works_outside(each: Attempt, folder: Path) -> bool:
    """Run the attempt without the product, with all rights."""
    content = folder / "content"
    _write_attempt(content, each)
    stage = Stage(
        folder=_mkdir(folder / "stages" / each.name),
        home=_mkdir(folder / "home"),
        skill=content / each.name,
        project=_mkdir(folder / "projects" / each.name),
    )
    own = _mkdir(folder / "homes" / each.name)
    script = stage.skill / "scripts/try.py"
    with each.watch(stage) as (args, has_worked):
        given = {f"SKILL_ARG_{name.upper()}": value for name, value in args.items()}
        secrets = {"TOKEN": SECRET, "HOME": str(own)}
        with (stage.folder / "printed").open("w+") as printed:
            subprocess.run(
                # The first process that it kills is this shell.
                ["/bin/sh", "-c", '"$@"; :', "sh", sys.executable, "-I", script],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **secrets, **given},
                close_fds=False,
                start_new_session=True,
                timeout=_CONTROL_SECONDS,
                check=False,
            )
            printed.seek(0)
            return has_worked(printed.read())


def _mkdir(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
