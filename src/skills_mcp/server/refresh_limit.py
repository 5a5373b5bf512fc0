"""Rate limit of refreshes."""

import math
import time
from collections.abc import Callable, Hashable
from typing import Any

from mcp.server.context import ServerRequestContext

from skills_mcp.errors import RefreshLimitError
from skills_mcp.server.callers import identify_client
from skills_mcp.skills.principal import OPERATOR

_MINUTE_SECONDS = 60.0


class RefreshRateLimit:
    """Token buckets for `refresh_skills`, one per caller.

    A caller in a loop would exhaust the Git host's rate limit for everyone.

    Args:
        per_minute: Burst size, and refill per minute.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._tokens: dict[Hashable, tuple[float, float]] = {}
        """What each caller had left, and when; the latest last."""

    def take(self, caller: Hashable) -> None:
        """Take a token.

        Raises:
            RefreshLimitError: The bucket is empty; the message has the waiting time.
        """
        now = self._clock()
        self._forget(now - _MINUTE_SECONDS)
        per_second = self._per_minute / _MINUTE_SECONDS
        tokens, counted_at = self._tokens.pop(caller, (self._per_minute, now))
        tokens = min(self._per_minute, tokens + (now - counted_at) * per_second)
        self._tokens[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        if tokens < 1:
            seconds = math.ceil((1 - tokens) / per_second)
            raise RefreshLimitError(
                "You have called refresh_skills too often. The server fetches by "
                "itself every few minutes; go on with the skills that it has, or call "
                f"refresh_skills again in {seconds} s."
            )

    def _forget(self, before: float) -> None:
        while self._tokens:
            caller = next(iter(self._tokens))
            if self._tokens[caller][1] > before:
                return
            del self._tokens[caller]


def derive_bucket(
    context: ServerRequestContext[Any, Any], *, trust_proxy_headers: bool
) -> Hashable:
    if context.request is None:
        return OPERATOR.issuer, OPERATOR.subject
    scope = context.request.scope
    return identify_client(scope, trust_proxy_headers=trust_proxy_headers)
