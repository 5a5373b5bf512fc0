"""Which documents hold several terms at once."""

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.inverted_index import Documents, Postings

Held = tuple[Documents, NDArray[np.uint16]]
"""Documents by number, in order, and their shares."""

# A relative that many hold counts where a skill says what it is about. In a long text
# it is chance, and to follow it there would take most of the time.
_SHORT_FIELDS = np.uint8(7)
_MANY = 1000


def intersect(postings: Postings, terms: tuple[int, ...]) -> Held:
    """Return who holds all of some terms, and the smallest share."""
    first, *others = sorted(terms, key=postings.count)
    documents, shares = _select(postings, first)
    for term in others:
        its, their = _select(postings, term)
        is_both = _contain(its, documents)
        documents, shares = documents[is_both], shares[is_both]
        shares = np.minimum(shares, their[its.searchsorted(documents)])
    return documents, shares


def _select(postings: Postings, term: int) -> Held:
    documents, shares, fields = postings.holders(term)
    if len(documents) <= _MANY:
        return documents, shares
    [short] = (fields & _SHORT_FIELDS).nonzero()
    return documents[short], shares[short]


def _contain(
    documents: Documents, wanted: NDArray[np.unsignedinteger]
) -> NDArray[np.bool_]:
    """Return which of the wanted are among documents, which are in order."""
    if not len(documents):
        return np.zeros(len(wanted), np.bool_)
    # Numbers of another type would make a copy of all documents, again and again.
    places = documents.searchsorted(wanted.astype(documents.dtype, copy=False))
    found: NDArray[np.bool_] = documents.take(places, mode="clip") == wanted
    return found
