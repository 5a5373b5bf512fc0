"""The vectors of one snapshot's skills: from the cache, or from the provider."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from threading import Event

import numpy as np

from skills_mcp.config import Embedding
from skills_mcp.embeddings.client import Client
from skills_mcp.embeddings.fused import FusedMatcher
from skills_mcp.embeddings.meanings import Meanings
from skills_mcp.embeddings.provider import Provider
from skills_mcp.embeddings.questions import Questions
from skills_mcp.embeddings.reply import EmbeddingError, Matrix, Vector
from skills_mcp.embeddings.texts import compose_text
from skills_mcp.embeddings.vectors import VectorStore
from skills_mcp.processes.retry import derive_pause
from skills_mcp.routing.matcher import Matcher
from skills_mcp.skills.model import Skill

logger = logging.getLogger(__name__)

# Nobody waits for it, and a model on a laptop takes seconds for a full batch.
_TIMEOUT_SECONDS = 60.0

# With pauses of up to 2, 4, 8 and 16 seconds: past a moment of too many requests.
_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 2.0

# A laptop that is offline, or a provider that is down: nobody is waiting.
_PAUSE_SECONDS = 300.0

# What is lost if this process dies, and how often the log says how far it is.
_SAVED_TOGETHER = 1_024


class SkillVectors:
    """Makes itself ready in the background; until then words decide alone.

    Args:
        skills: In path order.
        provider: Whom to ask.
        rules: How to ask, and how much an answer counts.
        client: Speaks to the provider.
        questions: Asks for the vector of a task.
        store: Where vectors are kept.
        wait: Waits for some seconds; returns true to give up instead.
    """

    def __init__(  # noqa: PLR0913 - the parts that bootstrap would otherwise know
        self,
        skills: Sequence[Skill],
        *,
        provider: Provider,
        rules: Embedding,
        client: Client,
        questions: Questions,
        store: VectorStore,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._skills = skills
        self._provider = provider
        self._rules = rules
        self._client = client
        self._questions = questions
        self._store = store
        self._closed = Event()
        self._wait = wait or self._closed.wait
        self._meanings: Meanings | None = None

    @property
    def is_ready(self) -> bool:
        """Whether meanings are compared."""
        return self._meanings is not None

    def fuse(self, matcher: Matcher) -> Matcher:
        """Return a matcher that compares meanings, too, as soon as it can.

        The keyword algorithm stays what 001 §5 says, and is returned as it is.
        """
        if matcher.algorithm == "keyword":
            return matcher
        return FusedMatcher(
            matcher,
            self._skills,
            meanings=lambda: self._meanings,
            questions=self._questions,
            weight=Fraction(str(self._rules.weight)),
            model=self._provider.model,
        )

    def prepare(self) -> bool:
        """Get every vector, and return whether there are all.  Blocking, for long.

        It tries again until it succeeds, is closed, or the operator has to change
        something. Never raises: words find skills without it.
        """
        told = ""
        while not self._closed.is_set():
            try:
                return self._prepare()
            except EmbeddingError as error:
                if str(error) != told:
                    told = str(error)
                    logger.warning("There are no vectors of the skills: %s", error)
                if not error.is_passing or self._wait(_PAUSE_SECONDS):
                    return False
        return False

    def close(self) -> None:
        """Let `prepare` end at its next step: the skills are not served any more."""
        self._closed.set()

    def _prepare(self) -> bool:
        digests = [self._provider.digest(compose_text(each)) for each in self._skills]
        if not digests:
            return False
        matrix = self._store.load(digests)
        if matrix is None:
            with self._store.exclusive(self._wait) as is_held:
                if not is_held:
                    return False
                # Look again: who held the lock may have asked for the same.
                matrix = self._store.load(digests)
                if matrix is None:
                    matrix = self._build(digests)
        if matrix is None:
            return False
        self._meanings = Meanings.of([skill.path for skill in self._skills], matrix)
        logger.info("Comparing meanings of %d skills", len(digests))
        return True

    def _build(self, digests: Sequence[bytes]) -> Matrix | None:
        """Ask for what is in no file; None if there is no time left."""
        wanted = {digest: number for number, digest in enumerate(digests)}
        known = self._store.collect(wanted)
        missing = {key: at for key, at in wanted.items() if key not in known}
        parts: list[Path | None] = []
        if missing:
            host = self._provider.address
            logger.info("Sending %d skills to %s", len(missing), host)
        for fresh in self._ask_for(missing):
            known |= fresh
            parts.append(self._store.save(list(fresh), np.stack(list(fresh.values()))))
            logger.info("%d of %d skills have vectors", len(known), len(wanted))
        if known.keys() != wanted.keys():
            return None
        if len({len(vector) for vector in known.values()}) > 1:
            self._store.forget()
            raise EmbeddingError("the model has changed its vectors", is_passing=True)
        matrix: Matrix = np.stack([known[digest] for digest in digests])
        saved = self._store.save(digests, matrix)
        for part in parts:
            if saved and part and part != saved:
                part.unlink(missing_ok=True)
        mapped = self._store.load(digests)
        return matrix if mapped is None else mapped

    def _ask_for(self, missing: Mapping[bytes, int]) -> Iterator[dict[bytes, Vector]]:
        """Yield the vectors of skills, many at a time; fewer if it is closed."""
        fresh: dict[bytes, Vector] = {}
        keys, size = list(missing), self._rules.batch_size
        for batch in (keys[at : at + size] for at in range(0, len(keys), size)):
            texts = [compose_text(self._skills[missing[key]]) for key in batch]
            try:
                vectors = None if self._closed.is_set() else self._ask(texts)
            except EmbeddingError:
                if fresh:
                    yield fresh  # what was paid for is kept
                raise
            if vectors is None:
                break
            fresh |= dict(zip(batch, vectors, strict=True))
            if len(fresh) >= _SAVED_TOGETHER:
                yield fresh
                fresh = {}
        if fresh:
            yield fresh

    def _ask(self, texts: Sequence[str]) -> Matrix | None:
        """Ask a few times; None if there is no time to."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._client.embed(texts, timeout_seconds=_TIMEOUT_SECONDS)
            except EmbeddingError as error:
                if not error.is_passing or attempt == _ATTEMPTS - 1:
                    raise
                pause = derive_pause(
                    attempt + 1,
                    first_seconds=_FIRST_PAUSE_SECONDS,
                    longest_seconds=_PAUSE_SECONDS,
                    asked_seconds=error.retry_after_seconds,
                )
                if self._wait(pause):
                    return None
        return None
