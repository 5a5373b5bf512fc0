import errno
import json
import os
import re
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from demo.month import DAYS, LAST_DAY, simulate, write_lines, write_month
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.received_event import parse_received
from skills_mcp.events.spool import ARCHIVE
from tests.cli.conftest import Run
from tests.features.report.happenings import missed, served, torn
from tests.support import SKILLS_CONTENT, write

NOVEMBER = ("--since", "2026-11-01", "--until", "2026-11-30")
CONTENT = ("--skills-dir", str(SKILLS_CONTENT))


def collect(folder: Path, *events: object) -> Path:
    return write(folder / "events.jsonl", "".join(f"{json.dumps(each)}\n" for each in events))


@pytest.fixture
def month(home: Path) -> None:
    """The record of this machine, after a month."""
    write_month(home / ".skills-mcp", simulate())


@pytest.mark.usefixtures("month")
def test_the_record_of_a_month_is_a_screen_of_tables(run: Run) -> None:
    done = run("report", "--until", str(LAST_DAY), *CONTENT)

    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        "6,548 events of 23 people",
        "Answers by week",
        "send a push notification to the driver app",
        "Ambiguous answers: keywords to change",
        "ui/react/forms",
        "since 2026-11-13",
        "security/incident-response",
        "Days are in UTC",
    ):
        assert said in done.stdout
    assert len(done.stdout.splitlines()) < 130


@pytest.mark.usefixtures("month")
def test_a_narrow_terminal_cuts_nothing_off(invoke: Run) -> None:
    done = invoke("report", "--until", str(LAST_DAY), *CONTENT, COLUMNS="70", FORCE_COLOR="1")

    plain = re.sub(r"\x1b\[[\d;?]*\w", "", done.stdout)
    rows = [line for line in plain.splitlines() if "│" in line]
    assert max(map(len, rows)) == 70
    assert "…" not in "".join(rows)


def test_what_is_waiting_and_what_was_sent_are_counted_together(invoke: Run, home: Path) -> None:
    now = datetime.now(UTC)
    old, new = (
        {**missed("bake a cake"), "timestamp": (now - timedelta(days=n)).isoformat()}
        for n in (2, 0)
    )
    root = home / ".skills-mcp"
    write(root / ARCHIVE / f"{now:%Y-%m-%d}.jsonl", f"{json.dumps(old)}\n")
    write(root / "spool" / "1.jsonl", f"{json.dumps(new)}\nnot an event\n")

    done = invoke("report", "--json", *CONTENT)

    data = json.loads(done.stdout)
    assert data["answers"]["no_match"] == 2
    assert data["counts"]["unreadable"] == 1


def test_programs_get_one_object(invoke: Run, tmp_path: Path) -> None:
    pair = "api/auth", "ui/react/auth"
    file = collect(
        tmp_path,
        missed("bake a cake", 3),
        torn("fix the auth", *pair, day=4, matched_keywords=[["auth"], ["auth"]]),
        served("api/auth", 4, context="fix the auth", was_ambiguous=True),
    )

    done = invoke("report", "--json", "--from", str(file), *NOVEMBER, *CONTENT)

    data = json.loads(done.stdout)
    assert data["gaps"] == [
        {
            "task": "bake a cake",
            "count": 1,
            "people": 1,
            "last_seen": "2026-11-03",
            "near": [],
            "today": [],
        }
    ]
    assert data["rivalries"] == [
        {
            "skills": ["api/auth", "ui/react/auth"],
            "count": 1,
            "picks": [1, 0],
            "keywords": [{"keyword": "auth", "count": 1}],
            "days": [["2026-11-04", 1]],
            "last_seen": "2026-11-04",
            "task": "fix the auth",
            "is_still": True,
        }
    ]
    assert data["notes"] == []


def test_what_a_receiver_has_collected_is_read_once(invoke: Run, tmp_path: Path) -> None:
    events = simulate()
    write_lines(tmp_path / "monday.jsonl", events)
    write_lines(tmp_path / "again.jsonl", events[:100])

    done = invoke(
        *("report", "--json", "--from", str(tmp_path), "--until", str(LAST_DAY)),
        *CONTENT,
    )

    counts = json.loads(done.stdout)["counts"]
    assert (counts["events"], counts["repeated"]) == (len(events), 100)


def test_without_a_source_the_report_says_what_it_does_not_know(
    invoke: Run, tmp_path: Path
) -> None:
    file = collect(tmp_path, missed("bake a cake", 3))

    done = invoke("report", "--from", str(file), *NOVEMBER)

    assert done.returncode == 0
    assert "bake a cake" in done.stdout
    assert "The skills could not be loaded, so this report cannot say" in done.stdout
    assert "Set SKILLS_REPO" in done.stdout


def test_skills_that_cannot_be_had_are_said_and_not_fatal(invoke: Run, tmp_path: Path) -> None:
    file = collect(tmp_path, missed("bake a cake", 3))
    gone = str(tmp_path / "gone")

    done = invoke("report", "--from", str(file), *NOVEMBER, "--skills-dir", gone)

    assert done.returncode == 0
    assert "The skills could not be loaded" in done.stdout
    assert gone in done.stdout


def test_an_empty_record_says_how_to_begin(invoke: Run) -> None:
    done = invoke("report", *CONTENT)

    assert done.returncode == 0
    assert "analytics:\n  enabled: true" in done.stdout


def test_an_empty_record_with_analytics_on_says_that_they_are(invoke: Run, home: Path) -> None:
    write(home / ".skills-mcp" / "config.yaml", "analytics: {enabled: true}\n")

    assert "Analytics are on" in invoke("report", *CONTENT).stdout


def test_a_record_of_other_days_says_of_which(invoke: Run, tmp_path: Path) -> None:
    file = collect(tmp_path, missed("x", 3))

    done = invoke("report", "--from", str(file), "--until", "2026-12-31", *CONTENT)

    assert "the newest of 1 event is from 2026-11-03" in done.stdout


def test_hashed_tasks_are_counted_and_the_setting_is_named(invoke: Run, tmp_path: Path) -> None:
    file = collect(tmp_path, *(missed("hmac-sha256:12", day) for day in (1, 2)))

    done = invoke("report", "--from", str(file), *NOVEMBER, *CONTENT)

    assert "what to write next" not in done.stdout
    assert "not recorded: 2. Different tasks: 1; most frequent: 2." in (
        " ".join(done.stdout.split())
    )
    assert "Set analytics.context: redacted" in done.stdout


def test_an_empty_record_says_so_to_programs_and_on_the_page_too(
    invoke: Run, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"

    done = invoke("report", "--json", "--html", str(page))

    [note] = json.loads(done.stdout)["notes"]
    assert note.startswith("No event: analytics are off.")
    assert "analytics are off" in page.read_text("utf-8")
    assert "No events in these days" in page.read_text("utf-8")


def test_a_record_of_a_newer_version_says_what_was_left_out(invoke: Run, tmp_path: Path) -> None:
    newer = missed("x", 3) | {"type": "skill_rated"}

    done = invoke("report", "--from", str(collect(tmp_path, newer)), *CONTENT)

    assert "Left out: 1 line" in done.stdout


@pytest.mark.usefixtures("month")
def test_a_page_is_written_as_a_whole(invoke: Run, tmp_path: Path) -> None:
    page = write(tmp_path / "report.html", "the page of yesterday")

    done = invoke(
        *("report", "--until", str(LAST_DAY), "--since", f"{DAYS}d", *CONTENT),
        *("--html", str(page)),
    )

    assert done.stdout == f"6,548 events are in {page}\n"
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.glob("*report.html*")) == [page]
    mask = os.umask(0)
    os.umask(mask)
    if sys.platform != "win32":
        assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~mask


def test_a_page_and_json_can_be_had_at_once(invoke: Run, tmp_path: Path) -> None:
    file, page = collect(tmp_path, missed("x", 3)), tmp_path / "report.html"

    done = invoke(
        *("report", "--from", str(file), *NOVEMBER, *CONTENT),
        *("--json", "--html", str(page)),
    )

    assert json.loads(done.stdout)["counts"]["events"] == 1
    assert page.is_file()


def test_a_link_keeps_leading_to_the_newest_page(invoke: Run, tmp_path: Path) -> None:
    file, real = collect(tmp_path, missed("x", 3)), write(tmp_path / "a" / "r.html")
    link = tmp_path / "newest.html"
    link.symlink_to(real)

    invoke("report", "--from", str(file), *NOVEMBER, *CONTENT, "--html", str(link))

    assert link.is_symlink()
    assert "<!DOCTYPE html>" in real.read_text("utf-8")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--html", "gone/report.html"), "there is no folder gone"),
        (("--html", "."), "is a folder"),
        (("--since", "soon"), "neither like 30d or 12w"),
        (("--since", "2026-11-30", "--until", "2026-11-01"), "is after 2026-11-01"),
        (("--until", "30d"), "does not match"),
        (("--from", "gone.jsonl"), "does not exist"),
        (("--from", "."), "no file in it ends in .jsonl"),
    ],
)
def test_wrong_usage_says_what_to_write(
    arguments: tuple[str, ...],
    said: str,
    invoke: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    done = invoke("report", *CONTENT, *arguments)

    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("name", ["x" * 300 + ".html", "circle.html"])
def test_a_page_that_cannot_be_written_is_said(name: str, invoke: Run, tmp_path: Path) -> None:
    (tmp_path / "circle.html").symlink_to("circle.html")

    done = invoke("report", *CONTENT, "--html", str(tmp_path / name))

    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Name another file" in done.stderr


def test_a_disk_that_fails_leaves_the_page_of_yesterday(
    invoke: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = collect(tmp_path, missed("x", 3))
    page = write(tmp_path / "pages" / "report.html", "the page of yesterday")

    def fail(_path: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", fail)
    done = invoke("report", "--from", str(file), *NOVEMBER, *CONTENT, "--html", str(page))

    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert list(page.parent.iterdir()) == [page]
    assert page.read_text() == "the page of yesterday"


def test_what_agents_wrote_gives_no_orders_to_the_terminal(invoke: Run, tmp_path: Path) -> None:
    hostile: dict[str, Any] = missed("\x1b]0;owned\x07 [red]bake[/] \u202e a cake")
    file = collect(tmp_path, hostile)

    done = invoke("report", "--from", str(file), *NOVEMBER, *CONTENT)

    assert "[red]bake[/]" in done.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)


def test_an_empty_record_knows_that_analytics_are_on_without_any_skills(
    invoke: Run, tmp_path: Path
) -> None:
    settings = write(tmp_path / "mine.yaml", "analytics: {enabled: true}")

    done = invoke("report", "--config", str(settings))
    refused = invoke("report", "--config", str(settings), DO_NOT_TRACK="1")

    assert "Analytics are on" in done.stdout
    assert "DO_NOT_TRACK is set here" in refused.stdout


def test_a_database_makes_the_report_over_all_machines(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    commit = "c" * 40
    given = served("ui/auth", 3, commit=commit), missed("write a haiku", 4)
    store = open_event_store(url, tmp_path)
    store.store([parse_received(each) for each in given])
    store.close()

    options = ("report", "--database", url, "--until", "2026-11-30")
    data = json.loads(run(*options, "--around", commit[:6], "--json").stdout)
    printed = run(*options, "--around", commit[:6]).stdout
    config = write(tmp_path / "server.yaml", json.dumps({"events": {"database": url}}))
    server = ("report", "--config", str(config), "--until", "2026-11-30")
    of_server = json.loads(run(*server, "--around", commit[:6], "--json").stdout)

    assert of_server["effect"] == data["effect"]
    assert data["answers"] == {"served": 1, "ambiguous": 0, "no_match": 1}
    assert data["fleet"]["servers"] == 0
    assert data["effect"]["commit"] == commit
    assert "write a haiku" in printed
    assert "Before and after cccccccc" in printed


@pytest.mark.parametrize(
    "options, said",
    [
        (("--around", "c0ffee"), "--around needs a database"),
        (("--database", "sqlite:////no/such.db"), "There is no database /no/such.db"),
        (("--database", "mysql://db/events"), "names a database that is not supported"),
        (("--database", ""), "--database is empty"),
        (("--suggest", *CONTENT, "--database", ""), "--database is empty"),
        (("--database", "postgresql://127.0.0.1:1/x"), "can be reached from here"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(
    invoke: Run, options: tuple[str, ...], said: str
) -> None:
    done = invoke("report", *options)

    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())


def test_figures_are_divided_by_group_or_source(invoke: Run, tmp_path: Path) -> None:
    events = collect(tmp_path, *(served("a", day, group="web") for day in (3, 10, 10)))
    run_by = ("report", "--from", str(events), *NOVEMBER, *CONTENT, "--by")

    done = invoke(*run_by, "group")
    refused = invoke(*run_by, "source")

    assert "Groups" in done.stdout
    assert re.search(r"web +│ +3 │ ▄█··· +│", done.stdout)
    assert "Unmatched tasks" not in done.stdout
    assert refused.returncode == 2
    assert "no server has said which source" in refused.stderr


def test_figures_are_divided_by_commit(invoke: Run, tmp_path: Path) -> None:
    old, new = "a" * 40, "b" * 40
    told = [served("a", 3, commit=old), served("a", 10, commit=new)]
    events = collect(tmp_path, *told, served("a", 11, commit=new))
    run_report = ("report", "--from", str(events), *NOVEMBER, *CONTENT)

    done = invoke(*run_report, "--by", "commit")
    data = json.loads(invoke(*run_report, "--json").stdout)

    assert re.search(rf"{new} +│ +2 ", done.stdout)
    assert [(each["name"], each["answers"]["served"]) for each in data["by_commit"]] == [
        (new, 2),
        (old, 1),
    ]


def test_one_event_is_in_a_page(invoke: Run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    events = collect(tmp_path, missed("x", 3))
    days = ("--since", "2026-11-01", "--until", "2026-11-30")

    done = invoke("report", "--from", str(events), *days, "--html", str(page), *CONTENT)

    assert done.stdout == f"1 event is in {page}\n"
