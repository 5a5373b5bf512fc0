"""Which skills a caller may see."""

from dataclasses import dataclass

Patterns = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """What the grants give to a caller, and what the request asks for of that.

    Callers with equal grants have equal accesses.
    """

    grants: tuple[tuple[Patterns, Patterns], ...] | None = None
    """The patterns of each grant, to allow and to deny; None for everything."""
    scope: Patterns = ()
    """The patterns that the request narrows to; empty for all."""


EVERYTHING = Access()
