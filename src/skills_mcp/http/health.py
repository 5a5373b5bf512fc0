"""Whether the server can be sent requests, and if not, why."""

from dataclasses import dataclass
from typing import Literal

from skills_mcp.library import SkillLibrary

Reason = Literal["ending", "loading", "sync failed"]


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why no request should be sent here."""

    reason: Reason
    step: str = ""
    """The step of the sync that is waited for, if one runs."""
    code: str = ""
    """The code of the error that the sync has ended with."""


class Health:
    """Knows whether this server serves.

    Args:
        library: What is served.
    """

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._is_serving = False
        self._is_ending = False

    def begin(self) -> None:
        """Note that the port of MCP is open."""
        self._is_serving = True

    def end(self) -> None:
        """Note that the server has been asked to end."""
        self._is_ending = True

    def read_obstacle(self) -> NotReady | None:
        """Return why no request should be sent here; None if it should.  Blocking."""
        if self._is_ending:
            return NotReady("ending")
        library = self._library
        if library.is_ready and self._is_serving:
            return None
        errors = [state.error for state in library.states() if state.error]
        if library.is_ready or library.sync_step or not errors:
            return NotReady("loading", library.sync_step)
        return NotReady("sync failed", code=errors[0].code)
