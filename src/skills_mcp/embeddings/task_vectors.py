"""The vector of a task, while an agent waits: soon, or not at all."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

from skills_mcp.embeddings.client import EmbeddingError, Vector, make_sendable

logger = logging.getLogger(__name__)

# An agent asks again with the same words: to pick a candidate, or in the next window.
_REMEMBERED = 256

# No task is sent for so long after a failure: as long as an agent works on one step.
PAUSE_SECONDS = 30.0

# What a user wants comes first; pasted logs and files follow.
_MAX_TASK_CHARACTERS = 4_000


def compose_task_text(context: str) -> str:
    """Return the text that is sent for a task."""
    return make_sendable(" ".join(context.split())[:_MAX_TASK_CHARACTERS])


class TaskVectors:
    """Asks for vectors of tasks, and remembers them in memory only.

    Args:
        ask: Returns the vector of a text; blocking.
        timeout_seconds: How long a caller waits at most.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self,
        ask: Callable[[str], Vector],
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._guard = Lock()
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._paused_until = float("-inf")
        self._told = ""

    def embed(self, text: str) -> Vector | None:
        """Return the vector of a task, or None if there is none now.  Blocking."""
        known = self._remember(text)
        if known is not None:
            return known
        if not text or self._clock() < self._paused_until:
            return None
        waiting: Future[Vector] = Future()
        # A thread of its own, because nothing else bounds the look-up of a host's
        # address; it ends by itself, and a late answer is remembered.
        work = Thread(target=self._answer, args=(text, waiting), daemon=True)
        work.start()
        try:
            vector = waiting.result(self._timeout_seconds)
        except TimeoutError:
            self.fail(EmbeddingError(f"no vector in {self._timeout_seconds:g} seconds"))
            return None
        except EmbeddingError as error:
            self.fail(error)
            return None
        self._recover()
        return vector

    def fail(self, error: EmbeddingError) -> None:
        """Send no task for a while, and log once why."""
        pause = max(PAUSE_SECONDS, error.retry_after_seconds or 0.0)
        with self._guard:
            self._paused_until = self._clock() + pause
            is_news = self._told != str(error)
            self._told = str(error)
        if is_news:
            logger.warning("Tasks are compared by their words alone: %s", error)

    def _recover(self) -> None:
        with self._guard:
            had_failed, self._told = bool(self._told), ""
        if had_failed:
            logger.info("Tasks are compared by their meanings again")

    def _answer(self, text: str, waiting: "Future[Vector]") -> None:
        try:
            vector = self._ask(text)
        except EmbeddingError as error:
            waiting.set_exception(error)
        except Exception:
            logger.exception("Asking for a vector failed")
            waiting.set_exception(EmbeddingError("a fault of this program, see above"))
        else:
            with self._guard:
                self._known[text] = vector
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            waiting.set_result(vector)

    def _remember(self, text: str) -> Vector | None:
        with self._guard:
            vector = self._known.get(text)
            if vector is not None:
                self._known.move_to_end(text)
            return vector
