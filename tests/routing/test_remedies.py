import re
from fractions import Fraction

import pytest

from skills_mcp.config import Matching
from skills_mcp.routing.answer_explanation import (
    ExplainedCandidate,
    Explanation,
    ScoredDecision,
    explain_decision,
    format_rounded_down,
    suggest_changes,
)
from skills_mcp.routing.decision import (
    Ambiguous,
    NoMatch,
    answered_candidates,
    score_and_decide,
)
from skills_mcp.routing.matcher import Candidate
from skills_mcp.skills.model import Skill
from tests.features.authoring.evaluation.matching import PlainMatcher, TextMatcher
from tests.routing.matchers import ranked_matcher
from tests.support import make_skill

AUTH = make_skill("ui/auth", keywords=["login", "react"])
FORMS = make_skill("ui/forms", keywords=["form", "react"])
ERRORS = make_skill("api/errors", keywords=["error", "login", "status", "code", "api"])
MATCHER = PlainMatcher(AUTH, FORMS, ERRORS)
MATCHING = Matching()


def ask(
    context: str,
    skill: Skill | None = None,
    matcher: PlainMatcher = MATCHER,
    **settings: float,
) -> Explanation:
    matching = Matching.model_validate(settings)
    return explain_decision(matcher, context, matching, skill=skill)


def notes(
    context: str,
    skill: Skill | None = None,
    matcher: PlainMatcher = MATCHER,
    **settings: float,
) -> str:
    return "\n".join(ask(context, skill, matcher, **settings).notes)


def test_a_runner_up_says_how_far_behind_it_is() -> None:
    assert notes("login react").startswith(
        "ui/forms is the runner-up, 0.5 behind: below 0.1 (ambiguity_threshold) the "
        "answer would be ambiguous\n"
    )


def test_an_answer_without_a_rival_needs_no_note() -> None:
    assert notes("form") == ""


def test_a_score_that_is_too_low_names_the_setting_that_would_do() -> None:
    said = notes("code", min_score=0.5)

    assert said.startswith(
        "api/errors is the best with 0.2, below min_score 0.5: with min_score 0.2 or "
        "less it would be in the answer"
    )
    assert isinstance(ask("code", min_score=0.2).decision, Candidate)


def test_a_close_runner_up_names_the_threshold_that_would_do() -> None:
    low = make_skill("ui/lists", keywords=["react", "x", "list"])
    matcher = PlainMatcher(AUTH, low)
    said = notes("react", matcher=matcher, ambiguity_threshold=0.3)

    assert "ambiguous because ui/lists is only 0.166 behind ui/auth" in said
    assert "less than ambiguity_threshold 0.3: a threshold of 0.166 or less would" in said
    settled = ask("react", matcher=matcher, ambiguity_threshold=0.166)
    assert isinstance(settled.decision, Candidate)


def test_equal_scores_need_a_word() -> None:
    assert "ui/auth and ui/forms score the same" in notes("react")


def test_an_answer_that_something_else_forbids_is_not_blamed_on_the_score() -> None:
    contenders = ask("login react").contenders

    words = MATCHER.weigh_terms("login react")

    answered = ScoredDecision(NoMatch(), (), "ranked")

    [first, *_] = suggest_changes(answered, contenders, words, MATCHING)

    assert first == ("ui/auth is the best with 1, but too little of the task speaks for it")


def test_a_task_of_nothing_but_stop_words_says_so() -> None:
    assert notes("the to") == ("no word of the task says anything: describe it in more words")


def test_words_that_no_skill_has_are_named() -> None:
    said = notes("bake fresh rye bread")

    assert said == "no skill has any of these words: 'bake', 'fresh', 'rye' and 1 more"


def test_words_in_the_text_of_a_rule_alone_are_not_called_nowhere() -> None:
    words = MATCHER.weigh_terms("login react")

    [said, *_] = suggest_changes(ScoredDecision(NoMatch(), (), "mixed"), (), words, MATCHING)

    assert said == "no skill has any of these words among its keywords: 'login', 'react'"


# --- what the ranked algorithm would need ---------------------------------------

PDF = make_skill("pdf", description="Fill in the forms of PDF documents")
REPORTS = make_skill("reports", description="Create reports as PDF documents")
NOTES = make_skill("notes", description="Write release notes from commits")
RANKED = ranked_matcher([PDF, REPORTS, NOTES])


@pytest.mark.parametrize(
    "task", ["create PDF documents", "write reports as PDF", "fill in PDF forms"]
)
def test_the_threshold_that_is_named_turns_a_ranked_answer(task: str) -> None:
    before = explain_decision(RANKED, task, MATCHING)
    [note] = [note for note in before.notes if "ambiguity_threshold" in note]
    named = float(re.findall(r"(?:threshold of|below) ([\d.]+)", note)[-1])
    shift = 0.0 if isinstance(before.decision, Ambiguous) else -0.002

    matching = Matching(ambiguity_threshold=max(named + shift, 0))
    after = explain_decision(RANKED, task, matching)

    assert type(after.decision) is not type(before.decision)


def test_a_tie_of_ranked_skills_says_that_only_a_word_decides() -> None:
    twins = ranked_matcher([make_skill(p, description="Sort it") for p in ("a", "b")])

    [note, *_] = explain_decision(twins, "sort", MATCHING).notes

    assert note.startswith("ambiguous because a and b score the same")


# --- keywords that would win ----------------------------------------------------


@pytest.mark.parametrize(
    "context, skill, keywords",
    [
        ("login react page", AUTH, ()),  # wins already
        ("add react page", FORMS, ("page",)),
        ("react page", AUTH, ("page",)),
        ("form wizard step", AUTH, ("step", "wizard", "form")),
    ],
)
def test_the_keywords_that_are_named_make_the_skill_win(
    context: str, skill: Skill, keywords: tuple[str, ...]
) -> None:
    said = notes(context, skill)

    if not keywords:
        assert "would win" not in said
        return
    named = " and ".join(map(repr, keywords))
    noun = "keyword" if len(keywords) == 1 else "keywords"
    assert f"{skill.path} would win with the {noun} {named}" in said
    others = [each for each in (AUTH, FORMS, ERRORS) if each is not skill]
    better = make_skill(skill.path, keywords=[*skill.keywords, *keywords])
    answer = score_and_decide(PlainMatcher(better, *others), context, MATCHING)
    assert [each.skill.path for each in answered_candidates(answer)] == [skill.path]
    fewer = make_skill(skill.path, keywords=[*skill.keywords, *keywords[:-1]])
    answer = score_and_decide(PlainMatcher(fewer, *others), context, MATCHING)
    assert [each.skill.path for each in answered_candidates(answer)] != [skill.path]


def test_to_win_is_to_be_clear_of_the_rival() -> None:
    rival = make_skill("a", keywords=["one", "two", "three", "x", "y"])
    liked = make_skill("b", keywords=["four", "z"])
    matcher = PlainMatcher(rival, liked)

    said = notes("one two three four five six", liked, matcher)

    assert "b would win with the keywords 'six' and 'five'" in said


def test_a_skill_with_too_many_keywords_is_told_so() -> None:
    said = notes("login react", ERRORS)

    assert "api/errors has 1 of its 5 keywords in the task: fewer keywords" in said
    assert "would win" not in said


def test_the_runner_up_is_the_one_that_would_like_to_win() -> None:
    assert "ui/forms would win" not in notes("login react")
    assert "ui/forms has 1 of its 2 keywords" in notes("login react")


@pytest.mark.parametrize("priority, wins", [(0, False), (500, True)])
def test_priority_is_part_of_what_a_new_keyword_is_worth(
    priority: int,
    wins: bool,  # noqa: FBT001 - the expectation
) -> None:
    first = ExplainedCandidate(make_skill("a", keywords=["x"]), Fraction(9, 10), 1, ())
    liked = make_skill("b", keywords=["y", "z", "q"], priority=priority)
    second = ExplainedCandidate(liked, Fraction(1, 3) + Fraction(priority, 1000), 2, ())
    decision = Candidate(first.skill, first.score, ("x",))
    words = MATCHER.weigh_terms("page")

    answered = ScoredDecision(decision, (), "keyword")

    found = suggest_changes(answered, (first, second), words, MATCHING)

    assert ("b would win with the keyword 'page'" in found) is wins


# --- what an author can honestly write -------------------------------------------


@pytest.mark.parametrize("matcher", [MATCHER, TextMatcher(AUTH, FORMS, where="description")])
def test_a_verb_of_any_task_is_never_proposed(matcher: PlainMatcher) -> None:
    said = notes("fix add update change wizard", FORMS, matcher)

    assert "'wizard'" in said
    assert not [word for word in ("'fix'", "'add'", "'update'", "'change'") if f"s {word}" in said]
    assert "would win with" not in notes("fix login", FORMS, matcher)


def test_the_task_is_proposed_as_an_example_until_it_is_one() -> None:
    said = notes("fix the react page", FORMS)
    told = make_skill("ui/forms", keywords=["form", "react"], examples=("Fix the react page",))

    assert 'add the task to its examples, which `skills-mcp test` checks: "fix the' in said
    assert "add the task" not in notes("fix the react page", told, PlainMatcher(AUTH, told))
    assert "add the task" not in notes("fix the form", FORMS)  # it is the answer


def test_a_rival_is_told_to_say_what_it_is_not_for() -> None:
    said = notes("react login", FORMS)

    assert 'if ui/auth is not for this, let its own end with "Not for this: ui/forms"' in said
    assert "Not for" not in notes("react login")


@pytest.mark.parametrize("task", ["create PDF documents", "fill in PDF forms", "release notes"])
def test_the_clause_costs_the_skill_nothing(task: str) -> None:
    skills = [PDF, REPORTS, NOTES]
    for target in skills:
        rivals = [
            make_skill(each.path, description=f"{each.description}. Not for this: {target.path}")
            for each in skills
            if each is not target
        ]
        before = [found.skill.path for found in RANKED.score(task)]
        after = [found.skill.path for found in ranked_matcher([target, *rivals]).score(task)]

        if target.path in before:
            assert after.index(target.path) <= before.index(target.path)


def test_a_word_that_no_skill_has_may_be_a_synonym() -> None:
    said = "\n".join(
        explain_decision(RANKED, "fill in PDF spreadsheets", MATCHING, skill=NOTES).notes
    )

    assert "no skill has 'spreadsheets': if it is another word for one that notes has" in said


# --- words that a text lacks ----------------------------------------------------


def test_two_characters_of_a_text_without_spaces_are_no_synonym() -> None:
    pages = make_skill("pages", description="PDFを結合する。", body="")
    bills = make_skill("bills", description="Write bills as PDF.", body="")

    notes = explain_decision(ranked_matcher([bills, pages]), "PDFを結合して", MATCHING).notes

    assert any("lacks" in note for note in notes)
    assert not [note for note in notes if "routing.synonyms" in note]


def test_words_that_a_text_lacks_are_named_with_their_share() -> None:
    matcher = TextMatcher(AUTH, FORMS, where="description")
    said = notes("react login page", FORMS, matcher)

    assert "ui/forms lacks 'page', 'login', 67 % of the task" in said


def test_words_that_are_hardly_a_part_of_the_task_are_not_worth_a_note() -> None:
    task = " ".join(["react", *(f"w{number}" for number in range(98)), "form"])
    known = make_skill("ui/forms", keywords=task.split()[:-1])
    matcher = TextMatcher(AUTH, known, where="description")

    assert "ui/forms lacks" not in notes(task, known, matcher)


def test_words_that_stand_only_in_the_body_are_named() -> None:
    said = notes("react login", FORMS, TextMatcher(AUTH, FORMS, where="body"))

    assert "ui/forms has 'react' only in its text" in said
    assert "only in its text" not in notes(
        "react login", FORMS, TextMatcher(AUTH, FORMS, where="name")
    )


@pytest.mark.parametrize(
    "number, text",
    [
        (Fraction(0), "0"),
        (Fraction(1, 10), "0.1"),
        (Fraction(1, 3), "0.333"),
        (Fraction(2, 3), "0.666"),
        (Fraction(12345, 10**8), "0.000123"),
        (Fraction(-1, 3), "-0.334"),
    ],
)
def test_numbers_are_never_rounded_up(number: Fraction, text: str) -> None:
    assert format_rounded_down(number) == text
