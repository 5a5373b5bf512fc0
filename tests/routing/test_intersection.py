"""Which documents hold several terms at once."""

from skills_mcp.routing.inverted_index import SHORT_FIELDS, IndexedDocument, TextIndex, intersect


def test_a_phrase_is_held_by_who_holds_all_of_its_words() -> None:
    index = TextIndex.build(
        IndexedDocument(name, "", "", "", body)
        for name, body in (("bat", "ant"), ("ant", ""), ("bat", ""), ("cat bat ant", ""))
    )
    numbers = tuple(index.find(word) or 0 for word in ("ant", "bat"))

    documents, least, fields = intersect(index.postings, numbers)

    assert documents.tolist() == [0, 3]
    assert least[0] < least[1]
    assert (fields & SHORT_FIELDS > 0).tolist() == [False, True]
