"""Browser sessions in signed cookies.

Sessions expire when idle, and at a fixed time after sign-in. Access is derived anew for
each request.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skills_mcp.skills.access import (
    READ,
    SCOPES,
    Access,
    AccessGrant,
    Principal,
    derive_access,
    derive_grants_key,
    find_claims,
    is_display_name,
)

_ALGORITHM = "HS256"

_SESSION, _ATTEMPT = "session", "sign-in"
"""JWT audiences: a session is never accepted as a sign-in attempt."""

ATTEMPT_SECONDS = 600

_MAX_NAME = 100
"""Of a displayed name; browsers drop cookies beyond 4,096 characters."""


MAX_ENDED = 20_000
"""Size of the list of revoked sessions: 4 MB, at 200 bytes each.

Revocation takes a sign-in at the provider, so flushing the list takes as many sign-ins.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    subject: str
    issuer: str
    name: str
    scopes: tuple[str, ...]
    claims: Mapping[str, Sequence[str]]
    """Claims compared by grants."""
    began_at: int
    """Seconds since the epoch."""
    seen_at: int
    session_id: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def principal(self, grants: Sequence[AccessGrant] | None) -> Principal:
        access: Access = derive_access(grants, self.claims)
        return Principal(self.subject, self.issuer, frozenset(self.scopes), access)


def begin_session(
    claims: Mapping[str, Any],
    scopes: frozenset[str],
    grants: Sequence[AccessGrant] | None,
    now: float,
) -> BrowserSession:
    candidates = (claims.get(name) for name in ("name", "preferred_username", "email"))
    named = (value[:_MAX_NAME] for value in candidates if isinstance(value, str))
    name = next(filter(is_display_name, named), claims["sub"])
    return BrowserSession(
        subject=claims["sub"],
        issuer=claims["iss"],
        name=name[:_MAX_NAME],
        scopes=tuple(value for value in SCOPES if value in {READ, *scopes}),
        claims=find_claims(grants, claims),
        began_at=int(now),
        seen_at=int(now),
    )


class SessionSigner:
    """Signs and verifies cookies.

    Args:
        key: Shared by all replicas.
        grants: Determine the stored claims.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        key: bytes,
        *,
        hours: int,
        idle_minutes: int,
        grants: Sequence[AccessGrant] | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._longest_seconds = hours * 3_600
        self._idle_seconds = idle_minutes * 60
        self._grants_key = derive_grants_key(grants)
        self._ended: OrderedDict[str, None] = OrderedDict()
        self.clock = clock

    def sign_session(self, session: BrowserSession) -> str:
        values = {
            "sub": session.subject,
            "iss": session.issuer,
            "name": session.name,
            "scopes": list(session.scopes),
            "claims": {name: list(claim_values) for name, claim_values in session.claims.items()},
            "began": session.began_at,
            "seen": session.seen_at,
            "sid": session.session_id,
            "grants": self._grants_key,
        }
        return self._seal(_SESSION, values, self._ends_at(session))

    def verify_session(self, sealed: str) -> BrowserSession | None:
        """Session from a cookie; None if invalid or expired."""
        values = self._open(_SESSION, sealed)
        if not values or values["grants"] != self._grants_key:
            return None
        session = BrowserSession(
            subject=values["sub"],
            issuer=values["iss"],
            name=values["name"],
            scopes=tuple(values["scopes"]),
            claims=values["claims"],
            began_at=values["began"],
            seen_at=values["seen"],
            session_id=values["sid"],
        )
        if session.session_id in self._ended:
            return None
        return session if self.clock() < self._ends_at(session) else None

    def end(self, session: BrowserSession) -> None:
        """Revoke a session, including copies and renewals of its cookie.

        Other replicas are not notified: there, copies stay valid until they expire.
        """
        self._ended[session.session_id] = None
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def renew(self, session: BrowserSession) -> BrowserSession | None:
        """Session marked as used; None if a new cookie is not worthwhile."""
        now = self.clock()
        if now - session.seen_at < self._idle_seconds / 10:
            return None
        return replace(session, seen_at=int(now))

    def sign_attempt(self, values: Mapping[str, str]) -> str:
        return self._seal(_ATTEMPT, values, self.clock() + ATTEMPT_SECONDS)

    def verify_attempt(self, sealed: str) -> Mapping[str, str] | None:
        return self._open(_ATTEMPT, sealed)

    def form_token(self, session_id: str) -> str:
        """CSRF token for forms of a session."""
        return hmac.digest(self._key, f"form\0{session_id}".encode(), "sha256").hex()

    def _ends_at(self, session: BrowserSession) -> float:
        return min(
            session.began_at + self._longest_seconds,
            session.seen_at + self._idle_seconds,
        )

    def _seal(self, purpose: str, values: Mapping[str, Any], ends_at: float) -> str:
        import jwt

        payload = {**values, "aud": purpose, "exp": int(ends_at)}
        return jwt.encode(payload, self._key, _ALGORITHM)

    def _open(self, purpose: str, sealed: str) -> dict[str, Any] | None:
        import jwt

        try:
            values: dict[str, Any] = jwt.decode(
                sealed,
                self._key,
                algorithms=[_ALGORITHM],
                audience=purpose,
                # The clock of this seal decides.
                options={"require": ["exp", "aud"], "verify_exp": False},
            )
        except jwt.PyJWTError:
            return None
        return values if self.clock() < values["exp"] else None
