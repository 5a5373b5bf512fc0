"""The formula of words and meanings is that of the program."""

from fractions import Fraction

from skills_mcp.features.embeddings.skill_embeddings import (
    _HALF_SCORE_SIMILARITY,
    MEANING_WEIGHT,
    MILLION,
    fuse_scores,
)
from tests.docs.pages import DOCS, blocks, prose, section, table

PAGE = DOCS / "how-to" / "embeddings.md"
HOW_IT_COUNTS = "## How it counts"


def test_the_scores_of_the_table_are_those_of_the_program() -> None:
    rows = table(section(PAGE, HOW_IT_COUNTS))

    assert len(rows) > 1
    for row in rows:
        alike = round(float(row["Meaning"]) * MILLION)
        fit = fuse_scores(Fraction(row["Words"]), alike)
        assert f"{fit.millionths / MILLION:.2f}" == row["Score"]


def test_the_constants_of_the_formula_are_those_of_the_program() -> None:
    formula = f"({1 / _HALF_SCORE_SIMILARITY:g} × meaning)^1.5"  # noqa: RUF001 - a multiplication
    assert any(formula in each.text for each in blocks(PAGE))
    assert f"`weight` is {MEANING_WEIGHT}" in prose(PAGE)
