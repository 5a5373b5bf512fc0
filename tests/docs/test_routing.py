"""The words, matches and numbers in the explanation of routing are real."""

import re

import pytest

from skills_mcp.config import Matching
from skills_mcp.routing import tokenizer as tokens
from skills_mcp.routing.decision import Ambiguous, apply_thresholds
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.tokenizer import tokenize
from tests.docs.pages import DOCS, block, code, codes, prose, section, table, tables
from tests.routing.matchers import keyword_matcher
from tests.skills.contents import load_skills
from tests.support import SKILLS_CONTENT, make_skill

ROUTING = DOCS / "explanation" / "routing.md"
MEASURED = ROUTING.with_name("routing-measured.md")


@pytest.mark.spec("5.1")
def test_words_are_those_of_the_table() -> None:
    for row in table(section(ROUTING, "### From text to words")):
        assert list(tokenize(row["Text"])) == codes(row["Words"])


@pytest.mark.spec("5.1")
@pytest.mark.parametrize("language", ["english", "french"])
def test_the_stop_words_are_those_of_the_program(language: str) -> None:
    shown = block(MEASURED, "text", language).split()

    assert shown == sorted(getattr(tokens, language.upper()))


@pytest.mark.spec("5.2")
def test_words_and_keywords_match_as_in_the_table() -> None:
    for row in table(section(ROUTING, "### From words to matches")):
        skill = make_skill("x", keywords=[code(row["Keyword"])])
        matcher = keyword_matcher([skill])

        found = bool(matcher.score(code(row["Word"])))

        assert found is (row["Match"] == "yes"), row


@pytest.mark.spec("5.2")
@pytest.mark.spec("5.3")
def test_the_worked_example_has_the_real_numbers() -> None:
    example = section(ROUTING, "### A worked example")
    clear, close = re.findall(r"[Tt]he task is \*(.+?)\*", example)
    ranked, listed = tables(example)
    index = load_skills(SKILLS_CONTENT / "skills").skills
    matcher = keyword_matcher(index)
    by_rank = sorted(matcher.score(clear), key=lambda c: (-c.exact_score, c.skill.path))
    match = apply_thresholds(matcher.score(clear), Matching())
    ambiguous = apply_thresholds(matcher.score(close), Matching())
    assert isinstance(ambiguous, Ambiguous)
    top = ambiguous.candidates

    assert ranked == [
        {
            "Skill": f"`{c.skill.path}`",
            "Keywords that match": " ".join(f"`{word}`" for word in c.matched_keywords),
            "Of": str(len(c.skill.keywords)),
            "Priority": str(c.skill.priority),
            "Score": f"{c.score:.3f}".rstrip("0"),
        }
        for c in by_rank
    ]
    assert list(tokenize(clear)) == codes(example.splitlines()[2])
    assert isinstance(match, Candidate)
    assert f"`{match.skill.path}` with a score of 0.4" in example
    gaps = [first.exact_score - second.exact_score for first, second in (by_rank[:2], top[:2])]
    assert re.findall(r"differ by ([\d.]+\d)", example) == [str(float(gap)) for gap in gaps]
    assert [(code(r["Candidate"]), float(r["Score"])) for r in listed] == [
        (c.skill.path, c.score) for c in top
    ]


def test_the_thresholds_of_the_page_are_the_defaults() -> None:
    rules = Matching()
    shown = dict(re.findall(r"`matching\.(\w+)` \(([\w.]+)\)", prose(ROUTING)))

    assert shown == {name: str(getattr(rules, name)) for name in Matching.model_fields}
