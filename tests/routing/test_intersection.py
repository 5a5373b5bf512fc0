"""Which documents hold several terms at once."""

from skills_mcp.routing.inverted_index import IndexedDocument, TextIndex, intersect


def test_a_phrase_is_held_by_who_holds_all_of_its_words() -> None:
    index = TextIndex.build(
        IndexedDocument(name, "", "", "", "") for name in ("ant bat", "ant", "bat", "cat bat ant")
    )
    numbers = tuple(index.find(word) or 0 for word in ("ant", "bat"))

    documents, least = intersect(index.postings, numbers)

    assert documents.tolist() == [0, 3]
    assert least[0] > least[1]
