"""Tokeniser and stop words.

The list of stop words is ours and frozen: a library's update must not change results.
Words that are also technical terms stay out of it (`go`, `use`, `case`, `car`).
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain

from skills_mcp.text.unicode import normalize_unicode

# Words that say nothing about a task.
# fmt: off
ENGLISH = frozenset((
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are",
    "as", "at", "be", "because", "been", "before", "being", "but", "by", "can",
    "could", "did", "do", "does", "doing", "done", "each", "for", "from", "had",
    "has", "have", "having", "he", "her", "here", "him", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "just", "let", "may", "me", "might", "more",
    "most", "must", "my", "need", "needs", "no", "nor", "not", "of", "off", "on",
    "once", "only", "or", "other", "our", "ours", "out", "over", "own", "please",
    "same", "shall", "she", "should", "so", "some", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "too",
    "under", "until", "up", "us", "very", "want", "was", "we", "were", "what",
    "when", "where", "which", "while", "who", "whom", "why", "will", "with",
    "would", "you", "your", "yours",
))

FRENCH = frozenset((
    "afin", "ainsi", "alors", "au", "aucun", "aussi", "autre", "aux", "avait",
    "avec", "avoir", "besoin", "ce", "cela", "celle", "celui", "ces", "cet", "cette",
    "ceux", "chaque", "comme", "comment", "dans", "de", "depuis", "des", "doit",
    "donc", "dont", "du", "elle", "elles", "en", "encore", "entre", "est",
    "et", "été", "être", "eux", "fait", "faut", "ici", "il", "ils", "je", "la",
    "le", "les", "leur", "leurs", "lors", "lui", "ma", "mais", "me", "mes", "moi",
    "mon", "même", "ne", "nos", "notre", "nous", "où", "ou", "par", "parce", "pas",
    "peu", "peut", "plus", "pour", "pourquoi", "quand", "que", "quel", "quelle",
    "quels", "qui", "quoi", "sa", "sans", "se", "si", "son", "sont", "sous",
    "sur", "ta", "te", "tes", "toi", "ton", "tous", "tout", "toute", "toutes",
    "très", "tu", "un", "une", "veux", "vers", "voici", "vos", "votre", "vous",
    "y", "à",
))
# fmt: on

STOP_WORDS = ENGLISH | FRENCH

# As they are typed in a hurry; "id", "ill", "lets" and "well" are words, too.
_WITHOUT_APOSTROPHE = frozenset((
    "arent", "cant", "couldnt", "didnt", "doesnt", "dont", "hadnt", "hasnt", "havent",
    "heres", "hes", "hows", "im", "isnt", "ive", "mustnt", "shes", "shouldnt",
    "thats", "theres", "theyre", "theyve", "wasnt", "werent", "weve", "whats", "wheres",
    "whos", "whys", "wont", "wouldnt", "youd", "youll", "youre", "youve",
))  # fmt: skip

FILLER = _WITHOUT_APOSTROPHE | frozenset((
    "get", "help", "let", "like", "make", "need", "please", "use", "used", "using",
    "want",
))  # fmt: skip
"""Padding of requests. Only the ranked algorithm drops them: the list of the keyword
algorithm is published, and an author may well declare `use`.
"""

# Who asks why looks for a cause: see synonyms.txt.
SILENT_WORDS = (STOP_WORDS | FILLER) - {"why"}
"""Dropped by the ranked algorithm; no name begins with one: "the" is no "theming"."""

# "don't", "l'auth" and "qu'une" would leave one-letter tokens behind.
_APOSTROPHES = str.maketrans({"\N{RIGHT SINGLE QUOTATION MARK}": "'"})
_NEGATION = re.compile(r"\b\w+n't\b")  # \b: a long word is tried once, not n times
_CONTRACTION = re.compile(r"(?<=\w)'(?:s|re|ve|ll|d|m)\b")
_ELISION = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)'(?=\w)")

# The sign is the name: without it these would be one letter, or another word.
_SIGNED = re.compile(r"(?<![\w+#.])(?:[a-z](?:\+\+|#)|\.net)(?![\w+#])")

_WORD = re.compile(r"\S+")  # one at a time: a list takes thirty times the text

# Hyphens stay (001 §5.1); the underscore stays because identifiers have it.
_NO_LETTER = re.compile(r"[^\w-]")


def tokenize(text: str) -> tuple[str, ...]:
    """Split text into distinct tokens, without stop words.

    Letters of every script are kept, and the signs of `C++`, `C#` and `.NET`.

    >>> tokenize("Create a React component for the authentication")
    ('create', 'react', 'component', 'authentication')
    >>> tokenize("Créer l'authentification de l'API")
    ('créer', 'authentification', 'api')
    >>> tokenize("Call C++ from .NET")
    ('c++', '.net', 'call')
    """
    folded = fold(text).translate(_APOSTROPHES)
    if "'" in folded:
        for pattern, replacement in ((_NEGATION, " "), (_CONTRACTION, ""), (_ELISION, "")):
            folded = pattern.sub(replacement, folded)
    plain = _NO_LETTER.sub(_keep_mark, _SIGNED.sub(" ", folded))
    words = chain(_SIGNED.finditer(folded), _WORD.finditer(plain))
    distinct = dict.fromkeys(found[0].strip("-") for found in words)
    return tuple(word for word in distinct if word and word not in STOP_WORDS)


def fold(text: str) -> str:
    """Normalise for comparison: NFKC, case-folded."""
    return normalize_unicode("NFKC", normalize_unicode("NFKC", text).casefold())


# Not remembered: while an index is built, what stays keeps the memory of all around it.
def _keep_mark(found: re.Match[str]) -> str:
    """Keep a mark that a letter carries."""
    return found[0] if unicodedata.category(found[0]).startswith("M") else " "


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
_MIN_INTENT_CHARACTERS = 6
"""Of an intent: a verb and what it is about, in a language without blanks two words."""


def split_intents(task: str) -> Iterator[tuple[str, str]]:
    """Split a task at each conjunction into what stands before and behind it.

    >>> list(split_intents("write the report, then announce it"))
    [('write the report', 'announce it')]
    """
    for found in _JOIN.finditer(task):
        intents = task[: found.start()].strip(" ,;."), task[found.end() :].strip(" ,;.")
        if min(map(len, intents)) >= _MIN_INTENT_CHARACTERS:
            yield intents
