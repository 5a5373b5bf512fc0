import io

import pytest

from skills_mcp.analytics.lines import (
    MAX_LINE_BYTES,
    read_lines,
)


def numbers(data: bytes) -> list[int | None]:
    lines = read_lines(io.BytesIO(data))
    return [line.event["n"] if line else None for line in lines]


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b'{"n": 2',
        b"\xff\xfe",
        b"null",
        b"[1]",
        b'"text"',
        b'{"n": NaN}',
        b'{"n": -Infinity}',
        b"[" * 100_000,
        b"\0" * 100,
        b'{"n": "\xed\xa0\x80"}',
        b'{"n": ' + b"9" * 5000 + b"}",
        b"x" * (MAX_LINE_BYTES + 1),
        b"x" * (3 * MAX_LINE_BYTES),
    ],
    ids=range(14),
)
def test_a_line_that_is_no_event_is_told_and_hides_no_other(broken: bytes) -> None:
    assert numbers(b'{"n": 1}\n' + broken + b'\n{"n": 3}\n') == [1, None, 3]


@pytest.mark.parametrize("blank", [b"\n", b"  \r\n", b""])
def test_a_blank_line_is_nothing(blank: bytes) -> None:
    assert numbers(blank + b'{"n": 1}\n' + blank) == [1]


def test_an_event_is_kept_as_it_was_written() -> None:
    [line] = read_lines(io.BytesIO('{"n":1.0, "t": "日本"}\r\n'.encode()))

    assert line is not None
    assert line.raw == '{"n":1.0, "t": "日本"}'.encode()


def test_the_last_line_needs_no_end() -> None:
    assert numbers(b'{"n": 1}\n{"n": 2}') == [1, 2]
