"""Who asks: a caller that an identity provider has named, or the operator."""

from dataclasses import dataclass

from skills_mcp.identity.access import EVERYTHING, Access

READ = "skills:read"
REFRESH = "skills:refresh"
FEEDBACK = "skills:feedback"
REPORT = "skills:report"
EVENTS = "skills:events"
UPLOAD = "skills:upload"

SCOPES = (READ, REFRESH, FEEDBACK, REPORT, EVENTS, UPLOAD)
"""What a token can permit, the least first."""


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
