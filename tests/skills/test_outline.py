"""Outlines: the headings and must-lines of a text."""

import pytest

from skills_mcp.skills.composition import MAX_LINE_CHARACTERS, derive_outline, find_must_lines
from tests.support import make_skill

SENTENCES = {
    "You must sign it. It is fast.": ["You must sign it."],
    "Sign it first. Please never push to main, e.g. by hand.": [
        "Please never push to main, e.g. by hand."
    ],
    "Components that do not use hooks are fine.": [],
    "Money is an integer. Never a float.": ["Money is an integer. Never a float."],
    "A comment starts with `must:`.": [],
    "If it fails, do not retry.": ["If it fails, do not retry."],
    "**Every change needs a test.** Never guess the cause of a failure.": [
        "Never guess the cause of a failure.",
        "Every change needs a test.",
    ],
    "**Note:** a word in **bold** is none.": [],
    "It is `always` on, and always was.": [],
    "| must | never |\n| --- | --- |": [],
    "| 1 | It MUST be `whole`. |": ["It MUST be `whole`."],
    "Import ONLY from the SDK. Only push if asked.": [
        "Import ONLY from the SDK.",
        "Only push if asked.",
    ],
    "Say what must be built. Most have never seen it. Tiers (Always/Never) are set. Always.": [],
    "A plan MUST begin with this:\n\n```md\n# Plan\n```\n\nThen go on.": [
        "A plan MUST begin with this:"
    ],
    "\u274c Don't inspect it": ["\u274c Don't inspect it"],
    "```sh\necho you must not\n```\n\n> You MUST [read](a.md) it.": ["You MUST read it."],
    "- [ ] Never *ever* skip\n  a test\n- Be kind": ["Never ever skip a test"],
}

LISTS = {
    "## Must\n\n- Sign commits\n\n## Style\n\n- Be brief": ["Must: Sign commits"],
    "## Anti-patterns\n\n### Storage\n\n- Tokens in cookies": ["Anti-patterns: Tokens in cookies"],
    "Mandatory:\n\n- A review": ["Mandatory: A review"],
    "**Never:**\n\n- Log a password\n\nInstead:\n\n- Mask it": ["Never: Log a password"],
    "## Forbidden\n\n- Force pushes\n\n**INSTEAD:**\n\n- Revert": ["Forbidden: Force pushes"],
    "You MUST do all of these in the order they have:\n\n1. Plan\n2. Act": [
        "You MUST do all of these in the order they have:",
        "Plan",
        "Act",
    ],
}


@pytest.mark.parametrize("body", [*SENTENCES, *LISTS])
def test_must_lines_are_sentences_and_items_that_demand_or_prohibit(body: str) -> None:
    assert [*find_must_lines(body)] == {**SENTENCES, **LISTS}[body]


def test_a_must_line_is_cut_at_its_limit() -> None:
    [line] = find_must_lines(f"You must {'x' * 2 * MAX_LINE_CHARACTERS}.")

    assert len(line) == MAX_LINE_CHARACTERS


def test_own_lines_come_before_inherited_ones_and_each_line_once() -> None:
    root = make_skill("_root", body="# All\n\nNever guess.\n\nYou must test.")
    own = make_skill("ui/auth", body="# Auth\n\nYou must test.")

    outline = derive_outline([root, own])

    assert outline.headings == ("Auth", "All")
    assert outline.must_lines == ("You must test.",)
    assert outline.inherited_must_lines == ("Never guess.",)
