"""The formula of words and meanings, and the settings to change, are those of the program."""

import re
from fractions import Fraction

from skills_mcp.config import Embedding
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


def test_what_to_do_names_settings_of_embeddings() -> None:
    rows = table(section(PAGE, "## When something fails"))

    named = {name for row in rows for name in re.findall(r"`(\w+)`", row["What to do"])}

    assert named
    assert named <= Embedding.model_fields.keys()
