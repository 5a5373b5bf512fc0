"""Hidden characters are taken out, and what belongs to a language or emoji stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.text.unicode import find_hidden_characters, strip_hidden
from soak.input.samples import CLEAN, HIDDEN

_PRIVATE_USE = "\uf09b"  # the icon of a font


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_no_hidden_character_is_left(text: str) -> None:
    left = strip_hidden(text)

    assert {left[place] for place in find_hidden_characters(left)} <= {*map(chr, _ICONS)}


_ICONS = [*range(0xE000, 0xF900), *range(0xF0000, 0x110000)]


@pytest.mark.parametrize(
    "text",
    [
        *CLEAN,
        "a \N{HEAVY BLACK HEART}\ufe0f and a 1\ufe0f\u20e3",
        "a \U0001f469\u200d\U0001f4bb",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u845b\U000e0100",
        f"{_PRIVATE_USE} fork",
    ],
)
def test_what_a_reader_sees_is_as_it_was(text: str) -> None:
    assert strip_hidden(text) == text


@given(st.text("ab \u200b\ufe0f\u202e\u2066\U000e0041\n"))
def test_what_is_taken_out_is_hidden_and_nothing_else(text: str) -> None:
    hidden = set(find_hidden_characters(text))

    left = "".join(c for place, c in enumerate(text) if place not in hidden)

    assert strip_hidden(text) == left
