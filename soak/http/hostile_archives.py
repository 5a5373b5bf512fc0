"""Archives that nobody packs by mistake: names that lead out, links, bombs, damage."""

import gzip
import io
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hypothesis import strategies as st

Kind = Literal["file", "folder", "link", "hard link", "pipe", "device"]

_SKILL = b"---\nname: kit\ndescription: A kit for tests\n---\n\nRules.\n"
_BOMB_BYTES = 80 << 20
_MANY = 300  # each is synced to the disk

_TYPES = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "pipe": tarfile.FIFOTYPE,
    "device": tarfile.BLKTYPE,
}
_MODES = {
    "file": stat.S_IFREG | 0o644,
    "folder": stat.S_IFDIR | 0o755,
    "link": stat.S_IFLNK | 0o777,
    "hard link": stat.S_IFREG | 0o644,
    "pipe": stat.S_IFIFO | 0o644,
    "device": stat.S_IFBLK | 0o644,
}


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """An entry of an archive."""

    name: str
    data: bytes = b""
    kind: Kind = "file"
    target: str = ""


def archives(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, bytes]]:
    """Return archives of both kinds, with the ends of their names.

    Args:
        names: Hostile names of entries and targets of links.
    """
    drawn = _drawn(names)
    bombs = st.sampled_from(_BOMBS).map(_make)
    # A bomb keeps the server busy for longer than a hundred others.
    rarely = st.integers(0, 39).flatmap(lambda n: drawn if n else bombs)
    return st.one_of(rarely, _damaged(drawn))


def _drawn(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, bytes]]:
    inner = st.one_of(names, names.map(lambda name: f"kit/{name}"))
    odd = st.builds(
        ArchiveEntry,
        inner,
        st.binary(max_size=20),
        st.sampled_from(sorted(_TYPES)),
        names,
    )
    skill = st.builds(
        ArchiveEntry,
        st.one_of(
            st.just("kit/SKILL.md"),
            st.just("SKILL.md"),
            names.map(lambda name: f"{name}/SKILL.md"),
        ),
        st.one_of(st.just(_SKILL), _skill_texts(names)),
    )
    entries = st.tuples(st.lists(skill, max_size=2), st.lists(odd, max_size=4)).map(
        lambda pair: [*pair[0], *pair[1]]
    )
    pack = st.sampled_from([("zip", pack_zip), ("tar.gz", pack_tar)])
    return st.builds(lambda how, given: (how[0], how[1](given)), pack, entries)


def _skill_texts(names: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    quoted = names.map(lambda name: f"---\nname: {name!r}\ndescription: D\n---\nX\n")
    return quoted.map(lambda text: text.encode("utf-8", "replace"))


def _damaged(
    whole: st.SearchStrategy[tuple[str, bytes]],
) -> st.SearchStrategy[tuple[str, bytes]]:
    def damage(
        made: tuple[str, bytes], place: int, byte: int, cut: int | None
    ) -> tuple[str, bytes]:
        suffix, data = made[0], bytearray(made[1])
        if data:
            data[place % len(data)] = byte
        return suffix, bytes(data[:cut] if cut else data)

    places = st.one_of(st.integers(0, 400), st.integers(-120, -1))
    cuts = st.one_of(st.none(), st.integers(1, 400), st.integers(-200, -1))
    return st.builds(damage, whole, places, st.integers(0, 255), cuts)


def pack_zip(entries: Sequence[ArchiveEntry]) -> bytes:
    """Return a .zip with these entries."""
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w") as packed:
        warnings.simplefilter("ignore", UserWarning)  # of names that repeat
        for each in entries:
            about = zipfile.ZipInfo("x")
            about.filename = _encodable(each.name)
            about.external_attr = _MODES[each.kind] << 16
            about.create_system = 3  # Unix, whose modes have kinds
            linked = each.kind in {"link", "hard link"}
            data = _encodable(each.target).encode() if linked else each.data
            packed.writestr(about, data, zipfile.ZIP_DEFLATED)
    return written.getvalue()


def pack_tar(entries: Sequence[ArchiveEntry]) -> bytes:
    """Return a .tar.gz with these entries."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for each in entries:
            about = tarfile.TarInfo(_encodable(each.name))
            about.type = _TYPES[each.kind]
            about.linkname = _encodable(each.target)
            about.size = len(each.data) if each.kind == "file" else 0
            packed.addfile(about, io.BytesIO(each.data))
    return gzip.compress(written.getvalue(), 1)


def _encodable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


@cache
def _make(bomb: str) -> tuple[str, bytes]:
    kind, _, how = bomb.partition(" of ")
    pack = {"zip": pack_zip, "tar.gz": pack_tar}[kind]
    return kind, pack([ArchiveEntry("kit/SKILL.md", _SKILL), *_FILLED[how]()])


def _one_long_file() -> list[ArchiveEntry]:
    return [ArchiveEntry("kit/long.txt", bytes(_BOMB_BYTES))]


def _many_files() -> list[ArchiveEntry]:
    return [ArchiveEntry(f"kit/{number}.txt") for number in range(_MANY)]


def _deep_folders() -> list[ArchiveEntry]:
    return [ArchiveEntry("kit/" + "a/" * 400 + "x.txt")]


def _implied_folders() -> list[ArchiveEntry]:
    return [ArchiveEntry(f"kit/{number}/a/b/c/x.txt") for number in range(_MANY)]


def _same_name() -> list[ArchiveEntry]:
    return [ArchiveEntry("kit/x.txt"), ArchiveEntry("kit/X.txt", b"1")]


def _archive_in_archive() -> list[ArchiveEntry]:
    return [ArchiveEntry("kit/in.zip", pack_zip([ArchiveEntry("kit/SKILL.md")]))]


_FILLED = {
    "one long file": _one_long_file,
    "many files": _many_files,
    "deep folders": _deep_folders,
    "implied folders": _implied_folders,
    "the same name": _same_name,
    "an archive": _archive_in_archive,
}
_BOMBS = [f"{kind} of {how}" for kind in ("zip", "tar.gz") for how in _FILLED]
