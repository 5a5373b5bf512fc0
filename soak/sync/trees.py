"""Commits with entries that no honest Git would make, and no file system should see."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from soak.sync.mirror import Mirror
from tests.support import git

MAX_FILE_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree."""

    mode: str
    name: bytes
    object: str


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of a commit."""

    is_clean: bool
    """Whether only harmless entries were written."""
    is_reported: bool
    """Whether every entry was reported, or the commit as a whole."""
    is_refused: bool


class Trees:
    """Makes hostile commits, and looks at what a copy has of them."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        # Not pushed: Git would refuse to.
        self._bare = mirror.upstream.bare
        self._blob = self._store("blob", b"evil")
        self._inner = self._store("tree", self._compose([self._file(b"inner.md")]))
        self._large = self._store("blob", b"x" * (MAX_FILE_BYTES + 1))

    def invent_left_out(self) -> Mapping[str, list[Entry]]:
        """Return the entries that Git accepts, by kind; none may reach the disk."""
        files = {str(name): [self._file(name)] for name in _NAMES}
        folders = {f"folder {name!r}": [self._folder(name)] for name in _FOLDERS}
        together = {
            "case": [self._file(b"case.md"), self._file(b"CASE.md")],
            "accents": [self._file("é.md".encode()), self._file(b"e\xcc\x81.md")],
            "sharp s": [self._file("ß.md".encode()), self._file(b"ss.md")],
            "folder and file": [self._folder(b"Both"), self._file(b"both")],
            "size": [Entry("100644", b"large.md", self._large)],
            "submodule": [Entry("160000", b"module", "1" * 40)],
        }  # fmt: skip
        links = {
            f"link to {target!r}": [self._link(target, number)]
            for number, target in enumerate(_TARGETS)
        }
        return {**files, **folders, **together, **links}

    def invent_refused(self) -> Mapping[str, list[Entry]]:
        """Return the entries that Git itself refuses."""
        return {str(name): [self._folder(name)] for name in _REFUSED}

    def try_all(self, entries: Sequence[Entry]) -> Tried:
        """Push a commit with these entries, sync, and look."""
        before = self._mirror.served()
        self._push(entries)
        error = self._mirror.sync()
        checkout = self._mirror.open().open()
        assert checkout  # noqa: S101 - something was published before
        if error:
            is_kept = self._mirror.served() == before
            return Tried(is_kept, is_reported=True, is_refused=True)
        found = {path.name for path in checkout.directory.rglob("*")}
        least = {entry.name for entry in entries}
        is_reported = len(checkout.left_out) >= len(least)
        return Tried(found == {"harmless.md"}, is_reported, is_refused=False)

    def go_back(self) -> None:
        """Restore the mirror to a whole commit."""
        self._mirror.push("harmless")
        self._mirror.sync()

    def _push(self, entries: Sequence[Entry]) -> None:
        harmless = Entry("100644", b"harmless.md", self._store("blob", b"harmless"))
        tree = self._store("tree", self._compose([harmless, *entries]))
        words = ("commit-tree", "-m", "Evil", "-p", "refs/heads/main", tree)
        commit = git(*words, cwd=self._bare)
        git("update-ref", "refs/heads/main", commit, cwd=self._bare)

    def _file(self, name: bytes) -> Entry:
        return Entry("100644", name, self._blob)

    def _folder(self, name: bytes) -> Entry:
        return Entry("40000", name, self._inner)

    def _link(self, target: bytes, number: int) -> Entry:
        return Entry("120000", b"link-%d.md" % number, self._store("blob", target))

    def _compose(self, entries: Sequence[Entry]) -> bytes:
        """Return a tree as Git stores it, in Git's order."""

        def order(entry: Entry) -> bytes:
            return entry.name + b"/" if entry.mode == "40000" else entry.name

        def render(entry: Entry) -> bytes:
            head = entry.mode.encode() + b" " + entry.name
            return head + b"\0" + bytes.fromhex(entry.object)

        return b"".join(map(render, sorted(entries, key=order)))

    def _store(self, kind: str, data: bytes) -> str:
        words = ("git", "hash-object", "-t", kind, "-w", "--stdin", "--literally")
        done = subprocess.run(
            words, input=data, cwd=self._bare, check=True, capture_output=True
        )
        return done.stdout.decode().strip()


def _spell_devices() -> Iterator[bytes]:
    for device in ("CON", "con.md", "PRN.txt", "aux.md", "NUL", "COM1.txt", "lpt9.md"):
        yield device.encode()
    yield "COM\u00b9.md".encode()
    yield b"CONIN$"


_NAMES = (
    *_spell_devices(),
    *(b"C:evil.md", b"ads.md:stream", b"a\\b.md", b"..\\up.md", b"\\\\host\\share"),
    *(b"dot.md.", b"space.md ", b" lead.md", b"tab\there.md", b"line\nbreak.md"),
    *(b"bell\x07.md", b"escape\x1b[31m.md", b"delete\x7f.md"),
    *(b"bytes\xff.md", b"c1\xc2\x9b.md"),
    *("left\u202eright.md".encode(), "zero\u200bwidth.md".encode()),
    *("isolate\u2066.md".encode(), "\ufeffmark.md".encode()),
    *(b"star*.md", b"what?.md", b"pipe|.md", b'quote".md', b"less<.md"),
    *(b"GIT~2", b"long" * 80 + b".md"),
)
"""Names of files that some system takes for another file, or rejects."""

_FOLDERS = (b"nul", b"folder.", b"folder ", b"a:b", b"...", b"com7.d")

_REFUSED = (
    *(b".", b"..", b".git", b".GIT", b".Git", b"git~1", b"GIT~1"),
    *(b".git ", b".git.", b".git::$INDEX", b".git\\config", ".g\u200cit".encode()),
    *(b"up/../../up", b"/etc", b""),
)

_TARGETS = (
    *(b"/etc/passwd", b"../../../../etc/passwd", b"harmless.md", b".", b"link-4.md"),
    *(b"link-6.md", b"link-5.md", b"", b"\0"),
)
"""Targets of links: outside, inside, themselves, a loop."""
