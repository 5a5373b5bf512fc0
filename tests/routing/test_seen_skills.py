"""Some of the skills answer as if there were no others."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.embeddings.skill_embeddings import (
    HybridMatcher,
    QueryEmbedder,
    VectorIndex,
)
from skills_mcp.routing.matcher import Matcher, VisibleSkills
from skills_mcp.routing.search import NameIndex, search_skills
from skills_mcp.skills.model import Skill
from tests.features.embeddings.embedding_server import vector_of
from tests.routing.matchers import keyword_matcher, ranked_matcher
from tests.support import make_skill

Skills = Sequence[Skill]
Two = tuple[Matcher, Matcher]

_TEXT = """react login post mortem postmortem kubernetes k8s deploy pdf form forms fill
invoice refund python rust a tests incident data base database"""
WORDS = tuple(_TEXT.split())
NAMES = ("_root", "_index", "pdf", "forms", "react", "login", "pdf-forms", "refund")

words = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
paths = st.builds(
    lambda above, name: "/".join((*above, name)),
    st.lists(st.sampled_from(("a", "b", "ui")), max_size=2),
    st.sampled_from(NAMES),
)
skills = st.builds(
    make_skill,
    paths,
    description=words,
    body=words,
    keywords=st.lists(st.sampled_from(WORDS), max_size=3, unique=True).map(tuple),
    priority=st.sampled_from((0, 0, 0, 5, -3, 100)),
)
trees = st.lists(skills, max_size=14, unique_by=lambda skill: skill.path).map(
    lambda every: sorted(every, key=lambda skill: skill.path)
)
tasks = words | st.sampled_from(NAMES)


class Drawn(NamedTuple):
    every: Skills
    seen: VisibleSkills
    some: Skills
    """Those that are seen, alone."""
    within: Any
    """The mask of some of these."""


def see(every: Skills, numbers: Sequence[int], moved: dict[int, Skill]) -> VisibleSkills:
    """Return what is seen of skills, some of which others stand for."""
    skills = [moved.get(number, each) for number, each in enumerate(every)]
    ordered = sorted(numbers, key=lambda number: skills[number].path)
    return VisibleSkills(
        len(every),
        np.array(ordered, np.int64),
        skills,
        [skills[number].path for number in ordered],
        {number: each.path for number, each in moved.items()},
    )


def move(skill: Skill, folder: str) -> Skill:
    """Return a copy of a skill in another folder: at another place among all."""
    return make_skill(
        f"{folder}/{skill.path.rpartition('/')[2]}",
        name=skill.name,
        description=skill.description,
        body=skill.body,
        keywords=skill.keywords,
        priority=skill.priority,
    )


@st.composite
def seen_skills(draw: st.DrawFn) -> Drawn:
    every = draw(trees)
    numbers = draw(st.sets(st.sampled_from(range(len(every))))) if every else set()
    moved = {
        number: move(every[number], folder)
        for number in numbers
        if not every[number].path.endswith(("_root", "_index"))
        if (folder := draw(st.sampled_from(["", "", f"0{number}", f"z{number}"])))
    }
    seen = see(every, sorted(numbers), moved)
    some = [seen.skills[number] for number in seen.numbers.tolist()]
    alone = draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
    return Drawn(every, seen, some, np.array(alone, bool))


def embed(text: str) -> Any:
    vector = np.array(vector_of(text), np.float32)
    return vector / (np.linalg.norm(vector) or 1)


def fuse(
    matcher: Matcher,
    skills: Skills,
    meanings: VectorIndex | None,
    seen: VisibleSkills | None,
) -> Matcher:
    return HybridMatcher(
        matcher,
        skills,
        find_vectors=lambda: meanings,
        query_embedder=QueryEmbedder(embed, timeout_seconds=20),
        model="model",
        seen=seen,
    )


def meanings_of(skills: Skills) -> VectorIndex | None:
    if not skills:
        return None
    vectors = np.stack([embed(f"{s.name} {s.description}") for s in skills])
    return VectorIndex.of([skill.path for skill in skills], vectors)


def by_keywords(drawn: Drawn) -> Two:
    return keyword_matcher(drawn.every).seen(drawn.seen), keyword_matcher(drawn.some)


def by_all_words(drawn: Drawn) -> Two:
    return ranked_matcher(drawn.every).seen(drawn.seen), ranked_matcher(drawn.some)


def by_words_alone(drawn: Drawn) -> Two:
    every, some = ranked_matcher(drawn.every), ranked_matcher(drawn.some)
    return every.without_names().seen(drawn.seen), some.without_names()


def by_meaning(drawn: Drawn) -> Two:
    seen, (one, other) = drawn.seen, by_all_words(drawn)
    meanings = meanings_of(drawn.every) if drawn.some else None
    return (
        fuse(one, seen.skills, meanings.seen(seen) if meanings else None, seen),
        fuse(other, drawn.some, meanings_of(drawn.some), None),
    )


@pytest.mark.parametrize("build", [by_keywords, by_all_words, by_words_alone, by_meaning])
@given(drawn=seen_skills(), task=tasks)
def test_what_is_seen_answers_as_if_there_were_no_others(
    build: Callable[[Drawn], Two], drawn: Drawn, task: str
) -> None:
    seen, matcher, expected = drawn.seen, *build(drawn)

    for mask in (None, drawn.within):
        its = seen.expand(mask)
        for most, least in ((None, None), (1, Fraction(1, 20)), (3, Fraction(1, 5))):
            found = matcher.score(task, limit=most, min_score=least, within=its)
            assert found == expected.score(task, limit=most, min_score=least, within=mask)
        for skill in drawn.some[:3]:
            why = matcher.explain(task, skill, within=its)
            assert why == expected.explain(task, skill, within=mask)
    assert matcher.weigh_terms(task) == expected.weigh_terms(task)


@given(
    drawn=seen_skills(),
    text=tasks | st.sampled_from([*NAMES, "a/pdf", "pdf/SKILL.md", "pdf.md", "re"]),
)
def test_names_of_others_name_nothing(drawn: Drawn, text: str) -> None:
    every, seen, some, within = drawn
    whole = NameIndex([s.path for s in every], [s.name for s in every])
    names = NameIndex([s.path for s in some], [s.name for s in some])
    matcher, expected = by_words_alone(drawn)
    limits: dict[str, Any] = {"limit": 3, "threshold": 0.5}

    for mask in (None, within):
        its = seen.expand(mask)
        assert search_skills(
            text, seen.skills, whole.seen(seen), matcher, within=its, **limits
        ) == search_skills(text, some, names, expected, within=mask, **limits)


def compare(every: Skills, seen: VisibleSkills, task: str) -> Two:
    """Return the matchers of what is seen and of that alone, which answer the same."""
    some = [seen.skills[number] for number in seen.numbers.tolist()]
    matcher, alone = ranked_matcher(every).seen(seen), ranked_matcher(some)
    assert matcher.score(task) == alone.score(task)
    return matcher, alone


def test_a_word_is_not_parted_because_a_hidden_skill_has_the_parts() -> None:
    every = [
        make_skill("a", body="post mortem"),
        make_skill("b", body="a post"),
        make_skill("c", body="the mortem"),
        make_skill("d", body="post rust mortem"),
    ]

    matcher, _ = compare(every, see(every, [1, 2, 3], {}), "postmortem")

    assert matcher.score("postmortem") == ()
    whole, _ = compare(every, see(every, [0, 1, 2, 3], {}), "postmortem")
    assert whole.score("postmortem")[0].skill.path == "a"


def test_the_first_skills_that_have_both_parts_are_the_first_that_are_seen() -> None:
    every = [make_skill(f"s{n:02}", body="post rust mortem") for n in range(30)]
    every.append(make_skill("zebra", body="post mortem"))
    there = see(every, range(31), {})
    first = see(every, range(31), {30: move(every[30], "a")})

    far, _ = compare(every, there, "postmortem")
    near, _ = compare(every, first, "postmortem")

    assert far.score("postmortem") == ()
    assert len(near.score("postmortem")) == 31


def test_a_copy_is_found_where_it_is_and_not_where_the_hidden_one_is() -> None:
    every = [make_skill("a/pdf"), make_skill("b/other")]
    seen = see(every, [0, 1], {0: move(every[0], "z/more")})
    names = NameIndex([s.path for s in every], [s.name for s in every]).seen(seen)

    assert names.find_path("a/pdf") == ()
    assert names.find_path("z/more/pdf") == (0,)
    assert names.find_name("pdf") == (0,)
    assert names.path(0) == "z/more/pdf"
    matcher, _ = compare(every, seen, "z/more/pdf")
    assert [c.skill.path for c in matcher.score("z/more/pdf")] == ["z/more/pdf"]
    assert matcher.explain("pdf", every[0]) == ()


def test_a_typing_error_tells_nothing_of_skills_that_are_not_seen() -> None:
    every = [
        make_skill("a", description="Sort parcels"),
        make_skill("b", description="Deploy to kubernetes, or kuberntes as some write"),
        make_skill("c", description="Pack parcels for kubernetas"),
    ]
    seen = see(every, [0, 2], {})
    alone = [every[0], every[2]]

    for task in ("parcels for kuberntes", "parcels for kubernetas", "kubernetez"):
        found = ranked_matcher(every).seen(seen).score(task)
        assert found == ranked_matcher(alone).score(task)
