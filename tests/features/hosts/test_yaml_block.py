"""The block of lines that `install` writes into a person's settings."""

import pytest

from skills_mcp.features.hosts.config_edits import (
    UnparsableTextError,
    find_yaml_block,
    parse_yaml_text,
    remove_yaml_block,
    set_yaml_block,
)

VALUES = {"sources": [{"repo": "https://example.com/a.git"}]}


def test_a_block_is_taken_out_to_the_last_byte() -> None:
    texts = (
        "",
        "a: 1\n",
        "a: 1",
        "a: 1\r\n",
        "a: 1\r\nb: 2",
        "# only this\n",
        "\n\n",
        "---\na: 1\n",
    )

    left = {text: remove_yaml_block(set_yaml_block(text, VALUES)) for text in texts}

    assert left == {text: text for text in texts}


def test_a_block_is_written_again_at_its_place() -> None:
    text = set_yaml_block("a: 1\n", VALUES) + "b: 2\n"

    again = set_yaml_block(text, {"discover": True})

    assert parse_yaml_text(again) == {"a": 1, "discover": True, "b": 2}
    assert again.endswith("b: 2\n")
    assert parse_yaml_text(find_yaml_block(again)) == {"discover": True}


@pytest.mark.parametrize("text", ["{a: 1}", "a: 1\n...\n", "a:\n- b", "[1]"])
def test_a_text_to_which_no_lines_can_be_added_is_refused_or_keeps_its_values(text: str) -> None:
    try:
        after = set_yaml_block(text, VALUES)
    except UnparsableTextError:
        return

    assert parse_yaml_text(after) == {**parse_yaml_text(text), **VALUES}
