"""Indexes over the offered skills, each built on first use, or opened from the disk.

Rule: an index is the same whether built from nothing or from an earlier snapshot. A
caller's view answers like an index over the visible skills alone.
"""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import Stemmer  # type: ignore[import-not-found]  # has no types
from numpy.typing import NDArray

from skills_mcp.about import __version__
from skills_mcp.config import Config
from skills_mcp.content.source import Content, Progress
from skills_mcp.files.arrays import (
    STAGING,
    Sliceable,
    open_text,
    read_arrays,
    write_arrays,
)
from skills_mcp.files.locks import StaleLockDetector, acquire_lock, lock_heartbeat
from skills_mcp.routing.keyword_matcher import KeywordIndex, KeywordMatcher
from skills_mcp.routing.matcher import (
    Mask,
    Matcher,
    MatchingPart,
    MixedMatcher,
    SkillText,
    VisibleSkills,
    tie_break_ranks,
)
from skills_mcp.routing.search import NameIndex
from skills_mcp.skills.model import Problem, Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.source_layout import Selection, SkillRoot
from skills_mcp.skills.tree_node import TreeNode, build_tree
from skills_mcp.snapshots.loaded_skills import KeyedProblem, LoadedSkills, SourceOrigin
from skills_mcp.snapshots.skill_records import NO_KEY, Rebuild, SkillTable

if TYPE_CHECKING:
    from skills_mcp.routing.inverted_index import IndexedDocument, TextIndex
    from skills_mcp.routing.ranked_matcher import RankedMatcher

# Late below: content that is matched by keywords alone needs nothing of these.

_LABEL_BYTES = 8  # they guard nothing: two that are equal by chance cost a notice


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """Skills and indexes of one state of the content."""

    collection: LoadedSkills
    offered: Sequence[int]
    """Numbers of the offered skills, in order."""
    keywords: KeywordIndex | None = None
    texts: "TextIndex | None" = None

    def text_numbers(self) -> dict[bytes, int]:
        keys = self.collection.table.keys
        numbers = {keys[skill]: number for number, skill in enumerate(self.offered)}
        numbers.pop(NO_KEY, None)
        return numbers


class Indexes:
    """Matchers over one state, reusing indexes or parsed words of `known`."""

    def __init__(
        self,
        collection: LoadedSkills,
        index: SkillIndex,
        known: IndexState | None = None,
        progress: Progress | None = None,
        synonyms: tuple[str, ...] = (),
    ) -> None:
        self._collection = collection
        self._index = index
        self._synonyms = synonyms
        self._known = known
        self._progress = progress or Progress()
        self._keyword: KeywordMatcher | None = None
        self._ranked: RankedMatcher | None = None
        self._searched: RankedMatcher | None = None
        self._keywords: KeywordIndex | None = None
        self._texts: TextIndex | None = None
        self._lock = RLock()
        if known and self._is_same_as(known):
            self._keywords, self._texts = known.keywords, known.texts

    def keyword(self) -> KeywordMatcher:
        with self._lock:
            if self._keyword is None:
                self._keywords = self._keywords or self._build_keywords()
                self._keyword = KeywordMatcher(self._keywords, self._index.offered, self._positions)
            return self._keyword

    def ranked(self) -> "RankedMatcher":
        from skills_mcp.routing.ranked_matcher import RankedMatcher

        with self._lock:
            if self._ranked is None:
                self._texts = self._texts or self._build_texts()
                self._ranked = RankedMatcher(
                    self._texts,
                    self._index.offered,
                    names=self.names,
                    tie_break_ranks=self._positions,
                    synonyms=self._synonyms,
                )
            return self._ranked

    def searched(self) -> "RankedMatcher":
        """Ranked matcher for `search_skills`, with its own look-up of names."""
        with self._lock:
            self._searched = self._searched or self.ranked().without_names()
            return self._searched

    @cached_property
    def declared(self) -> NDArray[np.bool_]:
        """Flag the offered skills that `auto` matches by their keywords."""
        declared: NDArray[np.bool_] = self._collection.table.arrays["declared"]
        return declared[np.array(self._index.offered.numbers, np.int64)]

    def find_undeclared(self) -> Iterator[str]:
        """Iterate over the files of offered skills that are ranked by all words."""
        files = self._collection.table.files()
        numbers = self._index.offered.numbers
        return (files[numbers[n]] for n in np.flatnonzero(~self.declared).tolist())

    def mix(self, ranked: Matcher) -> MixedMatcher:
        """Matcher of skills of both kinds."""
        declared = self.expand(self.declared)
        others = self.expand(~self.declared)
        assert declared is not None, "it is a mask"  # noqa: S101
        assert others is not None, "it is a mask"  # noqa: S101
        return MixedMatcher(MatchingPart(self.keyword(), declared), MatchingPart(ranked, others))

    @cached_property
    def names(self) -> NameIndex:
        listed = self._index.listed
        return NameIndex(
            [row.path for row in listed],
            [row.name for row in listed],
            [row.scope for row in listed],
        )

    @cached_property
    def tree(self) -> TreeNode:
        return build_tree(self._index)

    @property
    def skills(self) -> Sequence[Skill]:
        return self._index.offered

    @cached_property
    def content_key(self) -> bytes:
        """Digest of all visible content, inherited rules included."""
        digest = hashlib.blake2b(digest_size=16)
        rows, keys = self._index.rows, self._collection.table.keys
        offered = frozenset(self._index.offered.numbers)
        for number in self._index.visible_numbers:
            mark = "\1" if number in offered else "\0"
            path = f"{rows[number].path}{mark}"
            digest.update(path.encode("utf-8", "surrogatepass") + keys[number])
        return digest.digest()

    @cached_property
    def listing_key(self) -> bytes:
        """Digest of a listing of these skills: paths, names, descriptions."""
        digest = hashlib.blake2b(digest_size=16)
        labels = self.labels
        rows = self._index.rows
        for number in self._index.offered.numbers:
            digest.update(f"{rows[number].path}\0".encode("utf-8", "surrogatepass"))
            digest.update(labels[number])
        return digest.digest()

    @cached_property
    def labels(self) -> list[bytes]:
        """Digest of each skill's name and description, offered or not."""
        table = self._collection.table
        return [_digest_label(table.text_of(number)) for number in range(len(table))]

    @property
    def is_built(self) -> bool:
        return self._keyword is not None or self._ranked is not None

    @property
    def shown_homes(self) -> frozenset[SkillRoot] | None:
        """Skill roots with visible skills; None for all."""
        return None

    @property
    def seen(self) -> VisibleSkills | None:
        return None

    def expand(self, within: Mask) -> Mask:
        return within

    def number_of(self, path: SkillPath) -> int:
        """Number of an offered skill in a mask of `expand`."""
        position = self._index.find(path)
        if position is None:
            raise KeyError(path)
        return position if self.seen is None else int(self.seen.numbers[position])

    def forget_known(self) -> None:
        """Free the earlier state; a later build reads everything."""
        with self._lock:
            self._known = None

    def state(self) -> IndexState:
        """The base for the next state."""
        return IndexState(
            collection=self._collection,
            offered=self._index.offered.numbers,
            keywords=self._keywords,
            texts=self._texts,
        )

    def are_reused_from(self, state: IndexState) -> bool:
        """Whether everything in use was taken over from this state."""
        return (
            self._collection is state.collection
            and self._keywords is state.keywords
            and self._texts is state.texts
        )

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        return tie_break_ranks([row.path for row in self._index.listed])

    def _is_same_as(self, known: IndexState) -> bool:
        is_same = known.collection is self._collection
        return is_same and list(known.offered) == list(self._index.offered.numbers)

    def _build_keywords(self) -> KeywordIndex:
        declared = list(self._collection.table.declared())
        return KeywordIndex.build(declared[n] for n in self._index.offered.numbers)

    def _build_texts(self) -> "TextIndex":
        from skills_mcp.routing.inverted_index import TextIndex

        known = self._known
        if known is None or known.texts is None:
            return TextIndex.build(self._find_documents({}))
        return TextIndex.build(self._find_documents(known.text_numbers()), known.texts)

    def _find_documents(self, known: dict[bytes, int]) -> "Iterator[IndexedDocument | int]":
        from skills_mcp.routing.ranked_matcher import to_indexed_document

        table = self._collection.table
        keys = table.keys
        offered = self._index.offered.numbers
        tracked = self._progress.track("Indexing skills", offered, len(offered))
        for skill in tracked:
            number = known.get(keys[skill])
            yield (to_indexed_document(table.text_of(skill)) if number is None else number)


class SeenIndexes(Indexes):
    """Matchers over one caller's skills, on the arrays of all skills."""

    def __init__(self, base: Indexes, all_skills: SkillIndex, index: SkillIndex) -> None:
        super().__init__(base.state().collection, index)
        self._base = base
        self._all_skills = all_skills

    @property
    def skills(self) -> Sequence[Skill]:
        return self.seen.skills

    @cached_property
    def declared(self) -> NDArray[np.bool_]:
        return self._base.declared.take(self.seen.numbers)

    @cached_property
    def labels(self) -> list[bytes]:
        return self._base.labels

    @cached_property
    def shown_homes(self) -> frozenset[SkillRoot]:
        table = self._collection.table
        numbers = table.arrays["homes"][list(self._index.visible_numbers)]
        return frozenset(table.homes[number] for number in set(numbers.tolist()))

    @cached_property
    def seen(self) -> VisibleSkills:
        return _derive_seen(self._all_skills, self._index)

    def expand(self, within: Mask) -> Mask:
        return self.seen.expand(within)

    def keyword(self) -> KeywordMatcher:
        with self._lock:
            self._keyword = self._keyword or self._base.keyword().seen(self.seen)
            return self._keyword

    def ranked(self) -> "RankedMatcher":
        with self._lock:
            self._ranked = self._ranked or self._base.ranked().seen(self.seen)
            return self._ranked

    @cached_property
    def names(self) -> NameIndex:
        return self._base.names.seen(self.seen)

    def state(self) -> IndexState:
        """The state of all skills, not only the visible ones."""
        return self._base.state()


def _digest_label(text: SkillText) -> bytes:
    label = f"{text.name}\0{text.description}\0".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(label, digest_size=_LABEL_BYTES).digest()


def _derive_seen(all_skills: SkillIndex, visible: SkillIndex) -> VisibleSkills:
    rows = np.array(visible.offered.numbers, np.int64)
    numbers = np.array(all_skills.offered_at, np.int32)[rows]
    skills, paths = all_skills.offered, [row.path for row in visible.listed]
    moved: dict[int, SkillPath] = {}
    rows_by_number: dict[int, int] = {}
    # A copy is where the skill is that stands for it among all.
    for position in np.flatnonzero(numbers < 0).tolist():
        number = all_skills.find(paths[position])
        if number is not None:
            numbers[position], moved[number] = number, paths[position]
            rows_by_number[number] = int(rows[position])
    if moved:
        skills = all_skills.offered.replaced(rows_by_number)
    return VisibleSkills(len(all_skills), numbers, skills, paths, moved)


logger = logging.getLogger(__name__)

FORMAT = 21
"""Incremented with each change in the meaning of the arrays."""

# Longer than the largest library takes to build. A process that has waited so long
# builds without the lock.
_WAIT_SECONDS = 60.0

# A state that was not opened for so long belongs to sources that are served no more.
_RETENTION_SECONDS = 30 * 24 * 60 * 60.0

# No write takes so long: the process that began it has died.
_ABANDONED_SECONDS = 60 * 60.0

_MAX_EARLIER = 8
"""States of other settings opened at a first start: most are of the same sources."""

_OFFERED = "offered"

_TEXT = "text"
_SEQUENCES = "sequences"

_DAMAGE_ERRORS = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError)


class IndexCache:
    """Indexes on disk for one set of sources: a start reads no skill.

    ```text
    <cache>/index/<layout>/       one per set of sources, limits and version
      lock                        held by the building process; the others wait
      <number>/                   the arrays of one state, the newest has the largest
    ```

    A damaged folder counts as absent: all its content can be rebuilt. Later changes of
    the files never harm a process with open ones.
    """

    def __init__(
        self,
        folder: Path,
        content: Content,
        operator: Config,
        rebuild: Rebuild | None = None,
    ) -> None:
        self._cache_folder = folder
        self._sources = {(p.mount.source.name, p.mount.at) for p in content.parts}
        self._rebuild = rebuild
        self.folder = folder / _derive_layout(content, operator)
        """The folder with the states of these sources."""
        self._known = ""
        self._damaged: set[str] = set()

    def open(self) -> IndexState | None:
        """Open the newest usable state, unless this object opened it last."""
        for folder in self._list():
            if folder.name == self._known:
                return None
            if folder.name in self._damaged:
                continue
            with suppress(OSError):  # a read-only disk can still be read
                os.utime(self.folder)  # or `_delete_old_states` takes it for unused
            try:
                state = _open_state(folder, self._rebuild)
            except FileNotFoundError:
                continue  # another process has replaced it
            except _DAMAGE_ERRORS as error:
                self._mark_damaged(folder.name, error)
            else:
                self._known = folder.name
                return state
        return None

    @property
    def is_new(self) -> bool:
        """Whether nothing was served with these settings yet."""
        return not self._list()

    def list_earlier(self) -> list[SkillPath]:
        """List the skills that the same sources offered last, with other settings."""
        others = (folder for folder in self._cache_folder.glob("*/[0-9]*"))
        newest = sorted(others, key=_read_used_time, reverse=True)
        for folder in newest[:_MAX_EARLIER]:
            with suppress(*_DAMAGE_ERRORS):
                state = _open_state(folder, None)
                origins = state.collection.origins
                if {(origin.source, origin.at) for origin in origins} == self._sources:
                    listed = state.collection.table.listed
                    return [listed[number].path for number in state.offered]
        return []

    def mark_damaged(self, reason: object) -> None:
        if self._known:
            self._mark_damaged(self._known, reason)
            self._known = ""

    def _mark_damaged(self, name: str, reason: object) -> None:
        self._damaged.add(name)
        logger.warning("The kept index is damaged and built anew: %s", reason)

    def save(self, state: IndexState) -> bool:
        """Write a state, to be opened; whether it could be kept."""
        folders = self._list()
        newest = int(folders[0].name) if folders else 0
        folder = self.folder / str(newest + 1)
        try:
            write_arrays(folder, _arrays_of(state), _encode_metadata(state), _texts_of(state))
        except (OSError, ValueError) as error:
            logger.debug("The index cannot be kept in %s: %s", folder, error)
            return False
        self._delete_old_states(folders)
        return True

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one process build while the others wait, unless it was stopped."""
        path = self.folder / "lock"
        try:
            lock = acquire_lock(path, timeout_seconds=_WAIT_SECONDS, wait=StaleLockDetector(path))
        except OSError as error:
            logger.debug("Building the index without a lock: %s", error)
            yield
            return
        with lock, lock_heartbeat(lock):
            yield

    def _list(self) -> list[Path]:
        try:
            found = [folder for folder in self.folder.iterdir() if folder.name.isdecimal()]
        except OSError:
            return []
        return sorted(found, key=lambda folder: int(folder.name), reverse=True)

    def _delete_old_states(self, replaced: list[Path]) -> None:
        """Delete replaced and unused states; processes that have read one keep it."""
        for folder in replaced:
            shutil.rmtree(folder, ignore_errors=True)
        abandoned = _find_older(self.folder, f"{STAGING}*", _ABANDONED_SECONDS)
        forgotten = _find_older(self._cache_folder, "*", _RETENTION_SECONDS)
        for folder in (*abandoned, *forgotten):
            if folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)


def _read_used_time(state: Path) -> float:
    try:
        return state.parent.stat().st_mtime
    except OSError:
        return 0.0


def _find_older(folder: Path, pattern: str, seconds: float) -> Iterator[Path]:
    for path in folder.glob(pattern):
        with suppress(OSError):  # another process has deleted it
            if time.time() - path.stat().st_mtime > seconds:
                yield path


def _derive_layout(content: Content, operator: Config) -> str:
    mounts = (
        (p.mount.source.name, p.mount.at, asdict(p.mount.selection), p.mount.scope)
        + ((p.mount.pins, p.mount.only) if p.mount.pins else ())
        for p in content.parts
    )
    # Not `model_dump`: it would build the checker of all settings, which takes longer
    # than opening the index.
    rules = [vars(operator.limits), vars(operator.visibility)]
    rules.append({"trust_content_config": operator.trust_content_config})
    # Another stemmer makes other words of the same text.
    versions = (FORMAT, __version__, Stemmer.version())
    identity = json.dumps([*versions, *rules, *mounts])
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _arrays_of(state: IndexState) -> dict[str, Any]:
    kinds = {
        "skills": state.collection.table.arrays,
        "keywords": state.keywords.arrays if state.keywords else {},
        "texts": state.texts.arrays if state.texts else {},
    }
    named = {f"{k}.{name}": a for k, arrays in kinds.items() for name, a in arrays.items()}
    return {**named, _OFFERED: np.array(state.offered, np.uint32)}


def _texts_of(state: IndexState) -> dict[str, Sliceable]:
    sequences = state.texts.sequences.source if state.texts else b""
    return {_TEXT: state.collection.table.text, _SEQUENCES: sequences}


def _encode_metadata(state: IndexState) -> dict[str, Any]:
    collection = state.collection
    return {
        "origins": [asdict(origin) for origin in collection.origins],
        "findings": [
            (asdict(finding.problem), finding.key.hex(), finding.part)
            for finding in collection.findings
        ],
        "blank_keys": [key.hex() for key in collection.blank_keys],
        "copies": collection.copies,
        "package_parts": sorted(collection.package_parts),
    }


def _parse_origin(origin: dict[str, Any]) -> SourceOrigin:
    selection = origin["selection"]
    plugins = tuple(selection["plugins"])
    return SourceOrigin(**{**origin, "selection": Selection(**{**selection, "plugins": plugins})})


def _open_state(folder: Path, rebuild: Rebuild | None) -> IndexState:
    about, arrays = read_arrays(folder)
    text = open_text(folder, _TEXT)
    kinds: dict[str, dict[str, Any]] = {"skills": {}, "keywords": {}, "texts": {}}
    for name, array in arrays.items():
        kind, _, inner = name.partition(".")
        if inner:
            kinds[kind][inner] = array
    table = SkillTable(kinds["skills"], text, rebuild)
    offered = arrays[_OFFERED].data  # a list would take ten times the memory
    collection = LoadedSkills(
        origins=tuple(map(_parse_origin, about["origins"])),
        table=table,
        findings=tuple(
            KeyedProblem(Problem(**problem), bytes.fromhex(key), part)
            for problem, key, part in about["findings"]
        ),
        blank_keys=tuple(map(bytes.fromhex, about["blank_keys"])),
        copies=tuple(map(tuple, about["copies"])),
        package_parts=frozenset(about["package_parts"]),
    )

    def reread(number: int) -> "IndexedDocument":
        from skills_mcp.routing.ranked_matcher import to_indexed_document

        return to_indexed_document(table.reread(offered[number]))

    def open_texts() -> "TextIndex":
        from skills_mcp.routing.inverted_index import TextIndex

        return TextIndex.from_arrays(texts, open_text(folder, _SEQUENCES), reread)

    keywords, texts = kinds["keywords"], kinds["texts"]
    return IndexState(
        collection=collection,
        offered=offered,
        keywords=KeywordIndex(keywords) if keywords else None,
        texts=open_texts() if texts else None,
    )
