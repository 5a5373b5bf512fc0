"""What a query finds: by name first, then by rank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    Matcher,
    NegatedScope,
    TermWeight,
)
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.routing.search import NameIndex, SearchResult, search_skills
from skills_mcp.skills.model import Scope, Skill
from tests.support import make_skill


@dataclass(frozen=True)
class Scored:
    """A matcher that gives the scores it was given, whatever the task."""

    candidates: Sequence[Candidate]
    algorithm: Literal["ranked"] = "ranked"

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        best = self.score(context, limit=1, within=within)
        return float(best[0].score) if best else 0.0

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        assert context.strip()
        assert min_score is None
        found = [
            candidate
            for number, candidate in enumerate(self.candidates)
            if within is None or within[number]
        ]
        found.sort(key=lambda candidate: -candidate.score)
        return tuple(found[:limit])

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        raise NotImplementedError(context)

    def find_negated(self, context: str) -> NegatedScope:
        raise NotImplementedError(context)

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        raise NotImplementedError(context, skill)


NOTHING = Scored(())


def find(  # noqa: PLR0913 - as many as `search` has
    query: str,
    skills: Iterable[Skill],
    matcher: Matcher | None = None,
    *,
    limit: int = 10,
    threshold: float = 0.2,
    scope: Scope | None = None,
) -> SearchResult:
    skills = list(skills)
    return search_skills(
        query,
        skills,
        NameIndex(
            [s.path for s in skills],
            [s.name for s in skills],
            [s.scope for s in skills],
        ),
        matcher or RankedMatcher(TextIndex.build(map(to_indexed_document, skills)), skills),
        limit=limit,
        threshold=threshold,
        within=np.array([s.scope == scope for s in skills]) if scope else None,
    )


def find_scored(*scores: str, limit: int = 10, threshold: float = 0.2) -> SearchResult:
    """Search among skills `s0`, `s1`, … that are ranked with these scores."""
    candidates = [
        Candidate(make_skill(f"s{number}"), Fraction(score), ())
        for number, score in enumerate(scores)
    ]
    skills = [candidate.skill for candidate in candidates]
    return find("task", skills, Scored(candidates), limit=limit, threshold=threshold)


def paths(found: SearchResult) -> list[str]:
    return [hit.skill.path for hit in found.hits]


def reasons(found: SearchResult) -> list[tuple[str, str]]:
    return [(hit.skill.path, hit.reason) for hit in found.hits]


def test_a_path_comes_before_a_name_before_a_prefix_before_a_rank() -> None:
    skills = [
        make_skill("a/other", description="All about notes."),
        make_skill("b/notes-style"),
        make_skill("c/notes"),
        make_skill("notes", name="meeting"),
    ]

    found = find("notes", skills)

    assert [(hit.skill.path, hit.score, hit.reason) for hit in found.hits[:3]] == [
        ("notes", 1.0, "exact_path"),
        ("c/notes", 1.0, "exact_name"),
        ("b/notes-style", 0.95, "prefix"),
    ]
    assert reasons(found)[3:] == [("a/other", "token_overlap")]
    assert found.total == 4


@pytest.mark.parametrize(
    "query",
    [
        "release-notes",
        "release notes",
        "release_notes",
        "Release Notes",
        "  release \t\n notes ",
        "$release-notes",
        "$ release-notes",
    ],
)
@pytest.mark.parametrize("name", ["release-notes", "Release Notes", "RELEASE_NOTES"])
def test_a_name_may_be_written_in_many_ways(query: str, name: str) -> None:
    skills = [make_skill("a/b", name=name), make_skill("a/c", name=f"{name}-2")]

    found = find(query, skills, NOTHING)

    assert reasons(found) == [("a/b", "exact_name"), ("a/c", "prefix")]


def test_names_are_folded_in_every_script() -> None:
    found = find("STRASSE", [make_skill("a", name="Straße")], NOTHING)

    assert reasons(found) == [("a", "exact_name")]


@pytest.mark.parametrize(
    "query",
    ["team/Pdf Forms", "TEAM/pdf-forms", "team/pdf-forms/SKILL.md", "{location}"],
)
def test_a_path_is_the_skills_or_that_of_its_file(query: str) -> None:
    location = Path("content").absolute() / "team" / "pdf-forms" / "SKILL.md"
    file = "team/pdf-forms/SKILL.md"
    skill = make_skill("team/pdf-forms", name="pdf", file=file, location=location)

    found = find(query.format(location=location), [skill], NOTHING)

    assert reasons(found) == [("team/pdf-forms", "exact_path")]


@pytest.mark.parametrize("query", ["none", "none.md", "path/none"])
def test_a_skill_without_a_place_has_no_path_but_its_own(query: str) -> None:
    assert find(query, [make_skill("a")], NOTHING) == SearchResult((), 0)


@pytest.mark.parametrize("query", ["", "   ", "$", " $ ", "\n\t"])
def test_an_empty_query_finds_nothing(query: str) -> None:
    skills = [make_skill("a")]

    assert find(query, skills, Scored([Candidate(skills[0], Fraction(1), ())])) == (
        SearchResult((), 0)
    )


def test_equal_scores_are_ordered_by_scope_and_then_by_path() -> None:
    scopes: list[tuple[str, Scope]] = [
        ("a", "user"),
        ("b", "repo"),
        ("d", "org"),
        ("c", "org"),
    ]
    skills = [make_skill(path, scope=scope) for path, scope in scopes]
    named = [make_skill(f"{s.path}/x", scope=s.scope, name="task") for s in skills]
    matcher = Scored([Candidate(skill, Fraction(1, 2), ()) for skill in skills])

    found = find("task", [*skills, *named], matcher)

    assert paths(found) == ["c/x", "d/x", "b/x", "a/x", "c", "d", "b", "a"]


def test_a_scope_is_searched_alone() -> None:
    skills = [make_skill(f"o{number}", scope="org") for number in range(9)]
    skills.append(make_skill("mine", scope="user"))
    matcher = Scored([Candidate(skill, Fraction(9, 10), ()) for skill in skills])

    assert paths(find("task", skills, matcher, limit=1, scope="user")) == ["mine"]
    assert paths(find("o3", skills, NOTHING, scope="user")) == []


@pytest.mark.parametrize(
    "score, shown", [("0.5", 0.5), ("0.94", 0.94), ("0.99", 0.94), ("-0.1", 0)]
)
def test_a_ranked_score_stays_between_0_and_that_of_a_prefix(score: str, shown: float) -> None:
    [hit] = find_scored(score).hits

    assert hit.score == shown


def test_scores_that_are_shown_alike_are_still_ordered() -> None:
    assert paths(find_scored("0.95", "0.99", "0.97")) == ["s1", "s2", "s0"]


def test_up_to_five_hits_are_all_shown() -> None:
    few = find_scored("0.9", "0.01", "0.01", "0.01", "0.01")
    many = find_scored("0.9", "0.01", "0.01", "0.01", "0.01", "0.01")

    assert len(few.hits) == few.total == 5
    assert paths(many) == ["s0"]
    assert many.total == 1


@pytest.mark.parametrize("threshold, kept", [(0.2, 6), (0.21, 1), (0, 6), (1, 1)])
def test_a_share_of_the_best_score_is_compared_to_the_last_digit(
    threshold: float, kept: int
) -> None:
    # In binary, 0.02 / 0.1 is less than 0.2, and 0.2 * 0.1 more than 0.02.
    found = find_scored("0.1", *["0.02"] * 5, threshold=threshold)

    assert len(found.hits) == kept


def test_the_best_score_may_be_that_of_a_name() -> None:
    rest = [make_skill(f"s{number}") for number in range(5)]
    matcher = Scored([Candidate(skill, Fraction("0.19"), ()) for skill in rest])

    found = find("best", [make_skill("x/best"), *rest], matcher)

    assert paths(found) == ["x/best"]


def test_four_times_the_limit_is_considered_and_the_limit_is_shown() -> None:
    found = find_scored(*["0.5"] * 20, limit=3)

    assert paths(found) == ["s0", "s1", "s10"]
    assert found.total == 12


class Counted(Sequence[Skill]):
    """Skills that are made when somebody asks for one."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.skills = skills
        self.asked: set[int] = set()

    def __len__(self) -> int:
        return len(self.skills)

    def __getitem__(self, number: Any) -> Any:
        self.asked.add(number)
        return self.skills[number]


@pytest.mark.parametrize("query", ["notes-7", "s/7", "notes", "s/7/SKILL.md", "kafka", "s/none.md"])
def test_only_what_is_found_is_made(query: str) -> None:
    skills = [
        make_skill(f"s/{number}", name=f"notes-{number}", file=f"s/{number}/SKILL.md")
        for number in range(1000)
    ]
    skills[7] = make_skill("s/7", name="notes-7", description="kafka", file="s/7/SKILL.md")
    counted = Counted(skills)
    names = NameIndex([s.path for s in skills], [s.name for s in skills])
    index = TextIndex.build(map(to_indexed_document, skills))
    matcher = RankedMatcher(index, counted)

    search_skills(query, counted, names, matcher, limit=2, threshold=0)

    assert 0 < len(counted.asked) <= 30


NAMES = st.sampled_from(["notes", "Notes", "release-notes", "pdf", "pdf-forms", "é"])
SKILLS = st.lists(
    st.tuples(NAMES, st.sampled_from(["org", "repo", "user"]), st.integers(-1000, 1000))
).map(
    lambda rows: [
        make_skill(f"{number}/{name}", name=name, scope=scope, priority=priority)
        for number, (name, scope, priority) in enumerate(rows)
    ]
)


@given(
    skills=SKILLS,
    query=NAMES | st.text(),
    limit=st.integers(1, 5),
    random=st.randoms(use_true_random=False),
)
def test_hits_are_distinct_in_falling_order_and_the_same_in_any_order_of_files(
    skills: list[Skill], query: str, limit: int, random: Random
) -> None:
    shuffled = random.sample(skills, len(skills))

    found = find(query, skills, limit=limit)

    shown: list[Any] = [hit.score for hit in found.hits]
    assert shown == sorted(shown, reverse=True)
    assert all(0 <= score <= 1 for score in shown)
    assert len(set(paths(found))) == len(found.hits) <= min(limit, found.total)
    assert reasons(find(query, shuffled, limit=limit)) == reasons(found)
