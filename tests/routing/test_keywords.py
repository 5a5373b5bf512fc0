"""The keyword algorithm against the literal triple loop of 001 §5.2."""

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skills_mcp.config import Matching
from skills_mcp.routing.decision import apply_thresholds
from skills_mcp.routing.keyword_matcher import KeywordIndex, KeywordMatcher
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.tokenizer import fold, tokenize
from skills_mcp.skills.model import Skill
from tests.routing.matchers import keyword_matcher
from tests.support import make_skill

Scores = dict[str, tuple[Fraction, tuple[str, ...]]]


def scores(skills: Sequence[Skill], context: str) -> Scores:
    return {
        candidate.skill.path: (candidate.exact_score, candidate.matched_keywords)
        for candidate in keyword_matcher(skills).score(context)
    }


def literal_scores(skills: Sequence[Skill], context: str) -> Scores:
    """Score as 001 §5.2 is written: every skill, every keyword, every token."""
    found: Scores = {}
    for skill in skills:
        matched: list[str] = []
        for keyword in skill.keywords:
            for token in tokenize(context):
                if literally_matches(token, fold(keyword)):
                    matched.append(keyword)
                    break
        if matched:
            base = Fraction(len(matched), len(skill.keywords))
            final = base + skill.priority * Fraction("0.001")
            found[skill.path] = (final, tuple(matched))
    return found


def literally_matches(token: str, keyword: str) -> bool:
    if is_short(token) or is_short(keyword):
        return token == keyword
    return token == keyword or keyword in token or token in keyword


def is_short(word: str) -> bool:
    """Shorter than 3, or than 2 in a script whose characters are words (§3.5)."""
    if len(word) == 2 and all(map(is_word_of_its_own, word)):
        return False
    return len(word) < 3


def is_word_of_its_own(character: str) -> bool:
    return (
        "\u3041" <= character <= "\u30ff"  # kana
        or "\u4e00" <= character <= "\u9fff"  # Chinese characters
        or character == "\u3005"  # the one before, again
        or "\uac00" <= character <= "\ud7a3"  # Hangul
    )


def matched(keyword: str, context: str) -> bool:
    return bool(scores([make_skill("a", keywords=[keyword])], context))


@pytest.mark.spec("5.2")
@pytest.mark.parametrize(
    "token, keyword, expected, reason",
    [
        ("react", "react", True, "exact"),
        ("authentication", "auth", True, "the token contains the keyword"),
        ("auth", "authentication", True, "the keyword contains the token"),
        ("react", "reactjs", True, "the keyword contains the token"),
        ("go", "golang", False, "a short token: only equality"),
        ("golang", "go", False, "a short keyword: only equality"),
        ("js", "json", False, "a short token: only equality"),
        ("json", "js", False, "a short keyword: only equality"),
        ("ts", "ts", True, "both short, and equal"),
        ("ts", "js", False, "both short, and not equal"),
        ("c", "css", False, "one letter"),
        ("c", "c", True, "one letter, and equal"),
        ("sql", "postgresql", True, "three letters are enough"),
        ("api", "rapid", True, "even where it is not meant"),
        ("React", "REACT", True, "case does not count"),
        ("strasse", "Straße", True, "folded on both sides"),
        ("\uff32\uff45\uff41\uff43\uff54", "react", True, "full width is the same"),
        ("form", "react hooks", False, "no common part"),
        ("hooks", "react hooks", True, "a keyword of two words contains the token"),
        ("front-end", "end", True, "a token with a hyphen contains the keyword"),
        ("node.js", "node", True, "punctuation splits the token"),
        ("authentification", "auth", True, "French for the same"),
        ("l'authentification", "authentification", True, "without the article"),
        ("créer", "créer", True, "accents stay"),
        ("creer", "créer", False, "and they count"),
    ],
)
def test_a_keyword_matches_a_token_in_either_direction(
    token: str,
    keyword: str,
    expected: bool,  # noqa: FBT001
    reason: str,
) -> None:
    assert matched(keyword, token) is expected, reason


@pytest.mark.spec("5.1")
@pytest.mark.spec("5.2")
@pytest.mark.parametrize(
    "context, keyword, expected",
    [
        ("ログイン画面に認証を実装する", "認証", True),
        ("ログイン画面に認証を実装する", "ログイン", True),
        ("認証", "認証機能", True),
        ("決済を追加する", "認証", False),
        ("给页面添加登录功能", "登录", True),
        ("如何修复数据库连接", "数据库", True),
        ("如何修复数据库连接", "库", False),
        ("库", "库", True),
        ("로그인 추가", "추가", True),
        ("로그인을 추가해", "추가", True),
        ("様々な認証を使う", "様々", True),
        ("добавить авторизацию", "авторизация", False),
        ("добавить авторизацию", "авторизаци", True),
    ],
)
def test_tasks_in_other_scripts_find_their_skill(
    context: str,
    keyword: str,
    expected: bool,  # noqa: FBT001
) -> None:
    assert matched(keyword, context) is expected


@pytest.mark.spec("5.2")
def test_the_score_is_the_share_of_keywords_that_match() -> None:
    skill = make_skill("a", keywords=["react", "auth", "login", "oauth"])

    found = scores([skill], "react authentication")

    assert found == {"a": (Fraction(2, 4), ("react", "auth"))}


@pytest.mark.spec("5.2")
@pytest.mark.parametrize(
    "priority, score", [(0, "0.5"), (10, "0.51"), (-10, "0.49"), (1000, "1.5")]
)
def test_a_priority_adds_a_thousandth_of_itself(priority: int, score: str) -> None:
    skill = make_skill("a", keywords=["react", "vue"], priority=priority)

    [(found, _)] = scores([skill], "react").values()

    assert found == Fraction(score)


@pytest.mark.spec("5.2")
def test_a_priority_without_a_match_is_no_candidate() -> None:
    skill = make_skill("a", keywords=["react"], priority=1000)

    assert scores([skill], "django") == {}
    assert scores([skill], "") == {}
    assert scores([skill], "the of and") == {}


@pytest.mark.spec("5.2")
def test_a_priority_breaks_a_tie() -> None:
    skills = [
        make_skill("a", keywords=["react"]),
        make_skill("b", keywords=["react"], priority=1),
    ]

    decision = apply_thresholds(
        keyword_matcher(skills).score("react"), Matching(ambiguity_threshold=0)
    )

    assert isinstance(decision, Candidate)
    assert decision.skill.path == "b"


def test_keywords_are_reported_as_the_author_wrote_and_ordered_them() -> None:
    skill = make_skill("a", keywords=["Vue", "Straße", "React"])

    [(_, words)] = scores([skill], "react strasse").values()

    assert words == ("Straße", "React")


def test_nothing_to_match_is_no_candidate() -> None:
    assert scores([], "react") == {}
    assert scores([make_skill("a", keywords=[])], "react") == {}


# --- the oracle ---------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("go", "golang", "js", "json", "ts", "c", "css", "react", "reactjs", "act"),
        *("auth", "oauth", "authentication", "sql", "mysql", "React", "C++", ".net"),
        *("認証", "認", "ログイン", "ログ", "登录", "登录功能", "로그", "로그인"),
        *("認a", "é1", "créer", "Straße", "strasse", "react hooks", "front-end", "end"),
    ]
) | st.text("abcgo-認証", min_size=1, max_size=4)
CONTEXTS = st.lists(WORDS | st.sampled_from(["the", "l'", ",", "  "]), max_size=8)
SKILLS = st.lists(
    st.tuples(st.lists(WORDS, min_size=1, max_size=5, unique=True), st.integers(-9, 9)),
    max_size=5,
).map(
    lambda rows: [
        make_skill(f"skill-{number}", keywords=keywords, priority=priority)
        for number, (keywords, priority) in enumerate(rows)
    ]
)


@pytest.mark.spec("5.2")
@given(SKILLS, CONTEXTS.map(" ".join))
@example([make_skill("a", keywords=["golang"])], "go")
@example([make_skill("a", keywords=["go"])], "golang")
@example([make_skill("a", keywords=["React", "react"])], "react")
def test_the_matcher_equals_the_literal_triple_loop(skills: list[Skill], context: str) -> None:
    assert scores(skills, context) == literal_scores(skills, context)


@pytest.mark.spec("5.3")
@given(
    SKILLS,
    CONTEXTS.map(" ".join),
    st.fractions(-1, 2, max_denominator=60),
    st.integers(1, 6),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_any_part_of_the_answer_is_that_part_of_the_literal_one(
    skills: list[Skill],
    context: str,
    least: Fraction,
    most: int,
    allowed: list[bool],
) -> None:
    within = np.array(allowed[: len(skills)], bool)
    literal = [
        (score, path)
        for path, (score, _) in literal_scores(skills, context).items()
        if score >= least and allowed[int(path.removeprefix("skill-"))]
    ]
    expected = sorted(literal, key=lambda found: (-found[0], found[1]))[:most]

    found = keyword_matcher(skills).score(context, min_score=least, limit=most, within=within)

    assert [(each.exact_score, each.skill.path) for each in found] == expected


def test_a_thousand_skills_with_common_words_equal_the_literal_loop() -> None:
    chance = random.Random(5)  # noqa: S311 - the same words in every run
    syllables = ["re", "act", "auth", "go", "lang", "c", "sql", "my", "認", "証", "-"]
    words = ["".join(chance.choices(syllables, k=k)) for k in (1, 2, 3) * 100]
    skills = [
        make_skill(
            f"s{number:04}",
            keywords=sorted(set(chance.choices(words, k=chance.randint(1, 12)))),
            priority=chance.choice([0, 0, 0, 5, -5, 1000]),
        )
        for number in range(1000)
    ]
    matcher = keyword_matcher(skills)

    for _ in range(12):
        context = " ".join(chance.choices(words, k=8))
        literal = literal_scores(skills, context)
        expected = sorted(literal.items(), key=lambda item: (-item[1][0], item[0]))
        found = matcher.score(context)
        assert [(c.skill.path, (c.exact_score, c.matched_keywords)) for c in found] == expected
        assert matcher.score(context, limit=7) == found[:7]


def test_an_index_that_was_kept_answers_alike() -> None:
    skills = [make_skill("a", keywords=["react", "認証"]), make_skill("b", priority=7)]
    built = KeywordIndex.build((s.keywords, s.priority) for s in skills)

    kept = KeywordIndex({**built.arrays})

    for task in ("react", "認証画面", "example", "other"):
        assert KeywordMatcher(kept, skills).score(task) == KeywordMatcher(built, skills).score(task)


@pytest.mark.parametrize(
    "name, value",
    [
        ("skills", np.array([9, 9, 9], np.uint32)),
        ("skill_ends", np.array([0, 9], np.uint32)),
        ("words", np.frombuffer(b"one", np.uint8)),
        ("gram_keywords", np.array([7], np.uint32)),
        ("priorities", np.zeros(9, np.int32)),
    ],
)
def test_arrays_of_another_index_are_refused(name: str, value: NDArray[np.generic]) -> None:
    skills = [make_skill("a", keywords=["react", "vue"])]
    arrays = {**KeywordIndex.build((s.keywords, s.priority) for s in skills).arrays}
    arrays[name] = value

    with pytest.raises(ValueError, match="do not fit together"):
        KeywordIndex(arrays)


@given(SKILLS, CONTEXTS.map(" ".join))
def test_the_evidence_adds_up_to_the_score(skills: list[Skill], context: str) -> None:
    matcher = keyword_matcher(skills)
    scored = {found.skill.path: found.score for found in matcher.score(context)}

    for skill in skills:
        worth = sum(each.worth for each in matcher.explain(context, skill))
        assert worth == pytest.approx(float(scored.get(skill.path, 0)))


def test_the_words_of_a_task_know_for_how_many_skills_they_speak() -> None:
    skills = [
        make_skill("a", keywords=["react"]),
        make_skill("b", keywords=["reactjs"]),
    ]

    words = keyword_matcher(skills).weigh_terms("the React app")

    assert [(w.typed, w.weight, w.skills) for w in words] == [
        ("react", 0.5, 2),
        ("app", 0.5, 0),
    ]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.text())
def test_any_text_can_be_a_keyword_and_any_text_a_task(keywords: list[str], context: str) -> None:
    found = scores([make_skill("a", keywords=keywords)], context)

    for score, words in found.values():
        assert 0 < score <= 1
        assert words


@given(SKILLS, st.lists(CONTEXTS.map(" ".join), max_size=5))
def test_a_matcher_forgets_the_tasks_before(skills: list[Skill], contexts: list[str]) -> None:
    matcher = keyword_matcher(skills)

    for context in [*contexts, *contexts]:
        again = set(matcher.score(context))
        assert again == set(keyword_matcher(skills).score(context))


@pytest.mark.spec("5.2")
@given(SKILLS.filter(bool), CONTEXTS.map(" ".join), st.data())
def test_one_more_matching_keyword_never_lowers_the_score(
    skills: list[Skill], context: str, data: st.DataObject
) -> None:
    skill = data.draw(st.sampled_from(skills))
    word = data.draw(st.sampled_from(skill.keywords))

    before = scores(skills, context)
    after = scores(skills, f"{context} {word}")

    for path, (score, words) in before.items():
        assert after[path][0] >= score
        assert set(after[path][1]) >= set(words)


@given(SKILLS, CONTEXTS.map(" ".join))
def test_the_order_of_the_skills_changes_no_score(skills: list[Skill], context: str) -> None:
    assert scores(skills[::-1], context) == scores(skills, context)


def test_names_that_end_or_begin_with_a_sign_can_be_found() -> None:
    matcher = keyword_matcher(
        [make_skill(name, keywords=[name]) for name in ("C++", "C#", ".NET", "c")]
    )

    found = {
        task: {candidate.skill.path for candidate in matcher.score(task)}
        for task in ("write C++.", "a C# class", "port it to .NET", "write c code")
    }

    assert found == {
        "write C++.": {"C++"},
        "a C# class": {"C#"},
        "port it to .NET": {".NET"},
        "write c code": {"c"},
    }


def test_keywords_that_no_task_can_match_are_found() -> None:
    skill = make_skill("a", keywords=["react", "the", "!?", "go", "a b"])

    unmatchable = [word for _, word in keyword_matcher([skill]).find_unmatchable()]

    assert unmatchable == ["the", "!?", "a b"]


@pytest.mark.spec("5.3")
@given(
    least=st.fractions(min_value=-2, max_value=2, max_denominator=1000),
    priorities=st.lists(st.integers(-1000, 1000), min_size=3, max_size=3),
    task=st.sampled_from(["react", "react auth", "react auth api", "nothing"]),
)
def test_a_least_score_leaves_out_exactly_what_is_below_it(
    least: Fraction, priorities: list[int], task: str
) -> None:
    words = ["react", "auth", "api", "forms"]
    skills = [
        make_skill(f"s{number}", keywords=words[: number + 1], priority=priority)
        for number, priority in enumerate(priorities)
    ]
    matcher = keyword_matcher(skills)

    expected = {c for c in matcher.score(task) if c.exact_score >= least}

    assert set(matcher.score(task, min_score=least)) == expected
