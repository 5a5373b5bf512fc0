import numpy as np

from skills_mcp.config import Matching
from skills_mcp.routing.choosing import choose
from skills_mcp.routing.decision import Ambiguous
from skills_mcp.routing.explanation import list_answers, name_decision
from tests.authoring.evaluation.matching import PlainMatcher
from tests.support import make_skill

AUTH = make_skill("ui/auth", keywords=["login", "react"])
FORMS = make_skill("ui/forms", keywords=["form", "react"])
ERRORS = make_skill("api/errors", keywords=["error", "login", "status", "code", "api"])
MATCHER = PlainMatcher(AUTH, FORMS, ERRORS)
MATCHING = Matching()


def test_an_answer_is_chosen_as_the_settings_say() -> None:
    match = choose(MATCHER, "login react", MATCHING)
    both = choose(MATCHER, "react", MATCHING)
    none = choose(MATCHER, "bread", MATCHING)

    assert [list_answers(each) for each in (match, none)] == [
        MATCHER.score("login react", most=1),
        (),
    ]
    assert isinstance(both, Ambiguous)
    assert list_answers(both) == both.candidates
    assert [name_decision(each) for each in (match, both, none)] == [
        *("single", "ambiguous", "no_match")
    ]


def test_the_runner_up_counts_even_if_only_one_is_listed() -> None:
    decision = choose(MATCHER, "react", Matching(max_results=1))

    assert isinstance(decision, Ambiguous)
    assert len(decision.candidates) == 1


def test_an_answer_comes_from_the_part_that_may_be_found() -> None:
    decision = choose(MATCHER, "react", MATCHING, within=np.array([0, 0, 1], bool))

    assert [each.skill.path for each in list_answers(decision)] == ["ui/forms"]
