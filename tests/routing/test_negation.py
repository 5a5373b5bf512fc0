"""A task that says what not to use: those words are not scored, and their skill not served."""

import sys
from types import FrameType
from typing import Any

import pytest

from skills_mcp.config import Matching
from skills_mcp.routing.answer_explanation import explain_decision
from skills_mcp.routing.decision import NoMatch, answered_candidates, score_and_decide
from skills_mcp.routing.matcher import Matcher
from skills_mcp.routing.negation import find_negations
from skills_mcp.routing.ranked_matcher import RankedMatcher
from tests.routing.matchers import keyword_matcher, ranked_matcher
from tests.support import make_skill

DESCRIPTIONS = {
    "discord": "Post messages to a channel of Discord.",
    "jest-unit": "Write unit tests with Jest.",
    "cypress-e2e": "Write end to end tests with Cypress.",
    "notion": "Create a page of notes in a Notion workspace.",
    "obsidian": "Create notes in a vault of Obsidian.",
    "release-announcement": "Write the announcement of a release, with its release notes.",
    "release-notes": "Write the release notes of a version.",
    "slack": "Post messages to a channel of Slack.",
}
SKILLS = [
    make_skill(name, name=name, description=said, keywords=(name,), body="")
    for name, said in DESCRIPTIONS.items()
]

NEGATIONS = {
    "write release notes but do not touch the announcement": "release-notes",
    "Don't use Cypress, write the tests with Jest": "jest-unit",
    "tests with Jest instead of Cypress for the login": "jest-unit",
    "put the notes into Obsidian rather than Notion": "obsidian",
    "post it to every channel except Slack, to Discord first": "discord",
    "post to Discord, not to Slack": "discord",
    "write unit tests with Jest and leave Cypress alone": "jest-unit",
    "we don't want Notion; create notes in Obsidian": "obsidian",
    "create notes in Obsidian without Notion": "obsidian",
    "schreib Unit-Tests mit Jest, nicht mit Cypress": "jest-unit",
    "Notizen in Obsidian, Notion in Ruhe lassen": "obsidian",
    "écris les tests avec Jest, n'utilise pas Cypress": "jest-unit",
    "notes dans Obsidian au lieu de Notion": "obsidian",
    "escribe tests con Jest, no uses Cypress": "jest-unit",
    "Why does it fail? Don't use Cypress, but tests with Jest": "jest-unit",
    "Tests mit Jest, benutze\t\tCypress   bitte nicht": "jest-unit",
    "las notas en Obsidian en vez de Notion": "obsidian",
    "escreva testes com Jest, não use Cypress": "jest-unit",
    "notas no Obsidian em vez do Notion": "obsidian",
    "CypressではなくJestでテストを書いて": "jest-unit",
    "Notionを使わずにObsidianにメモ": "obsidian",
    "用Jest写测试 不要用Cypress": "jest-unit",
    "笔记放到Obsidian 而不是Notion": "obsidian",
}

# What a task reports, or asks for in other words, is no negation of a skill.
REPORTS = (
    "why does Cypress not start",
    "I cannot post to Slack",
    "the Slack message does not work and is not found",
    "Notion returns no rows",
    "Notion shows an error instead of the page",
    "not only the release notes",
    "not sure about Notion",
    "don't forget the release notes",
    "post to Slack without errors",
    "Slack isn't reachable",
    "我不能打开Notion",
    "なぜNotionが開けない",
)


@pytest.fixture(scope="module")
def matcher() -> RankedMatcher:
    return ranked_matcher(SKILLS)


def served(matcher: Matcher, task: str) -> list[str]:
    decision = score_and_decide(matcher, task, Matching())
    found = decision.near if isinstance(decision, NoMatch) else answered_candidates(decision)
    return [candidate.skill.path for candidate in found]


def test_what_a_task_says_not_to_use_is_not_served(matcher: RankedMatcher) -> None:
    rivals = {"release-notes": "release-announcement", "jest-unit": "cypress-e2e"}
    rivals |= {"obsidian": "notion", "discord": "slack"}
    found = {task: served(matcher, task) for task in NEGATIONS}

    assert {task: paths[:1] for task, paths in found.items()} == {
        task: [wanted] for task, wanted in NEGATIONS.items()
    }
    assert not [task for task, wanted in NEGATIONS.items() if rivals[wanted] in found[task]]


def test_a_report_is_no_negation(matcher: RankedMatcher) -> None:
    assert not [task for task in REPORTS if matcher.find_negated(task).words]


def test_a_task_that_only_negates_is_scored_as_it_is(matcher: RankedMatcher) -> None:
    assert served(matcher, "do not use Cypress")[0] == "cypress-e2e"


@pytest.mark.parametrize("task", ["never use Cypress", "avoid Cypress", "ignore Cypress"])
def test_a_cue_that_skills_have_as_a_word_is_not_what_is_asked(task: str) -> None:
    rules = make_skill("rules", name="rules", description="Never avoid or ignore a rule.")

    assert served(ranked_matcher([*SKILLS, rules]), task)[0] == "cypress-e2e"


@pytest.mark.parametrize(
    "task",
    [
        "use Mattermost, not Slack",
        "Mattermost statt Slack",
        "Mattermost em vez do Slack",
        "Slackは使わない、Mattermostで",
        "用Mattermost 不要用Slack",
    ],
)
def test_what_no_skill_serves_is_asked_rather_than_what_is_negated(
    matcher: RankedMatcher, task: str
) -> None:
    decision = score_and_decide(matcher, task, Matching())

    assert isinstance(decision, NoMatch)
    assert "slack" not in [candidate.skill.path for candidate in decision.near]


def test_a_pasted_text_keeps_the_negation_of_its_part(matcher: RankedMatcher) -> None:
    task = f"Create notes in Obsidian, do not use Notion.\n\n{'A page of Notion. ' * 50}"

    assert served(matcher, task)[0] == "obsidian"
    assert "notion" not in served(matcher, task)


def test_keywords_are_compared_literally() -> None:
    assert "notion" in served(keyword_matcher(SKILLS), "notes in Obsidian, do not use Notion")


def test_an_explanation_says_what_is_left_out(matcher: RankedMatcher) -> None:
    task = "notes in Obsidian, do not use Notion"

    notes = explain_decision(matcher, task, Matching(), skill=SKILLS[3]).notes

    assert any("negates" in note and "notion" in note for note in notes)
    assert any(note.startswith("notion is not served") for note in notes)


@pytest.mark.parametrize("piece", ["do not use X, ", "leave " + " " * 9, "not" + "\n" * 9])
def test_what_was_pasted_is_scored_as_it_is(piece: str) -> None:
    assert find_negations(piece * 10_000) == ()


def count_steps(text: str) -> int:
    """Count the lines of Python that looking for negations takes."""
    steps = 0

    def count(_frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        find_negations(text)
    finally:
        sys.settrace(before)
    return steps


PIECES = (
    *("do not ", "leave ", "leave a b ", "not\n", "without a ", "instead of to ", "no a b "),
    *("lass x und ", "benutz x ", "n'a ", "laisse d ", "no uses ", "não a ", "why not "),
    *(" ", " \t", "\n", ".a", "a.", "don'", "不", "别", "を使わ", "a の代わり", "I don't want "),
)


def test_the_steps_grow_with_the_length_of_a_task() -> None:
    steps = {
        piece: [count_steps((piece * length)[:length]) for length in (900, 1_800)]
        for piece in PIECES
    }

    assert not {piece: few for piece, few in steps.items() if few[1] > 2.2 * few[0]}
    assert not {piece: few for piece, few in steps.items() if few[1] > 250 * 1_800}


def test_a_run_of_blanks_changes_nothing() -> None:
    task = "notes in Obsidian, do not use Notion; leave Cypress alone"
    wide = task.replace(" ", " " * 20)

    negated = [
        [text[each.start : each.end].split() for each in find_negations(text)]
        for text in (task, wide)
    ]

    assert negated[0] == negated[1] == [["use", "Notion"], ["Cypress"]]


def test_a_text_of_cues_has_few_scopes() -> None:
    assert 0 < len(find_negations("do not use X, " * 100)) <= 20
