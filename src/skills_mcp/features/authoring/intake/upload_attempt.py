"""Deadline and cancellation of one upload."""

import threading
import time
from collections.abc import Callable

from skills_mcp.errors import UploadStoppedError

MAX_UPLOAD_SECONDS = 50.0
"""Below the 60 s time-out of proxies; a usual upload takes one second."""


class UploadAttempt:
    """Cancellation token with a deadline, polled by blocking work."""

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
        """Restart the time-out; called by the worker thread."""
        self._ends_at = self._clock() + self._seconds

    def stop(self) -> None:
        """Cancel at the next check; thread-safe."""
        self._stopped.set()

    @property
    def left_seconds(self) -> float:
        """Time to the deadline, at least zero."""
        if self._stopped.is_set():
            return 0.0
        return max(0.0, self._ends_at - self._clock())

    def check(self) -> None:
        """Check for cancellation.

        Raises:
            UploadStoppedError: The deadline has passed, or the attempt was cancelled.
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
"""For the command line: Ctrl-C cancels it."""
