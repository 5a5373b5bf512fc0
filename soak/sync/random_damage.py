"""Random damage to every file of the cache, as a failing disk or a program deals it.

Promise 10. A cache holds the store of Git, the files of the commit, the index and what
is known of them; each of them is damaged, one at a time.
"""

import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from skills_mcp.config import Layer, Settings
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Mount
from skills_mcp.errors import SkillsError
from skills_mcp.files.durable import delete_tree
from skills_mcp.snapshots.current import CurrentSnapshot
from soak.scenario import Figure, Scale, Scenario
from soak.sync.mirror import Mirror
from tests.packages import package_text
from tests.support import served_by, skill_text

_TASK = "fill the form of part three"
_SKILLS = 12
_MOST_FLIPPED = 50
_SETTINGS = Settings((Layer("soak", {"toolsets": ["core", "packages"]}),))

Harm = Callable[[Path, random.Random], None]
Answers = tuple[object, ...]


@dataclass
class _Machine:
    """A cache, and the answers of a server that has nothing wrong with it."""

    mirror: Mirror
    chance: random.Random
    expected: Answers = ()
    crashes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    wedged: list[str] = field(default_factory=list)

    def files(self, part: str) -> list[Path]:
        """Return the files of one part of the cache."""
        cache = self.mirror.cache
        index = [path for path in (cache / "index").rglob("*") if path.is_file()]
        if part == "index":
            return index
        every = (path for path in cache.rglob("*") if path.is_file())
        return [path for path in every if path not in index]

    def suffer(self, part: str) -> None:
        """Damage one file, start a server, and see how it gets on."""
        file = self.chance.choice(sorted(self.files(part)))
        harm = self.chance.choice(_HARMS)
        name = f"{harm.__name__} {file.relative_to(self.mirror.cache)}"
        harm(file, self.chance)
        try:
            if part == "index":
                self._compare(name, _answer(self.opened()))
            else:
                self._heal(name)
        except Exception as error:  # noqa: BLE001 - that none escapes is what is tried
            self.crashes.append(f"{name}: {error!r}")

    def _heal(self, name: str) -> None:
        """Open the cache, sync, and compare what is served afterwards."""
        with suppress(SkillsError):  # it says so, and waits for the sync
            _answer(self.opened())
        try:
            self._check()
            self._compare(name, _answer(self.opened()))
        except SkillsError as error:
            self.wedged.append(f"{name}: {error}")
            for path in self.mirror.cache.iterdir():
                delete_tree(path)
            self.mirror.sync()

    def _compare(self, name: str, answers: Answers) -> None:
        if answers != self.expected:
            self.wrong.append(name)

    def opened(self) -> CurrentSnapshot:
        """Return a new server that has opened the cache, without any network."""
        mounts = Mounts((Mount(source=self.mirror.open()),))
        current = CurrentSnapshot(mounts, _SETTINGS, self.mirror.cache / "index")
        if content := mounts.open_published():
            current.load(content)
        return current

    def _check(self) -> None:
        """Sync, and compare the content of the files, as servers do once a day."""
        source = self.mirror.open()
        self.mirror.sync()
        for checked in self.mirror.cache.glob("*/snap/*.checked"):
            os.utime(checked, (0, 0))
        source.check()


def _answer(current: CurrentSnapshot) -> Answers:
    """Return what a server answers: every skill, and the best ones for a task."""
    snapshot = served_by(current)
    skills = tuple((s.path, s.description, s.body) for s in snapshot.index.offered)
    found = snapshot.matcher.score(_TASK)
    return skills, tuple((each.skill.path, float(each.score)) for each in found)


def flip(file: Path, chance: random.Random) -> None:
    """Change single bits."""
    data = bytearray(file.read_bytes())
    for _ in range(chance.randint(1, _MOST_FLIPPED) if data else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    _put(file, bytes(data))


def rot(file: Path, chance: random.Random) -> None:
    """Change single bits, and let nothing show it."""
    found = file.stat()
    flip(file, chance)
    os.utime(file, ns=(found.st_mtime_ns, found.st_mtime_ns))


def cut(file: Path, chance: random.Random) -> None:
    """Cut the end off."""
    data = file.read_bytes()
    _put(file, data[: chance.randrange(len(data)) if data else 0])


def lengthen(file: Path, chance: random.Random) -> None:
    """Append garbage."""
    _put(file, file.read_bytes() + chance.randbytes(chance.randint(1, 9_000)))


def fill(file: Path, chance: random.Random) -> None:
    """Write garbage of the same length."""
    _put(file, chance.randbytes(file.stat().st_size))


def blank(file: Path, _: random.Random) -> None:
    """Write zeros, as a power cut leaves them."""
    _put(file, bytes(file.stat().st_size))


def remove(file: Path, _: random.Random) -> None:
    """Delete it."""
    file.unlink()


_HARMS: tuple[Harm, ...] = (flip, flip, rot, cut, lengthen, fill, blank, remove)


def _put(file: Path, data: bytes) -> None:
    """Write a file in place, as a program that owns it can."""
    mode = stat.S_IMODE(file.stat().st_mode)
    file.chmod(mode | stat.S_IWUSR)
    file.write_bytes(data)
    file.chmod(mode)


def survive_random_damage(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Damage files of the index and of all the rest, and start a server each time."""
    times = {
        "index": scale.count(full=1_000, quick=15),
        "store": scale.count(full=200, quick=4),
    }
    yield from survive(folder, times)


def survive(folder: Path, times: dict[str, int], seed: int = 19) -> Iterator[Figure]:
    """Deal so many blows to each part of a cache."""
    machine = _Machine(Mirror.create(folder), random.Random(seed))  # noqa: S311 - a test
    machine.mirror.upstream.commit(_files())
    machine.mirror.remember(machine.mirror.newest)
    machine.mirror.sync()
    machine.expected = _answer(machine.opened())
    for part, count in times.items():
        for _ in range(count):
            machine.suffer(part)
    total = sum(times.values())
    for what, names in (
        ("crashes", machine.crashes),
        ("wrong answers", machine.wrong),
        ("caches that did not heal", machine.wedged),
    ):
        named = f": {'; '.join(names[:3])}" if names else ""
        yield Figure.none(10, f"random damage, {what}{named}", len(names), total)


def _files() -> dict[str, str]:
    rules = {
        f"skills/area-{n % 3}/part-{n}.md": skill_text(
            keywords=[f"part{n}", "form"], body=f"Rule {n}. " * 40
        )
        for n in range(_SKILLS)
    }
    packages = {
        f"packages/p-{n}/SKILL.md": package_text(name=f"p-{n}", body=f"Fill form {n}.")
        for n in range(_SKILLS)
    }
    return {**rules, **packages}


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("random-damage", survive_random_damage),)
