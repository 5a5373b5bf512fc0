"""One attempt to add a skill: it ends by a deadline, or when it is stopped."""

import threading
import time
from collections.abc import Callable

from skills_mcp.errors import UploadStoppedError

MAX_UPLOAD_SECONDS = 50.0
"""How long an attempt may take: proxies give up after 60 s, and usual ones take one."""


class UploadAttempt:
    """The right to go on, which blocking work asks for between two steps.

    Args:
        seconds: How long it lasts from `begin` on.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        seconds: float = MAX_UPLOAD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends_at = clock() + seconds
        self._stopped = threading.Event()

    def begin(self) -> None:
        """Start the time; called by the thread that does the work."""
        self._ends_at = self._clock() + self._seconds

    def stop(self) -> None:
        """End the work at its next step; called by any thread."""
        self._stopped.set()

    @property
    def left_seconds(self) -> float:
        """How long it lasts still; zero if it is over."""
        if self._stopped.is_set():
            return 0.0
        return max(0.0, self._ends_at - self._clock())

    def check(self) -> None:
        """Ask whether to go on.

        Raises:
            UploadStoppedError: The time is up, or the attempt was stopped.
        """
        if self._stopped.is_set():
            raise UploadStoppedError(
                "The upload was stopped, because the server ends or the connection was "
                "closed. Nothing was added: send it again"
            )
        if not self.left_seconds:
            raise UploadStoppedError(
                f"The upload took more than {self._seconds:g} seconds. Nothing was "
                "added: send it again when the server has less to do, or pack fewer "
                "and smaller files"
            )


UNLIMITED = UploadAttempt(float("inf"))
"""The attempt of a person at the command line, who ends it with Ctrl-C."""
