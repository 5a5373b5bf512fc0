"""Characters that nobody sees, unless a language or an emoji needs them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.authoring.validation.hidden_text import find_hidden
from soak.input.samples import HIDDEN

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")


@pytest.mark.parametrize(
    "text, name",
    [
        ("ig\u200bnore", "U+200B ZERO WIDTH SPACE"),
        ("ig\u200dnore", "U+200D ZERO WIDTH JOINER"),
        ("ig\u200cnore", "U+200C ZERO WIDTH NON-JOINER"),
        ("ig\u2060nore", "U+2060 WORD JOINER"),
        ("ig\ufeffnore", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("ig\ufe0fnore", "U+FE0F VARIATION SELECTOR-16"),
        ("\N{WARNING SIGN}\ufe0f\ufe01", "U+FE01 VARIATION SELECTOR-2"),
        ("a\U000e0101b", "U+E0101 VARIATION SELECTOR-18"),
        ("ig\u200enore", "U+200E LEFT-TO-RIGHT MARK"),
        ("rm \u202e-rf", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("שלום \u2066x", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("\u3164", "U+3164 HANGUL FILLER"),
        ("\U0001d159", "U+1D159 MUSICAL SYMBOL NULL NOTEHEAD"),
        ("a\u00adb", "U+00AD SOFT HYPHEN"),
        ("a\u034fb", "U+034F COMBINING GRAPHEME JOINER"),
        ("a\u2800b", "U+2800 BRAILLE PATTERN BLANK"),
        ("a\u206ab", "U+206A INHIBIT SYMMETRIC SWAPPING"),
        ("a\ufff9b", "U+FFF9 INTERLINEAR ANNOTATION ANCHOR"),
        ("a\u180bb", "U+180B MONGOLIAN FREE VARIATION SELECTOR ONE"),
        ("!\ufe0f", "U+FE0F VARIATION SELECTOR-16"),
        ("1\ufe03", "U+FE03 VARIATION SELECTOR-4"),
        ("\ue000", "U+E000 of private use"),
        ("\U0010ffff", "U+10FFFF"),
        ("\ufdd0", "U+FDD0"),
    ],
)
def test_a_hidden_character_is_named(text: str, name: str) -> None:
    [finding] = find_hidden(f"One\nTwo {text}\n")

    assert finding.rule == "hidden-character"
    assert finding.line == 2
    assert name in finding.reason


def test_a_text_in_tags_is_one_finding() -> None:
    [finding] = find_hidden(f"Fine.\n{TAGS}")

    assert finding.line == 2
    assert finding.reason.startswith("has 6 hidden characters: U+E0000 to U+E007F")


def test_bytes_in_selectors_are_one_finding() -> None:
    data = "".join(chr(0xE0100 + byte) for byte in range(200))

    [finding] = find_hidden(f"\N{GRINNING FACE}{data}")

    assert finding.reason.startswith("has 200 hidden characters: U+E0100")


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_nothing_hidden_is_overlooked(text: str) -> None:
    real = text.encode().decode("unicode_escape") if "\\u" in text else text

    assert list(find_hidden(real))


def test_many_of_one_kind_are_counted() -> None:
    [finding] = find_hidden("a\u200bb\nc\u200bd")

    assert finding.line == 1
    assert "2 hidden characters" in finding.reason


@pytest.mark.parametrize(
    "text",
    [
        "\N{WARNING SIGN}\ufe0f careful",
        "\N{INFORMATION SOURCE}\ufe0f note",
        "1\ufe0f\u20e3 first",
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
        "\N{RAINBOW}",
        "\N{WAVING WHITE FLAG}\ufe0f\u200d\N{RAINBOW}",
        "\N{WAVING BLACK FLAG}\U000e0067\U000e0062\U000e0073\U000e007f",
        "\N{ARABIC LETTER FARSI YEH}\u200c\N{ARABIC LETTER KHAH}",
        "क्\u200dष",
        "שלום (x)\u200f.",
        "ภาษา\u200bไทย",
        "葛\U000e0100",
        "⠓⠑\u2800⠺",
        "ᠠ\u180b",
        "0\ufe00 and ≨\ufe00",
    ],
)
def test_what_a_language_or_an_emoji_needs_is_no_finding(text: str) -> None:
    assert list(find_hidden(text)) == []


@given(st.text(alphabet=st.sampled_from("a\u200b\u200d\ufe0f\U000e0041\U0001f3f4\n")))
def test_any_text_ends_in_findings(text: str) -> None:
    for finding in find_hidden(text):
        assert 1 <= finding.line <= text.count("\n") + 1
        assert finding.reason.isprintable()
