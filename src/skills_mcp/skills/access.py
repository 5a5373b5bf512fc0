"""Which skills a caller may see.  Pure.

A grant shows what its `allow` fits and its `deny` does not; a caller sees what any of
the grants that apply shows. A request may narrow that to a scope, and never widen it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Protocol

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.files.patterns import count_wildcards
from skills_mcp.skills.visibility import Listed, Patterns, clean

MAX_SCOPE_PATTERNS = 32
"""In one request; a header is short, and each pattern is tried on every skill."""

MAX_PATTERN_CHARACTERS = 256
"""In one pattern of a request: longer than most paths."""

MAX_SCOPE_CHARACTERS = 4096
"""In all patterns of a request together: as many as 32 deep folders have."""

MAX_SCOPE_WILDCARDS = 64
"""In all patterns of a request together: two for each of 32. The states that a path
can reach are so few that 10,000 skills are matched in a fraction of a second."""

_ALL = ("**",)

_EVERY = frozenset({"*", "**"})  # a star of a pattern stands for slashes, too

# Lists of grants, which are the operator's; more are compiled again for each view.
_MOST_COMPILED = 256

_KEY_DIGITS = 16  # of two different texts, one in 10^19 has the same

# What a standard defines as one text with a value between spaces (RFC 6749, RFC 9068).
_LISTS = frozenset({"scope", "scp"})


class AccessGrant(Protocol):
    """What the operator gives to some callers."""

    @property
    def when(self) -> Mapping[str, Sequence[str]]:
        """Claims, each of which must have one of its values; none for every caller."""
        ...

    @property
    def allow(self) -> Sequence[str]:
        """Patterns of paths or names that the grant shows."""
        ...

    @property
    def deny(self) -> Sequence[str]:
        """Patterns of those that it does not show, although `allow` fits."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller may see: a value, equal for callers with the same grants."""

    grants: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] | None = None
    """For each grant the patterns that it allows and denies; None to show all."""
    scope: tuple[str, ...] = ()
    """The patterns that a request narrows its skills to; empty for all."""
    within: "Access | None" = None
    """What was narrowed: no more is seen than this shows."""

    @property
    def is_unlimited(self) -> bool:
        """Whether no skill of any name can be hidden from the caller."""
        if self.within and not self.within.is_unlimited:
            return False
        return self.grants is None or any(
            not deny and not _EVERY.isdisjoint(map(clean, allow))
            for allow, deny in self.grants
        )

    def sees(self, listed: Listed) -> bool:
        """Whether a skill exists for this caller."""
        if self.within and not self.within.sees(listed):
            return False
        if self.grants is None:
            return True
        return any(
            _compile(allow).fit(listed) and not _compile(deny).fit(listed)
            for allow, deny in self.grants
        )

    @property
    def is_scoped(self) -> bool:
        """Whether the request is about a part of what the caller may see."""
        return any(self._scopes())

    @property
    def unscoped(self) -> "Access":
        """What the caller may see, without regard to the scope of the request."""
        return Access(self.grants, within=self.within and self.within.unscoped)

    def compile_scope(self) -> Callable[[Listed], bool]:
        """Return a function that tells whether the request is about a skill.

        The caller may see the skill or not. Nothing that a request chooses is kept
        compiled.
        """
        scopes = [Patterns(scope).fit for scope in self._scopes()]
        if len(scopes) == 1:
            return scopes[0]
        return lambda listed: all(fits(listed) for fits in scopes)

    def _scopes(self) -> Iterator[tuple[str, ...]]:
        if self.scope:
            yield self.scope
        if self.within:
            yield from self.within._scopes()  # noqa: SLF001 - it is one of us

    def narrow(self, allow: tuple[str, ...], deny: tuple[str, ...]) -> "Access":
        """Return what shows of this only what `allow` fits and `deny` does not.

        Args:
            allow: Patterns of paths or names; none to allow all.
            deny: The same, of those not to show.
        """
        return Access(((allow or _ALL, deny),), within=self)


EVERYTHING = Access()
"""What the operator sees, and every caller where no grants are configured."""


def derive_access(
    grants: Sequence[AccessGrant] | None,
    claims: Mapping[str, Any],
    scope: Iterable[str] = (),
) -> Access:
    """Return what a caller with these claims may see.

    Args:
        grants: The operator's; None to show everything to every caller.
        claims: Of a token that has been validated; empty for an anonymous caller.
        scope: The patterns that the request narrows its skills to.
    """
    if grants is None:
        return Access(None, tuple(scope))
    named = {name for each in grants for name in each.when}
    held = {name: frozenset(_find_values(claims, name)) for name in named}
    given = (each for each in grants if _applies(each, held))
    shown = dict.fromkeys((tuple(each.allow), tuple(each.deny)) for each in given)
    return Access(tuple(shown), tuple(scope))


def find_claims(
    grants: Sequence[AccessGrant] | None, claims: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return what of these claims decides which skills a caller sees, and no more.

    >>> find_claims((), {"groups": ["payments"]})
    {}
    """
    wanted = _find_wanted(grants)
    held = {name: [*_find_values(claims, name)] for name in wanted}
    found = {
        name: sorted(wanted[name].intersection(values)) for name, values in held.items()
    }
    return {name: values for name, values in found.items() if values}


def derive_grants_key(grants: Sequence[AccessGrant] | None) -> str:
    """Return a digest of what `find_claims` looks for."""
    wanted = {name: sorted(values) for name, values in _find_wanted(grants).items()}
    text = json.dumps(wanted, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def _find_wanted(grants: Sequence[AccessGrant] | None) -> dict[str, set[str]]:
    """Return the claims that grants compare, each with its values."""
    wanted: dict[str, set[str]] = {}
    for each in grants or ():
        for name, values in each.when.items():
            wanted.setdefault(name, set()).update(values)
    return wanted


def parse_scope(text: str) -> tuple[str, ...]:
    """Return the patterns of a scope as a request writes it, separated by commas.

    >>> parse_scope("ui/**, payments/refund ,")
    ('ui/**', 'payments/refund')

    Raises:
        InvalidArgumentsError: There are too many, or they are too long.
    """
    every = dict.fromkeys(each.strip() for each in text.split(","))
    patterns = tuple(each for each in every if each)
    longest = max(map(len, patterns), default=0)
    if len(patterns) > MAX_SCOPE_PATTERNS or longest > MAX_PATTERN_CHARACTERS:
        raise InvalidArgumentsError(
            f"scope: has more than {MAX_SCOPE_PATTERNS} patterns, or one of more than "
            f"{MAX_PATTERN_CHARACTERS} characters. Name folders, such as ui/**."
        )
    wildcards = sum(map(count_wildcards, patterns))
    if (
        sum(map(len, patterns)) > MAX_SCOPE_CHARACTERS
        or wildcards > MAX_SCOPE_WILDCARDS
    ):
        raise InvalidArgumentsError(
            f"scope: has more than {MAX_SCOPE_CHARACTERS:,} characters or "
            f"{MAX_SCOPE_WILDCARDS} wildcards (*, **/, ?, [...]) in all of its "
            "patterns. Name folders, such as ui/**."
        )
    return patterns


def _applies(grant: AccessGrant, held: Mapping[str, frozenset[str]]) -> bool:
    return all(not held[name].isdisjoint(values) for name, values in grant.when.items())


def _find_values(claims: Mapping[str, Any], name: str) -> Iterator[str]:
    """Iterate over the values of a claim as texts; none if there is no such claim."""
    found = _find(claims, name)
    if isinstance(found, str) and name.rpartition(".")[2] in _LISTS:
        found = found.split()
    for each in found if isinstance(found, list | tuple) else (found,):
        if isinstance(each, bool):
            yield str(each).lower()
        elif isinstance(each, str | int):
            yield str(each)


def _find(claims: Mapping[str, Any], name: str) -> object:
    """Return a claim; `realm_access.roles` is one inside of another.

    A claim of exactly this name wins: some providers use addresses as names.
    """
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


@lru_cache(maxsize=_MOST_COMPILED)
def _compile(patterns: tuple[str, ...]) -> Patterns:
    return Patterns(patterns)
