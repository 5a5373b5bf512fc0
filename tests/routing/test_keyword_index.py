"""The index of keywords against comparing every token with every keyword."""

import unicodedata
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.routing.keyword_matcher import KeywordIndex
from skills_mcp.routing.tokenizer import fold, tokenize
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import derive_parent_path
from tests.routing.matchers import keyword_matcher
from tests.support import make_skill

SCRIPTS_WITHOUT_SPACES = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HANGUL")


def is_short(word: str) -> bool:
    names = [unicodedata.name(character, "") for character in word]
    is_pair = len(word) == 2 and all(n.startswith(SCRIPTS_WITHOUT_SPACES) for n in names)
    return len(word) < 3 and not is_pair


def matches(token: str, keyword: str) -> bool:
    if is_short(token) or is_short(keyword):
        return token == keyword
    return token in keyword or keyword in token


def literal_answer(skills: Sequence[Skill], task: str) -> list[tuple[Fraction, str]]:
    """Score as 001 §5.2 is written, then order by score, path and ancestry."""
    found = []
    for skill in skills:
        count = sum(
            any(matches(token, fold(keyword)) for token in tokenize(task))
            for keyword in skill.keywords
        )
        if count:
            share = Fraction(count, len(skill.keywords))
            found.append((share + Fraction(skill.priority, 1000), str(skill.path)))
    return arrange(sorted(found, key=lambda each: (-each[0], each[1])))


def arrange(found: list[tuple[Fraction, str]]) -> list[tuple[Fraction, str]]:
    """Move each ancestor behind the last of its descendants that ties with it."""
    arranged = list(found)
    for each in sorted(found, key=lambda each: len(ancestors(each[1])), reverse=True):
        below = [
            other for other in arranged if other[0] == each[0] and each[1] in ancestors(other[1])
        ]
        if below:
            arranged.remove(each)
            arranged.insert(arranged.index(below[-1]) + 1, each)
    return arranged


def ancestors(path: str) -> list[str]:
    above = derive_parent_path(make_skill(path).path)
    return [] if above is None else [str(above), *ancestors(above)]


WORDS = st.sampled_from(
    [
        *("go", "golang", "js", "json", "react", "reactjs", "auth", "authentication"),
        *("C++", "C#", "F#", ".net", ".net core", "node.js", "objective-c", "404"),
        *(
            "認証",
            "認",
            "ログイン",
            "로그인",
            "Straße",
            "strasse",
            "İ",
            "ﬁle",
            "",
            "the",
        ),
    ]
) | st.text("abcé認証ログ로그⼀㐀_-+#.' \0\u0345\u0301ßİﬁ\ud800", max_size=6)
KEYWORDS = WORDS | st.text(max_size=6)


@pytest.mark.spec("5.2")
@given(
    st.lists(KEYWORDS, max_size=8),
    st.lists(KEYWORDS, max_size=5),
    st.sampled_from(["", " "]),
)
@example(["⼀㐀"], ["⼀㐀s"], " ")
@example(["認証", "証明"], ["認証明"], " ")
@example(["認証機能", "機能認証"], ["認証"], " ")
def test_a_token_finds_what_comparing_it_with_every_keyword_finds(
    keywords: list[str],
    words: list[str],
    between: str,
) -> None:
    index = KeywordIndex.build([(keywords, 0)])

    for token in tokenize(between.join([*keywords, *words])):
        found = {index.words[number] for number in index.match(token).tolist()}
        cleaned = {fold(keyword).replace("\0", " ") for keyword in keywords}
        assert found == {keyword for keyword in cleaned if matches(token, keyword)}


FOLDERS = st.lists(st.sampled_from(["ui", "ui-kit", "Z", "_c", "9"]), max_size=3)
PATHS = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    FOLDERS,
    st.sampled_from(["leaf", "x"]),
) | FOLDERS.map(lambda folders: "/".join([*folders, "_index"]) if folders else "_root")
DECLARED = st.tuples(
    st.lists(KEYWORDS, min_size=1, max_size=4), st.sampled_from([0, 0, 500, -1000])
)
# Few lists for many skills, so that most of them tie.
TREES = st.lists(DECLARED, min_size=1, max_size=2).flatmap(
    lambda few: st.dictionaries(PATHS, st.sampled_from(few), max_size=12)
)


@pytest.mark.spec("5.2")
@pytest.mark.spec("5.3")
@given(TREES, st.lists(WORDS, max_size=3), st.data())
def test_scores_order_and_thresholds_are_those_of_the_literal_loop_in_a_tree(
    tree: dict[str, tuple[list[str], int]], words: list[str], data: st.DataObject
) -> None:
    skills = [
        make_skill(path, keywords=tree[path][0], priority=tree[path][1]) for path in sorted(tree)
    ]
    known = [keyword for skill in skills for keyword in skill.keywords]
    more = data.draw(st.lists(st.sampled_from(known), max_size=3)) if known else []
    task = " ".join([*words, *more])
    expected = literal_answer(skills, task)
    near = st.sampled_from([Fraction(0), Fraction(1, 10**20), -Fraction(1, 10**20)])
    borders = [score for score, _ in expected] or [Fraction(1, 5)]
    least = data.draw(st.sampled_from(borders)) + data.draw(near)
    most = data.draw(st.integers(1, 6))

    matcher = keyword_matcher(skills)

    found = [(each.exact_score, each.skill.path) for each in matcher.score(task)]
    assert found == expected
    part = matcher.score(task, min_score=least, limit=most)
    assert [(each.exact_score, each.skill.path) for each in part] == [
        each for each in expected if each[0] >= least
    ][:most]
