"""Background refresh."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from skills_mcp.errors import SkillsError

logger = logging.getLogger(__name__)

CachedValue = TypeVar("CachedValue")


class BackgroundCache(Generic[CachedValue]):
    """Stale-while-revalidate cache of one value; readers never wait."""

    def __init__(
        self,
        make: Callable[[], CachedValue],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._clock = clock
        self._gate = threading.Lock()
        self._value: CachedValue | None = None
        self._failure = ""
        self._made_at: float | None = None
        self._is_making = False

    def get_stale(self) -> CachedValue | None:
        """Newest value, None before the first; starts a refresh if stale."""
        with self._gate:
            if not self._is_making and self._is_old():
                self._is_making = True
                threading.Thread(target=self._run, daemon=True).start()
            return self._value

    @property
    def is_making(self) -> bool:
        return self._is_making

    @property
    def failure(self) -> str:
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
