"""Which documents hold several terms at once."""

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.inverted_index import Documents, Postings

DocumentImpacts = tuple[Documents, NDArray[np.uint16]]
"""Documents in order, and their impacts."""

# A relative that many hold counts where a skill says what it is about. In a long text
# it is chance, and to follow it there would take most of the time.
_SHORT_FIELDS = np.uint8(7)
_MANY_DOCUMENTS = 1000


def intersect(postings: Postings, terms: tuple[int, ...]) -> DocumentImpacts:
    """Intersect postings; of each document the smallest impact."""
    first, *others = sorted(terms, key=postings.count)
    documents, shares = _read_postings(postings, first)
    for term in others:
        other_documents, other_shares = _read_postings(postings, term)
        is_both = _is_member(other_documents, documents)
        documents, shares = documents[is_both], shares[is_both]
        shares = np.minimum(shares, other_shares[other_documents.searchsorted(documents)])
    return documents, shares


def _read_postings(postings: Postings, term: int) -> DocumentImpacts:
    documents, shares, fields = postings.holders(term)
    if len(documents) <= _MANY_DOCUMENTS:
        return documents, shares
    [short] = (fields & _SHORT_FIELDS).nonzero()
    return documents[short], shares[short]


def _is_member(documents: Documents, candidates: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    if not len(documents):
        return np.zeros(len(candidates), np.bool_)
    # Numbers of another type would make a copy of all documents, again and again.
    positions = documents.searchsorted(candidates.astype(documents.dtype, copy=False))
    found: NDArray[np.bool_] = documents.take(positions, mode="clip") == candidates
    return found
