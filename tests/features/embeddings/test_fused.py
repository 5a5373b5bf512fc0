import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.config import Matching
from skills_mcp.features.embeddings.client import (
    EmbeddingError,
    Matrix,
    Vector,
    parse_vectors,
)
from skills_mcp.features.embeddings.skill_embeddings import (
    _CACHED_QUERIES,
    MILLION,
    QUERY_PAUSE_SECONDS,
    HybridMatcher,
    QueryEmbedder,
    VectorIndex,
    compose_embedded_text,
    compose_query_text,
    find_nearest_neighbors,
    fuse_scores,
)
from skills_mcp.routing.decision import score_and_decide
from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.matcher import Candidate, Evidence, Matcher
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.skills.model import Skill, SkillPath
from tests.features.embeddings.embedding_server import (
    example_skills,
    vector_of,
    vectors_answer,
)
from tests.features.embeddings.lexical import LexicalMatcher
from tests.routing.matchers import ranked_matcher
from tests.support import make_skill, wait_for

PARAPHRASE = "what do our customers owe us"


def embed(text: str) -> Vector:
    vector: Vector = parse_vectors(vectors_answer([vector_of(text)]).body, count=1, dimensions=0)[0]
    return vector


def meanings_of(skills: Sequence[Skill]) -> VectorIndex:
    vectors = np.stack([embed(compose_embedded_text(skill)) for skill in skills])
    return VectorIndex.of([skill.path for skill in skills], vectors)


def fuse(
    skills: Sequence[Skill],
    *,
    lexical: Matcher | None = None,
    ask: Callable[[str], Vector] = embed,
    is_ready: bool = True,
) -> HybridMatcher:
    meanings = meanings_of(skills)
    return HybridMatcher(
        lexical or LexicalMatcher(skills),
        skills,
        find_vectors=lambda: meanings if is_ready else None,
        query_embedder=QueryEmbedder(ask, timeout_seconds=20, clock=lambda: 0.0),
        model="model",
    )


def score_of(words: Fraction, likeness: int) -> Fraction:
    return Fraction(fuse_scores(words, likeness).millionths, MILLION)


def paths(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.skill.path for candidate in candidates]


def test_a_paraphrase_is_found_that_shares_no_word_with_the_skill() -> None:
    skills = example_skills()

    by_words = LexicalMatcher(skills).score(PARAPHRASE)
    fused = fuse(skills).score(PARAPHRASE)

    assert by_words == ()
    assert paths(fused) == ["billing"]
    assert fused[0].matched_keywords == ()
    assert 0 < fused[0].exact_score < 1


def test_a_skill_that_the_task_negates_is_not_found_by_its_meaning() -> None:
    negation = f"{PARAPHRASE} not billing"

    assert "billing" in paths(fuse(example_skills(), ask=lambda _: embed(PARAPHRASE)).score("x"))
    assert "billing" not in paths(
        fuse(example_skills(), ask=lambda _: embed(PARAPHRASE)).score(negation)
    )


def test_the_score_is_that_of_the_fits_of_words_and_of_meaning_together() -> None:
    skills = example_skills()
    task = "write to customers about what they owe"
    [words] = LexicalMatcher(skills).score(task)
    likeness = meanings_of(skills).compare(embed(task))

    [best, *_] = fuse(skills).score(task)

    odds = float(words.exact_score / (1 - words.exact_score))
    fit = 0.7 * odds**0.5 + 0.3 * (4 * likeness[1] / MILLION) ** 1.5
    assert words.skill.path == best.skill.path == "billing"
    assert float(best.exact_score) == pytest.approx(fit**2 / (fit**2 + 1), abs=1e-6)


SCORES = st.integers(0, MILLION).map(lambda number: Fraction(number, MILLION))
ALIKE = st.integers(0, MILLION)


@given(words=SCORES)
def test_without_meaning_the_words_have_their_share(words: Fraction) -> None:
    assert score_of(words, 0) <= words


@given(words=SCORES, alike=ALIKE, more=st.integers(0, MILLION))
@example(words=Fraction(1), alike=0, more=0)
def test_more_of_either_is_never_a_lower_score(words: Fraction, alike: int, more: int) -> None:
    score = score_of(words, alike)

    better = min(words + Fraction(more, MILLION), Fraction(1))

    assert 0 <= score <= score_of(better, alike) <= 1
    assert score <= score_of(words, min(alike + more, MILLION))


def test_a_likeness_of_a_quarter_is_worth_a_score_of_a_half() -> None:
    half = Fraction(1, 2)

    assert score_of(half, MILLION // 4) == half


@pytest.mark.parametrize(
    "words, score", [(Fraction(0), 0), (Fraction(1, MILLION), Fraction(1, MILLION))]
)
def test_what_fits_hardly_at_all_has_a_score_and_what_does_not_has_none(
    words: Fraction, score: Fraction
) -> None:
    assert score_of(words, 0) == score


def test_what_does_not_fit_at_all_owes_nothing_to_words() -> None:
    assert fuse_scores(Fraction(0), 0).lexical_share == 0


def test_the_meaning_decides_between_skills_that_the_words_find_equal() -> None:
    skills = [
        make_skill("a", description="report about a release"),
        make_skill("b", description="report about an invoice"),
    ]
    task = "report customers"

    assert paths(LexicalMatcher(skills).score(task)) == ["a", "b"]
    assert paths(fuse(skills).score(task)) == ["b", "a"]


def test_equal_scores_are_in_the_order_of_paths() -> None:
    skills = [make_skill(path, description="invoice") for path in "abc"]
    skills.append(make_skill("d", description="release"))

    assert paths(fuse(skills).score(PARAPHRASE)) == ["a", "b", "c"]


def test_a_skill_is_before_the_rules_of_its_folder_that_tie_with_it() -> None:
    names = ("ui/_index", "ui/auth", "ui/zoo")
    skills = [make_skill(path, name="x", description="invoice") for path in names]
    skills = [replace(skill, body="") for skill in skills]
    skills.append(make_skill("z", description="release"))

    found = fuse(skills).score(PARAPHRASE)

    assert paths(found) == ["ui/auth", "ui/zoo", "ui/_index"]


def fail(_text: str) -> Vector:
    raise EmbeddingError("down")


def other_model(_text: str) -> Vector:
    vector: Vector = np.ones(1, np.float32)
    return vector


@pytest.mark.parametrize("task", [PARAPHRASE, "write a release", "auth", "", "nothing"])
@pytest.mark.parametrize("min_score", [None, Fraction(1, 2)])
@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("ask, is_ready", [(fail, True), (other_model, True), (embed, False)])
def test_without_vectors_the_answer_is_exactly_that_of_the_words(
    task: str,
    min_score: Fraction | None,
    limit: int | None,
    ask: Callable[[str], Vector],
    is_ready: bool,  # noqa: FBT001
) -> None:
    skills = example_skills()
    plain, fused = LexicalMatcher(skills), fuse(skills, ask=ask, is_ready=is_ready)
    within = np.array([True, False, True])

    for mask in (None, within):
        assert fused.score(task, min_score=min_score, limit=limit, within=mask) == plain.score(
            task, min_score=min_score, limit=limit, within=mask
        )
    for skill in skills:
        assert fused.explain(task, skill) == plain.explain(task, skill)
    assert fused.weigh_terms(task) == plain.weigh_terms(task)


def test_a_task_that_is_a_name_is_answered_without_asking_anybody() -> None:
    asked: list[str] = []

    def ask(text: str) -> Vector:
        asked.append(text)
        return embed(text)

    skills = example_skills()

    assert fuse(skills, ask=ask).score("auth") == LexicalMatcher(skills).score("auth")
    assert asked == []


def test_of_a_long_task_only_the_part_that_counts_is_sent() -> None:
    asked: list[str] = []
    skills = example_skills()

    def ask(text: str) -> Vector:
        asked.append(text)
        return embed(text)

    matcher = fuse(skills, lexical=ranked_matcher(skills), ask=ask)
    noise = "".join(f"line {number} of the noise\n" for number in range(5_000))
    score_and_decide(matcher, f"{skills[0].description}\n\n{noise}", Matching())

    assert asked == [compose_query_text(skills[0].description)]


def test_what_scores_too_low_and_what_is_too_much_is_left_out() -> None:
    skills = [make_skill(f"s{n}", description="invoice") for n in range(5)]
    skills += [make_skill(f"t{n}", description="release") for n in range(9)]
    matcher = fuse(skills)

    every = matcher.score(PARAPHRASE)

    assert paths(matcher.score(PARAPHRASE, limit=2)) == ["s0", "s1"]
    assert matcher.score(PARAPHRASE, min_score=every[0].exact_score) == every
    assert matcher.score(PARAPHRASE, min_score=every[0].exact_score + Fraction(1, 10**9)) == ()


def test_a_mask_narrows_before_anything_is_ranked() -> None:
    words = ("invoice", "release", "login")
    skills = [make_skill(f"s{n:03}", description=words[n % 3]) for n in range(200)]
    within = np.zeros(200, np.bool_)
    within[150] = True

    found = fuse(skills).score(PARAPHRASE, limit=1, within=within)

    assert paths(found) == ["s150"]


def test_a_skill_behind_the_best_fifty_by_words_keeps_its_words() -> None:
    skills = [make_skill(f"a{n:03}", description="customers note") for n in range(60)]
    skills += [make_skill("z", description="customers owe invoice bill charge us")]
    skills += [make_skill(f"zz{n}", description="release") for n in range(60)]
    task = "customers note owe"
    words = {str(c.skill.path): c.exact_score for c in LexicalMatcher(skills).score(task)}
    likeness = meanings_of(skills).compare(embed(task))

    found = {str(c.skill.path): c.exact_score for c in fuse(skills).score(task, limit=100)}

    assert words["z"] == Fraction(2, 3)
    assert found["z"] == score_of(words["z"], int(likeness[60]))


def test_narrowing_to_the_nearest_gives_nobody_a_better_score_by_words() -> None:
    class Eager(LexicalMatcher):
        """Takes a task for a name as soon as few skills are left."""

        def score(self, context: str, **options: object) -> tuple[Candidate, ...]:
            found = super().score(context, **options)  # type: ignore[arg-type]
            if len(found) > 1 or options.get("within") is None:
                return found
            return tuple(Candidate(c.skill, Fraction(1), ()) for c in found)

    skills = [make_skill(f"a{n:02}", description="note") for n in range(60)]
    skills += [make_skill("z", description="note invoice")]
    matcher = fuse(skills, lexical=Eager(skills))

    scores = {str(c.skill.path): c.exact_score for c in matcher.score("note customers", limit=9)}

    assert scores["z"] <= score_of(Fraction(1, 2), MILLION)


def test_evidence_adds_up_to_the_score() -> None:
    skills = example_skills()
    matcher = fuse(skills)

    for task in (PARAPHRASE, "write to customers", "deploy", "auth"):
        scores = {c.skill.path: c.exact_score for c in matcher.score(task)}
        for skill in skills:
            worth = sum(each.worth for each in matcher.explain(task, skill))
            assert worth == pytest.approx(float(scores.get(skill.path, 0)), abs=1e-9)


def test_evidence_of_a_skill_far_behind_the_best_adds_up_too() -> None:
    skills = [make_skill(f"a{n:03}", description="customers note") for n in range(60)]
    skills += [make_skill("z", description="note release")]
    matcher = fuse(skills)
    task = "customers note owe"

    [score] = [c.exact_score for c in matcher.score(task) if c.skill.path == "z"]

    worth = sum(each.worth for each in matcher.explain(task, skills[60]))
    assert score > 0
    assert worth == pytest.approx(float(score), abs=1e-9)


def test_evidence_adds_up_among_some_of_the_skills_too() -> None:
    skills = [
        make_skill("billing", description="invoice"),
        make_skill("deploy", description="deploy the billing"),
    ]
    matcher = fuse(skills, lexical=ranked_matcher(skills))
    within = np.array([False, True])

    [only] = matcher.score("billing", within=within)

    evidence = matcher.explain("billing", skills[1], within=within)
    worth = sum(each.worth for each in evidence)
    assert worth == pytest.approx(float(only.exact_score), abs=1e-5)


@pytest.mark.parametrize("priority", [-999, 5, 999])
def test_evidence_adds_up_with_a_priority_too(priority: int) -> None:
    skills = [replace(skill, priority=priority) for skill in example_skills()]
    matcher = fuse(skills, lexical=ranked_matcher(skills))

    for task in ("write an invoice for customers", "authentication", PARAPHRASE):
        scores = {c.skill.path: c.exact_score for c in matcher.score(task)}
        assert scores
        for skill in skills:
            worth = sum(each.worth for each in matcher.explain(task, skill))
            assert worth == pytest.approx(float(scores.get(skill.path, 0)), abs=1e-5)


def test_evidence_that_a_priority_takes_away_is_worth_nothing() -> None:
    class Outweighed(LexicalMatcher):
        """Finds all skills, and takes from each as much as it gives."""

        def score(self, context: str, **_: object) -> tuple[Candidate, ...]:
            return tuple(Candidate(each, Fraction(0), ()) for each in skills if context)

        def explain(self, context: str, skill: Skill, **_: object) -> tuple[Evidence, ...]:
            [given] = LexicalMatcher.explain(self, context, skill)
            return given, replace(given, where="priority", worth=-given.worth)

    skills = example_skills()[1:2]

    evidence = fuse(skills, lexical=Outweighed(skills)).explain("an invoice", skills[0])

    assert [bool(each.worth) for each in evidence] == [False, False, True]


def test_a_skill_that_is_hardly_alike_is_not_found_and_has_no_evidence() -> None:
    skills = example_skills()
    task = "bill bill bill bill password"
    likeness = meanings_of(skills).compare(embed(task))
    matcher = fuse(skills)

    assert 0 < likeness[0] < 200_000
    assert paths(matcher.score(task)) == ["billing"]
    assert matcher.explain(task, skills[0]) == ()


def test_evidence_names_the_model() -> None:
    skills = example_skills()

    [evidence] = fuse(skills).explain(PARAPHRASE, skills[1])

    assert (evidence.word, evidence.where, evidence.found) == ("", "embedding", "model")


def test_a_skill_that_is_not_alike_has_no_evidence_of_the_model() -> None:
    skills = example_skills()
    task = "write charge bill owe"
    skills[0] = replace(skills[0], description="Write a password")

    evidence = fuse(skills).explain(task, skills[0])

    assert meanings_of(skills).compare(embed(task))[0] == 0
    assert [each.where for each in evidence] == ["description"]


def test_a_skill_that_the_matcher_does_not_know_has_the_words_alone() -> None:
    stranger = make_skill("stranger", description="invoice")

    assert fuse(example_skills()).explain(PARAPHRASE, stranger) == ()


def test_the_ranked_algorithm_finds_a_paraphrase_with_it_and_none_without() -> None:
    skills = example_skills()
    ranked = RankedMatcher(TextIndex.build(map(to_indexed_document, skills)), skills)
    task = "do customers owe"

    fused = fuse(skills, lexical=ranked)

    assert ranked.score(task) == ()
    assert paths(fused.score(task, limit=1)) == ["billing"]
    assert fuse(skills, lexical=ranked, ask=fail).score("invoice") == (ranked.score("invoice"))
    for words in (task, "write an invoice", "deploy the login"):
        scores = {c.skill.path: c.exact_score for c in fused.score(words)}
        for skill in skills:
            worth = sum(each.worth for each in fused.explain(words, skill))
            assert worth == pytest.approx(float(scores.get(skill.path, 0)), abs=1e-5)


def meanings(vectors: Matrix) -> VectorIndex:
    return VectorIndex.of([SkillPath(f"s{n}") for n in range(len(vectors))], vectors)


def unit(*numbers: float) -> Vector:
    vector: Vector = np.array(numbers, np.float32)
    normal: Vector = vector / np.linalg.norm(vector)
    return normal


def test_the_same_direction_is_a_million_and_the_average_is_nothing() -> None:
    vectors = np.eye(20, dtype=np.float32)

    likeness = meanings(vectors).compare(vectors[3])

    assert likeness[3] == MILLION
    assert likeness.sum() == MILLION


def test_a_model_that_finds_everything_alike_is_read_like_one_that_does_not() -> None:
    plain = np.eye(20, dtype=np.float32)
    alike = np.stack([unit(*(row + 0.5)) for row in plain])
    task = unit(*(plain[0] + plain[1]))
    cosines = alike @ unit(*(task + 0.5))

    likeness = meanings(alike).compare(unit(*(task + 0.5)))

    assert cosines.min() > 0.6
    assert likeness[2:].max() < 100_000
    assert likeness[:2].min() > 200_000


def test_a_single_skill_can_be_like_a_task() -> None:
    likeness = meanings(np.stack([unit(1, 0)])).compare(unit(1, 1))

    assert likeness[0] > 500_000


def test_a_vector_of_another_model_is_refused_and_the_remedy_named() -> None:
    with pytest.raises(EmbeddingError, match=r"3 dimensions.*2.*delete the folder emb"):
        meanings(np.eye(2, dtype=np.float32)).compare(unit(1, 2, 3))


LIKENESS = st.lists(st.integers(0, 5), min_size=1, max_size=30)


@given(numbers=LIKENESS, limit=st.integers(1, 8), least=st.integers(0, 4), data=st.data())
def test_the_nearest_are_those_of_a_plain_sort(
    numbers: list[int], limit: int, least: int, data: st.DataObject
) -> None:
    size = len(numbers)
    within = data.draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    mask = None if within is None else np.array(within)

    places = np.arange(len(numbers))
    found = find_nearest_neighbors(np.array(numbers), limit, least, mask, places)

    eligible = [n for n in range(size) if numbers[n] >= least and (within is None or within[n])]
    assert found == sorted(eligible, key=lambda n: (-numbers[n], n))[:limit]


VECTOR: Vector = np.ones(1, np.float32)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Provider:
    """Answers, or fails as it is told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None

    def __call__(self, text: str) -> Vector:
        self.asked.append(text)
        if self.error:
            raise self.error
        return VECTOR


def questions(ask: Callable[[str], Vector], clock: Clock | None = None) -> QueryEmbedder:
    return QueryEmbedder(ask, timeout_seconds=20, clock=clock or Clock())


def test_the_same_task_is_sent_once() -> None:
    provider = Provider()
    asking = questions(provider)

    vectors = [asking.embed("a"), asking.embed("a")]

    assert provider.asked == ["a"]
    assert vectors == [VECTOR, VECTOR]


def test_only_so_many_tasks_are_remembered_and_the_last_used_are() -> None:
    provider = Provider()
    asking = questions(provider)
    asking.embed("first")
    for number in range(_CACHED_QUERIES - 1):
        asking.embed(str(number))
    asking.embed("first")
    asking.embed("one more")
    provider.asked.clear()

    asking.embed("first")
    asking.embed("0")

    assert provider.asked == ["0"]


def test_after_a_failure_nobody_waits_until_the_pause_is_over() -> None:
    provider, clock = Provider(), Clock()
    asking = questions(provider, clock)
    provider.error = EmbeddingError("down")

    assert asking.embed("a") is None
    provider.error = None
    clock.now = QUERY_PAUSE_SECONDS - 1
    assert asking.embed("b") is None
    clock.now = QUERY_PAUSE_SECONDS
    assert asking.embed("c") is VECTOR
    assert provider.asked == ["a", "c"]


def test_what_is_remembered_is_answered_in_the_pause_too() -> None:
    provider = Provider()
    asking = questions(provider)
    asking.embed("a")
    provider.error = EmbeddingError("down")
    asking.embed("b")

    assert asking.embed("a") is VECTOR


def test_the_provider_may_ask_for_a_longer_pause() -> None:
    provider, clock = Provider(), Clock()
    asking = questions(provider, clock)
    provider.error = EmbeddingError("busy", retry_after_seconds=QUERY_PAUSE_SECONDS * 3)
    asking.embed("a")
    provider.error = None

    clock.now = QUERY_PAUSE_SECONDS * 2

    assert asking.embed("b") is None


def test_each_cause_is_told_once_and_that_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    provider, clock = Provider(), Clock()
    asking = questions(provider, clock)

    for cause in ("down", "down", "wrong key", "", ""):
        provider.error = EmbeddingError(cause) if cause else None
        clock.now += QUERY_PAUSE_SECONDS
        asking.embed(f"{clock.now}")

    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "Tasks are compared by their words alone: down",
        "Tasks are compared by their words alone: wrong key",
        "Tasks are compared by their meanings again",
    ]


def test_nobody_waits_longer_than_the_operator_allows_and_a_late_answer_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = threading.Event()

    def ask(_text: str) -> Vector:
        released.wait(60)
        return VECTOR

    asking = QueryEmbedder(ask, timeout_seconds=0.05, clock=Clock())

    first = asking.embed("a")
    released.set()
    wait_for(lambda: asking.embed("a") is VECTOR)

    assert first is None
    assert "no vector in 0.05 seconds" in caplog.text


def test_a_fault_of_ours_costs_the_meaning_and_not_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider()
    provider.error = RuntimeError("a fault of ours")

    assert questions(provider).embed("a") is None
    assert "a fault of ours" in caplog.text


def test_a_task_without_words_is_not_sent() -> None:
    provider = Provider()

    assert questions(provider).embed("") is None
    assert provider.asked == []


def test_a_lone_surrogate_in_a_task_does_not_break_the_request() -> None:
    assert compose_query_text("\ud83d bill") == "? bill"


def test_a_long_task_is_cut() -> None:
    assert len(compose_query_text("word " * 10_000)) <= 600
