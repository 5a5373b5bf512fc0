"""Conjunctions of a task with two wishes: "write the report, then announce the release"."""

import re
from collections.abc import Iterator

_CONJUNCTIONS = (
    "and then|and also|and afterwards|then|afterwards|and",  # English
    "und dann|und danach|dann|danach|und",  # German
    "et puis|et ensuite|puis|ensuite|et",  # French
    "y luego|y después|luego|después|y",  # Spanish
    "e depois|depois|e",  # Portuguese
)
_JOIN = re.compile(
    rf"[,;.]?\s(?:{'|'.join(_CONJUNCTIONS)})\s|[;.!?]\s|"
    r"[\uff0c,\uff1b;\u3002\u3001]?(?:然后|接着|并且|その後|それから|そして)",
    re.IGNORECASE,
)
_MIN_CHARACTERS = 6
"""Of a wish: a verb and what it is about, in a language without blanks two words."""


def split_wishes(task: str) -> Iterator[tuple[str, str]]:
    """Split a task at each conjunction into what stands before and behind it.

    >>> list(split_wishes("write the report, then announce it"))
    [('write the report', 'announce it')]
    """
    for found in _JOIN.finditer(task):
        wishes = task[: found.start()].strip(" ,;."), task[found.end() :].strip(" ,;.")
        if min(map(len, wishes)) >= _MIN_CHARACTERS:
            yield wishes
