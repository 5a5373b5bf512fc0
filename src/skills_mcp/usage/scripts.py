"""Which scripts fail or run out of time, and since which commit.  Pure."""

from array import array
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from statistics import median

from skills_mcp.usage.entries import Entry
from skills_mcp.usage.skills import Seen
from skills_mcp.usage.summary import ScriptUse

_BROKEN = 0.5  # of the runs: a script that fails less often may have a reason


@dataclass(slots=True)
class _Ran:
    """How one state of a script ran."""

    runs: int = 0
    failures: int = 0
    timeouts: int = 0
    cancelled: int = 0
    durations: "array[int]" = field(default_factory=lambda: array("q"))
    seen: Seen = field(default_factory=Seen)


class ScriptRuns:
    """How scripts and commands ran, commit by commit."""

    def __init__(self) -> None:
        self._ran: defaultdict[tuple[str, str, str], _Ran] = defaultdict(_Ran)

    def add(self, entry: Entry) -> None:
        """Count a run."""
        ran = self._ran[entry.text("skill_path"), entry.text("file"), entry.commit]
        ran.seen.add(entry.moment)
        ran.runs += 1
        if entry.is_set("timed_out"):
            ran.timeouts += 1
        elif not entry.is_set("success"):
            is_cancelled = "exit_code" in entry.data and entry.data["exit_code"] is None
            ran.cancelled += is_cancelled
            ran.failures += not is_cancelled
        if (duration := entry.number("duration_ms")) is not None:
            ran.durations.append(duration)

    def derive(self) -> tuple[ScriptUse, ...]:
        """Return them, those with most failures first, and each script's in time."""
        order = sorted(
            self._ran.items(), key=lambda item: (item[0][:2], item[1].seen.first)
        )
        uses = [_use(*key, ran) for key, ran in order]
        scripts = [
            _mark_break(list(each))
            for _, each in groupby(uses, key=lambda use: (use.skill, use.file))
        ]
        scripts.sort(key=lambda each: -sum(use.failures + use.timeouts for use in each))
        return tuple(use for each in scripts for use in each)


def _use(skill: str, file: str, commit: str, ran: _Ran) -> ScriptUse:
    return ScriptUse(
        skill=skill,
        file=file,
        commit=commit,
        runs=ran.runs,
        failures=ran.failures,
        timeouts=ran.timeouts,
        cancelled=ran.cancelled,
        median_ms=round(median(ran.durations)) if ran.durations else None,
        first_seen=ran.seen.first.date(),
        is_broken_since=False,
    )


def _mark_break(uses: list[ScriptUse]) -> list[ScriptUse]:
    """Mark the first of the newest commits that all fail."""
    broken = len(list(takewhile(_is_broken, reversed(uses))))
    if broken:
        uses[-broken] = replace(uses[-broken], is_broken_since=True)
    return uses


def _is_broken(use: ScriptUse) -> bool:
    failed = use.failures + use.timeouts
    return 0 < failed >= _BROKEN * (use.runs - use.cancelled)
