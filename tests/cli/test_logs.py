import logging
import re
from collections.abc import Callable, Iterator

import pytest

from skills_mcp.cli.logs import LEVELS, configure_logging

Log = Callable[[], str]


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Log]:
    """Return what was written to standard error; logging is put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("skills_mcp")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield lambda: capsys.readouterr().err
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_a_line_says_when_how_bad_where_and_what(log: Log) -> None:
    configure_logging("info", secrets=())

    logging.getLogger("skills_mcp.content.refresher").info("Serving %d skills", 24)

    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO content: Serving 24 skills\n",
        log(),
    )


def test_an_event_is_one_line_whatever_it_holds(log: Log) -> None:
    configure_logging("info", secrets=())

    logging.getLogger("skills_mcp").warning("a\nINFO forged: b\r\n\tc")

    [line] = log().splitlines()
    assert line.endswith(" WARNING skills_mcp: a INFO forged: b c")


@pytest.mark.parametrize("level", LEVELS)
def test_only_what_is_bad_enough_is_written(log: Log, level: str) -> None:
    configure_logging(level, secrets=())

    for each in LEVELS:
        logging.getLogger("skills_mcp.x").log(logging.getLevelName(each.upper()), each)

    said = [line.rsplit(": ", 1)[1] for line in log().splitlines()]
    assert said == list(LEVELS[LEVELS.index(level) :])


def test_other_libraries_speak_up_only_when_something_is_wrong(
    log: Log,
) -> None:
    configure_logging("debug", secrets=())

    logging.getLogger("somebody").info("chatter")
    logging.getLogger("somebody").warning("trouble")

    [line] = log().splitlines()
    assert line.endswith("WARNING somebody: trouble")


def test_a_secret_is_never_written_not_even_in_a_traceback(log: Log) -> None:
    configure_logging("info", secrets=("ghp_canary", None))

    try:
        int("ghp_canary")
    except ValueError:
        logging.getLogger("skills_mcp").exception("Failed with ghp_canary")

    said = log()
    assert "ghp_canary" not in said
    assert "Failed with ***" in said
    assert "ValueError: invalid literal for int() with base 10: '***'" in said


def say(name: str, seconds: float, message: str, *given: object) -> None:
    """Log a message as if it were that late."""
    logger = logging.getLogger(name)
    record = logger.makeRecord(name, logging.INFO, "", 0, message, given, None)
    record.created = 1_000_000 + seconds
    logger.handle(record)


@pytest.mark.parametrize("name", ["skills_mcp.http.authentication", "uvicorn.error"])
def test_strangers_cannot_flood_the_log(log: Log, name: str) -> None:
    configure_logging("info", secrets=())

    for number in range(500):
        say(name, 0, "Refused a token: %d", number)
    say("skills_mcp.http.allowed_hosts", 1, "Refused a request")
    say(name, 61, "Refused a token: %d", 500)

    lines = log().splitlines()
    assert len(lines) == 60 + 1 + 1
    assert lines[-2].endswith("Refused a request")
    assert lines[-1].endswith("500 (440 such lines before were left out)")


def test_what_an_operator_has_to_know_is_always_logged(log: Log) -> None:
    configure_logging("info", secrets=())

    for number in range(100):
        say("skills_mcp.features.authoring.uploads", 0, "%d has added it", number)

    assert len(log().splitlines()) == 100
