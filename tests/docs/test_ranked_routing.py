"""The terms, weights and numbers of the ranked algorithm are those of the program."""

import re
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from skills_mcp.config import Matching
from skills_mcp.routing import inverted_index, lexicon, query, search
from skills_mcp.routing import ranked_matcher as ranked
from skills_mcp.routing.decision import (
    CROWDED_SHARE,
    LISTED_SHARE,
    NO_MATCH_ODDS,
    ODDS_EXPONENT,
    PROBABILITY_DEPTH,
    answered_candidates,
    apply_thresholds,
    estimate_probabilities,
)
from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.lexicon import analyze_token, split_raw_tokens, stem
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.query import QueryParser
from skills_mcp.routing.ranked_matcher import (
    _SCORE_UNIT,
    PostingsLookup,
    compute_coverage,
    to_indexed_document,
)
from skills_mcp.routing.tokenizer import FILLER
from skills_mcp.skills.model import Skill
from skills_mcp.snapshots.indexes import _RETENTION_SECONDS
from tests.docs.pages import (
    REFERENCE,
    block,
    blocks,
    code,
    codes,
    prose,
    section,
    table,
    tables,
)
from tests.docs.test_routing import MEASURED, ROUTING
from tests.routing.matchers import ranked_matcher
from tests.support import make_skill

Rows = list[dict[str, str]]


def in_code(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def shown(number: Fraction | float) -> str:
    return f"{float(number):.3f}"


def formulas() -> str:
    return "".join(each.text for each in blocks(ROUTING, "text") if not each.words)


# --- words and constants --------------------------------------------------------


def test_terms_are_those_of_the_table() -> None:
    for row in table(section(ROUTING, "### From words to terms")):
        pieces = split_raw_tokens(row["Text"])
        words = [word for piece in pieces for word in analyze_token(piece.decode())]

        assert [word.typed for word in words] == codes(row["Words"])
        assert [word.term for word in words] == codes(row["Terms"])


def test_the_padding_of_requests_is_that_of_the_program() -> None:
    assert block(MEASURED, "text", "filler").split() == sorted(FILLER)


def test_the_weights_and_lengths_are_those_of_the_program() -> None:
    rows = table(section(ROUTING, "### The first look: the share of the task"))

    assert [float(row["Weight"]) for row in rows] == inverted_index.FIELD_WEIGHTS.tolist()
    lengths = inverted_index.REFERENCE_LENGTHS.tolist()
    assert [int(row["Usual length"]) for row in rows] == lengths


def test_the_constants_of_the_formulas_are_those_of_the_program() -> None:
    length, name, near = (
        inverted_index.BM25_B,
        ranked.NAME_WEIGHT,
        ranked.PROXIMITY_WEIGHT,
    )
    text = formulas().replace("\N{MULTIPLICATION SIGN}", "*")

    assert f"({1 - length} + {length} * length / usual length)" in text
    assert f"frequency / (frequency + {inverted_index.BM25_K1})" in text
    assert f"* ordinary) ^ {query._IDF_EXPONENT}" in text
    assert f"(explained * (1 + {name} * name²) + {near} * nearness)" in text
    assert f"nearness) / {ranked.TOTAL_WEIGHT}\n" in text
    least = f"{1 / ranked._MIN_MISSING_FACTOR:.0f}"
    assert f"fit² / min({least}, e^({ranked._MISSING_DECAY} * missing))" in text
    usual = f"(text / {ranked._REFERENCE_POSTINGS:,})^{ranked._SIZE_EXPONENT}"
    assert f"= {ranked._HALF_SCORE_EVIDENCE} * {usual}" in text
    assert f"(score / (1 - score))^{ODDS_EXPONENT}\n" in text
    assert f"odds / ({NO_MATCH_ODDS} + sum" in text


@pytest.mark.parametrize(
    "words",
    [
        f"the {ranked.RERANK_LIMIT} best",
        f"the first {inverted_index.OPENING_LENGTH} words of the body",
        f"keeps {query._FOREIGN_WEIGHT} of its worth",
        f"more than {query._MIN_FOREIGN_SHARE} of these words",
        f"the {query._MAX_TERMS} terms that say most are read",
        f"of these {ranked._MAX_SEARCHED_TERMS} are looked for",
        f"by `crowding^{ranked._SHORT_FIELD_POWER}` in the name",
        f"1/{ranked._PROXIMITY_WINDOW} if they are",
        f"all together, and {ranked._MIN_POSTINGS} at least",
        f"to a {'million' if _SCORE_UNIT == 10**6 else '?'}th",
        f"for {_RETENTION_SECONDS / 24 / 60 / 60:.0f} days",
    ],
)
def test_the_limits_of_the_text_are_those_of_the_program(words: str) -> None:
    assert words in prose(ROUTING) + prose(MEASURED)


def test_the_chances_of_the_text_are_those_of_the_program() -> None:
    text, rules = section(ROUTING, "### Single or a short list"), Matching()

    assert PROBABILITY_DEPTH == 5
    assert "of the five best" in text
    assert f"which is {1 - rules.ambiguity_threshold:g}" in text
    assert f"`{LISTED_SHARE} \N{MULTIPLICATION SIGN} ambiguity_threshold` or more" in text
    assert f"which is {LISTED_SHARE * rules.ambiguity_threshold:g}.\n" in text
    assert f"the bound is `{CROWDED_SHARE} \N{MULTIPLICATION SIGN} ambiguity_threshold`" in text


def test_pairs_of_a_task_reach_as_far_as_the_text_says() -> None:
    assert query._PAIR_WINDOW == 2
    assert "neighbours in the task, or have one between them" in prose(ROUTING)


def test_ordinary_words_keep_what_the_text_says() -> None:
    [line] = re.findall(r"everyday word .+", prose(ROUTING))
    told = re.findall(r"`(\w+)` (?:keeps )?(0\.\d+)", line)

    assert {lexicon.common_word_weight(stem(word)) for word, _ in told} == set(
        lexicon._TIERS.values()
    )
    assert all(lexicon.common_word_weight(stem(word)) == float(share) for word, share in told)


def test_what_stands_for_a_word_is_as_near_as_the_table_says() -> None:
    rows = table(section(ROUTING, "### Other words for the same"))
    groups = [next(lexicon.parse_groups(code(row["Line"]))) for row in rows]

    assert [float(row["Nearness"]) for row in rows] == [
        lexicon._WEIGHTS[group.relation] for group in groups
    ]


# --- the example ----------------------------------------------------------------


def example() -> tuple[list[Skill], list[str], list[Rows]]:
    """Return the skills of the example, its tasks and its other tables."""
    text = section(ROUTING, "### A ranked example")
    described, *others = tables(text)
    skills = [
        make_skill(code(row["Skill"]), description=row["Description"], keywords=(), body="")
        for row in described
    ]
    return skills, re.findall(r"task is \*(.+?)\*", text), others


def word_rows(skills: list[Skill], context: str) -> Rows:
    index = TextIndex.build(map(to_indexed_document, skills))
    read = QueryParser(index).read(context)
    return [
        {
            "Word": f"`{word.typed}`",
            "Found in": str(found),
            "Information": shown(information),
            "Share of the task": shown(information / read.whole),
        }
        for word, found, information in zip(
            read.words, read.holders.tolist(), read.information.tolist(), strict=True
        )
    ]


def fit_rows(skills: list[Skill], context: str) -> Rows:
    index = TextIndex.build(map(to_indexed_document, skills))
    read = QueryParser(index).read(context)
    every = np.arange(len(skills))
    explained = compute_coverage(read, PostingsLookup(index).find(read), len(index))
    named = ranked.name_coverage(index, read, every)
    near = ranked.term_proximity(index, read, every).scores
    fit = ranked.combine_features(explained, named, near)
    numbers = {str(skill.path): number for number, skill in enumerate(skills)}
    return [
        {
            "Candidate": row["Candidate"],
            "Matched words": row["Matched words"],
            "Explained": shown(explained[number]),
            "Name": shown(named[number]),
            "Nearness": shown(near[number]),
            "Fit": shown(fit[number]),
            "Score": row["Score"],
        }
        for row in score_rows(skills, context)
        for number in [numbers[code(row["Candidate"])]]
    ]


def score_rows(skills: list[Skill], context: str) -> Rows:
    return [
        {
            "Candidate": f"`{candidate.skill.path}`",
            "Matched words": in_code(candidate.matched_keywords),
            "Score": shown(candidate.exact_score),
        }
        for candidate in ranking(skills, context)
    ]


def ranking(skills: list[Skill], context: str) -> tuple[Candidate, ...]:
    return ranked_matcher(skills).score(context)


def test_the_example_has_the_real_numbers() -> None:
    skills, [query, *others], [words, fits, *scores] = example()

    assert words == word_rows(skills, query)
    assert fits == fit_rows(skills, query)
    assert scores == [score_rows(skills, other) for other in others]
    assert scores


def test_the_example_has_the_real_answer() -> None:
    text = section(ROUTING, "### A ranked example")
    skills, [query, *_], _ = example()
    best, second = ranking(skills, query)

    decision = apply_thresholds((best, second), Matching(), "ranked")

    assert answered_candidates(decision) == (best, second)
    [chance] = re.findall(r"is meant is ([\d.]+\d)", text)
    assert chance == shown(estimate_probabilities([best.exact_score, second.exact_score])[0])
    [more] = re.findall(r"were ([\d.]+\d)", text)
    lenient = apply_thresholds((best, second), Matching(ambiguity_threshold=float(more)), "ranked")
    assert lenient == best
    needed = (
        ranked._HALF_SCORE_EVIDENCE
        * (ranked._MIN_POSTINGS / ranked._REFERENCE_POSTINGS) ** ranked._SIZE_EXPONENT
    )
    assert f"counts as {ranked._MIN_POSTINGS} terms" in text
    assert f"`needed` is {shown(needed)}" in text


# --- search ---------------------------------------------------------------------


@pytest.mark.parametrize("number, reason", list(enumerate(search._SCORES)))
def test_reasons_and_their_scores_are_those_of_the_table(
    number: int, reason: search.Reason
) -> None:
    page = REFERENCE / "tools/search_skills.md"
    rows = [row for row in table(page.read_text(encoding="utf-8")) if "`reason`" in row]

    assert code(rows[number]["`reason`"]) == reason
    assert float(rows[number]["`score`"].split()[-1]) == float(search._SCORES[reason])


# --- what was measured ----------------------------------------------------------


def test_the_curves_mark_the_defaults() -> None:
    rows = table(section(MEASURED, "## Why 0.2 and 0.1"))
    rules = Matching()

    for setting in ("min_score", "ambiguity_threshold"):
        values = [row[f"`{setting}`"] for row in rows if f"`{setting}`" in row]
        [marked] = [value for value in values if value.startswith("**")]
        assert float(marked.strip("*")) == getattr(rules, setting)
