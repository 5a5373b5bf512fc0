"""The terms, weights and numbers of the ranked algorithm are those of the program."""

import re

import pytest

from skills_mcp.config import Matching
from skills_mcp.routing import postings, ranked, search
from skills_mcp.routing.decision import Match, decide
from skills_mcp.routing.ranked import RankedMatcher
from skills_mcp.routing.words import derive_words, split_text
from tests.docs.pages import blocks, code, codes, section, table, tables
from tests.docs.test_routing import ROUTING
from tests.support import make_skill


def test_terms_are_those_of_the_table() -> None:
    for row in table(section(ROUTING, "### From words to terms")):
        pieces = split_text(row["Text"])
        words = [word for piece in pieces for word in derive_words(piece)]

        assert [word.typed for word in words] == codes(row["Words"])
        assert [word.term for word in words] == codes(row["Terms"])


def test_the_weights_and_constants_are_those_of_the_program() -> None:
    rows = table(section(ROUTING, "### From terms to a score"))
    [formula] = [b.text for b in blocks(ROUTING, "text") if "frequency" in b.text]

    assert [float(row["Weight"]) for row in rows] == list(ranked._FIELDS.values())
    assert f"(frequency + {postings._SATURATION})" in formula
    length = postings._LENGTH_SHARE
    assert f"({1 - length} + {length} " in formula


def test_the_example_has_the_real_numbers() -> None:
    example = section(ROUTING, "### A ranked example")
    described, listed = tables(example)
    [task] = re.findall(r"The task is \*(.+?)\*", example)
    skills = [
        make_skill(
            code(row["Skill"]), description=row["Description"], keywords=(), body=""
        )
        for row in described
    ]

    found = RankedMatcher(skills).score(task)

    assert listed == [
        {
            "Candidate": f"`{candidate.skill.path}`",
            "Matched words": " ".join(f"`{w}`" for w in candidate.matched_keywords),
            "Score": f"{float(candidate.score):.3f}",
        }
        for candidate in sorted(found, key=lambda candidate: -candidate.score)
    ]
    decision = decide(found, Matching())
    assert isinstance(decision, Match)
    assert f"the answer is `{decision.candidate.skill.path}`" in example


@pytest.mark.parametrize("number, reason", list(enumerate(search._SCORES)))
def test_reasons_and_their_scores_are_those_of_the_table(
    number: int, reason: search.Reason
) -> None:
    row = table(section(ROUTING, "### Search: names first"))[number]

    assert code(row["`reason`"]) == reason
    assert float(row["`score`"].split()[0]) == float(search._SCORES[reason])
