"""Links that another process puts in place while we open, list and read: promise 30."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.config import Limits
from skills_mcp.errors import FileError
from skills_mcp.files.opening import OPENERS, Opener, has_openat2, open_inside
from skills_mcp.skills.skill_discovery import Package, RootWalk
from skills_mcp.skills.skill_files import read_skill_file
from skills_mcp.skills.source_layout import FolderTree, RelativeRoot
from soak.input.swapper import swapping
from soak.scenario import Figure, Scale, Scenario
from tests.skills.contents import load_skills
from tests.support import write

_INSIDE, _OUTSIDE = b"inside ", b"CANARY "  # of one length, so that no size tells
_PACKAGE = "---\nname: pdf\ndescription: What it does\n---\nText.\n"
_MAX_TRIES = 400_000
"""The least share of leaks in the control, which checks first and opens then."""


@dataclass(frozen=True, slots=True)
class _Arrangement:
    """A skill, a secret beside its folder, and the links that are swapped in."""

    root: Path
    pairs: tuple[tuple[Path, Path], ...]

    @classmethod
    def create(cls, folder: Path) -> "_Arrangement":
        """Make a file, a folder and a whole skill that each have a link for a twin."""
        root, outside = folder / "content", folder / "outside"
        write(root / "pdf/SKILL.md", _PACKAGE)
        for file in ("x.txt", "inner/x.txt"):
            write(root / "pdf" / file, _INSIDE)
            write(outside / file, _OUTSIDE)
        write(outside / "SKILL.md", _PACKAGE)
        write(outside / "canary.txt", _OUTSIDE)
        write(outside / "inner/canary.txt", _OUTSIDE)
        aside = root / ".aside"  # on the same disk, and no skill
        aside.mkdir()
        links = {"file": "x.txt", "inner": "inner", "skill": "."}
        for name, target in links.items():
            (aside / name).symlink_to(outside / target)
        skill = root / "pdf"
        pairs = (
            (skill / "x.txt", aside / "file"),
            (skill / "inner", aside / "inner"),
            (skill, aside / "skill"),
        )
        return cls(root, pairs)


def follow_no_swapped_link(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Open, read and list while a file, a folder and the skill itself are swapped."""
    count = scale.count(full=100_000, quick=1_000)
    openers = {n: each for n, each in OPENERS.items() if n != "openat2" or has_openat2()}
    for name, opener in openers.items():
        at = _Arrangement.create(folder / name)
        with swapping(*at.pairs[:2]):
            tally = Counter(_open(at.root / "pdf", n, opener) for n in range(count))
        yield from _judge(f"{name}: opens", tally)
    yield from _read_whole_skill(folder / "skill", count)
    yield from _list(folder / "list", scale.count(full=20_000, quick=200))
    yield _fool_the_naive(folder / "naive")


def _open(skill: Path, number: int, opener: Opener) -> str:
    """Return the outcome of opening the file, or the file in the folder."""
    parts = ("inner", "x.txt") if number % 2 else ("x.txt",)
    try:
        with open_inside(skill, parts, opener) as handle:
            return _name(handle.read())
    except FileError:
        return "refused"


def _read_whole_skill(folder: Path, count: int) -> Iterator[Figure]:
    """Read files of a skill while its own folder is swapped for another."""
    at = _Arrangement.create(folder)
    [skill] = load_skills(at.root).skills

    def read(number: int) -> str:
        file = "inner/x.txt" if number % 2 else "x.txt"
        try:
            return _name(read_skill_file(skill, file, max_bytes=99).data)
        except FileError:
            return "refused"

    with swapping(at.pairs[2]):
        yield from _judge("reads of a skill", Counter(map(read, range(count))))


def _list(folder: Path, count: int) -> Iterator[Figure]:
    """Look for skills and their files while folders are swapped."""
    # Not at once: one swapped within the other would carry the secret inside.
    for what, number in {"inner folder": 1, "skill": 2}.items():
        at = _Arrangement.create(folder / what)
        with swapping(at.pairs[number]):
            tally = Counter(_walk(at.root) for _ in range(count))
        yield from _judge(f"walks, the {what} swapped", tally)


def _walk(root: Path) -> str:
    walk = RootWalk(FolderTree(root), RelativeRoot(""), Limits(max_files=100))
    packages = [found for found in walk.run() if isinstance(found, Package)]
    if any("canary.txt" in file for package in packages for file in package.files):
        return "leaked"
    whole = {"inner/x.txt", "x.txt"}
    is_whole = any(package.files.keys() == whole for package in packages)
    return "opened" if is_whole else "refused"


def _judge(what: str, tally: Counter[str]) -> Iterator[Figure]:
    yield Figure.none(30, f"{what} that led outside", tally["leaked"], tally.total())
    opened, refused = tally["opened"], tally["refused"]
    reached = f"{opened:,} went well, {refused:,} refused"
    yield Figure(30, f"{what}, as a control", reached, "some of both", opened > 0 < refused)


def _fool_the_naive(folder: Path) -> Figure:
    """Show that the same swaps fool a reader that checks first and opens then."""
    at = _Arrangement.create(folder)
    skill = at.root.resolve() / "pdf"
    tries = leaks = 0
    with swapping(*at.pairs[:2]):
        while tries < _MAX_TRIES and not leaks:
            for path in (skill / "x.txt", skill / "inner/x.txt"):
                tries += 1
                leaks += _name(_look_then_open(skill, path)) == "leaked"
    reached = f"{leaks:,} of {tries:,}"
    return Figure(
        30, "a look before the open, as a control: led outside", reached, "some",
        leaks > 0,
    )  # fmt: skip


def _look_then_open(skill: Path, path: Path) -> bytes:
    try:
        is_inside = path.resolve().is_relative_to(skill)
        return path.read_bytes() if is_inside else b""
    except OSError:  # it was swapped while it was looked at
        return b""


def _name(data: bytes) -> str:
    return {_INSIDE: "opened", _OUTSIDE: "leaked"}.get(data, "refused")


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("swapped-links", follow_no_swapped_link),)
