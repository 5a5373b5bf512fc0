"""Which commits a store keeps, and when it forgets the others.

Rule: the size of a store follows its content, however often it is fetched and however
many fetches fail.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any

from skills_mcp.content.git.git_runner import Git
from skills_mcp.content.git.leftovers import (
    count_objects,
    delete_leftovers,
    measure_objects,
)

PUBLISHED_REF = "refs/skills/published"
"""What the last fetch has brought."""

_OUR_REFS = "refs/skills/"
_KEPT_REFS = f"{_OUR_REFS}kept/"

# Above these Git becomes slow, and below them a cleaning costs more than it gives.
_MAX_PACKS = 8
_MAX_LOOSE_OBJECTS = 2_000
_MAX_GROWTH = 1.4
_GROWTH_ALLOWANCE_BYTES = 64 * 1024

# All of a large store is written anew; if that takes longer, it is tried next time.
_CLEANING_TIMEOUT_SECONDS = 300.0

_SIZE_FILE = "skills-size"
"""How large the store was after the last cleaning, in bytes."""


class Keeper:
    """The refs of ours in one store.  Whoever changes them holds the store's lock."""

    def __init__(self, git: Git) -> None:
        self._git = git

    def find_object(self, commit: str) -> str:
        """Return the annotated tag that marked a commit, or the commit itself.

        What was kept comes first: the last fetch may have brought a tag that was
        refused.
        """
        marks = self._read_marks(commit)
        return marks.get(_KEPT_REFS + commit) or marks.get(PUBLISHED_REF, commit)

    def keep(self, commits: Iterable[str], lock: IO[Any]) -> None:
        """Keep these commits, and let Git forget all others, when it is time.

        Call it only when what the last fetch has brought was let through.
        """
        wanted = {}
        for commit in commits:
            marks, ref = self._read_marks(commit), _KEPT_REFS + commit
            wanted[ref] = marks.get(PUBLISHED_REF) or marks.get(ref, commit)
        there = self._filter_present(wanted.values())
        kept = {ref: name for ref, name in wanted.items() if name in there}
        stale = self._read_refs(_KEPT_REFS).keys() - kept.keys()
        self._change_refs(
            *(f"update {ref} {name}" for ref, name in kept.items()),
            *(f"delete {ref}" for ref in stale),
            lock=lock,
        )
        self.tidy(lock)

    def secure(self, commit: str, lock: IO[Any]) -> None:
        """Keep a published commit, and its tag, before the next fetch is written.

        Call it only with one that was let through when the last fetch brought it.
        """
        ref = _KEPT_REFS + commit
        if (self._git.directory / ref).is_file():
            return
        if marked := self._read_marks(commit).get(PUBLISHED_REF):
            self._change_refs(f"update {ref} {marked}", lock=lock)

    def tidy(self, lock: IO[Any]) -> None:
        """Let Git forget what no ref of ours leads to, when it is time."""
        if self._is_untidy():
            self._clean(lock)

    def forget_published(self, lock: IO[Any]) -> None:
        """Let go of what a fetch has brought, which is too large to be kept."""
        with suppress(OSError):
            delete_leftovers(self._git.directory, PUBLISHED_REF)
        self._change_refs(f"delete {PUBLISHED_REF}", lock=lock)
        self._clean(lock)

    def _change_refs(self, *changes: str, lock: IO[Any]) -> None:
        lines = "".join(f"{change}\n" for change in changes)
        self._git.run("update-ref", "--stdin", stdin=lines.encode(), lock=lock)

    def _read_marks(self, commit: str) -> dict[str, str]:
        """Return the refs of ours that lead to a commit, and what they hold."""
        refs = self._read_refs(_OUR_REFS)
        words = ("rev-parse", "--verify", "--quiet", f"{PUBLISHED_REF}^{{commit}}")
        published = self._git.run(*words, is_ok=(0, 1, 128)).text
        leading = {_KEPT_REFS + commit, PUBLISHED_REF if published == commit else ""}
        return {ref: held for ref, held in refs.items() if ref in leading}

    def _read_refs(self, under: str) -> dict[str, str]:
        # Without a look at the objects, of which some may be lost.
        shown = "--format=%(refname) %(objectname)"
        printed = self._git.run("for-each-ref", shown, under).text
        return dict(line.split(" ") for line in printed.splitlines())

    def _filter_present(self, names: Iterable[str]) -> set[str]:
        lines = "".join(f"{name}\n" for name in names)
        checked = self._git.run("cat-file", "--batch-check", stdin=lines.encode())
        rows = [line.split(" ") for line in checked.text.splitlines()]
        return {row[0] for row in rows if row[-1] != "missing"}

    def _is_untidy(self) -> bool:
        packs, loose = count_objects(self._git.directory)
        size = measure_objects(self._git.directory)
        most = _MAX_GROWTH * self._read_size() + _GROWTH_ALLOWANCE_BYTES
        return packs > _MAX_PACKS or loose > _MAX_LOOSE_OBJECTS or size > most

    def _clean(self, lock: IO[Any]) -> None:
        for words in (("repack", "-a", "-d", "-q"), ("prune", "--expire=now")):
            self._git.run(
                *words,
                lock=lock,
                timeout_seconds=_CLEANING_TIMEOUT_SECONDS,
                settings=("pack.windowMemory=100m", "repack.writeBitmaps=false"),
            )
        size = measure_objects(self._git.directory)
        with suppress(OSError):  # then it is cleaned once too often
            (self._git.directory / _SIZE_FILE).write_text(str(size), "ascii")

    def _read_size(self) -> int:
        try:
            return int((self._git.directory / _SIZE_FILE).read_text("ascii"))
        except (OSError, ValueError):
            return 0
