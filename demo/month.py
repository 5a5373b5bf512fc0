"""A made-up month of events, as a team that asks every day records it.

The same seed makes the same events.  `make demo-report` shows the page that
`skills-mcp report` makes of them.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

from skills_mcp.events.spool import Spool
from skills_mcp.events.tracker import EventType, render_event

CONTENT = Path(__file__).parent.parent / "fixtures" / "skills-content"

DAYS = 30
LAST_DAY = date(2026, 11, 22)
SEED = 7

# The day of each merge, from 0, and its commit.
COMMITS = (
    (0, "3f9d2b7c8a1e4f60b5d9c2a7e8f1034b6c5d7e90"),
    (11, "a41c7e0d95b28f36c4e1d7082b9f5a6e3c0d1b84"),
    (20, "c8072fe6b1d34a95e60f7b2c8d4a19e5f3b06d72"),
)
_KEYWORDS_MERGED, _SCRIPT_MERGED = 1, 2

_WORKDAY_TASKS = 200
_WEEKEND_TASKS = 14
_WORKING_HOURS = (7.0, 17.5)

PEOPLE = tuple(f"dev-{number * 2654435761 % 2**48:012x}" for number in range(1, 24))

# A task, the skill that serves it, and what it matched by.
_SERVED = (
    ("add a retry with backoff to the tracking client", "api/go/timeouts", "retry"),
    ("write a migration that adds a column", "data/postgres/migrations", "migration"),
    ("login page in React shows no session", "ui/react/auth", "login"),
    ("paginate the list of parcels", "api/pagination", "paginate"),
    ("build a form with validation for new depots", "ui/react/forms", "forms"),
    ("error response when a parcel is unknown", "api/errors", "error"),
    ("consumer commits its offset too early", "data/kafka/consumers", "offset"),
    (
        "roll out the routing service with a canary",
        "infra/kubernetes/rollout",
        "canary",
    ),
    ("slow query over the parcels table", "data/postgres/slow-queries", "slow"),
    ("test the address form with msw", "ui/react/testing", "testing"),
    (
        "cache of useParcels is stale after a mutation",
        "ui/react/data-fetching",
        "cache",
    ),
    ("contrast of the status badge", "ui/accessibility/_index", "contrast"),
    ("rotate the carrier password", "security/secrets", "rotate"),
    ("partition key for the scan topic", "data/kafka/_index", "partition"),
)
_SERVED_WEIGHTS = (16, 14, 13, 11, 10, 9, 7, 6, 5, 5, 4, 2, 2, 2)

# A task that is ambiguous, its two skills, and the keywords of each.
_AMBIGUOUS = (
    (
        "require authentication",
        ("api/auth", "ui/react/auth"),
        ("auth",),
        ("auth",),
        0.7,
    ),
    ("fix the auth", ("api/auth", "ui/react/auth"), ("auth",), ("auth",), 0.7),
    (
        "add a React page",
        ("ui/react/_index", "ui/react/auth"),
        ("react", "component"),
        ("react",),
        0.5,
    ),
)
# Until its keywords were repaired.
_SETTLED = (
    "retry a call that times out",
    ("api/go/timeouts", "ui/react/data-fetching"),
    ("timeout", "retry"),
    ("fetch", "retry"),
    0.8,
)

# Until the skill was written.
_WRITTEN = ("choose the memory limit of a pod", 11)

_UNSERVED = (
    ("translate the settings page into German", 16),
    ("into German: translate the settings page!", 5),
    ("send a push notification to the driver app", 13),
    ("write a Gherkin scenario", 9),
    ("generate a PDF label for a parcel", 8),
    _WRITTEN,
    ("estimate the tickets of the sprint", 4),
    ("draw the architecture as a diagram", 3),
    ("bake a cake for the release party", 1),
)

_NEAR_TASKS = {_WRITTEN[0]: ["infra/kubernetes/rollout"]}

_COMPLAINTS = (
    "The schema example uses an API that the library no longer has.",
    "Says nothing about forms with several steps.",
    "I had to look up the validation messages myself.",
)
_PRAISE = ("Exactly what I needed.", "The checklist caught a missing lock.", None, None)


@dataclass(frozen=True, slots=True)
class _Call:
    """A person's call of a tool."""

    moment: datetime
    person: str

    def later(self, seconds: float) -> "_Call":
        """Return a later call of the same task."""
        return _Call(self.moment + timedelta(seconds=seconds), self.person)


@dataclass
class _Month:
    """The events of the month, while they are made."""

    chance: random.Random
    first_day: date
    events: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: EventType, call: _Call, **data: Any) -> None:
        """Record an event."""
        self.events.append(
            render_event(
                kind,
                call.moment,
                call.person,
                data,
                event_id=uuid.UUID(int=self.chance.getrandbits(128), version=4).hex,
                content_commit=COMMITS[self.release_at(call)][1],
            )
        )

    def release_at(self, call: _Call) -> int:
        """Return the index of the served commit."""
        day = (call.moment.date() - self.first_day).days
        return sum(merged <= day for merged, _ in COMMITS) - 1

    def moment(self, day: date) -> datetime:
        """Return a random time of a working day."""
        hour = self.chance.uniform(*_WORKING_HOURS)
        return datetime.combine(day, time(), UTC) + timedelta(hours=hour)


def simulate(seed: int = SEED, last_day: date = LAST_DAY) -> list[dict[str, Any]]:
    """Return the events of a month, in the order of time."""
    chance = random.Random(seed)  # noqa: S311 - nothing is protected by it
    month = _Month(chance, last_day - timedelta(days=DAYS - 1))
    for number in range(DAYS):
        day = month.first_day + timedelta(days=number)
        is_weekend = day.weekday() in (5, 6)
        mean = _WEEKEND_TASKS if is_weekend else _WORKDAY_TASKS
        for _ in range(round(chance.gauss(mean, mean / 10))):
            _ask(month, _Call(month.moment(day), chance.choice(PEOPLE)))
    return sorted(month.events, key=itemgetter("timestamp"))


def _ask(month: _Month, call: _Call) -> None:
    """Let a person ask for a task; the answer is one of three."""
    match month.chance.choices(("served", "ambiguous", "no match"), (80, 12, 8))[0]:
        case "served":
            task, path, word = month.chance.choices(_SERVED, _SERVED_WEIGHTS)[0]
            _serve(month, call, task, path, word)
        case "ambiguous":
            _hesitate(month, call)
        case _:
            _miss(month, call)


def _miss(month: _Month, call: _Call) -> None:
    """Let a task match no skill, unless its skill has been written."""
    tasks, weights = zip(*_UNSERVED, strict=True)
    [task] = month.chance.choices(tasks, weights)
    if task == _WRITTEN[0] and month.release_at(call) >= _KEYWORDS_MERGED:
        _serve(month, call, task, "infra/kubernetes/resources", "memory")
    else:
        near = _NEAR_TASKS.get(task, [])
        month.add("no_match", call, context=task, near=near)


def _hesitate(month: _Month, call: _Call) -> None:
    """Let an answer be ambiguous; mostly the agent picks one of its skills."""
    is_repaired = month.release_at(call) >= _KEYWORDS_MERGED
    chosen = month.chance.choice((*_AMBIGUOUS, _SETTLED, _SETTLED))
    task, paths, *matched, first_share = chosen
    if chosen is _SETTLED and is_repaired:
        _serve(month, call, task, paths[0], "timeout")
        return
    month.add(
        "ambiguous",
        call,
        context=task,
        candidates=list(paths),
        matched_keywords=list(map(list, matched)),
    )
    if month.chance.random() < 0.85:  # noqa: PLR2004 - the others give up
        path = paths[month.chance.random() > first_share]
        later = call.later(month.chance.uniform(2, 20))
        _serve(month, later, task, path, was_ambiguous=True)


def _serve(  # noqa: PLR0913 - what a skill that is served is made of
    month: _Month,
    call: _Call,
    task: str,
    path: str,
    word: str = "auth",
    *,
    was_ambiguous: bool = False,
) -> None:
    """Let a skill be served, and be used."""
    month.add(
        "skill_served",
        call,
        context=task,
        skill_path=path,
        score=round(month.chance.uniform(0.3, 0.9), 2),
        matched_keywords=[word],
        was_ambiguous=was_ambiguous,
        unchanged=month.chance.random() < 0.15,  # noqa: PLR2004 - seen before
    )
    for _ in range(month.chance.choice((0, 0, 0, 1))):
        month.add(
            "asset_served",
            call.later(9),
            skill_path=path,
            file="assets/checklist.md",
            asset_type="example",
            is_inherited=False,
            size_bytes=1_204,
        )
    _run(month, call.later(40), path)
    _judge(month, call.later(360), path)
    if month.chance.random() < 0.01:  # noqa: PLR2004 - after a merge
        month.add(
            "refresh",
            call,
            mode="git",
            success=month.chance.random() < 0.9,  # noqa: PLR2004 - or no network
            commit_hash=COMMITS[month.release_at(call)][1],
            files_changed=3,
            skills_reindexed=27,
        )


def _run(month: _Month, call: _Call, path: str) -> None:
    """Let the scripts of some skills run; a commit breaks one of them."""
    scripts = {
        "data/postgres/migrations": "scripts/check-migration.sh",
        "api/pagination": "scripts/decode-cursor.js",
        "ui/react/auth": "scripts/validate-auth-config.py",
    }
    if path not in scripts or month.chance.random() > 0.4:  # noqa: PLR2004 - seldom
        return
    is_slow = path == "api/pagination" and month.chance.random() < 0.06  # noqa: PLR2004
    is_broken = path.startswith("data") and month.release_at(call) >= _SCRIPT_MERGED
    success = not is_slow and month.chance.random() > (0.8 if is_broken else 0.03)
    month.add(
        "script_executed",
        call,
        skill_path=path,
        file=scripts[path],
        execution_mode="server",
        success=success,
        exit_code=0 if success else 137 if is_slow else 2,
        duration_ms=30_000 if is_slow else round(month.chance.uniform(40, 400)),
        args_provided=["file"],
        timed_out=is_slow,
        sandbox="bwrap",
    )


def _judge(month: _Month, call: _Call, path: str) -> None:
    """Let agents give feedback; a commit improves the skill about forms."""
    if month.chance.random() > 0.12:  # noqa: PLR2004 - most agents say nothing
        return
    is_repaired = month.release_at(call) >= _KEYWORDS_MERGED
    odds = 0.3 if path == "ui/react/forms" and not is_repaired else 0.93
    useful = month.chance.random() < odds
    words = _PRAISE if useful else _COMPLAINTS if path.endswith("forms") else (None,)
    month.add(
        "skill_feedback",
        call,
        skill_path=path,
        useful=useful,
        comment=month.chance.choice(words),
    )


def write_month(home: Path, events: list[dict[str, Any]]) -> None:
    """Write events into the spool of a home folder, as a server does."""
    spool = Spool(home / "spool")
    for event in events:
        spool.append(json.dumps(event, ensure_ascii=False))
    spool.rotate()


def write_lines(file: Path, events: list[dict[str, Any]]) -> None:
    """Write events into a file, as a receiver does."""
    file.write_text(
        "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events), "utf-8"
    )


def main() -> None:
    """Write a month of events, and the report about it as a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="an empty folder")
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="skills-mcp-"))
    write_month(folder, simulate())
    page = folder / "report.html"
    command = [sys.executable, "-m", "skills_mcp", "report", "--html", str(page)]
    days = ["--since", f"{DAYS}d", "--until", LAST_DAY.isoformat()]
    variables = os.environ | {"SKILLS_MCP_HOME": str(folder)}
    subprocess.run([*command, *days, "--skills-dir", str(CONTENT)], check=True, env=variables)


if __name__ == "__main__":
    main()
