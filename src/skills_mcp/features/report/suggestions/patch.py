"""Changed texts as a patch for each source, in the form that `git apply` reads."""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skills_mcp.library import EditableText, SkillSource

_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_FIRST_PRINTABLE, _DELETE = 0x20, 0x7F


@dataclass(frozen=True, slots=True)
class ChangedText:
    """The text of a skill before and after."""

    place: EditableText
    new: bytes

    @property
    def diff(self) -> bytes:
        """The change as `git apply` reads it."""
        return compose_diff(self.place.file, self.place.raw, self.new)


@dataclass(frozen=True, slots=True)
class Patch:
    """What changes in one source: `git apply` works in one repository."""

    source: SkillSource
    diff: bytes

    @property
    def name(self) -> str:
        """What `--source` takes: the place in the tree, or else the address."""
        return self.source.mount or self.source.name

    @property
    def where(self) -> str:
        """Where `git apply` has to run."""
        if self.source.mode == "local":
            return f"in {self.source.top}"
        return f"at the top of a clone of {self.source.name}"


def compose_patches(texts: Iterable[ChangedText]) -> tuple[Patch, ...]:
    """Return a patch for each source that has changes, in the order of the texts."""
    diffs: defaultdict[SkillSource, bytes] = defaultdict(bytes)
    for each in texts:
        diffs[each.place.source] += each.diff
    return tuple(Patch(source, diff) for source, diff in diffs.items())


def compose_diff(file: str, old: bytes, new: bytes) -> bytes:
    r"""Return how a file changes; empty if it does not.

    Args:
        file: Its path from the top of the repository, with forward slashes.
        old: What it holds.
        new: What it will hold.

    >>> print(compose_diff("a.md", b"one\n", b"one\ntwo\n").decode())
    diff --git a/a.md b/a.md
    --- a/a.md
    +++ b/a.md
    @@ -1 +1,2 @@
     one
    +two
    <BLANKLINE>
    """
    before, after = _name(f"a/{file}"), _name(f"b/{file}")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _split(old),
        _split(new),
        # A tab ends a name that has a space in it.
        f"{before}\t".encode() if " " in before else before.encode(),
        f"{after}\t".encode() if " " in after else after.encode(),
    )
    hunks = b"".join(
        line if line.endswith(b"\n") else line + _NO_NEWLINE for line in lines
    )
    return f"diff --git {before} {after}\n".encode() + hunks if hunks else b""


def _split(raw: bytes) -> list[bytes]:
    """Return the lines as Git has them: they end at a line feed and nowhere else."""
    return [*_lines(raw)]


def _lines(raw: bytes) -> Iterator[bytes]:
    *lines, last = raw.split(b"\n")
    yield from (line + b"\n" for line in lines)
    if last:
        yield last


def _name(path: str) -> str:
    """Return a path as Git spells it: in quotes if it could end too early."""
    if not any(_is_special(character) for character in path):
        return path
    return f'"{"".join(map(_escape, path))}"'


def _is_special(character: str) -> bool:
    return character in _ESCAPES or not _FIRST_PRINTABLE <= ord(character) != _DELETE


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\{ord(character):03o}" if _is_special(character) else character
