import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.scripts.output import KeptOutput

LEFT_OUT = re.compile(
    r"\n?\[skills-mcp\] Output truncated: ([\d,]+) bytes are left .*\n"
)


def kept(text: bytes, limit: int, *, step: int = 7) -> KeptOutput:
    output = KeptOutput(limit)
    for begin in range(0, len(text), step):
        output.add(text[begin : begin + step])
    return output


def test_what_fits_is_kept_as_it_is() -> None:
    output = kept(b"0123456789", 10)

    assert output.text() == "0123456789"
    assert not output.is_truncated
    assert output.total_bytes == 10


def test_of_more_the_first_three_quarters_and_the_last_are_kept() -> None:
    output = kept(b"a" * 75 + b"b" * 1_000_000 + b"c" * 25, 100)

    assert output.text() == (
        "a" * 75
        + "\n[skills-mcp] Output truncated: 1,000,000 bytes are left out here.\n"
        + "c" * 25
    )
    assert output.is_truncated
    assert output.total_bytes == 1_000_100


def test_the_line_between_never_stands_at_the_end_of_another() -> None:
    output = kept(b"one\ntwo\nthree\nfour", 5)

    first, said, last = output.text().split("\n")
    assert (first, said[:12], last) == ("one", "[skills-mcp]", "ur")


@pytest.mark.parametrize("character", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", range(4))
def test_a_character_is_never_cut(character: str, shift: int) -> None:
    text = ("." * shift + character * 1000).encode()

    shown = kept(text, 101).text()

    assert "\ufffd" not in shown


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert kept(b"a\xffb", 10).text() == "a\ufffdb"
    assert kept(b"\x80" * 100, 8).text().count("\ufffd") <= 8


@given(st.text(), st.integers(1, 60), st.integers(1, 50))
def test_head_and_tail_are_those_of_the_stream(
    text: str, limit: int, step: int
) -> None:
    data = text.encode()
    output = kept(data, limit, step=step)

    head, *parts = LEFT_OUT.split(output.text())

    assert output.total_bytes == len(data)
    assert output.is_truncated is (len(data) > limit)
    if output.is_truncated:
        left_out, tail = parts
        if not data.startswith(head.encode()):
            head = head.removesuffix("\n")  # so that the line between is one
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        size = len(head.encode()) + len(tail.encode())
        assert size <= limit
        assert int(left_out.replace(",", "")) == len(data) - size
    else:
        assert (head, parts) == (text, [])
