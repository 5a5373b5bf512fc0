"""Who asks: a caller that an identity provider has named, or the operator."""

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
"""What a token can permit, the least first."""

MAX_NAME_CHARACTERS = 255
"""Of a `sub`: OpenID Connect Core 1.0, section 2, permits no more."""

# Control characters and line ends forge lines of a log; surrogates cannot be encoded.
_UNFIT_FOR_A_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

PRINCIPAL_KEY = "skills_mcp.principal"
"""Where a request over HTTP holds its caller, in the scope of ASGI."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller, and what that caller may do and see."""

    subject: str
    """The name that the issuer gives; empty without sign-in."""
    issuer: str
    scopes: frozenset[str]
    access: Access

    def may(self, scope: str) -> bool:
        """Whether a scope is among those of the caller."""
        return scope in self.scopes


OPERATOR = Principal("", "", frozenset(SCOPES) - {EVENTS, UPLOAD}, EVERYTHING)
"""The caller on standard input: the person who has started the server."""


def is_name(value: object) -> TypeGuard[str]:
    """Whether a claim can be the name of a person or a program."""
    return (
        isinstance(value, str)
        and 0 < len(value.strip()) <= len(value) <= MAX_NAME_CHARACTERS
        and not _UNFIT_FOR_A_NAME.search(value)
    )
