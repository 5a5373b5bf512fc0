"""Operations port: health checks for load balancers, metrics for Prometheus.

It has no authentication, so it reveals nothing about skills or callers, and a separate
address, so a network policy can block it.
"""

from dataclasses import dataclass
from typing import Literal

from skills_mcp.library import SkillLibrary

Reason = Literal["ending", "loading", "sync failed"]


@dataclass(frozen=True, slots=True)
class NotReady:
    """Reason against sending requests."""

    reason: Reason
    step: str = ""
    code: str = ""


class Health:
    """Readiness of this server."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._is_serving = False
        self._is_ending = False

    def begin(self) -> None:
        """The MCP port is open."""
        self._is_serving = True

    def end(self) -> None:
        """Shutdown has begun."""
        self._is_ending = True

    def check_readiness(self) -> NotReady | None:
        """Reason for not being ready; None if ready. Blocking."""
        if self._is_ending:
            return NotReady("ending")
        library = self._library
        if library.is_ready and self._is_serving:
            return None
        errors = [state.error for state in library.states() if state.error]
        if library.is_ready or library.sync_step or not errors:
            return NotReady("loading", library.sync_step)
        return NotReady("sync failed", code=errors[0].code)
