"""Number of tokens of a text: by a tokenizer if there is one, else by an estimate.

Rule: nothing is fetched. tiktoken counts only if its cache has the encoding already.
"""

import os
from collections.abc import Callable
from functools import cache
from hashlib import sha1
from importlib import import_module
from pathlib import Path

CHARACTERS_PER_TOKEN = 4
"""Of English text and code, by the rule of thumb of the providers of models."""

# From here on are mostly Chinese, Japanese and Korean: about a token for each character.
_FIRST_WIDE = "\u2e80"

_ENCODING = "o200k_base"
_ENCODING_URL = f"https://openaipublic.blob.core.windows.net/encodings/{_ENCODING}.tiktoken"


def count_tokens(text: str) -> int:
    """Count the tokens of a text.

    >>> estimate_tokens("Sign each commit."), estimate_tokens("署名する")
    (5, 4)
    """
    tokenize = _open_tokenizer()
    return tokenize(text) if tokenize else estimate_tokens(text)


def estimate_tokens(text: str) -> int:
    wide = 0 if text.isascii() else sum(character >= _FIRST_WIDE for character in text)
    return wide + estimate_from_bytes(len(text) - wide)


def estimate_from_bytes(size: int) -> int:
    """Estimate the tokens of a file that is not read."""
    return -(-size // CHARACTERS_PER_TOKEN)


@cache
def _open_tokenizer() -> Callable[[str], int] | None:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    name = sha1(_ENCODING_URL.encode(), usedforsecurity=False).hexdigest()
    if not folder or not Path(folder, name).is_file():
        return None
    try:
        encoding = import_module("tiktoken").get_encoding(_ENCODING)
    except (ImportError, ValueError, OSError):
        return None
    return lambda text: len(encoding.encode(text, disallowed_special=()))
