"""How often each caller of a shared server may refresh: a token bucket per caller.

A refresh asks the remotes, and one caller's program that asks without end would use up
what the host of the repositories allows to all.
"""

import math
import time
from collections.abc import Callable, Hashable
from typing import Any

from mcp.server.context import ServerRequestContext

from skills_mcp.errors import RefreshLimitError
from skills_mcp.server.callers import identify_client
from skills_mcp.skills.principal import OPERATOR

_MINUTE_SECONDS = 60.0


class RefreshLimit:
    """Counts the refreshes of each caller.

    Args:
        per_minute: How many a caller may ask for at once, and again in each minute.
        clock: The time in seconds, from any start.
    """

    def __init__(
        self, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._left: dict[Hashable, tuple[float, float]] = {}
        """What each caller had left, and when; the latest last."""

    def take(self, caller: Hashable) -> None:
        """Count a refresh.

        Raises:
            RefreshLimitError: The caller has to wait; the message says how long.
        """
        now = self._clock()
        self._forget(now - _MINUTE_SECONDS)
        per_second = self._per_minute / _MINUTE_SECONDS
        left, at = self._left.pop(caller, (self._per_minute, now))
        left = min(self._per_minute, left + (now - at) * per_second)
        self._left[caller] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            seconds = math.ceil((1 - left) / per_second)
            raise RefreshLimitError(
                "You have called refresh_skills too often. The server fetches by "
                "itself every few minutes; go on with the skills that it has, or call "
                f"refresh_skills again in {seconds} s."
            )

    def _forget(self, before: float) -> None:
        """Forget callers whose bucket is full again by now."""
        while self._left:
            caller = next(iter(self._left))
            if self._left[caller][1] > before:
                return
            del self._left[caller]


def derive_bucket(
    context: ServerRequestContext[Any, Any], *, trust_proxy_headers: bool
) -> Hashable:
    """Key of the token bucket of a message: that of its client."""
    if context.request is None:
        return OPERATOR.issuer, OPERATOR.subject
    scope = context.request.scope
    return identify_client(scope, trust_proxy_headers=trust_proxy_headers)
