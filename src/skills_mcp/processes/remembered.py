"""A value that takes long to make: made in the background, and kept for a while."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from skills_mcp.errors import SkillsError

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """What a function has returned last; those who look never wait for it.

    Args:
        make: Makes the value, on a thread of its own.
        seconds: How long a value, or a failure, is good enough.
        clock: The time in seconds.
    """

    def __init__(
        self,
        make: Callable[[], Value],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._gate = threading.Lock()
        self._value: Value | None = None
        self._failure = ""
        self._made_at: float | None = None
        self._is_making = False

    def look(self) -> Value | None:
        """Return the newest value, None before the first; an old one is made anew."""
        with self._gate:
            if not self._is_making and self._is_old():
                self._is_making = True
                threading.Thread(target=self._run, daemon=True).start()
            return self._value

    @property
    def is_making(self) -> bool:
        """Whether a value is being made now."""
        return self._is_making

    @property
    def failure(self) -> str:
        """Why the last value could not be made; empty if it could."""
        return self._failure

    def _is_old(self) -> bool:
        made_at = self._made_at
        return made_at is None or self._clock() - made_at >= self._seconds

    def _run(self) -> None:
        value, failure = None, ""
        try:
            value = self._make()
        except SkillsError as error:
            failure = str(error)
            logger.warning("A value for the pages could not be made: %s", error)
        except Exception:
            logger.exception("A value for the pages could not be made")
            failure = "It failed for a reason that is in the server's log."
        with self._gate:
            self._value = self._value if failure else value
            self._failure = failure
            self._made_at = self._clock()
            self._is_making = False
