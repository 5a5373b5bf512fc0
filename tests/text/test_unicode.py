"""How texts look: what shows nothing, and one form for what looks the same."""

import re
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.text.unicode import (
    BLANK_CHARACTERS,
    HIDING_CHARACTERS,
    normalize_unicode,
)

_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = (
    *("NFC", "NFD"),
    *("NFKC", "NFKD"),
)
_LETTERS = "aé\n ﬁ한각\u1100\u1161\u11a8\u0301\u0316が\u304b\u3099ｶﾞ\u09c7\u09be"


@pytest.mark.parametrize("form", _FORMS)
@given(lines=st.lists(st.text(alphabet=_LETTERS, max_size=80), max_size=40))
def test_a_long_text_gets_the_form_that_unicode_gives_it(
    form: Literal["NFC", "NFD", "NFKC", "NFKD"], lines: list[str]
) -> None:
    text = "\n".join(lines)

    assert normalize_unicode(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", _FORMS)
def test_a_text_of_many_lines_is_cut_only_where_nothing_joins(
    form: Literal["NFC", "NFD", "NFKC", "NFKD"],
) -> None:
    line = "".join(_LETTERS.split()) * 4 + "\n"
    text = line * 100

    assert normalize_unicode(form, text) == unicodedata.normalize(form, text)


def test_a_million_marks_on_one_letter_all_stay() -> None:
    text = "e" + "\u0301\u0316" * 200_000

    normal = normalize_unicode("NFD", text)

    assert sorted(normal) == sorted(text)


def test_what_shows_nothing_is_no_kind_of_character_that_says_so() -> None:
    kinds = {unicodedata.category(character) for character in BLANK_CHARACTERS}

    assert kinds <= {"Lo", "Mn", "So"}


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\U000e0041"])
def test_what_hides_text_is_a_part_of_a_pattern(character: str) -> None:
    assert re.fullmatch(f"[{HIDING_CHARACTERS}]", character)
