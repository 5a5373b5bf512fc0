"""The two indexes over the skills that are offered, each made when first needed.

An index of the next state is derived from that of the one before, and equals one that
was built from nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.decision import derive_places
from skills_mcp.routing.keyword_index import KeywordIndex
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.routing.names import Names
from skills_mcp.routing.ranked import RankedMatcher, derive_document
from skills_mcp.routing.text_index.inverted_index import TextIndex
from skills_mcp.skills.index import SkillIndex
from skills_mcp.snapshots.collection import Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What the next state can be derived from."""

    collection: Collection
    offered: Sequence[int]
    """Which of its skills are offered: by number, in order."""
    keywords: KeywordIndex | None = None
    texts: TextIndex | None = None


class Indexes:
    """The matchers over one state of the content.  Never changes.

    Args:
        collection: All skills.
        index: Which of them are offered.
        basis: What may be taken over.
    """

    def __init__(
        self, collection: Collection, index: SkillIndex, basis: Basis | None = None
    ) -> None:
        self._collection = collection
        self._index = index
        self._basis = basis
        self._keyword: KeywordMatcher | None = None
        self._ranked: RankedMatcher | None = None
        self._searched: RankedMatcher | None = None
        self._keywords: KeywordIndex | None = None
        self._texts: TextIndex | None = None
        self._lock = RLock()
        if basis and self._is_same_as(basis):
            self._keywords, self._texts = basis.keywords, basis.texts

    def keyword(self) -> KeywordMatcher:
        """Return the matcher of 001 §5.  Blocking, the first time."""
        with self._lock:
            if self._keyword is None:
                self._keywords = self._keywords or self._build_keywords()
                self._keyword = KeywordMatcher(
                    self._keywords, self._index.offered, self._places
                )
            return self._keyword

    def ranked(self) -> RankedMatcher:
        """Return the matcher over all words.  Blocking, the first time."""
        with self._lock:
            if self._ranked is None:
                self._texts = self._texts or self._build_texts()
                self._ranked = RankedMatcher(
                    self._texts,
                    self._index.offered,
                    names=self.names,
                    places=self._places,
                )
            return self._ranked

    def searched(self) -> RankedMatcher:
        """Return the same for `search_skills`, which looks at names by itself."""
        with self._lock:
            self._searched = self._searched or self.ranked().without_names()
            return self._searched

    @cached_property
    def names(self) -> Names:
        """What the skills that are offered are called."""
        listed = self._index.listed
        return Names(
            [row.path for row in listed],
            [row.name for row in listed],
            [row.scope for row in listed],
        )

    def forget_basis(self) -> None:
        """Let go of the state before; what is not made by now is built from nothing."""
        with self._lock:
            self._basis = None

    def basis(self) -> Basis:
        """Return what the next state can be derived from."""
        return Basis(
            collection=self._collection,
            offered=self._index.offered.numbers,
            keywords=self._keywords,
            texts=self._texts,
        )

    def are_of(self, basis: Basis) -> bool:
        """Whether everything in use was taken over from it."""
        mine = self.basis()
        return (
            mine.collection is basis.collection
            and mine.keywords is basis.keywords
            and mine.texts is basis.texts
        )

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return derive_places([row.path for row in self._index.listed])

    def _is_same_as(self, basis: Basis) -> bool:
        is_same = basis.collection is self._collection
        return is_same and list(basis.offered) == list(self._index.offered.numbers)

    def _build_keywords(self) -> KeywordIndex:
        declared = list(self._collection.table.declared())
        return KeywordIndex.build(declared[n] for n in self._index.offered.numbers)

    def _build_texts(self) -> TextIndex:
        numbers, table = self._index.offered.numbers, self._collection.table
        if self._basis is None or self._basis.texts is None:
            return TextIndex.build(derive_document(table.said(n)) for n in numbers)
        origins = self._find_origins(self._basis).tolist()
        documents = (
            origin if origin >= 0 else derive_document(table.said(number))
            for number, origin in zip(numbers, origins, strict=True)
        )
        return TextIndex.build(documents, self._basis.texts)

    def _find_origins(self, basis: Basis) -> NDArray[np.int32]:
        """Return where each skill is in the index of the basis; -1 if it is not."""
        places = {number: place for place, number in enumerate(basis.offered)}
        if basis.collection is self._collection:
            before: Sequence[int] = range(len(self._collection.table))
        else:
            before = self._collection.before
        found = (places.get(before[n], -1) for n in self._index.offered.numbers)
        return np.fromiter(found, np.int32)
