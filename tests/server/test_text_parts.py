"""Cutting a long text into parts."""

from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.server.replies import split_markdown

LINES = (
    "# One",
    "## Two",
    "text",
    "",
    "```",
    "# in code",
    "- item",
    "日本語のテキスト",
    "\r",
)

texts = st.lists(st.sampled_from(LINES), max_size=60).map("\n".join)


@given(text=texts | st.text(), room=st.integers(1, 80))
def test_the_parts_are_the_text_and_each_has_room(text: str, room: int) -> None:
    parts = split_markdown(text, room, len)

    assert "".join(parts) == text
    assert all(len(part) <= room for part in parts)
    assert all(parts) or parts == ("",)


def test_a_part_begins_with_a_heading_where_there_is_one() -> None:
    text = "# A\n\n" + "x\n" * 10 + "\n## B\n\n" + "y\n" * 10

    parts = split_markdown(text, 32, len)

    assert [part[:4] for part in parts] == ["# A\n", "## B"]


def test_a_comment_in_code_is_no_heading() -> None:
    text = "# A\n\nSome text.\n\n```sh\nls\n# not a heading\nls -la\nls -lar\n```\n"

    first, second = split_markdown(text, 50, len)

    assert first == "# A\n\nSome text.\n\n"
    assert second.startswith("```sh\n")


def test_a_paragraph_stays_whole_without_headings() -> None:
    text = "one one one\n\ntwo two\ntwo two\n\nthree three three\n"

    parts = split_markdown(text, 32, len)

    assert parts == ("one one one\n\ntwo two\ntwo two\n\n", "three three three\n")


def test_a_line_without_room_is_cut_between_characters() -> None:
    parts = split_markdown("日" * 10, 7, lambda text: len(text.encode()))

    assert parts == ("日日",) * 5
