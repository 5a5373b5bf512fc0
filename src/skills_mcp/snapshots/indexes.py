"""Indexes over the offered skills, each built on first use.

Rule: an index is the same whether built from nothing or from an earlier snapshot. A
caller's view answers like an index over the visible skills alone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from skills_mcp.content.source import Progress
from skills_mcp.routing.decision import tie_break_ranks
from skills_mcp.routing.inverted_index import IndexedDocument, TextIndex
from skills_mcp.routing.keyword_matcher import KeywordIndex, KeywordMatcher
from skills_mcp.routing.matcher import Mask
from skills_mcp.routing.name_index import NameIndex
from skills_mcp.routing.ranked_matcher import RankedMatcher, SkillText, to_indexed_document
from skills_mcp.routing.visible_skills import VisibleSkills
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.skills.source_layout import SkillRoot
from skills_mcp.skills.tree_node import TreeNode, build_tree
from skills_mcp.snapshots.loaded_skills import LoadedSkills
from skills_mcp.snapshots.skill_records import NO_KEY

_LABEL_BYTES = 8  # they guard nothing: two that are equal by chance cost a notice


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """Skills and indexes of one state of the content."""

    collection: LoadedSkills
    offered: Sequence[int]
    """Numbers of the offered skills, in order."""
    keywords: KeywordIndex | None = None
    texts: TextIndex | None = None

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

    def ranked(self) -> RankedMatcher:
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

    def searched(self) -> RankedMatcher:
        """Ranked matcher for `search_skills`, with its own look-up of names."""
        with self._lock:
            self._searched = self._searched or self.ranked().without_names()
            return self._searched

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

    def _build_texts(self) -> TextIndex:
        known = self._known
        if known is None or known.texts is None:
            return TextIndex.build(self._find_documents({}))
        return TextIndex.build(self._find_documents(known.text_numbers()), known.texts)

    def _find_documents(self, known: dict[bytes, int]) -> Iterator[IndexedDocument | int]:
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

    def ranked(self) -> RankedMatcher:
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
