"""The indexes over the skills that are offered, each built when it is first needed.

Rule: an index is the same whether it was built from nothing, or from what an earlier
state has read already. What a caller sees of it answers as an index of that alone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from skills_mcp.content.progress import Progress
from skills_mcp.routing.decision import derive_places
from skills_mcp.routing.keyword_index import KeywordIndex
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.routing.matcher import Mask
from skills_mcp.routing.names import Names
from skills_mcp.routing.ranked import RankedMatcher, SkillText, derive_document
from skills_mcp.routing.seen_skills import SeenSkills
from skills_mcp.routing.text_index.inverted_index import IndexedDocument, TextIndex
from skills_mcp.skills.homes import Home
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.tree import TreeNode, build_tree
from skills_mcp.snapshots.collection import Collection
from skills_mcp.snapshots.records import NO_KEY

_LABEL_BYTES = 8  # they guard nothing: two that are equal by chance cost a notice


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """What was read and built for one state of the content."""

    collection: Collection
    offered: Sequence[int]
    """The numbers of the skills that are offered, in order."""
    keywords: KeywordIndex | None = None
    texts: TextIndex | None = None

    def text_numbers(self) -> dict[bytes, int]:
        """Return the number of each skill in `texts`, by its key."""
        keys = self.collection.table.keys
        numbers = {keys[skill]: number for number, skill in enumerate(self.offered)}
        numbers.pop(NO_KEY, None)
        return numbers


class Indexes:
    """The matchers over one state of the content.  Never changes.

    Args:
        collection: All skills.
        index: Which of them are offered.
        known: An earlier state; its indexes are used if it is the same, and otherwise
            the words that it has read.
        progress: Is told how far a build has got.
        synonyms: What the organisation has for the same (`routing.synonyms`).
    """

    def __init__(
        self,
        collection: Collection,
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
        """Return the matcher of the keyword algorithm.  Blocking, the first time."""
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
                    synonyms=self._synonyms,
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

    @cached_property
    def tree(self) -> TreeNode:
        """The folders of the skills that are offered."""
        return build_tree(self._index)

    @property
    def skills(self) -> Sequence[Skill]:
        """The skills that the matchers find, by their numbers there."""
        return self._index.offered

    @cached_property
    def content_key(self) -> bytes:
        """A digest of all that the caller may read, rules that are inherited, too."""
        digest = hashlib.blake2b(digest_size=16)
        rows, keys = self._index.rows, self._collection.table.keys
        offered = frozenset(self._index.offered.numbers)
        for number in self._index.shown_numbers:
            mark = "\1" if number in offered else "\0"
            path = f"{rows[number].path}{mark}"
            digest.update(path.encode("utf-8", "surrogatepass") + keys[number])
        return digest.digest()

    @cached_property
    def listing_key(self) -> bytes:
        """A digest of what a list of these skills shows: paths, names, descriptions."""
        digest = hashlib.blake2b(digest_size=16)
        labels = self.labels
        rows = self._index.rows
        for number in self._index.offered.numbers:
            digest.update(f"{rows[number].path}\0".encode("utf-8", "surrogatepass"))
            digest.update(labels[number])
        return digest.digest()

    @cached_property
    def labels(self) -> list[bytes]:
        """A digest of the name and the description of each skill, offered or not."""
        table = self._collection.table
        return [_digest_label(table.text_of(number)) for number in range(len(table))]

    @property
    def is_built(self) -> bool:
        """Whether one of the matchers is there."""
        return self._keyword is not None or self._ranked is not None

    @property
    def shown_homes(self) -> frozenset[Home] | None:
        """The folders with skills that the caller may know of; None for all."""
        return None

    @property
    def seen(self) -> SeenSkills | None:
        """Which skills the caller sees; None for all."""
        return None

    def expand(self, within: Mask) -> Mask:
        """Return the mask for these matchers of one over what the caller can find."""
        return within

    def forget_known(self) -> None:
        """Free the earlier state; an index that is built later reads everything."""
        with self._lock:
            self._known = None

    def state(self) -> IndexState:
        """Return what the next state can be built from."""
        return IndexState(
            collection=self._collection,
            offered=self._index.offered.numbers,
            keywords=self._keywords,
            texts=self._texts,
        )

    def are_those_of(self, state: IndexState) -> bool:
        """Whether all that is in use was taken over from this state."""
        return (
            self._collection is state.collection
            and self._keywords is state.keywords
            and self._texts is state.texts
        )

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return derive_places([row.path for row in self._index.listed])

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

    def _find_documents(
        self, known: dict[bytes, int]
    ) -> Iterator[IndexedDocument | int]:
        """Iterate over what the skills say, or where that is known."""
        table = self._collection.table
        keys = table.keys
        offered = self._index.offered.numbers
        told = self._progress.track("Indexing skills", offered, len(offered))
        for skill in told:
            number = known.get(keys[skill])
            yield derive_document(table.text_of(skill)) if number is None else number


class SeenIndexes(Indexes):
    """The matchers over what one caller sees, on the arrays of all skills.

    Args:
        whole: The matchers over all skills.
        every: All skills.
        index: What the caller sees of them.
    """

    def __init__(self, whole: Indexes, every: SkillIndex, index: SkillIndex) -> None:
        super().__init__(whole.state().collection, index)
        self._whole = whole
        self._every = every

    @property
    def skills(self) -> Sequence[Skill]:
        """The skills that the matchers find, by their numbers there."""
        return self.seen.skills

    @cached_property
    def labels(self) -> list[bytes]:
        """A digest of the name and the description of each skill, seen or not."""
        return self._whole.labels

    @cached_property
    def shown_homes(self) -> frozenset[Home]:
        """The folders with skills that the caller may know of."""
        table = self._collection.table
        numbers = table.arrays["homes"][list(self._index.shown_numbers)]
        return frozenset(table.homes[number] for number in set(numbers.tolist()))

    @cached_property
    def seen(self) -> SeenSkills:
        """Which skills the caller sees."""
        return _derive_seen(self._every, self._index)

    def expand(self, within: Mask) -> Mask:
        """Return the mask for these matchers of one over what the caller can find."""
        return self.seen.expand(within)

    def keyword(self) -> KeywordMatcher:
        """Return the matcher of the keyword algorithm.  Blocking, the first time."""
        with self._lock:
            self._keyword = self._keyword or self._whole.keyword().seen(self.seen)
            return self._keyword

    def ranked(self) -> RankedMatcher:
        """Return the matcher over all words.  Blocking, the first time."""
        with self._lock:
            self._ranked = self._ranked or self._whole.ranked().seen(self.seen)
            return self._ranked

    @cached_property
    def names(self) -> Names:
        """What the skills that the caller can find are called."""
        return self._whole.names.seen(self.seen)

    def state(self) -> IndexState:
        """Return the state of all skills, which the caller sees a part of."""
        return self._whole.state()


def _digest_label(text: SkillText) -> bytes:
    label = f"{text.name}\0{text.description}\0".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(label, digest_size=_LABEL_BYTES).digest()


def _derive_seen(every: SkillIndex, some: SkillIndex) -> SeenSkills:
    """Return the numbers in `every` of what is offered in `some`."""
    rows = np.array(some.offered.numbers, np.int64)
    numbers = np.array(every.offered_at, np.int32)[rows]
    skills, paths = every.offered, [row.path for row in some.listed]
    moved: dict[int, SkillPath] = {}
    places: dict[int, int] = {}
    # A copy is where the skill is that stands for it among all.
    for place in np.flatnonzero(numbers < 0).tolist():
        number = every.find(paths[place])
        if number is not None:
            numbers[place], moved[number] = number, paths[place]
            places[number] = int(rows[place])
    if moved:
        skills = every.offered.replaced(places)
    return SeenSkills(len(every), numbers, skills, paths, moved)
