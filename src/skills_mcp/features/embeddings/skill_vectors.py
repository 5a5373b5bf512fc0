"""Vectors of skills."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from weakref import WeakKeyDictionary

import numpy as np

from skills_mcp.config import Embedding
from skills_mcp.features.embeddings.client import (
    EmbeddingClient,
    EmbeddingError,
    EmbeddingProvider,
    Matrix,
    Vector,
    remove_surrogates,
)
from skills_mcp.features.embeddings.fused import (
    HybridMatcher,
    QueryEmbedder,
    VectorIndex,
)
from skills_mcp.features.embeddings.vector_store import VectorStore
from skills_mcp.processes.retry import derive_backoff
from skills_mcp.routing.matcher import Matcher
from skills_mcp.routing.seen_skills import VisibleSkills
from skills_mcp.skills.model import Skill

logger = logging.getLogger(__name__)

# No agent waits for it, and a model on a laptop takes seconds for a full batch.
_TIMEOUT_SECONDS = 60.0

# With pauses of up to 2, 4, 8 and 16 seconds: past a moment of too many requests.
_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 2.0

# For a laptop that is offline, or a provider that is down.
_PAUSE_SECONDS = 300.0

# At most so many vectors are lost if this process dies. The log tells the progress as
# often.
_VECTORS_PER_FILE = 1_024

# Measured: a longer part of the body adds little, and many models read no more
# than 512 tokens.
MAX_BODY_CHARACTERS = 1_500

# A description may be as long as its author likes; the standard allows 1,024.
_MAX_DESCRIPTION_CHARACTERS = 1_500


def compose_embedded_text(skill: Skill) -> str:
    name = skill.name.replace("-", " ").replace("_", " ")
    description = skill.description[:_MAX_DESCRIPTION_CHARACTERS]
    body = skill.body[:MAX_BODY_CHARACTERS]
    return remove_surrogates(f"{name}\n{description}\n{body}")


class SkillVectors:
    """The vectors of a set of skills; until `prepare` is done, words decide alone."""

    def __init__(  # noqa: PLR0913 - the parts that bootstrap would otherwise know
        self,
        skills: Sequence[Skill],
        *,
        provider: EmbeddingProvider,
        rules: Embedding,
        client: EmbeddingClient,
        query_embedder: QueryEmbedder,
        store: VectorStore,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._skills = skills
        self._provider = provider
        self._rules = rules
        self._client = client
        self._query_embedder = query_embedder
        self._store = store
        self._closed = Event()
        self._wait = wait or self._closed.wait
        self._vectors: VectorIndex | None = None
        self._seen: WeakKeyDictionary[VisibleSkills, VectorIndex] = WeakKeyDictionary()

    @property
    def is_ready(self) -> bool:
        return self._vectors is not None

    def to_hybrid(self, matcher: Matcher, seen: VisibleSkills | None = None) -> Matcher:
        """Wrap a ranked matcher in a hybrid one; keep a keyword matcher."""
        if matcher.algorithm == "keyword":
            return matcher
        return HybridMatcher(
            matcher,
            seen.skills if seen else self._skills,
            find_vectors=partial(self._find_vectors, seen),
            query_embedder=self._query_embedder,
            weight=self._rules.weight,
            model=self._provider.model,
            seen=seen,
        )

    def _find_vectors(self, seen: VisibleSkills | None) -> VectorIndex | None:
        if seen is None or self._vectors is None:
            return self._vectors
        if seen not in self._seen and len(seen):
            self._seen[seen] = self._vectors.seen(seen)
        return self._seen.get(seen)

    def prepare(self) -> bool:
        """Fetch the vectors of all skills; return the success. Takes long.

        Retries until it succeeds, is closed, or the operator has to change something.
        Never raises: words find skills without it.
        """
        logged = ""
        while not self._closed.is_set():
            try:
                return self._prepare()
            except EmbeddingError as error:
                if str(error) != logged:
                    logged = str(error)
                    logger.warning("There are no vectors of the skills: %s", error)
                if not error.is_passing or self._wait(_PAUSE_SECONDS):
                    return False
        return False

    def close(self) -> None:
        """Stop `prepare` at its next step: the skills are not served any more."""
        self._closed.set()

    def _prepare(self) -> bool:
        digests = [
            self._provider.digest(compose_embedded_text(skill_to_embed))
            for skill_to_embed in self._skills
        ]
        if not digests:
            return False
        matrix = self._store.load(digests)
        if matrix is None:
            with self._store.exclusive(self._wait) as has_lock:
                if not has_lock:
                    return False
                # Look again: the process that held the lock may have asked, too.
                matrix = self._store.load(digests)
                if matrix is None:
                    matrix = self._build(digests)
        if matrix is None:
            return False
        self._vectors = VectorIndex.of([skill.path for skill in self._skills], matrix)
        logger.info("Comparing meanings of %d skills", len(digests))
        return True

    def _build(self, digests: Sequence[bytes]) -> "Matrix | None":
        numbers = {digest: number for number, digest in enumerate(digests)}
        known = self._store.collect(numbers)
        missing = {key: at for key, at in numbers.items() if key not in known}
        parts: list[Path | None] = []
        if missing:
            host = self._provider.address
            logger.info("Sending %d skills to %s", len(missing), host)
        for fresh in self._fetch_batches(missing):
            known |= fresh
            parts.append(self._store.save(list(fresh), np.stack(list(fresh.values()))))
            logger.info("%d of %d skills have vectors", len(known), len(numbers))
        if known.keys() != numbers.keys():
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

    def _fetch_batches(self, missing: Mapping[bytes, int]) -> Iterator[dict[bytes, Vector]]:
        fresh: dict[bytes, Vector] = {}
        keys, size = list(missing), self._rules.batch_size
        for batch in (keys[at : at + size] for at in range(0, len(keys), size)):
            texts = [compose_embedded_text(self._skills[missing[key]]) for key in batch]
            try:
                vectors = None if self._closed.is_set() else self._fetch(texts)
            except EmbeddingError:
                if fresh:
                    yield fresh  # what was paid for is kept
                raise
            if vectors is None:
                break
            fresh |= dict(zip(batch, vectors, strict=True))
            if len(fresh) >= _VECTORS_PER_FILE:
                yield fresh
                fresh = {}
        if fresh:
            yield fresh

    def _fetch(self, texts: Sequence[str]) -> "Matrix | None":
        for attempt in range(_ATTEMPTS):
            try:
                return self._client.embed(texts, timeout_seconds=_TIMEOUT_SECONDS)
            except EmbeddingError as error:
                if not error.is_passing or attempt == _ATTEMPTS - 1:
                    raise
                pause = derive_backoff(
                    attempt + 1,
                    first_seconds=_FIRST_PAUSE_SECONDS,
                    longest_seconds=_PAUSE_SECONDS,
                    retry_after_seconds=error.retry_after_seconds,
                )
                if self._wait(pause):
                    return None
        return None
