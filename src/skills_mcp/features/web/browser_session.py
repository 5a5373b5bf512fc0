"""Who uses a browser: a session that the browser itself keeps, signed by this server.

Rule: a session ends by itself, when it was not used for a while and at a fixed time
after the sign-in, and what the person may see is derived anew for each request.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skills_mcp.skills.access import (
    Access,
    AccessGrant,
    derive_access,
    derive_grants_key,
    find_claims,
)
from skills_mcp.skills.principal import READ, SCOPES, Principal, is_name

_ALGORITHM = "HS256"

_SESSION, _ATTEMPT = "session", "sign-in"
"""What a signed text is for: one is never taken for the other."""

ATTEMPT_SECONDS = 600
"""How long a person may take to sign in at the provider."""

_MAX_NAME = 100
"""Of a name that is shown; browsers drop a cookie beyond 4,096 characters."""


MAX_ENDED = 20_000
"""How many sessions that were ended here are known: 4 MB, at 200 bytes for each.

A person ends one only after a sign-in at the provider, so it takes as many sign-ins to
have one forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A person who has signed in with a browser."""

    subject: str
    issuer: str
    name: str
    """What the pages call the person."""
    scopes: tuple[str, ...]
    claims: Mapping[str, Sequence[str]]
    """Those that decide what the person may see."""
    began_at: int
    """In seconds since the epoch."""
    seen_at: int
    session_id: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def principal(self, grants: Sequence[AccessGrant] | None) -> Principal:
        """Return the caller that the person is for tools, pages and REST alike."""
        access: Access = derive_access(grants, self.claims)
        return Principal(self.subject, self.issuer, frozenset(self.scopes), access)


def begin_session(
    claims: Mapping[str, Any],
    scopes: frozenset[str],
    grants: Sequence[AccessGrant] | None,
    now: float,
) -> BrowserSession:
    """Return the session of a person of whom a provider has said these claims."""
    given = (claims.get(name) for name in ("name", "preferred_username", "email"))
    named = (each[:_MAX_NAME] for each in given if isinstance(each, str))
    name = next(filter(is_name, named), claims["sub"])
    return BrowserSession(
        subject=claims["sub"],
        issuer=claims["iss"],
        name=name[:_MAX_NAME],
        scopes=tuple(each for each in SCOPES if each in {READ, *scopes}),
        claims=find_claims(grants, claims),
        began_at=int(now),
        seen_at=int(now),
    )


class SessionSeal:
    """Signs what browsers keep, and knows its own signature again.

    Args:
        key: Of all replicas together.
        hours: How long a session lasts, used or not.
        idle_minutes: How long it lasts when it is not used.
        grants: Which claims decide what a person may see.
        clock: The time, in seconds since the epoch.
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

    def seal_session(self, session: BrowserSession) -> str:
        """Return a session as a browser keeps it."""
        values = {
            "sub": session.subject,
            "iss": session.issuer,
            "name": session.name,
            "scopes": list(session.scopes),
            "claims": {name: list(held) for name, held in session.claims.items()},
            "began": session.began_at,
            "seen": session.seen_at,
            "sid": session.session_id,
            "grants": self._grants_key,
        }
        return self._seal(_SESSION, values, self._ends_at(session))

    def open_session(self, sealed: str) -> BrowserSession | None:
        """Return the session that a browser has kept; None if it is none, or over."""
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
        """End a session, however often its cookie was copied or renewed.

        Other replicas do not hear of it: there, a copy lasts as any cookie does.
        """
        self._ended[session.session_id] = None
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def renew(self, session: BrowserSession) -> BrowserSession | None:
        """Return a session as used now; None if that is not worth a new cookie."""
        now = self.clock()
        if now - session.seen_at < self._idle_seconds / 10:
            return None
        return replace(session, seen_at=int(now))

    def seal_attempt(self, values: Mapping[str, str]) -> str:
        """Return what a browser keeps while its person is at the provider."""
        return self._seal(_ATTEMPT, values, self.clock() + ATTEMPT_SECONDS)

    def open_attempt(self, sealed: str) -> Mapping[str, str] | None:
        """Return what it has kept; None if it is none, or too old."""
        return self._open(_ATTEMPT, sealed)

    def form_token(self, session_id: str) -> str:
        """Return what each form of a session sends along, so that no other page can."""
        return hmac.digest(self._key, f"form\0{session_id}".encode(), "sha256").hex()

    def _ends_at(self, session: BrowserSession) -> float:
        return min(
            session.began_at + self._longest_seconds,
            session.seen_at + self._idle_seconds,
        )

    def _seal(self, purpose: str, values: Mapping[str, Any], ends_at: float) -> str:
        import jwt

        said = {**values, "aud": purpose, "exp": int(ends_at)}
        return jwt.encode(said, self._key, _ALGORITHM)

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
