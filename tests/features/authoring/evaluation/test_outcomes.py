from dataclasses import replace
from typing import Any

import pytest

from skills_mcp.config import Matching
from skills_mcp.features.authoring.evaluation import (
    AnswerChange,
    Outcome,
    diff_outcomes,
    evaluate_prompts,
    explain_failure,
    score_outcomes,
)
from skills_mcp.features.authoring.prompts import Prompt
from skills_mcp.routing.decision import Ambiguous, score_texts, select_texts
from skills_mcp.routing.matcher import Candidate, Evidence, Mask
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import SkillFilter, SkillIndex
from tests.features.authoring.evaluation.matching import PlainMatcher, TextMatcher
from tests.routing.matchers import ranked_matcher
from tests.support import make_skill

AUTH = make_skill("ui/auth", keywords=["login", "react"], category="web")
FORMS = make_skill("ui/forms", keywords=["form", "react"])
ERRORS = make_skill("api/errors", keywords=["error", "login", "status", "code", "api"])
SKILLS = (AUTH, FORMS, ERRORS)
MATCHING = Matching()


def prompt(query: str, *expect: str, **fields: Any) -> Prompt:
    return Prompt(query=query, expect=expect, origin="p.jsonl:1", **fields)


def try_out(*prompts: Prompt, skills: tuple[Skill, ...] = SKILLS) -> list[Outcome]:
    matcher = PlainMatcher(*skills)
    return list(evaluate_prompts(prompts, matcher, MATCHING, SkillIndex(skills)))


def test_a_prompt_gets_the_answer_of_get_skill_and_the_order_behind_it() -> None:
    [outcome] = try_out(prompt("login to react", "ui/auth"))

    assert isinstance(outcome.decision, Candidate)
    assert outcome.answers == ("ui/auth",)
    assert [c.skill.path for c in outcome.ranked] == [*("ui/auth", "ui/forms", "api/errors")]
    assert outcome.rank == 1
    assert outcome.seconds > 0


def test_the_order_goes_below_the_lowest_score_of_an_answer() -> None:
    rare = make_skill("rare", keywords=["x", *(f"k{n}" for n in range(9))])

    [outcome] = try_out(prompt("x", "rare"), skills=(*SKILLS, rare))

    assert outcome.answers == ()
    assert outcome.rank == 1
    assert outcome.listed == ("rare",)
    scores = score_outcomes([outcome])
    assert (scores.kept, scores.in_answer, scores.shown) == (0, 1, 1)


@pytest.mark.parametrize(
    "query, expect, is_right, is_right_strictly",
    [
        ("login react", ["ui/auth"], True, True),
        ("login react", ["api/errors"], False, False),
        ("login react", ["api/errors", "ui/auth"], True, True),
        ("react", ["ui/forms"], True, False),
        ("react", ["api/errors"], False, False),
        ("bake bread", ["ui/forms"], False, False),
        ("bake bread", [], True, True),
        ("react", [], False, False),
        ("login react", [], False, False),
    ],
)
def test_a_prompt_passes_if_its_skill_is_the_answer_or_among_the_candidates(
    query: str,
    expect: list[str],
    is_right: bool,  # noqa: FBT001 - the expectation
    is_right_strictly: bool,  # noqa: FBT001 - the expectation
) -> None:
    [outcome] = try_out(prompt(query, *expect))

    assert outcome.is_right() is is_right
    assert outcome.is_right(is_strict=True) is is_right_strictly


def test_a_prompt_that_may_be_ambiguous_passes_strictly() -> None:
    [outcome] = try_out(prompt("react", "ui/forms", is_ambiguous=True))

    assert outcome.is_right(is_strict=True)


@pytest.mark.parametrize(
    "scoping, found",
    [
        (SkillFilter("ui"), ["ui/auth", "ui/forms"]),
        (SkillFilter("ui/forms"), ["ui/forms"]),
        (SkillFilter(category="web"), ["ui/auth"]),
    ],
)
def test_only_the_part_that_a_prompt_names_is_looked_at(
    scoping: SkillFilter, found: list[str]
) -> None:
    [outcome] = try_out(prompt("login react error", "ui/auth", scoping=scoping))

    assert [each.skill.path for each in outcome.ranked] == found


def test_it_says_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []

    evaluate_prompts(
        [prompt("react")] * 2,
        PlainMatcher(AUTH),
        MATCHING,
        SkillIndex([AUTH]),
        lambda done, total: told.append((done, total)),
    )

    assert told == [(1, 2), (2, 2)]


def test_scores_are_shares_of_the_prompts_that_expect_a_skill() -> None:
    outcomes = try_out(
        prompt("login react", "ui/auth"),  # single, right
        prompt("login react", "api/errors"),  # single, wrong, in place 3
        prompt("react", "ui/forms"),  # ambiguous, in place 2
        prompt("bake bread", "ui/forms"),  # no match, nowhere
        prompt("bake bread"),
        prompt("form"),
        prompt("milk"),
    )

    scores = score_outcomes(outcomes)

    assert (scores.queries, scores.served, scores.unserved) == (7, 4, 3)
    assert (scores.accuracy_at_1, scores.hit_at_3, scores.hit_at_5) == (
        0.25,
        0.75,
        0.75,
    )
    assert scores.mrr == round((1 + 1 / 3 + 1 / 2 + 0) / 4, 4)
    assert scores.kept == 0.5
    assert scores.in_answer == 0.5
    assert scores.shown == 1  # one, one, two, none
    assert scores.abstained_right == 0.6667
    assert (scores.single, scores.ambiguous, scores.no_match) == (3, 1, 3)
    assert scores.single_right == 1
    assert scores.p50_ms is not None
    assert scores.p99_ms is not None
    assert 0 <= scores.p50_ms <= scores.p99_ms


def test_without_prompts_of_a_kind_there_is_no_share() -> None:
    only_unserved = score_outcomes(try_out(prompt("milk")))
    only_served = score_outcomes(try_out(prompt("login react", "ui/auth")))

    assert (only_unserved.accuracy_at_1, only_unserved.mrr) == (None, None)
    assert only_unserved.abstained_right == 1
    assert only_served.abstained_right is None
    assert score_outcomes([]).p50_ms is None


def test_the_slowest_of_a_hundred_is_beyond_the_ninety_ninth() -> None:
    [outcome] = try_out(prompt("react"))
    times = [*range(1, 100), 5000]
    outcomes = [
        Outcome(outcome.prompt, outcome.decision, outcome.ranked, ms / 1000) for ms in times
    ]

    scores = score_outcomes(outcomes)

    assert (scores.p50_ms, scores.p99_ms) == (50, 99)


def test_prompts_whose_skills_are_others_now_are_changes() -> None:
    prompts = (prompt("login react"), prompt("react"), prompt("error status"))
    moved = make_skill("ui/login", keywords=["login"])

    before = try_out(*prompts)
    after = try_out(*prompts, skills=(*SKILLS, moved))

    assert list(diff_outcomes(before, before)) == []
    assert list(diff_outcomes(before, after)) == [
        AnswerChange(
            "login react",
            before=("ui/auth",),
            after=("ui/auth", "ui/login", "ui/forms"),
            was_right=False,
            is_right=False,
        )
    ]


def test_another_order_of_candidates_is_no_change() -> None:
    [before] = try_out(prompt("react"), skills=(AUTH, FORMS))
    after = Outcome(before.prompt, Ambiguous(before.ranked[::-1]), before.ranked, 0)

    assert before.answers == tuple(reversed(after.answers))
    assert list(diff_outcomes([before], [after])) == []


def test_a_long_prompt_is_ranked_as_get_skill_reads_it() -> None:
    skills = (
        make_skill("api/errors", keywords=("error", "exception"), description="Errors."),
        make_skill("invoices", keywords=("invoice", "vat"), description="Write invoices."),
        make_skill("notes", keywords=("changelog",), description="Write the release notes."),
    )
    pasted = "\n".join(["Write an invoice with VAT for the errors."] * 40)
    query = f"Write the changelog.\n\n{pasted}"
    matcher = ranked_matcher(skills)

    [outcome] = evaluate_prompts([prompt(query, "notes")], matcher, MATCHING, SkillIndex(skills))

    read = score_texts(matcher, select_texts(matcher, query))
    assert [c.skill.path for c in outcome.ranked] == [c.skill.path for c in read]
    assert [c.exact_score for c in outcome.ranked] != [c.exact_score for c in matcher.score(query)]


def reason(
    query: str,
    *expect: str,
    matcher: PlainMatcher | None = None,
    skills: tuple[Skill, ...] = SKILLS,
) -> str:
    matcher = matcher or PlainMatcher(*skills)
    index = SkillIndex(matcher.skills)
    [outcome] = evaluate_prompts([prompt(query, *expect)], matcher, MATCHING, index)
    return explain_failure(outcome, matcher, MATCHING, index)


def test_a_skill_that_is_behind_says_how_far_and_by_which_word() -> None:
    said = reason("login react", "api/errors")

    assert said == ("in place 3, 0.8 behind; its best word is 'login', by the keyword 'login'")


def test_a_word_that_stands_only_in_the_body_is_named() -> None:
    matcher = TextMatcher(*SKILLS, where="body")

    assert "its best word 'login' is only in the body" in reason(
        "login react", "api/errors", matcher=matcher
    )


def test_a_word_in_another_field_is_named_with_it() -> None:
    matcher = TextMatcher(*SKILLS, where="description")

    assert "its best word 'login' is in its description" in reason(
        "login react", "api/errors", matcher=matcher
    )


@pytest.mark.parametrize(
    "where, said",
    [("pair", "its best words 'login' stand login"), ("synonym", "by the synonym 'l")],
)
def test_what_is_no_place_is_said_in_its_own_words(where: str, said: str) -> None:
    matcher = TextMatcher(*SKILLS, where=where)

    assert said in reason("login react", "api/errors", matcher=matcher)


def test_a_skill_below_the_lowest_score_says_so() -> None:
    rare = make_skill("rare", keywords=["x", *(f"k{n}" for n in range(9))])

    assert "it scores 0.1, below min_score 0.2" in reason("x", "rare", skills=(rare,))


def test_a_skill_that_nothing_speaks_for_says_so() -> None:
    assert reason("bake", "ui/auth") == "no word of the prompt speaks for ui/auth"


def test_an_answer_where_none_is_expected_says_what_speaks_for_it() -> None:
    assert reason("form") == (
        "0.5 is enough (min_score); its best word is 'form', by the keyword 'form'"
    )


def test_an_ambiguous_answer_is_wrong_only_where_that_is_wanted() -> None:
    assert "--strict does not allow" in reason("react", "ui/forms")


def test_an_avoided_skill_beside_the_expected_one_is_named() -> None:
    [outcome] = try_out(prompt("react", "ui/forms", avoid=("ui/auth",), is_ambiguous=True))

    said = explain_failure(outcome, PlainMatcher(*SKILLS), MATCHING, SkillIndex(SKILLS))

    assert said.startswith("the prompt avoids ui/auth; ")


def test_a_skill_outside_of_the_part_says_so() -> None:
    scoping = SkillFilter("ui")
    [outcome] = try_out(prompt("login", "api/errors", scoping=scoping))

    said = explain_failure(outcome, PlainMatcher(*SKILLS), MATCHING, SkillIndex(SKILLS))

    assert said == "api/errors is outside of the part that the prompt names"


def test_a_skill_for_users_alone_says_why_no_prompt_finds_it() -> None:
    skills = (make_skill("deploy", user_only=True), make_skill("build"))
    index = SkillIndex(skills)
    [outcome] = evaluate_prompts(
        [prompt("deploy", "deploy")], PlainMatcher(*skills), MATCHING, index
    )

    assert "disable-model-invocation" in explain_failure(
        outcome, PlainMatcher(*skills), MATCHING, index
    )


def test_an_answer_says_what_speaks_for_it_among_the_skills_of_the_part() -> None:
    skills = (
        make_skill("api/login", description="about login"),
        make_skill("ui/auth", description="login login"),
    )
    index, matcher = SkillIndex(skills), ranked_matcher(skills)
    found = evaluate_prompts([prompt("login", scoping=SkillFilter("ui"))], matcher, MATCHING, index)

    said = explain_failure(found[0], matcher, MATCHING, index)

    assert "its best word 'login' is in its description" in said


def test_an_answer_without_any_word_says_so() -> None:
    matcher = MeaningMatcher(*SKILLS)
    index = SkillIndex(matcher.skills)
    [outcome] = evaluate_prompts([prompt("form")], matcher, MATCHING, index)

    assert "by none of its words" in explain_failure(outcome, matcher, MATCHING, index)


class MeaningMatcher(PlainMatcher):
    """The same, but no word is the reason."""

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        found = super().explain(context, skill, within=within)
        return tuple(replace(each, word="", where="embedding") for each in found)


def test_a_part_that_an_older_state_lacks_answers_nothing_there() -> None:
    [outcome] = try_out(prompt("login", "ui/auth", scoping=SkillFilter("new")))

    assert outcome.answers == ()
    assert outcome.ranked == ()
