"""The ranked algorithm: everything that a skill says counts."""

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skills_mcp.routing.decision import Candidate
from skills_mcp.routing.postings import Postings
from skills_mcp.routing.ranked import RankedMatcher
from skills_mcp.skills.model import Skill
from tests.support import make_skill

Scores = dict[str, tuple[Fraction, tuple[str, ...]]]


def silent(path: str, **fields: Any) -> Skill:
    """Return a skill that says nothing but its fields."""
    nothing: dict[str, Any] = {"name": "", "keywords": (), "description": ""}
    return make_skill(path, **{**nothing, "body": "", **fields})


def scores(skills: Sequence[Skill], context: str) -> Scores:
    return {
        candidate.skill.path: (candidate.score, candidate.matched_keywords)
        for candidate in RankedMatcher(skills).score(context)
    }


def ranking(skills: Sequence[Skill], context: str) -> list[str]:
    found = RankedMatcher(skills).score(context)
    return [c.skill.path for c in sorted(found, key=lambda c: (-c.score, c.skill.path))]


@pytest.mark.parametrize(
    "field",
    [
        {"name": "kafka-topics"},
        {"keywords": ("stream", "kafka")},
        {"category": "kafka"},
        {"description": "About Kafka."},
        {"body": "# Kafka\n\nText."},
        {"body": "Text with Kafka in it."},
    ],
)
def test_every_field_can_find_a_skill(field: dict[str, Any]) -> None:
    skills = [silent("a", **field), silent("b", description="About something.")]

    assert ranking(skills, "a task for Kafka") == ["a"]


def test_a_field_counts_the_more_the_shorter_it_usually_is() -> None:
    word = "kafka"
    skills = [
        silent("e-name", name=word),
        silent("d-keyword", keywords=(word,)),
        silent("c-description", description=word),
        silent("b-heading", body=f"# {word}"),
        silent("a-body", body=word),
    ]

    found = ranking(skills, word)

    assert found == [skill.path for skill in skills]


def test_a_category_counts_as_much_as_a_keyword() -> None:
    skills = [silent("a", category="kafka"), silent("b", keywords=("kafka",))]

    [a, b] = scores(skills, "kafka").values()

    assert a == b


@pytest.mark.parametrize(
    "path, task, expected",
    [
        ("ui/react/_index", "react", True),
        ("ui/react/_index", "index", False),
        ("_root", "root", False),
        ("db/_index-tuning", "index", True),
    ],
)
def test_the_rules_of_a_folder_are_called_like_the_folder(
    path: str,
    task: str,
    expected: bool,  # noqa: FBT001
) -> None:
    skill = silent(path, name=path.rsplit("/", 1)[-1])

    assert bool(scores([skill], task)) is expected


def test_the_score_is_the_share_of_the_task_that_a_skill_explains() -> None:
    skill = silent("a", description="kafka")
    postings = Postings([["kafka"]], [1])
    known, unknown = map(postings.information, ["kafka", "unknown"])

    [(alone, _)] = scores([skill], "kafka").values()
    [(half, _)] = scores([skill], "kafka unknown").values()

    assert alone == Fraction(round(10**6 / 3.5), 10**6)
    assert float(half) == pytest.approx(
        float(alone) * known / (known + unknown), abs=1e-6
    )


def test_a_rare_word_says_more_than_a_common_one() -> None:
    skills = [silent(name, description="react") for name in "abc"]
    rare = silent("rare", description="kafka")

    assert ranking([*skills, rare], "react kafka")[0] == "rare"


def test_a_word_of_the_task_counts_once() -> None:
    skills = [silent("a", description="react"), silent("b", description="kafka")]

    assert scores(skills, "react kafka kafka Kafka") == scores(skills, "react kafka")


@pytest.mark.spec("5.2")
@pytest.mark.parametrize(
    "priority, added", [(0, "0"), (10, "0.01"), (-10, "-0.01"), (100, "0.1")]
)
def test_a_priority_adds_a_thousandth_of_itself(priority: int, added: str) -> None:
    [(plain, _)] = scores([silent("a", name="kafka")], "kafka").values()

    skill = silent("a", name="kafka", priority=priority)

    assert scores([skill], "kafka") == {"a": (plain + Fraction(added), ("kafka",))}


@pytest.mark.parametrize("priority, score", [(1000, 1), (-1000, 0)])
def test_no_priority_takes_a_score_out_of_its_range(priority: int, score: int) -> None:
    [(found, _)] = scores([silent("a", name="x1", priority=priority)], "x1").values()

    assert found == score


@pytest.mark.spec("5.2")
def test_a_priority_without_a_word_is_no_candidate() -> None:
    skill = silent("a", name="kafka", priority=1000)

    assert scores([skill], "react") == {}


@pytest.mark.parametrize("task", ["", "  ", "the of and", "?!"])
def test_a_task_that_says_nothing_finds_nothing(task: str) -> None:
    assert scores([silent("a", name="the", body="the of and ?!")], task) == {}
    assert RankedMatcher([]).score("react") == ()


def test_the_words_that_matched_are_shown_as_typed_and_the_most_telling_first() -> None:
    skills = [
        silent("a", description="create queries for kafka"),
        silent("b", description="create a react page"),
        silent("c", description="create a query"),
    ]

    found = scores(skills, "Créer: query, Queries or CREATE with KafkaStreams")

    assert found["a"][1] == ("kafka", "query", "create")
    assert found["b"][1] == ("create",)


def test_no_more_than_ten_matched_words_are_shown() -> None:
    words = [f"word{number}" for number in range(12)]
    skill = silent("a", description=" ".join(words))

    [(_, shown)] = scores([skill], " ".join(words)).values()

    assert list(shown) == words[:10]


@pytest.mark.parametrize(
    "text, task",
    [
        ("Créer un écran", "creer"),
        ("creer", "Créer"),
        ("ログイン画面に認証を実装する", "認証"),
        ("认证", "给页面添加认证"),
        ("로그인 추가", "로그인을"),
        ("добавить вход", "ВХОД"),
        ("Call useEffect once", "effects"),
        ("effects", "why does useEffect run twice"),
        ("The C++ rules", "c++"),
        ("The C# rules", "C#"),
        ("Port it to .NET", ".net"),
        ("full width: \uff32\uff45\uff41\uff43\uff54", "react"),
        ("l'authentification", "authentification"),
    ],
)
def test_tasks_in_any_script_and_form_find_their_skill(text: str, task: str) -> None:
    skills = [silent("a", description=text), silent("b", description="C code, again")]

    assert ranking(skills, task) == ["a"]


def test_a_least_score_is_compared_to_the_last_digit() -> None:
    matcher = RankedMatcher([silent("a", name="kafka")])
    [only] = matcher.score("kafka")

    assert matcher.score("kafka", only.score) == (only,)
    assert matcher.score("kafka", only.score + Fraction(1, 10**9)) == ()


# --- what always holds --------------------------------------------------------

TEXTS = st.lists(
    st.sampled_from(
        [
            *("react", "hooks", "kafka", "query", "queries", "the", "useEffect"),
            *("C++", "認証", "# react", "\n# kafka", "créer", "data-fetching"),
        ]
    ),
    max_size=6,
).map(" ".join)
SKILLS = st.lists(
    st.tuples(TEXTS, st.lists(TEXTS, max_size=2), TEXTS, TEXTS), max_size=6
).map(
    lambda rows: [
        silent(f"s{number}", name=name, keywords=words, description=text, body=body)
        for number, (name, words, text, body) in enumerate(rows)
    ]
)


@settings(deadline=None)
@given(SKILLS, TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_the_skills_changes_no_score(
    skills: list[Skill], task: str, random: Random
) -> None:
    shuffled = random.sample(skills, len(skills))

    assert scores(shuffled, task) == scores(skills, task)


@settings(deadline=None)
@given(SKILLS, TEXTS, st.fractions(min_value=-1, max_value=2))
def test_a_least_score_leaves_out_exactly_what_is_below_it(
    skills: list[Skill], task: str, least: Fraction
) -> None:
    matcher = RankedMatcher(skills)

    def enough(candidate: Candidate) -> bool:
        return candidate.score >= least

    assert matcher.score(task, least) == tuple(filter(enough, matcher.score(task)))


@settings(deadline=None)
@given(SKILLS, st.sampled_from(["name", "keywords", "description", "body"]), st.data())
def test_a_word_that_only_one_skill_has_finds_it_first(
    skills: list[Skill], field: str, data: st.DataObject
) -> None:
    assume(skills)
    number = data.draw(st.integers(0, len(skills) - 1))
    texts: dict[str, Any] = {"name": "", "keywords": (), "description": "", "body": ""}
    texts |= {key: getattr(skills[number], key) for key in texts}
    rare = "xylophone"
    texts[field] = (rare,) if field == "keywords" else f"{texts[field]} {rare}"
    skills[number] = silent(skills[number].path, **texts)

    found = ranking(skills, rare)

    assert found == [skills[number].path]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=4), st.text())
def test_any_text_can_be_a_skill_and_any_text_a_task(
    texts: list[tuple[str, str, str]], task: str
) -> None:
    skills = [
        silent(f"s{number}", name=name, description=description, body=body)
        for number, (name, description, body) in enumerate(texts)
    ]

    for context in (task, *(text for row in texts for text in row)):
        for candidate in RankedMatcher(skills).score(context):
            assert 0 < candidate.score < 1
            assert candidate.matched_keywords
