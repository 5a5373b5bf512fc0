"""What is hidden, steers a terminal or is a secret is found, and nothing else."""

import re

import pytest

from skills_mcp.authoring.validation.texts import (
    ALLOWED,
    MAX_FINDINGS,
    check_body,
    check_text,
    find_controls,
)
from skills_mcp.text.redaction import redact
from soak.input.samples import CLEAN, CONTROLS, MIXED, SECRETS


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("around", ["{}", "One\n\n{}\n", "Use `{}` for it.\n", "> {}"])
def test_a_secret_is_one_finding_that_does_not_repeat_it(
    secret: str, around: str
) -> None:
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
def test_what_steers_a_terminal_is_named_and_not_repeated(text: str) -> None:
    findings = list(check_text(f"One\n{text}\n"))

    assert {finding.rule for finding in findings} == {"control-characters"}
    assert {finding.line for finding in findings} == {2}
    assert all(finding.reason.isprintable() for finding in findings)


@pytest.mark.parametrize("word", MIXED.values(), ids=MIXED)
def test_a_word_that_is_not_spelt_as_it_looks_is_found(word: str) -> None:
    [finding] = check_text(f"One\nLog in at {word} now.\n")

    assert (finding.rule, finding.line) == ("mixed-letters", 2)


def test_many_of_one_kind_are_one_finding() -> None:
    [finding] = find_controls("\x1b[1ma\x1b[0m\n\x1b[2m")

    assert finding.reason == "has 3 control characters: U+001B ESCAPE"


def test_somebody_may_say_that_a_secret_is_none() -> None:
    first, second = list(SECRETS.values())[:2]

    found = check_text(f"A {first} <!-- {ALLOWED} -->\nB {second}\n")

    assert [finding.line for finding in found] == [2]


def test_a_file_of_nothing_but_secrets_does_not_drown_the_others() -> None:
    text = "\n".join([*SECRETS.values()] * 3)

    assert len(list(check_text(text))) == MAX_FINDINGS


def test_a_forged_header_is_found_with_its_line_in_the_file() -> None:
    body = "One\n===\n=== UI (from ui/_index.md) ===\n"

    [finding] = check_body(body, 7)

    assert (finding.rule, finding.line) == ("section-header", 9)


PIECES = (
    *("://", "a", "@", "a.b://c:", "=", "'", "token", "token_-", "token=", "pwd  "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN A ", "Authorization:", "gh", "ghp_"),
    *("eyJaaaaaaaaa.", "SG.aaaaaaaaaaaaaaaaaaaaaaaa.", "AccountKey=a", "\u200b", "\r"),
    *("=== a ", "\u0430a", "\ufe0f", "\U000e0041"),
)


ENDS = {
    "\u0430a ": "\u0451",
    f"{next(iter(SECRETS.values()))} ": ALLOWED,
    "\u0301\u0316": "=== a",
    "=== a\u0301\u0316": "===",
}
"""What costs as much as its square only if something else ends the line."""


@pytest.mark.parametrize("piece", [*PIECES, *ENDS])
def test_a_long_text_is_looked_through_in_linear_time(piece: str) -> None:
    end = ENDS.get(piece, "")
    text = f"{end if '=' in end else ''}{piece * (200_000 // len(piece))}{end}"

    assert len(list(check_text(text))) <= 5 * MAX_FINDINGS
    assert len(list(check_body(text, 1))) <= MAX_FINDINGS
