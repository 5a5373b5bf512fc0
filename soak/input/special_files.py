"""Pipes, devices, endless and locked files among the skills: promise 31."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from skills_mcp.errors import FileError
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_files import (
    LineRange,
    copy_skill_files,
    find_skill_files,
    read_head,
    read_line_range,
    read_skill_file,
)
from soak.bounded import measure
from soak.scenario import Figure, Scale, Scenario
from tests.skills.contents import load_skills
from tests.support import skill_text, write

_MAX_GROWN_MB = 5
_PLAIN = "plain"
_PACKAGE = "---\nname: x\ndescription: D\n---\nText.\n"
_TEN_GB = 10 * 1024**3


def survive_special_files(folder: Path, _: Scale) -> Iterator[Figure]:
    """Put each kind of file in every place where a skill has files, then read all."""
    kinds = [_PLAIN, *_KINDS]
    if not _has_devices(folder):
        kinds.remove("device")
    for kind in kinds:
        _write_content(folder / kind, kind)
    costs = measure("soak.input.special_files", folder, kinds)
    silent = [kind for kind in kinds if kind not in costs]
    yield Figure.none(31, f"special files that hang{_name(silent)}", len(silent), len(kinds))
    faults = [f"{cost.name}: {cost.fault}" for cost in costs.values() if cost.fault]
    yield Figure.none(31, f"special files that do harm{_name(faults)}", len(faults), len(kinds))
    worst = max(costs.values(), key=lambda cost: cost.grown_bytes)
    grown = round(worst.grown_bytes / 1024**2, 1)
    what = f"MB of memory for the worst special file ({worst.name})"
    yield Figure.at_most(31, what, grown, _MAX_GROWN_MB)
    floor = costs[_PLAIN].cpu_seconds
    slowest = max(costs.values(), key=lambda cost: cost.cpu_seconds)
    what = f"processor time of the slowest, in that of plain files ({slowest.name})"
    yield Figure.at_most(31, what, round(slowest.cpu_seconds / floor, 1), _MAX_RATIO)


_MAX_RATIO = 10
"""A tree of plain files takes milliseconds; beyond this it hangs."""


def try_one(folder: Path, kind: str) -> str:
    """Load the skills beside such files, and read, search and copy all of them."""
    root = folder / kind / "content"
    loaded = load_skills(root)
    skills = {skill.path: skill for skill in loaded.skills}
    for skill in skills.values():
        for file in ("odd", *skill.files):
            for read in _READERS:
                with suppress(FileError):
                    read(skill, file)
        target = folder / kind / "copy" / skill.path
        target.mkdir(parents=True, exist_ok=True)
        with suppress(FileError):
            copy_skill_files(skill, target)
    return "" if "good" in skills else "another skill is not served"


def _read_some_lines(skill: Skill, file: str) -> object:
    wanted = LineRange(1, 10)
    return read_line_range(skill, file, wanted, max_bytes=9_999, max_file_bytes=999_999)


def _search(skill: Skill, _: str) -> object:
    return list(find_skill_files(skill, pattern="**", contains="needle", max_file_bytes=999_999))


_READERS: tuple[Callable[[Skill, str], object], ...] = (
    partial(read_skill_file, max_bytes=999_999),
    partial(read_head, max_bytes=99_999),
    _read_some_lines,
    _search,
)


def _write_content(folder: Path, kind: str) -> None:
    """Put such a file beside rules, among their files, and into a package."""
    root = folder / "content"
    write(root / "good.md", skill_text())
    write(root / "rules.md", skill_text(assets=[{"file": "odd", "description": "D"}]))
    write(root / "rules/other", "other")
    write(root / "package/SKILL.md", _PACKAGE)
    (root / "main").mkdir()
    for place in ("odd.md", "rules/odd", "package/odd", "main/SKILL.md"):
        path = root / place
        _KINDS.get(kind, _make_plain)(path)


def _make_plain(path: Path) -> None:
    write(path, skill_text())


def _make_socket(path: Path) -> None:
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as end:
        os.chdir(path.parent)  # the name of a socket may not be long
        try:
            end.bind(path.name)  # the name stays without a listener
        finally:
            os.chdir(here)


def _make_device(path: Path) -> None:
    os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(1, 5))  # what /dev/zero is


def _has_devices(folder: Path) -> bool:
    """Whether one can be made: only root may, and not in every container."""
    try:
        _make_device(folder / "zero")
        with (folder / "zero").open("rb") as device:
            return device.read(1) == b"\0"
    except OSError:
        return False


def _make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(_TEN_GB)


def _make_locked(path: Path) -> None:
    write(path, "locked").chmod(0)


def _make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def _link_to(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.symlink_to(target)

    return make


def _make_folder(path: Path) -> None:
    path.mkdir()


_KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": _make_socket,
    "device": _make_device,
    "link to a device": _link_to("/dev/zero"),
    "link to memory": _link_to("/proc/self/mem"),
    "link to a terminal": _link_to("/dev/tty"),
    "link to the root": _link_to("/"),
    "link to itself": _make_loop,
    "sparse": _make_sparse,
    "locked": _make_locked,
    "folder": _make_folder,
}


def _name(found: list[str]) -> str:
    return f" ({'; '.join(found[:3])})" if found else ""


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("special-files", survive_special_files),)
