"""Changed texts as one patch per source, in `git apply` format."""

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
    editable: EditableText
    new: bytes

    @property
    def diff(self) -> bytes:
        return compose_diff(self.editable.file, self.editable.raw, self.new)


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes in one source: `git apply` works in one repository."""

    source: SkillSource
    diff: bytes

    @property
    def name(self) -> str:
        """The value of `--source`: the mount, or else the address."""
        return self.source.mount or self.source.name

    @property
    def where(self) -> str:
        """The directory for `git apply`."""
        if self.source.mode == "local":
            return f"in {self.source.top}"
        return f"at the top of a clone of {self.source.name}"


def compose_patches(texts: Iterable[ChangedText]) -> tuple[Patch, ...]:
    """Group changed texts by source, in their order."""
    diffs: defaultdict[SkillSource, bytes] = defaultdict(bytes)
    for text in texts:
        diffs[text.editable.source] += text.diff
    return tuple(Patch(source, diff) for source, diff in diffs.items())


def compose_diff(file: str, old: bytes, new: bytes) -> bytes:
    r"""A unified diff with a Git header; empty without a change.

    `file` is relative to the top of the repository, with forward slashes.

    >>> print(compose_diff("a.md", b"one\n", b"one\ntwo\n").decode())
    diff --git a/a.md b/a.md
    --- a/a.md
    +++ b/a.md
    @@ -1 +1,2 @@
     one
    +two
    <BLANKLINE>
    """
    before, after = _quote_path(f"a/{file}"), _quote_path(f"b/{file}")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _split_lines(old),
        _split_lines(new),
        # A tab ends a name that has a space in it.
        f"{before}\t".encode() if " " in before else before.encode(),
        f"{after}\t".encode() if " " in after else after.encode(),
    )
    hunks = b"".join(line if line.endswith(b"\n") else line + _NO_NEWLINE for line in lines)
    return f"diff --git {before} {after}\n".encode() + hunks if hunks else b""


def _split_lines(raw: bytes) -> list[bytes]:
    """Lines as in Git: they end at a line feed and nowhere else."""
    return [*_lines(raw)]


def _lines(raw: bytes) -> Iterator[bytes]:
    *lines, last = raw.split(b"\n")
    yield from (line + b"\n" for line in lines)
    if last:
        yield last


def _quote_path(path: str) -> str:
    """Quote a path as Git does."""
    if not any(_is_special(character) for character in path):
        return path
    return f'"{"".join(map(_escape, path))}"'


def _is_special(character: str) -> bool:
    return character in _ESCAPES or not _FIRST_PRINTABLE <= ord(character) != _DELETE


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\{ord(character):03o}" if _is_special(character) else character
