"""Finds secrets in a text that somebody else is going to read.  Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from skills_mcp.text.redaction.kinds import (
    ADDRESS,
    ASSIGNMENT,
    AUTHORIZATION,
    PRIVATE_KEY,
    TOKEN,
    kind_of,
)
from skills_mcp.text.redaction.likeness import is_password, is_password_for, is_random

# Below this there is no key, but a line that shows where one stands.
_SHORTEST_KEY = 100

_SHOWN = 4
"""As much as the issuers themselves show: it says which one, and opens nothing."""


@dataclass(frozen=True, slots=True, order=True)
class FoundSecret:
    """Where a secret stands; it is not held itself."""

    start: int
    end: int
    kind: str
    beginning: str
    """The first characters; empty for what a person has thought of."""


def find_secrets(text: str) -> Iterator[FoundSecret]:
    """Iterate over what looks like a secret and like no example, in its order.

    >>> [found.kind for found in find_secrets("https://ada:9fK2mQ7x@git.acme.dev")]
    ['password in an address']
    """
    end = 0
    # A token may be the value of something; then it is the one that comes first.
    for found in sorted(_find_all(text)):
        if found.start >= end:
            yield found
            end = found.end


def _find_all(text: str) -> Iterator[FoundSecret]:
    for found in PRIVATE_KEY.finditer(text):
        if len(found["key"]) >= _SHORTEST_KEY and is_random(found["key"]):
            yield FoundSecret(*found.span(), "private key", "")
    for found in TOKEN.finditer(text):
        kind = kind_of(found)
        if len(found[0]) >= kind.shortest and is_random(found[0]):
            yield FoundSecret(*found.span(), kind.name, found[0][:_SHOWN])
    yield from _find_values(text)


def _find_values(text: str) -> Iterator[FoundSecret]:
    """Iterate over what only its surroundings call a secret."""
    for found in ADDRESS.finditer(text):
        if is_password_for(found["value"], found["user"], found["host"]):
            yield _hold(found, "password in an address")
    for found in AUTHORIZATION.finditer(text):
        if is_random(found["value"]) and re.search(r"\d", found["value"]):
            yield _hold(found, "authorization header")
    for found in ASSIGNMENT.finditer(text):
        if is_password(found["value"], is_quoted=found["quote"] is not None):
            yield _hold(found, "password or key")


def _hold(found: re.Match[str], kind: str) -> FoundSecret:
    return FoundSecret(*found.span("value"), kind, "")
