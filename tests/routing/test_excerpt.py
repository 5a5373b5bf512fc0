"""What counts of a long text: both ends and what stands out, and never all of it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from skills_mcp.config import Matching
from skills_mcp.routing import query as task
from skills_mcp.routing import ranked_matcher as ranking
from skills_mcp.routing.answer_explanation import explain_decision, render_explanation
from skills_mcp.routing.decision import (
    MAX_UNCUT_CHARACTERS,
    answered_candidates,
    join_frequent_terms,
    score_and_decide,
    score_picked_skill,
    score_texts,
    select_relevant_part,
    select_texts,
    take_ends,
)
from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.matcher import Algorithm, Candidate, Mask, Matcher
from skills_mcp.routing.query import Query
from skills_mcp.routing.search import NameIndex, search_skills
from skills_mcp.skills.model import Skill, SkillPath
from tests.features.authoring.evaluation.matching import PlainMatcher
from tests.routing.matchers import keyword_matcher, ranked_matcher
from tests.support import make_skill

LONGEST = 200_000
"""The longest context that a tool takes."""

SKILLS = (
    make_skill("api/errors", keywords=("error", "exception"), description="Errors."),
    make_skill("invoices", keywords=("invoice", "vat"), description="Write invoices."),
    make_skill(
        "release-notes",
        keywords=("release", "notes", "changelog"),
        description="Write the release notes from the commits of a release.",
    ),
)
TASK = "Please write the release notes of this release for the changelog."
MATCHERS: list[Matcher] = [keyword_matcher(SKILLS), ranked_matcher(SKILLS)]

_WORDS = ("worker", "pool", "queue", "broker", "retry", "socket", "shard", "router")


def log(characters: int) -> str:
    """Return lines as a service writes them; every line is another one."""
    chance = Random(3)  # noqa: S311 - the same lines in every run
    lines: list[str] = []
    while sum(map(len, lines)) < characters:
        one, other, third = chance.choices(_WORDS, k=3)
        lines.append(
            f"2026-11-22T10:00:00.{len(lines):06d}Z INFO [{one}-{len(lines) % 16}] com"
            f".acme.{other}.{third} id={chance.getrandbits(48):012x} in 35 ms\n"
        )
    return "".join(lines)[:characters]


LOG = log(100_000)


class Recorder(PlainMatcher):
    """A matcher that knows what it was asked, and finds nothing."""

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.asked: list[str] = []

    def score(self, context: str, *, within: Mask = None, **_: object) -> tuple[Candidate, ...]:
        assert within is None
        self.asked.append(context)
        return ()


class Finder(Recorder):
    """A matcher that has the same score for all that it is asked."""

    def __init__(self, found: float) -> None:
        super().__init__("ranked")
        self._found = found

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        super().quick_score(context, within=within)
        return self._found


def answers(matcher: Matcher, context: str) -> list[str]:
    decision = score_and_decide(matcher, context, Matching())
    return [each.skill.path for each in answered_candidates(decision)]


@pytest.mark.parametrize("matcher", MATCHERS, ids=["keyword", "ranked"])
@pytest.mark.parametrize(
    "text",
    [
        f"{TASK}\n\n{LOG}",
        f"{LOG}\n\n{TASK}",
        f"{TASK}\n{LOG}",
        f"{LOG}\n{TASK}\n",
        f"{LOG}\n\n{'release notes changelog ' * 400}\n\n{LOG}"[:LONGEST],
    ],
    ids=["first", "last", "first line", "last line", "most of it"],
)
def test_a_task_beside_a_long_log_finds_its_skill(matcher: Matcher, text: str) -> None:
    assert answers(matcher, LOG) == []
    assert answers(matcher, text) == ["release-notes"]


@pytest.mark.parametrize("matcher", MATCHERS, ids=["keyword", "ranked"])
def test_everything_that_scores_a_long_text_takes_the_same_part_of_it(
    matcher: Matcher,
) -> None:
    text = f"{LOG}\n\n{TASK}"
    skill = SKILLS[2]

    [alone] = matcher.score(TASK, limit=1)
    picked = score_picked_skill(matcher, text, skill, None)
    explanation = explain_decision(matcher, text, Matching())

    assert select_relevant_part(matcher, text) == TASK
    assert picked == alone
    assert explanation.contenders[0].score == alone.exact_score
    assert f"a part was taken for the task: {TASK}" in explanation.notes[0]


def test_requirements_on_several_pages_find_their_skill_as_a_whole() -> None:
    sections = ("Notes are for people", "A changelog names versions", "A release has commits")
    text = "\n\n".join(f"{section}. {'Nothing else matters here. ' * 20}" for section in sections)
    matcher = ranked_matcher(SKILLS)

    found = score_texts(matcher, select_texts(matcher, text), limit=1)

    assert [each.skill.path for each in found] == ["release-notes"]
    assert found[0].exact_score > matcher.score(select_relevant_part(matcher, text))[0].exact_score


def test_a_long_text_is_read_on_only_while_no_skill_fits() -> None:
    fitting, near, nothing = Finder(0.4), Finder(0.39), Finder(0.049)
    between = [f"This is paragraph {number} of four." for number in range(4)]
    text = "\n\n".join((TASK, *between, LOG, TASK[::-1]))

    assert {select_relevant_part(each, text) for each in (fitting, near, nothing)} == {TASK}
    assert fitting.asked == [TASK, TASK[::-1]]
    assert near.asked == [*fitting.asked, *between]
    assert nothing.asked == [*near.asked, *join_frequent_terms(text)]


def test_paragraphs_are_read_only_if_no_skill_is_near_the_whole_either() -> None:
    near, nothing = Finder(0.05), Finder(0.049)
    between = [f"This is paragraph {number} of four." for number in range(4)]
    text = "\n\n".join((TASK, *between, LOG[:3000].strip(), TASK[::-1]))

    assert {select_relevant_part(each, text) for each in (near, nothing)} == {TASK}
    assert near.asked == [TASK, TASK[::-1], text]
    assert nothing.asked == [*near.asked, *between, *join_frequent_terms(text)]


def test_among_many_paragraphs_none_is_taken_for_the_task() -> None:
    nothing = Finder(0)
    between = [f"This is paragraph {number} of five." for number in range(5)]
    text = "\n\n".join((TASK, *between, LOG, TASK[::-1]))

    assert select_relevant_part(nothing, text) == TASK
    assert nothing.asked == [TASK, TASK[::-1], *join_frequent_terms(text)]


@pytest.mark.parametrize("matcher", MATCHERS, ids=["keyword", "ranked"])
def test_a_task_between_other_paragraphs_finds_its_skill(matcher: Matcher) -> None:
    text = f"## Context\n\nWe run a broker.\n\n## Task\n\n{TASK}\n\n{LOG[:500]}\n\n{LOG}"

    assert answers(matcher, text) == ["release-notes"]


def test_a_text_fits_as_well_as_the_skill_that_explains_most_of_it() -> None:
    ranked, keyword = ranked_matcher(SKILLS), keyword_matcher(SKILLS)
    [best] = keyword.score(TASK, limit=1)

    assert keyword.quick_score(TASK) == float(best.score)
    assert 1 > ranked.quick_score(TASK) > ranked.quick_score(f"{TASK} Broker queue shard.") > 0
    for matcher in (ranked, keyword):
        assert matcher.quick_score("broker queue") == 0
        others = np.array([skill.path != "release-notes" for skill in SKILLS])
        assert matcher.quick_score(TASK, within=others) < matcher.quick_score(TASK) / 2


def test_a_part_that_is_the_name_of_a_skill_fits_it_whole() -> None:
    ranked = ranked_matcher(SKILLS)

    assert ranked.quick_score("release notes") == 1


def test_a_long_query_is_searched_by_the_same_part() -> None:
    ranked = ranked_matcher(SKILLS)
    names = NameIndex([each.path for each in SKILLS], [each.name for each in SKILLS])

    def found(query: str) -> Sequence[Skill]:
        result = search_skills(query, SKILLS, names, ranked, limit=3, threshold=0.2)
        return [hit.skill for hit in result.hits]

    assert found(f"{LOG}\n\n{TASK}") == found(TASK)


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
def test_what_is_not_long_is_scored_as_it_is(algorithm: Algorithm) -> None:
    text = (f"{TASK}\n\n" * 1_000)[: MAX_UNCUT_CHARACTERS[algorithm]]

    assert select_relevant_part(Recorder(algorithm), text) is text
    assert select_relevant_part(Recorder(algorithm), f"{text}.") != text


def _long_texts() -> dict[str, str]:
    chance = Random(5)  # noqa: S311 - the same text in every run
    every = "".join(map(chr, chance.choices(range(0xD800), k=LONGEST)))
    return {
        "one word": "release " * (LONGEST // 8),
        "letters": "a " * (LONGEST // 2),
        "other words": " ".join(f"word{n}" for n in range(LONGEST))[:LONGEST],
        "one token": "release" * (LONGEST // 7),
        "hyphens": "re-" * (LONGEST // 3),
        "any characters": every,
        "Chinese": "数据库迁移" * (LONGEST // 5),
        "Chinese sentences": "数据库迁移。" * (LONGEST // 6),
        "lines": "\n" * LONGEST,
        "blank lines": " \n" * (LONGEST // 2),
        "surrogates": "\ud800" * LONGEST,
    }


LONG_TEXTS = _long_texts()


@pytest.mark.parametrize("algorithm", ["keyword", "ranked"])
@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_of_no_text_more_is_scored_than_ten_short_ones(text: str, algorithm: Algorithm) -> None:
    matcher = Recorder(algorithm)

    score_and_decide(matcher, text, Matching())

    assert len(matcher.asked) <= 10  # nine parts, and the best of them again
    assert max(map(len, matcher.asked)) <= 2_000


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_no_text_makes_routing_look_at_many_terms(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = _count_described(monkeypatch)

    for matcher in MATCHERS:
        explanation = explain_decision(matcher, text, Matching())
        rendered = render_explanation(explanation)
        assert len(str(rendered)) < 40_000
    assert len(looked) < 4_000


def test_each_word_of_a_long_task_is_looked_up_once_for_all_its_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = _count_described(monkeypatch)
    paragraphs = [f"{part} shared words of paragraph {part}{part} 数据库" for part in "abcdefgh"]
    text = "\n\n".join(paragraphs * 3)

    score_and_decide(ranked_matcher(SKILLS), text, Matching())

    assert "shared" in looked
    assert len(looked) == len(set(looked))


def test_each_text_of_a_task_is_reranked_once_for_skills_with_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = make_skill(".agents/release-notes", name="release-notes", description="Write notes.")
    skills = (copy, replace(copy, path=SkillPath("release-notes")))
    reranked: list[Query] = []
    compute = ranking.term_proximity

    def count(index: TextIndex, query: Query, numbers: NDArray[np.int64]) -> ranking.Proximity:
        reranked.append(query)
        return compute(index, query, numbers)

    monkeypatch.setattr(ranking, "term_proximity", count)

    decision = score_and_decide(ranked_matcher(skills), f"{TASK}\n\n{LOG[:3000]}", Matching())

    [candidate] = answered_candidates(decision)
    assert candidate.near_copies
    assert len(reranked) == 2  # the part and the whole


def _count_described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the words that are looked up from now on."""
    looked: list[str] = []
    describe = task._describe_words

    def count(index: TextIndex, typed: Sequence[str]) -> Iterator[task.QueryWord]:
        looked.extend(typed)
        return describe(index, typed)

    monkeypatch.setattr(task, "_describe_words", count)
    return looked


ONE = "one more than a greeting"
THREE = "three more than thanks"


@pytest.mark.parametrize(
    "text, beginning, end",
    [
        (f"{ONE}\n\ntwo\n\n{THREE}", ONE, THREE),
        (f"{ONE}\ntwo\n \t\nthree\n{THREE}", f"{ONE}\ntwo", f"three\n{THREE}"),
        (f"\n\n {ONE} \n\n\n", ONE, ONE),
        ("", "", ""),
        (f"{ONE}\n{'x ' * 600}\n{THREE}", ONE, THREE),
        ("x" * 601, "x" * 600, "x" * 600),
        (
            f"Hi team,\n\n{ONE}\n\ntwo\n\n{THREE}\n\nThanks!",
            f"Hi team,\n\n{ONE}",
            f"{THREE}\n\nThanks!",
        ),
        (
            f"Hi team,\n{ONE}\n{'x ' * 600}\n{THREE}\nThanks!",
            f"Hi team,\n{ONE}",
            f"{THREE}\nThanks!",
        ),
    ],
)
def test_an_end_is_a_paragraph_or_a_line_or_600_characters(
    text: str, beginning: str, end: str
) -> None:
    assert take_ends(text) == (beginning, end)


def test_the_words_that_stand_out_are_frequent_and_not_ordinary() -> None:
    text = "Kafka kafka KAFKA the the the the really really really topic topic 12ab 12ab"

    assert join_frequent_terms(text) == ("kafka topic really",)
