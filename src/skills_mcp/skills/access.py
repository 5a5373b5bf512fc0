"""Access control: principals, OAuth scopes, and visible skills. Pure.

A grant shows skills matched by `allow` but not by `deny`; grants add up. A request may
narrow the result, never widen it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, Protocol, TypeGuard

from skills_mcp.config.rollouts import has_ended
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.files.paths import count_wildcards
from skills_mcp.skills.skill_index import (
    SkillPatterns,
    SkillRow,
    compile_skill_patterns,
    normalize_pattern,
)

MAX_SCOPE_PATTERNS = 32
"""Per request; headers are short, and each pattern is tried on every skill."""

MAX_PATTERN_CHARACTERS = 256
"""Per pattern: longer than most paths."""

MAX_SCOPE_CHARACTERS = 4096
"""All patterns together: 32 deep folders."""

MAX_SCOPE_WILDCARDS = 64
"""All patterns together: two for each of 32.

This bounds the states of the matcher: 10,000 skills match in a fraction of a second.
"""

_ALL = ("**",)

_MATCH_ALL = frozenset({"*", "**"})  # a star of a pattern stands for slashes, too

_KEY_DIGITS = 16  # of two different texts, one in 10^19 has the same

# What a standard defines as one text with a value between spaces (RFC 6749, RFC 9068).
_LISTS = frozenset({"scope", "scp"})


class AccessGrant(Protocol):
    """A rule of the operator: conditions on claims, and patterns of skills."""

    @property
    def when(self) -> Mapping[str, Sequence[str]]:
        """Required claims, each with accepted values; empty for every caller."""
        ...

    @property
    def allow(self) -> Sequence[str]: ...

    @property
    def deny(self) -> Sequence[str]:
        """Exceptions from `allow`."""
        ...

    @property
    def drafts(self) -> bool:
        """Whether it gives drafts, too."""
        ...


PatternPair = tuple[tuple[str, ...], tuple[str, ...]]
"""Allowed and denied patterns of skills."""


@dataclass(frozen=True, slots=True)
class Access:
    """Visibility of skills: a value, equal for callers with the same grants."""

    grants: tuple[PatternPair, ...] | None = None
    """Pairs of allowed and denied patterns; None: everything."""
    scope: tuple[str, ...] = ()
    """Patterns requested by the caller; empty for all."""
    within: "Access | None" = None
    """Upper bound: never more than this is visible."""
    draft_grants: tuple[PatternPair, ...] = ()
    """Those of the grants that give drafts, too."""

    @property
    def is_unlimited(self) -> bool:
        """No skill of any name can be hidden."""
        if self.within and not self.within.is_unlimited:
            return False
        return self.grants is None or any(
            not deny and not _MATCH_ALL.isdisjoint(map(normalize_pattern, allow))
            for allow, deny in self.grants
        )

    @property
    def is_granted(self) -> bool:
        """Whether grants decide, and not the operator's `visibility` alone."""
        return self.within.is_granted if self.within else self.grants is not None

    def sees(self, listed: SkillRow) -> bool:
        if self.within and not self.within.sees(listed):
            return False
        if self.grants is None:
            return True
        grants = self.draft_grants if listed.lifecycle.is_draft else self.grants
        return any(
            compile_skill_patterns(allow).fit(listed)
            and not compile_skill_patterns(deny).fit(listed)
            for allow, deny in grants
        )

    @property
    def is_scoped(self) -> bool:
        return any(self._scopes())

    @property
    def unscoped(self) -> "Access":
        """The same access without the scope of the request."""
        within = self.within and self.within.unscoped
        return Access(self.grants, within=within, draft_grants=self.draft_grants)

    def compile_scope(self) -> Callable[[SkillRow], bool]:
        """Predicate for the scope of the request, regardless of access.

        Patterns chosen by a request are never cached.
        """
        scopes = [SkillPatterns(scope).fit for scope in self._scopes()]
        if len(scopes) == 1:
            return scopes[0]
        return lambda listed: all(fits(listed) for fits in scopes)

    def _scopes(self) -> Iterator[tuple[str, ...]]:
        if self.scope:
            yield self.scope
        if self.within:
            yield from self.within._scopes()  # noqa: SLF001 - it is one of us

    def narrow(self, allow: tuple[str, ...], deny: tuple[str, ...]) -> "Access":
        """Restrict to skills matched by `allow` (empty: all) but not by `deny`."""
        pairs = ((allow or _ALL, deny),)
        return Access(pairs, within=self, draft_grants=pairs)


EVERYTHING = Access()
"""Access of the operator, and of every caller without configured grants."""


class EarlyGrant(NamedTuple):
    """Callers who get the version of a rollout; it shows no skill."""

    when: Mapping[str, Sequence[str]]
    until: str = ""
    """The last day, in ISO 8601; empty for every day."""
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    drafts: bool = False


def is_early(grants: Sequence[AccessGrant] | None, claims: Mapping[str, Any]) -> bool:
    """Whether a caller gets the version of a rollout today."""
    return any(
        isinstance(grant, EarlyGrant)
        and not has_ended(grant.until)
        and _applies(grant, {name: frozenset(_find_values(claims, name)) for name in grant.when})
        for grant in grants or ()
    )


def derive_access(
    grants: Sequence[AccessGrant] | None,
    claims: Mapping[str, Any],
    scope: Iterable[str] = (),
) -> Access:
    """Access of a caller, narrowed to the scope of the request.

    No grants (None): everything for everyone. Claims come from a validated token; they
    are empty for an anonymous caller.
    """
    if grants is None or (grants and all(isinstance(grant, EarlyGrant) for grant in grants)):
        return Access(None, tuple(scope))
    named = {name for grant in grants for name in grant.when}
    claim_values = {name: frozenset(_find_values(claims, name)) for name in named}
    applicable = [grant for grant in grants if _applies(grant, claim_values)]
    with_drafts = [grant for grant in applicable if grant.drafts]
    patterns, of_drafts = map(_select_patterns, (applicable, with_drafts))
    return Access(patterns, tuple(scope), draft_grants=of_drafts)


def _select_patterns(grants: Iterable[AccessGrant]) -> tuple[PatternPair, ...]:
    return tuple(dict.fromkeys((tuple(grant.allow), tuple(grant.deny)) for grant in grants))


def find_claims(
    grants: Sequence[AccessGrant] | None, claims: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Keep only the claim values compared by grants.

    >>> find_claims((), {"groups": ["payments"]})
    {}
    """
    compared = _find_compared(grants)
    claim_values = {name: [*_find_values(claims, name)] for name in compared}
    found = {
        name: sorted(compared[name].intersection(values)) for name, values in claim_values.items()
    }
    return {name: values for name, values in found.items() if values}


def derive_grants_key(grants: Sequence[AccessGrant] | None) -> str:
    """Digest of all conditions, the input of `find_claims`."""
    compared = {name: sorted(values) for name, values in _find_compared(grants).items()}
    return sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()[:_KEY_DIGITS]


def _find_compared(grants: Sequence[AccessGrant] | None) -> dict[str, set[str]]:
    compared: dict[str, set[str]] = {}
    for grant in grants or ():
        for name, values in grant.when.items():
            compared.setdefault(name, set()).update(values)
    return compared


def parse_scope(text: str) -> tuple[str, ...]:
    """Parse comma-separated patterns.

    >>> parse_scope("ui/**, payments/refund ,")
    ('ui/**', 'payments/refund')

    Raises:
        InvalidArgumentsError: There are too many, or they are too long.
    """
    entries = dict.fromkeys(pattern.strip() for pattern in text.split(","))
    patterns = tuple(pattern for pattern in entries if pattern)
    longest = max(map(len, patterns), default=0)
    if len(patterns) > MAX_SCOPE_PATTERNS or longest > MAX_PATTERN_CHARACTERS:
        raise InvalidArgumentsError(
            f"scope: has more than {MAX_SCOPE_PATTERNS} patterns, or one of more than "
            f"{MAX_PATTERN_CHARACTERS} characters. Name folders, such as ui/**."
        )
    wildcards = sum(map(count_wildcards, patterns))
    if sum(map(len, patterns)) > MAX_SCOPE_CHARACTERS or wildcards > MAX_SCOPE_WILDCARDS:
        raise InvalidArgumentsError(
            f"scope: has more than {MAX_SCOPE_CHARACTERS:,} characters or "
            f"{MAX_SCOPE_WILDCARDS} wildcards (*, **/, ?, [...]) in all of its "
            "patterns. Name folders, such as ui/**."
        )
    return patterns


def _applies(grant: AccessGrant, claim_values: Mapping[str, frozenset[str]]) -> bool:
    return all(not claim_values[name].isdisjoint(values) for name, values in grant.when.items())


CLIENT_CLAIMS = ("client_id", "azp", "cid", "appid")
"""Claims that name the program that asked for the token.

The words of RFC 9068, and Okta's and Entra's older ones.
"""

AGENT = "agent"
"""Condition of a grant on the program behind a request, unless tokens have such a claim."""

_MAX_ACTORS = 8  # of a chain of delegations (RFC 8693)


def find_client(claims: Mapping[str, Any]) -> str:
    return next(filter(is_display_name, map(claims.get, CLIENT_CLAIMS)), "")


def find_agents(claims: Mapping[str, Any]) -> list[str]:
    """Names of the programs behind a token: its actors, the current one first, and its client.

    >>> find_agents({"sub": "ada", "act": {"sub": "reviewer"}, "azp": "ide"})
    ['reviewer', 'ide']
    """
    actors: list[object] = []
    actor = claims.get("act")
    while isinstance(actor, Mapping) and len(actors) < _MAX_ACTORS:
        actors.append(actor.get("sub"))
        actor = actor.get("act")
    return list(dict.fromkeys(filter(is_display_name, (*actors, find_client(claims)))))


def find_acting_agent(claims: Mapping[str, Any]) -> str:
    """Name of the agent that acts for a person, or without one; empty for a person.

    >>> find_acting_agent({"sub": "ada", "azp": "ide"})
    ''
    """
    client = find_client(claims)
    # The token of a client itself (RFC 6749, section 4.4), as providers mark it.
    is_own = client and (
        claims.get("sub") in {client, f"{client}@clients"}
        or claims.get("idtyp") == "app"
        or claims.get("preferred_username") == f"service-account-{client}"
    )
    return next(iter(find_agents(claims)), "") if is_own or "act" in claims else ""


def _find_values(claims: Mapping[str, Any], name: str) -> Iterator[str]:
    found = find_agents(claims) if name == AGENT and AGENT not in claims else _find(claims, name)
    if isinstance(found, str) and name.rpartition(".")[2] in _LISTS:
        found = found.split()
    for value in found if isinstance(found, list | tuple) else (found,):
        if isinstance(value, bool):
            yield str(value).lower()
        elif isinstance(value, str | int):
            yield str(value)


def _find(claims: Mapping[str, Any], name: str) -> object:
    """Value of a claim; dots address nested claims (`realm_access.roles`).

    An exact match wins: some providers use URLs as claim names.
    """
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


READ = "skills:read"
REFRESH = "skills:refresh"
FEEDBACK = "skills:feedback"
REPORT = "skills:report"
EVENTS = "skills:events"
UPLOAD = "skills:upload"

SCOPES = (READ, REFRESH, FEEDBACK, REPORT, EVENTS, UPLOAD)

MAX_NAME_CHARACTERS = 255
"""Limit of `sub` (OpenID Connect Core 1.0, section 2)."""

# Control characters and line ends forge lines of a log; surrogates cannot be encoded.
_UNFIT_FOR_A_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

PRINCIPAL_KEY = "skills_mcp.principal"


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated or anonymous caller, with scopes and access."""

    subject: str
    """Claim `sub`; empty without sign-in."""
    issuer: str
    scopes: frozenset[str]
    access: Access
    is_early: bool = False
    """Whether the caller gets the version of a rollout."""

    def may(self, scope: str) -> bool:
        return scope in self.scopes


OPERATOR = Principal("", "", frozenset(SCOPES) - {EVENTS, UPLOAD}, EVERYTHING)
"""Caller on standard input: the person who started the server."""


def is_display_name(value: object) -> TypeGuard[str]:
    """Whether a claim is usable as the name of a person or program."""
    return (
        isinstance(value, str)
        and 0 < len(value.strip()) <= len(value) <= MAX_NAME_CHARACTERS
        and not _UNFIT_FOR_A_NAME.search(value)
    )
