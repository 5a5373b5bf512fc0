"""Hidden text, control characters and secrets are found, and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.authoring.markdown import (
    ALLOW_SECRET,
    MAX_TEXT_FINDINGS,
    check_body,
    check_text,
    report_control_characters,
    report_hidden_characters,
)
from skills_mcp.text.redaction import redact
from soak.input.samples import CLEAN, CONTROLS, HIDDEN, MIXED, SECRETS

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("around", ["{}", "One\n\n{}\n", "Use `{}` for it.\n", "> {}"])
def test_a_secret_is_one_finding_that_does_not_repeat_it(secret: str, around: str) -> None:
    text = around.format(secret)

    [finding] = check_text(text)

    assert finding.rule == "secret"
    assert finding.line == 1 + text[: text.index(secret)].count("\n")
    shown = f"{finding.reason} {finding.hint}"
    parts = (secret[n : n + 9] for n in range(len(secret) - 8))
    assert not any(part in shown for part in parts if re.search(r"\d", part))


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_what_is_found_in_content_is_taken_out_of_a_log(secret: str) -> None:
    before = set(check_text(secret))

    shown = redact(f"it said {secret}")

    assert before
    assert list(check_text(shown)) == []


@pytest.mark.parametrize("text", CLEAN)
def test_what_every_skill_may_say_is_no_finding(text: str) -> None:
    assert list(check_text(text)) == []
    assert list(check_body(text, 1)) == []


@pytest.mark.parametrize("text", CONTROLS.values(), ids=CONTROLS)
def test_a_control_character_is_named_and_not_repeated(text: str) -> None:
    findings = list(check_text(f"One\n{text}\n"))

    assert {finding.rule for finding in findings} == {"control-characters"}
    assert {finding.line for finding in findings} == {2}
    assert all(finding.reason.isprintable() for finding in findings)


@pytest.mark.parametrize("word", MIXED.values(), ids=MIXED)
def test_a_word_that_is_not_spelt_as_it_looks_is_found(word: str) -> None:
    [finding] = check_text(f"One\nLog in at {word} now.\n")

    assert (finding.rule, finding.line) == ("mixed-letters", 2)


def test_many_of_one_kind_are_one_finding() -> None:
    [finding] = report_control_characters("\x1b[1ma\x1b[0m\n\x1b[2m")

    assert finding.reason == "has 3 control characters: U+001B ESCAPE"


def test_a_line_can_be_marked_as_no_secret() -> None:
    first, second = list(SECRETS.values())[:2]

    found = check_text(f"A {first} <!-- {ALLOW_SECRET} -->\nB {second}\n")

    assert [finding.line for finding in found] == [2]


def test_a_file_of_nothing_but_secrets_does_not_drown_the_others() -> None:
    text = "\n".join([*SECRETS.values()] * 3)

    assert len(list(check_text(text))) == MAX_TEXT_FINDINGS


def test_a_forged_header_is_found_with_its_line_in_the_file() -> None:
    body = "One\n===\n=== UI (from ui/_index.md) ===\n"

    [finding] = check_body(body, 7)

    assert (finding.rule, finding.line) == ("section-header", 9)


@pytest.mark.parametrize("body, end", [("Run:\n```sh\nmake\n", "```"), ("One\n<!-- a\n\n", "-->")])
def test_a_block_that_is_never_closed_is_found(body: str, end: str) -> None:
    [finding] = check_body(body, 7)

    assert finding.rule == "block-open"
    assert end in finding.hint


PIECES = (
    *("://", "a", "@", "a.b://c:", "=", "'", "token", "token_-", "token=", "pwd  "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN A ", "Authorization:", "gh", "ghp_"),
    *("eyJaaaaaaaaa.", "SG.aaaaaaaaaaaaaaaaaaaaaaaa.", "AccountKey=a", "\u200b", "\r"),
    *("=== a ", "\u0430a", "\ufe0f", "\U000e0041"),
)


ENDS = {
    "\u0430a ": "\u0451",
    f"{next(iter(SECRETS.values()))} ": ALLOW_SECRET,
    "\u0301\u0316": "=== a",
    "=== a\u0301\u0316": "===",
}
"""What costs as much as its square only if something else ends the line."""


@pytest.mark.parametrize("piece", [*PIECES, *ENDS])
def test_a_long_text_is_looked_through_in_linear_time(piece: str) -> None:
    end = ENDS.get(piece, "")
    text = f"{end if '=' in end else ''}{piece * (200_000 // len(piece))}{end}"

    assert len(list(check_text(text))) <= 5 * MAX_TEXT_FINDINGS
    assert len(list(check_body(text, 1))) <= MAX_TEXT_FINDINGS


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
    [finding] = report_hidden_characters(f"One\nTwo {text}\n")

    assert finding.rule == "hidden-character"
    assert finding.line == 2
    assert name in finding.reason


def test_a_text_in_tags_is_one_finding() -> None:
    [finding] = report_hidden_characters(f"Fine.\n{TAGS}")

    assert finding.line == 2
    assert finding.reason.startswith("has 6 hidden characters: U+E0000 to U+E007F")


def test_bytes_in_selectors_are_one_finding() -> None:
    data = "".join(chr(0xE0100 + byte) for byte in range(200))

    [finding] = report_hidden_characters(f"\N{GRINNING FACE}{data}")

    assert finding.reason.startswith("has 200 hidden characters: U+E0100")


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_nothing_hidden_is_overlooked(text: str) -> None:
    real = text.encode().decode("unicode_escape") if "\\u" in text else text

    assert list(report_hidden_characters(real))


def test_many_of_one_kind_are_counted() -> None:
    [finding] = report_hidden_characters("a\u200bb\nc\u200bd")

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
    assert list(report_hidden_characters(text)) == []


@given(st.text(alphabet=st.sampled_from("a\u200b\u200d\ufe0f\U000e0041\U0001f3f4\n")))
def test_any_text_ends_in_findings(text: str) -> None:
    for finding in report_hidden_characters(text):
        assert 1 <= finding.line <= text.count("\n") + 1
        assert finding.reason.isprintable()
