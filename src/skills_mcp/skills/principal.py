"""Principals and OAuth scopes."""

import re
from dataclasses import dataclass
from typing import TypeGuard

from skills_mcp.skills.access import EVERYTHING, Access

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
