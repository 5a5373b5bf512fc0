import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skills_mcp.features.embeddings.client import EmbeddingClient
from skills_mcp.features.embeddings.skill_embeddings import (
    MAX_BODY_CHARACTERS,
    EmbeddedSkills,
    QueryEmbedder,
    VectorStore,
    compose_embedded_text,
)
from skills_mcp.routing.matcher import VisibleSkills
from skills_mcp.skills.model import Skill
from tests.features.embeddings.embedding_server import (
    KEY,
    Answer,
    EmbeddingServer,
    error_answer,
    example_skills,
    provider_for,
    vectors_answer,
)
from tests.features.embeddings.lexical import LexicalMatcher
from tests.routing.matchers import ranked_matcher
from tests.support import make_skill, wait_for

PARAPHRASE = "what do our customers owe us"

Prepare = Callable[..., EmbeddedSkills]


def are_within(seconds: Sequence[float], limits: Sequence[float]) -> bool:
    """Tell whether each pause is drawn from a second up to its limit."""
    pairs = zip(seconds, limits, strict=True)
    return all(1 <= pause <= limit for pause, limit in pairs)


class Waits:
    """Does not wait, but remembers for how long it should have."""

    def __init__(self, most: int = 1_000) -> None:
        self.seconds: list[float] = []
        self._most = most

    def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return len(self.seconds) >= self._most


@pytest.fixture
def vectors_of(server: EmbeddingServer, client: EmbeddingClient, tmp_path: Path) -> Prepare:
    provider = provider_for(server)

    def make(
        skills: Sequence[Skill],
        wait: Callable[[float], bool] | None = None,
        **more: Any,
    ) -> EmbeddedSkills:
        return EmbeddedSkills(
            skills,
            provider=provider,
            client=client,
            query_embedder=QueryEmbedder(
                lambda text: client.embed([text], timeout_seconds=10)[0], 20
            ),
            store=VectorStore(tmp_path / "embeddings", provider.space()),
            wait=wait or Waits(),
            **more,
        )

    return make


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "embeddings").rglob("*.npy"))


def test_words_decide_alone_until_every_vector_is_there(vectors_of: Prepare) -> None:
    skills = example_skills()
    vectors = vectors_of(skills)
    matcher = vectors.fuse(LexicalMatcher(skills))
    before = matcher.score(PARAPHRASE)
    was_ready = vectors.is_ready

    done = vectors.prepare()

    assert (was_ready, before) == (False, ())
    assert done
    assert vectors.is_ready
    assert [c.skill.path for c in matcher.score(PARAPHRASE)] == ["billing"]


def test_skills_are_sent_in_batches(
    vectors_of: Prepare, server: EmbeddingServer, tmp_path: Path
) -> None:
    skills = [make_skill(f"s{n:02}", description=f"{n}") for n in range(7)]

    assert vectors_of(skills, batch_size=3).prepare()

    assert [len(each.body["input"]) for each in server.received] == [3, 3, 1]
    assert len(files(tmp_path)) == 1


def test_equal_texts_are_sent_once(vectors_of: Prepare, server: EmbeddingServer) -> None:
    skills = [make_skill(p, name="same", description="x", body="") for p in "abc"]

    assert vectors_of(skills).prepare()

    assert len(server.texts) == 1


def test_what_is_in_the_cache_is_not_sent_again(
    vectors_of: Prepare, server: EmbeddingServer
) -> None:
    vectors_of(example_skills()).prepare()
    server.received.clear()

    again = vectors_of(example_skills())

    assert again.prepare()
    assert server.received == []


def test_of_a_change_only_what_is_new_is_sent(vectors_of: Prepare, server: EmbeddingServer) -> None:
    skills = example_skills()
    vectors_of(skills).prepare()
    server.received.clear()
    changed = [*skills[:2], make_skill("zebra", description="Animals")]
    vectors = vectors_of(changed)

    assert vectors.prepare()

    assert server.texts == ["zebra\nAnimals\nRules of zebra."]
    found = vectors.fuse(LexicalMatcher(changed)).score(PARAPHRASE)
    assert [c.skill.path for c in found] == ["billing"]


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\x93NUMPY\x01\x00"])
def test_a_damaged_file_is_made_again(
    damage: bytes, vectors_of: Prepare, server: EmbeddingServer, tmp_path: Path
) -> None:
    vectors_of(example_skills()).prepare()
    [file] = files(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage)
    server.received.clear()

    assert vectors_of(example_skills()).prepare()

    assert len(server.texts) == 3
    assert file.read_bytes() == whole


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_provider_that_is_busy_is_asked_again(
    status: int, vectors_of: Prepare, server: EmbeddingServer
) -> None:
    waits = Waits()
    server.told.extend([Answer(status), Answer(status)])

    assert vectors_of(example_skills(), waits).prepare()

    assert len(server.received) == 3
    assert are_within(waits.seconds, [2, 4])


def test_it_is_asked_again_when_it_says(vectors_of: Prepare, server: EmbeddingServer) -> None:
    waits = Waits()
    server.told.append(error_answer(429, Retry_After="20"))

    assert vectors_of(example_skills(), waits).prepare()

    assert waits.seconds == [20]


def test_a_provider_that_stays_down_is_asked_much_later_and_told_once(
    vectors_of: Prepare, server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    waits = Waits()
    server.told.extend([Answer(503)] * 10)

    assert vectors_of(example_skills(), waits).prepare()

    assert are_within(waits.seconds, [2, 4, 8, 16, 300, 2, 4, 8, 16, 300])
    assert waits.seconds[4] == waits.seconds[9] == 300
    warnings = [r for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "answer", [error_answer(401, KEY), error_answer(400), vectors_answer([[1.0]])]
)
def test_what_only_the_operator_can_change_is_not_tried_again(
    answer: Answer,
    vectors_of: Prepare,
    server: EmbeddingServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.told.append(answer)
    vectors = vectors_of(example_skills())

    assert not vectors.prepare()

    assert not vectors.is_ready
    assert len(server.received) == 1
    assert "There are no vectors of the skills: " in caplog.text
    assert KEY not in caplog.text


def test_what_was_paid_for_before_a_failure_is_kept(
    vectors_of: Prepare, server: EmbeddingServer
) -> None:
    skills = example_skills()
    server.told.append(vectors_answer([[1.0, 0.0]]))
    server.told.append(error_answer(400))
    vectors_of(skills, batch_size=1).prepare()
    server.received.clear()
    server.vector_of = lambda _text: [0.0, 1.0]

    assert vectors_of(skills, batch_size=1).prepare()

    assert len(server.texts) == 2


def test_a_model_that_changes_between_two_requests_is_asked_again(
    server: EmbeddingServer, vectors_of: Prepare
) -> None:
    server.told += [vectors_answer([[1.0, 0.0, 0.0]])]

    embedded = vectors_of(example_skills(), batch_size=1)

    assert embedded.prepare()
    assert len(server.received) > len(embedded.skills)


def test_a_model_that_changes_its_vectors_makes_all_of_them_again(
    vectors_of: Prepare, server: EmbeddingServer
) -> None:
    skills = example_skills()
    vectors_of(skills[:2]).prepare()
    server.vector_of = lambda _text: [1.0, 0.0, 0.0]
    server.received.clear()

    assert vectors_of(skills).prepare()

    assert len(server.texts) == 1 + 3


def test_closing_ends_it_at_the_next_step(vectors_of: Prepare, server: EmbeddingServer) -> None:
    server.told.append("hang")
    vectors = vectors_of(example_skills(), batch_size=1)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(vectors.prepare()))
    thread.start()
    wait_for(lambda: server.received)

    vectors.close()
    server.released.set()
    thread.join()

    assert done == [False]
    assert len(server.received) == 1
    assert not vectors.prepare()


def test_without_skills_nobody_is_asked(vectors_of: Prepare, server: EmbeddingServer) -> None:
    assert not vectors_of([]).prepare()
    assert server.received == []


def test_ten_windows_that_start_together_send_each_skill_once(
    vectors_of: Prepare, server: EmbeddingServer
) -> None:
    skills = [make_skill(f"s{n:02}", description=f"{n}") for n in range(30)]
    windows = [vectors_of(skills, threading.Event().wait, batch_size=7) for _ in "0123"]
    threads = [threading.Thread(target=each.prepare) for each in windows]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(each.is_ready for each in windows)
    assert len(server.texts) == 30


def test_a_cache_that_cannot_be_written_costs_only_the_next_start(
    vectors_of: Prepare, tmp_path: Path
) -> None:
    (tmp_path / "embeddings").write_text("in the way")
    skills = example_skills()
    vectors = vectors_of(skills)

    assert vectors.prepare()

    found = vectors.fuse(LexicalMatcher(skills)).score(PARAPHRASE)
    assert [c.skill.path for c in found] == ["billing"]


def test_the_keyword_algorithm_stays_what_the_specification_says(
    vectors_of: Prepare,
) -> None:
    matcher = LexicalMatcher(example_skills())
    matcher.algorithm = "keyword"

    assert vectors_of(example_skills()).fuse(matcher) is matcher


def test_a_vector_of_the_same_direction_counts_with_the_weight_of_meaning(
    vectors_of: Prepare, server: EmbeddingServer
) -> None:
    skills = [make_skill(f"s{n:02}", description="") for n in range(20)]
    numbers = {f"s{n:02}": n for n in range(20)}
    server.vector_of = lambda text: np.eye(20)[numbers.get(text[:3], 7)].tolist()
    vectors = vectors_of(skills)
    vectors.prepare()

    [best] = vectors.fuse(LexicalMatcher(skills)).score("seven")

    assert best.skill.path == "s07"
    assert float(best.score) == pytest.approx(0.852, abs=1e-3)


def test_name_description_and_the_start_of_the_body_stand_for_a_skill() -> None:
    skill = make_skill("pdf-forms", description="Fill in forms", body="x" * 9_999)

    text = compose_embedded_text(skill)

    assert text == f"pdf forms\nFill in forms\n{'x' * MAX_BODY_CHARACTERS}"


def test_the_place_the_keywords_and_the_files_of_a_skill_are_not_sent() -> None:
    skill = make_skill("secret-team/pdf", keywords=("classified",))

    text = compose_embedded_text(skill)

    assert "secret-team" not in text.partition("\n")[0]
    assert "classified" not in text


def test_a_lone_surrogate_in_a_skill_does_not_break_the_request() -> None:
    skill = make_skill("a", description="\ud83d")

    assert compose_embedded_text(skill).isprintable() is False
    assert compose_embedded_text(skill).encode()


def test_a_caller_s_vectors_are_rows_of_those_of_all_skills(
    vectors_of: Prepare,
) -> None:
    skills = example_skills()
    vectors = vectors_of(skills)
    numbers = [number for number, each in enumerate(skills) if each.path != "billing"]
    some = [skills[number] for number in numbers]
    paths = [each.path for each in some]
    seen = VisibleSkills(len(skills), np.array(numbers), skills, paths)
    alone = vectors_of(some)
    matcher = ranked_matcher(skills).seen(seen)

    fused = vectors.fuse(matcher, seen)
    assert fused.score(PARAPHRASE) == matcher.score(PARAPHRASE)
    vectors.prepare()
    alone.prepare()

    expected = alone.fuse(ranked_matcher(some))
    for task in (PARAPHRASE, "ship it to production", "billing"):
        assert fused.score(task) == expected.score(task)
        assert "billing" not in {each.skill.path for each in fused.score(task)}
