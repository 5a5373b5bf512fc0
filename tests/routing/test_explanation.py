from fractions import Fraction

import numpy as np
import pytest

from skills_mcp.config import Matching
from skills_mcp.routing.answer_explanation import (
    ExplainedCandidate,
    Explanation,
    explain_decision,
    heaviest_words,
    render_explanation,
    summarize_evidence,
)
from skills_mcp.routing.matcher import Evidence, Mask, Matcher
from skills_mcp.skills.model import Skill
from tests.features.authoring.evaluation.matching import PlainMatcher
from tests.routing.matchers import ranked_matcher
from tests.support import make_skill

AUTH = make_skill("ui/auth", keywords=["login", "react"])
FORMS = make_skill("ui/forms", keywords=["form", "react"])
ERRORS = make_skill("api/errors", keywords=["error", "login", "status", "code", "api"])
MATCHER = PlainMatcher(AUTH, FORMS, ERRORS)


def ask(
    context: str,
    skill: Skill | None = None,
    matcher: Matcher = MATCHER,
    within: Mask = None,
) -> Explanation:
    return explain_decision(matcher, context, Matching(), skill=skill, within=within)


def test_words_are_weighed_and_the_ignored_ones_named() -> None:
    found = ask("add the login to react")

    assert [(word.typed, word.skills) for word in found.words] == [
        *(("add", 0), ("login", 2), ("react", 2))
    ]
    assert found.ignored == ("the", "to")
    assert found.algorithm == "keyword"


def test_the_best_three_are_looked_into() -> None:
    found = ask("login react")

    assert [(each.skill.path, each.rank) for each in found.contenders] == [
        *(("ui/auth", 1), ("ui/forms", 2), ("api/errors", 3))
    ]
    best = found.contenders[0]
    assert sum(each.worth for each in best.evidence) == best.score == 1


def test_a_skill_that_is_asked_about_is_looked_into_wherever_it_stands() -> None:
    more = (make_skill(f"a{n}", keywords=["login"]) for n in range(5))
    matcher = PlainMatcher(AUTH, FORMS, *more)

    far = ask("login", AUTH, matcher).contenders
    nowhere = ask("login", FORMS, matcher).contenders

    assert [(c.skill.path, c.rank) for c in far][-1] == ("ui/auth", 6)
    assert len(far) == len(nowhere) == 4
    assert nowhere[-1] == ExplainedCandidate(FORMS, nowhere[-1].score, None, ())
    assert nowhere[-1].score == 0


def test_a_skill_that_is_among_the_best_is_looked_into_once() -> None:
    assert len(ask("login react", FORMS).contenders) == 3


def test_it_is_rendered_for_programs() -> None:
    assert render_explanation(ask("the form")) == {
        "algorithm": "keyword",
        "words": [{"word": "form", "term": "form", "weight": 1.0, "skills": 1}],
        "ignored": ["the"],
        "candidates": [
            {
                "skill_path": "ui/forms",
                "place": 1,
                "score": 0.5,
                "evidence": [{"word": "form", "where": "keyword", "found": "form", "worth": 0.5}],
            }
        ],
        "notes": [],
    }


def test_words_that_are_ignored_are_not_listed_without_end() -> None:
    ignored = " ".join(f"w{n}" for n in range(1000))

    class Deaf(PlainMatcher):
        def weigh_terms(self, context: str) -> tuple[()]:  # noqa: ARG002 - the protocol's
            return ()

    assert len(ask(ignored, matcher=Deaf(AUTH)).ignored) == 50


def test_a_long_task_is_explained_by_what_counts_most() -> None:
    task = [f"k{number}" for number in range(100)]
    big = make_skill("big", keywords=task)

    found = render_explanation(ask(" ".join(task), matcher=PlainMatcher(big)))

    evidence = found["candidates"][0]["evidence"]
    assert len(found["words"]) == 30
    assert len(evidence) == 11
    assert evidence[-1] == {
        "word": "",
        "where": "rest",
        "found": "90 more",
        "worth": 0.9,
    }


def test_the_strongest_evidence_is_first_and_words_keep_their_order() -> None:
    strong = Evidence(word="b", where="name", found="b", worth=0.5)
    weak = Evidence(word="a", where="body", found="a", worth=0.1)
    limit = Evidence(word="", where="limit", found="", worth=-0.2)

    assert summarize_evidence([weak, strong, limit]) == (strong, limit, weak)
    assert [word.typed for word in heaviest_words(ask("login react"))] == [
        "login",
        "react",
    ]


# --- among some of the skills ---------------------------------------------------


def test_a_skill_outside_of_the_part_is_said_to_be_there() -> None:
    within = np.array([True, False, False])  # in path order

    found = ask("login react", AUTH, PlainMatcher(AUTH, FORMS, ERRORS), within)

    assert [each.skill.path for each in found.contenders] == ["api/errors"]
    assert found.notes[0] == "ui/auth is outside of the part that was chosen from"
    assert not any("ui/auth would win" in note for note in found.notes)


def test_a_skill_that_nothing_speaks_for_anywhere_is_no_outsider() -> None:
    within = np.array([False, True, True])

    found = ask("form", AUTH, PlainMatcher(AUTH, FORMS, ERRORS), within)

    assert found.contenders[-1] == ExplainedCandidate(AUTH, Fraction(0), None, ())
    assert not any("outside" in note for note in found.notes)


def test_reasons_are_those_among_the_skills_that_may_be_found() -> None:
    skills = [make_skill("a", name="login"), make_skill("b", description="login")]
    matcher = ranked_matcher(skills)

    [best] = ask("login", matcher=matcher, within=np.array([False, True])).contenders

    assert best.skill.path == "b"
    assert sum(each.worth for each in best.evidence) == pytest.approx(float(best.score), abs=2e-6)
