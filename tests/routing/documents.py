"""Small documents and tasks of a few words, some of which mean the same."""

from collections.abc import Sequence

from hypothesis import strategies as st

from skills_mcp.routing.inverted_index import IndexedDocument, TextIndex
from skills_mcp.routing.query import Query, QueryParser

WORDS = ("ant", "bat", "cat", "k8s", "kubernetes", "x1", "x2", "x3", "x4", "x5")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
DOCUMENTS = st.lists(
    st.builds(IndexedDocument, TEXTS, TEXTS, TEXTS, st.just(""), TEXTS, st.just(0)),
    min_size=1,
    max_size=5,
)


def read(documents: Sequence[IndexedDocument], text: str) -> tuple[TextIndex, Query]:
    index = TextIndex.build(documents)
    return index, QueryParser(index).read(text)
