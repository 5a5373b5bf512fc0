"""What is taken from the words of Git, and what a host cannot make of them."""

from datetime import UTC, datetime

import pytest

from skills_mcp.content.git.diagnostics import Response, Transcript

NOW = datetime(2026, 11, 22, 7, 25, 0, tzinfo=UTC)
TRACE = "07:25:55.771882 http.c:684              "


def read(*lines: str) -> Transcript:
    transcript = Transcript()
    transcript.feed("".join(f"{line}\n" for line in lines).encode())
    return transcript


def answered(*headers: str) -> Response:
    response = read(*(f"{TRACE}<= Recv header: {each}" for each in headers)).response
    assert response is not None
    return response


def test_the_last_answer_counts() -> None:
    response = answered(
        *("HTTP/1.1 401 Unauthorized", "Retry-After: 9", ""),
        *("HTTP/2 403", "content-type: text/html"),
    )

    assert response.status == 403
    assert response.headers == {"content-type": "text/html"}


def test_nobody_has_answered_yet() -> None:
    assert read("fatal: unable to access 'https://example.com/'").response is None


@pytest.mark.parametrize(
    "said, seconds",
    [
        ("60", 60),
        ("0", 0),
        ("1000000000", 3600),
        ("9" * 18, 3600),
        ("9" * 5000, None),
        ("1e9", None),
        ("-1", None),
        ("60.5", None),
        ("soon", None),
        ("٦٠", None),
        ("", None),
        ("Sun, 22 Nov 2026 07:27:00 GMT", 120),
        ("Sunday, 22-Nov-26 07:27:00 GMT", 120),
        ("Sun, 22 Nov 2026 07:27:00 -0000", 120),
        ("Sun, 22 Nov 2026 08:27:00 +0100", 120),
        ("Sun, 22 Nov 2026 07:00:00 GMT", 0),
        ("Sun, 22 Nov 2099 07:00:00 GMT", 3600),
        ("Sun, 32 Nov 2026 07:00:00 GMT", None),
        ("Sun, 22 Nov 99999 07:00:00 GMT", None),
    ],
)
def test_how_long_to_wait_is_understood_or_ignored(said: str, seconds: float | None) -> None:
    response = answered("HTTP/1.1 429 Too Many Requests", f"Retry-After: {said}")

    assert response.retry_after_seconds(NOW) == seconds


def test_a_date_is_compared_with_the_clock_of_the_host() -> None:
    response = answered(
        "HTTP/1.1 503 Service Unavailable",
        "Date: Sun, 22 Nov 2020 07:00:00 GMT",
        "Retry-After: Sun, 22 Nov 2020 07:05:00 GMT",
    )

    assert response.retry_after_seconds(NOW) == 300


@pytest.mark.parametrize(
    "headers, is_throttled",
    [
        (("HTTP/1.1 429 x",), True),
        (("HTTP/1.1 403 x",), False),
        (("HTTP/1.1 403 x", "Retry-After: 1"), True),
        (("HTTP/1.1 403 x", "X-RateLimit-Remaining: 0"), True),
        (("HTTP/1.1 403 x", "X-RateLimit-Remaining: 12"), False),
        (("HTTP/1.1 401 x", "Retry-After: 1"), False),
    ],
)
def test_a_refusal_and_a_request_to_wait_are_told_apart(
    headers: tuple[str, ...], *, is_throttled: bool
) -> None:
    assert answered(*headers).is_throttled == is_throttled


def test_the_end_of_a_rate_limit_says_how_long_to_wait() -> None:
    reset = int(NOW.timestamp()) + 90

    response = answered("HTTP/1.1 403 x", "X-RateLimit-Remaining: 0", f"X-RateLimit-Reset: {reset}")

    assert response.retry_after_seconds(NOW) == 90


def test_words_are_told_from_what_is_traced_and_from_chatter() -> None:
    transcript = read(
        f"{TRACE}== Info:   Trying 127.0.0.1:1...",
        f"{TRACE}=> Send header: Authorization: Basic <redacted>",
        "remote: Enumerating objects: 3, done.",
        "remote: Counting objects:  33% (1/3)\rremote: Counting objects: 100% (3/3)",
        "remote: Total 3 (delta 0), reused 0 (delta 0), pack-reused 0",
        "From http://127.0.0.1:39573/upstream",
        " * [new branch]      main       -> refs/x",
        "remote: The maintenance is over at noon",
        "fatal: protocol error: bad pack header",
    )

    said = "remote: The maintenance is over at noon fatal: protocol error: bad pack"
    assert transcript.summary == f"{said} header"


def test_what_a_host_says_cannot_pass_for_its_headers() -> None:
    forged = f"{TRACE}<= Recv header: HTTP/1.1 200 OK"

    transcript = read(
        f"{TRACE}<= Recv header: HTTP/1.1 401 Unauthorized",
        f"{TRACE}<= Recv header: X: HTTP/1.1 200 OK",
        f"{TRACE}<= Recv data: HTTP/1.1 200 OK",
        f"remote: {forged}",
    )

    assert transcript.response == Response(401, {"x": "HTTP/1.1 200 OK"})


@pytest.mark.parametrize(
    "line, progress",
    [
        ("Receiving objects:  45% (45/100), 1.2 MiB", ("Receiving objects", 0.45)),
        ("Resolving deltas: 100% (3/3), done.", ("Resolving deltas", 1.0)),
        ("remote: Counting objects:   7% (1/14)", ("Counting objects", 0.07)),
        ("Receiving objects: 999% (9/1)", ("Receiving objects", 1.0)),
        ("fatal: 45% of it", None),
    ],
)
def test_how_far_git_is_is_a_share(line: str, progress: tuple[str, float] | None) -> None:
    assert read(line).progress == progress


def test_progress_is_told_before_its_line_is_complete() -> None:
    transcript = Transcript()

    transcript.feed(b"Receiving obj")
    transcript.feed(b"ects:  50% (1/2)\rReceiving")

    assert transcript.progress == ("Receiving objects", 0.5)


def test_a_flood_is_kept_by_its_beginning_and_its_end() -> None:
    transcript = read("the first", *("remote: chatter" for _ in range(10_000)), "last")

    assert transcript.summary.startswith("the first")
    assert transcript.summary.endswith("last")
    assert len(transcript.summary) < 2_000
    assert len(transcript.text) < 100_000


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    transcript = Transcript()

    for _ in range(200):
        transcript.feed(b"x" * 64 * 1024)
        assert len(transcript._rest) < 100_000
    transcript.finish()

    assert len(transcript.text) < 100_000


def test_what_steers_a_terminal_is_taken_out() -> None:
    assert read("remote: \x1b[2Jgone\x07 \x9bx").summary == "remote: [2Jgone x"


def test_what_the_host_has_said_can_be_told_from_what_git_says_itself() -> None:
    transcript = Transcript()
    transcript.feed(
        b"remote: fatal: bad object 1234\n"
        b"fatal: remote error: No space left on device\n"
        b"fatal: early EOF\n"
    )

    assert transcript.local_text == "fatal: early EOF"
    assert "bad object" in transcript.summary
    assert "No space" in transcript.summary
