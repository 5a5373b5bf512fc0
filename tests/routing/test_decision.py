"""How scores become an answer; thresholds to the last digit."""

import random
import string
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Matching
from skills_mcp.routing.decision import (
    PROBABILITY_DEPTH,
    Ambiguous,
    NoMatch,
    answered_candidates,
    apply_thresholds,
    decision_kind,
    estimate_probabilities,
    merge_near_copies,
    score_and_decide,
    to_exact_fraction,
)
from skills_mcp.routing.keyword_matcher import KeywordMatcher
from skills_mcp.routing.matcher import Candidate, tie_break_ranks
from skills_mcp.skills.model import SkillPath
from skills_mcp.skills.skill_index import derive_parent_path
from tests.features.authoring.evaluation.matching import PlainMatcher
from tests.routing.matchers import keyword_matcher, ranked_matcher
from tests.support import make_skill


def candidate(path: str, score: str) -> Candidate:
    return Candidate(make_skill(path), Fraction(score), ("example",))


def candidates(**scores: str) -> list[Candidate]:
    return [candidate(path, score) for path, score in scores.items()]


def names(decision: object) -> list[str]:
    """Name a decision and its skills."""
    match decision:
        case Candidate() as found:
            return ["match", found.skill.path]
        case Ambiguous(found):
            return ["ambiguous", *(one.skill.path for one in found)]
        case _:
            return ["no match"]


@pytest.mark.spec("5.3")
def test_no_candidate_is_no_match() -> None:
    assert apply_thresholds([], Matching()) == NoMatch()


@pytest.mark.spec("5.3")
def test_no_match_names_the_best_three_that_have_a_quarter_of_the_least_score() -> None:
    found = candidates(a="0.05", b="0.19", c="0.049", d="0.1", e="0.06")
    a, b, _, d, e = found

    assert apply_thresholds(found, Matching(max_results=1)) == NoMatch((b, d, e))
    assert apply_thresholds(found[::2], Matching()) == NoMatch((e, a))


def test_there_are_no_near_misses_beside_an_answer() -> None:
    decision = apply_thresholds(candidates(a="0.5", b="0.19"), Matching())

    assert isinstance(decision, Candidate)


def test_a_single_candidate_is_the_match() -> None:
    [only] = candidates(a="0.2")

    assert apply_thresholds([only], Matching()) == only


@pytest.mark.spec("5.3")
@pytest.mark.parametrize(
    "score, expected, reason",
    [
        ("0.2", ["match", "a"], "the minimum itself is enough"),
        ("1/5", ["match", "a"], "and a fifth is exactly the minimum"),
        ("0.1999999999999999999", ["no match"], "the slightest bit less is not"),
        ("0.199", ["no match"], "a negative priority can be the difference"),
    ],
)
def test_the_minimum_score_is_inclusive(score: str, expected: list[str], reason: str) -> None:
    assert names(apply_thresholds(candidates(a=score), Matching())) == expected, reason


@pytest.mark.spec("5.3")
@pytest.mark.parametrize(
    "best, second, expected, reason",
    [
        (
            "0.5",
            "0.4",
            ["match", "a"],
            "0.1 is not less than 0.1, though floats say so",
        ),
        ("0.8", "0.7", ["match", "a"], "the same, elsewhere"),
        ("1/3", "7/30", ["match", "a"], "the same, in thirds"),
        ("0.5", "0.401", ["ambiguous", "a", "b"], "a thousandth of priority less"),
        ("0.5", "0.4000000000000000001", ["ambiguous", "a", "b"], "the slightest bit"),
        ("0.5", "0.5", ["ambiguous", "a", "b"], "a tie"),
        ("1", "0.5", ["match", "a"], "a clear winner"),
        ("0.25", "0.199", ["match", "a"], "the runner-up is below the minimum"),
    ],
)
def test_a_close_runner_up_makes_it_ambiguous(
    best: str, second: str, expected: list[str], reason: str
) -> None:
    found = apply_thresholds(candidates(a=best, b=second), Matching())

    assert names(found) == expected, reason


@pytest.mark.spec("5.3")
def test_an_ambiguous_answer_lists_the_best_few() -> None:
    found = apply_thresholds(candidates(a="0.3", b="0.5", c="0.45", d="0.2", e="0.4"), Matching())

    assert names(found) == ["ambiguous", "b", "c", "e"]


@pytest.mark.spec("5.3")
def test_the_list_is_as_long_as_the_setting_says() -> None:
    found = apply_thresholds(
        candidates(a="0.5", b="0.5", c="0.5"),
        Matching(max_results=2),
    )

    assert names(found) == ["ambiguous", "a", "b"]


@pytest.mark.spec("5.3")
def test_candidates_far_behind_are_listed_if_the_first_two_are_close() -> None:
    found = apply_thresholds(candidates(a="0.9", b="0.85", c="0.2"), Matching())

    assert names(found) == ["ambiguous", "a", "b", "c"]


@pytest.mark.spec("5.3")
@pytest.mark.parametrize(
    "threshold, expected",
    [(0, ["match", "a"]), (0.0, ["match", "a"]), (1, ["ambiguous", "a", "b"])],
)
def test_a_threshold_of_zero_is_never_ambiguous(threshold: float, expected: list[str]) -> None:
    found = apply_thresholds(
        candidates(b="0.5", a="0.5"),
        Matching(ambiguity_threshold=threshold),
    )

    assert names(found) == expected


@pytest.mark.parametrize(
    "setting, fraction",
    [
        (0.1, "1/10"),
        (0.2, "1/5"),
        (0.3, "3/10"),
        (0, "0"),
        (1, "1"),
        (1e-05, "1/100000"),
        (0.30000000000000004, "0.30000000000000004"),
    ],
)
def test_a_setting_is_the_number_that_a_person_wrote(setting: float, fraction: str) -> None:
    assert to_exact_fraction(setting) == Fraction(fraction)


SCORES = st.sampled_from(["0", "0.2", "0.3", "0.4", "0.5", "0.501", "1/3", "1"])
SETTINGS = st.builds(
    Matching,
    min_score=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    max_results=st.integers(1, 5),
    ambiguity_threshold=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)


@pytest.mark.spec("5.3")
@given(
    st.dictionaries(st.sampled_from("abcdef"), SCORES, max_size=6),
    SETTINGS,
    st.randoms(use_true_random=False),
)
def test_a_decision_does_not_depend_on_the_order_of_the_candidates(
    scores: dict[str, str], matching: Matching, chance: random.Random
) -> None:
    ordered = candidates(**scores)
    shuffled = list(ordered)
    chance.shuffle(shuffled)

    assert apply_thresholds(shuffled, matching) == apply_thresholds(ordered, matching)


@pytest.mark.spec("5.3")
@given(st.dictionaries(st.sampled_from("abcdef"), SCORES, max_size=6), SETTINGS)
def test_a_decision_is_what_the_specification_draws(
    scores: dict[str, str], matching: Matching
) -> None:
    minimum = Fraction(str(matching.min_score))
    threshold = Fraction(str(matching.ambiguity_threshold))
    kept = [(Fraction(score), path) for path, score in scores.items()]
    kept = [(score, path) for score, path in kept if score >= minimum]
    kept.sort(key=lambda pair: (-pair[0], pair[1]))

    found = names(apply_thresholds(candidates(**scores), matching))

    if not kept:
        assert found == ["no match"]
    elif len(kept) == 1 or kept[0][0] - kept[1][0] >= threshold:
        assert found == ["match", kept[0][1]]
    else:
        listed = [path for _, path in kept[: matching.max_results]]
        assert found == ["ambiguous", *listed]


@pytest.mark.spec("5.3")
def test_a_leaf_that_ties_with_its_own_ancestor_is_first() -> None:
    paths = ["_root", "api/_index", "ui/2d", "ui/_index", "ui/react/_index", "ui/vue"]
    found = [candidate(path, "0.5") for path in paths]

    decision = apply_thresholds(found, Matching(max_results=9))

    assert names(decision)[1:] == [
        "api/_index",  # an ancestor of none of the others
        "ui/2d",
        "ui/react/_index",
        "ui/vue",
        "ui/_index",
        "_root",
    ]


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "b", "_c", "Z", "9"]), max_size=3).map("/".join),
        unique=True,
    ),
    st.randoms(use_true_random=False),
)
def test_only_ancestors_leave_the_order_of_paths(folders: list[str], chance: random.Random) -> None:
    paths = ["_root", *(f"{each}/_index" for each in folders if each)]
    paths += [f"{each}/leaf" for each in folders if each]
    chance.shuffle(paths)

    places = dict(zip(paths, tie_break_ranks(paths).tolist(), strict=True))

    assert sorted(places.values()) == list(range(len(paths)))
    for one in paths:
        for other in paths:
            above = derive_parents(other)
            if one in above:
                assert places[other] < places[one]
            elif one < other and other not in derive_parents(one):
                assert places[one] < places[other]


def derive_parents(path: str) -> set[str]:
    found = set()
    above = derive_parent_path(SkillPath(path))
    while above:
        found.add(str(above))
        above = derive_parent_path(above)
    return found


AUTH = make_skill("ui/auth", keywords=["login", "react"])
FORMS = make_skill("ui/forms", keywords=["form", "react"])
ERRORS = make_skill("api/errors", keywords=["error", "login", "status", "code", "api"])
MATCHER = PlainMatcher(AUTH, FORMS, ERRORS)
MATCHING = Matching()


def test_an_answer_is_chosen_as_the_settings_say() -> None:
    match = score_and_decide(MATCHER, "login react", MATCHING)
    both = score_and_decide(MATCHER, "react", MATCHING)
    none = score_and_decide(MATCHER, "bread", MATCHING)

    assert [answered_candidates(each) for each in (match, none)] == [
        MATCHER.score("login react", limit=1),
        (),
    ]
    assert isinstance(both, Ambiguous)
    assert answered_candidates(both) == both.candidates
    assert [decision_kind(each) for each in (match, both, none)] == [
        *("single", "ambiguous", "no_match")
    ]


def test_the_runner_up_counts_even_if_only_one_is_listed() -> None:
    decision = score_and_decide(MATCHER, "react", Matching(max_results=1))

    assert isinstance(decision, Ambiguous)
    assert len(decision.candidates) == 1


def test_keywords_name_no_more_skills_than_an_answer_may_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    score, counts = KeywordMatcher.score, list[int]()

    def noting(matcher: KeywordMatcher, context: str, **limits: Any) -> tuple[Candidate, ...]:
        candidates = score(matcher, context, **limits)
        counts.append(len(candidates))
        return candidates

    monkeypatch.setattr(KeywordMatcher, "score", noting)
    skills = [make_skill(f"s{n}", keywords=["react"]) for n in range(9)]

    decision = score_and_decide(keyword_matcher(skills), "react", Matching())

    assert counts == [3]
    assert names(decision) == ["ambiguous", "s0", "s1", "s2"]


def test_an_answer_comes_from_the_part_that_may_be_found() -> None:
    decision = score_and_decide(MATCHER, "react", MATCHING, within=np.array([0, 0, 1], bool))

    assert [each.skill.path for each in answered_candidates(decision)] == ["ui/forms"]


# --- by chance: the ranked algorithm --------------------------------------------


def ranked(scores: str, **settings: float) -> list[str]:
    """Decide between skills a, b, c … with these scores."""
    given = dict(zip(string.ascii_letters, scores.split(), strict=False))
    matching = Matching.model_validate(settings)
    return names(apply_thresholds(candidates(**given), matching, "ranked"))


@pytest.mark.parametrize(
    "scores, expected, reason",
    [
        ("0.9 0.2", ["match", "a"], "far ahead"),
        ("0.3 0.2", ["ambiguous", "a", "b"], "a gap of 0.1 is not enough any more"),
        ("0.9", ["match", "a"], "alone and certain"),
        ("0.3", ["ambiguous", "a"], "alone, and none may fit"),
        ("0.3 0.04", ["ambiguous", "a"], "alone among those that could be listed"),
        ("0.3 0.06", ["ambiguous", "a", "b"], "weak, and another is near"),
        ("0.8 0.75 0.1 0.1", ["ambiguous", "a", "b"], "the others say nothing"),
        ("0.8 0.75 0.7 0.1", ["ambiguous", "a", "b", "c"], "three are alike"),
        ("0.5 " * 17, ["ambiguous", *"abcdefghijklmnop"], "at most sixteen"),
        ("0.8 0.75 0.58 " + "0.45 " * 12, ["ambiguous", "a", "b"], "few compete"),
        ("0.8 0.75 0.58 " + "0.45 " * 13, ["ambiguous", "a", "b", "c"], "sixteen compete"),
        ("0.19 0.1 0.01", ["no match"], "the best one decides"),
    ],
)
def test_a_ranked_answer_is_as_short_as_it_is_certain(
    scores: str, expected: list[str], reason: str
) -> None:
    assert ranked(scores) == expected, reason


def test_the_settings_of_a_ranked_answer() -> None:
    assert ranked("0.9 0.2", ambiguity_threshold=0) == ["ambiguous", "a", "b"]
    assert ranked("0.3 0.2", ambiguity_threshold=1) == ["match", "a"]
    assert ranked("0.6 0.5 0.3", ambiguity_threshold=0.05)[1:] == ["a", "b", "c"]
    assert ranked("0.6 0.5 0.3", ambiguity_threshold=0.1)[1:] == ["a", "b"]
    assert ranked("0.5 " * 17, max_results=1)[1:] == [*"abcdefghijklmnop"]
    assert ranked("0.5 0.5", min_score=0.51) == ["no match"]


@given(st.lists(st.fractions(0, 1), min_size=1, max_size=12))
def test_chances_follow_the_scores_and_leave_room_for_no_skill(
    scores: list[Fraction],
) -> None:
    scores.sort(reverse=True)
    chances = estimate_probabilities(scores)

    assert chances == sorted(chances, reverse=True)
    assert 0 <= sum(chances[:PROBABILITY_DEPTH]) < 1
    assert len(chances) == len(scores)


def test_a_task_of_the_ranked_algorithm_is_decided_by_chance() -> None:
    twins = [make_skill(path, description="Sort a list") for path in ("a", "b", "c")]
    matcher = ranked_matcher(twins)

    decision = score_and_decide(matcher, "sort a list", Matching(max_results=1))

    assert names(decision) == ["ambiguous", "a", "b", "c"]


WORDS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=40)


@given(WORDS, st.integers(0, 40), WORDS)
def test_near_copies_share_nine_tenths_of_their_words(
    words: list[str], cut: int, others: list[str]
) -> None:
    changed = [*words[:cut], *others[: len(words) - cut]]
    bodies = (" ".join(words), " ".join(changed))
    skills = [
        make_skill(path, name="copy", body=body) for path, body in zip("ab", bodies, strict=True)
    ]
    first, second = (Counter(f"{s.description} {s.body}".split()) for s in skills)

    merged = merge_near_copies(Candidate(skill, Fraction(0), ()) for skill in skills)

    shared = (first & second).total()
    assert (len(merged) == 1) == (20 * shared >= 9 * (first.total() + second.total()))
