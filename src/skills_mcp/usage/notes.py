"""What a reader has to know before believing a report.  Pure."""

from collections.abc import Iterator
from typing import Literal

from skills_mcp.usage.entries import tidy
from skills_mcp.usage.summary import Report

Counting = Literal["on", "off", "refused"]
"""Whether events are written: the operator's choice, or `DO_NOT_TRACK`."""

_MOST_REASON = 1000  # characters: an error of Git is that long


def derive_notes(report: Report, *, without_skills: str) -> tuple[str, ...]:
    """Return a sentence for everything that is missing, and what to do about it.

    Args:
        report: Of which the notes are.
        without_skills: Why the content could not be had; empty if it could.
    """
    return tuple(_notes(report, tidy(without_skills, _MOST_REASON)))


def describe_emptiness(
    report: Report, counting: Counting, *, is_collected: bool
) -> str:
    """Say why a report has nothing in it, and how that changes.

    Args:
        report: An empty one.
        counting: Whether events are written on this machine.
        is_collected: Whether the events are from files that somebody named.
    """
    counts = report.counts
    if counts.outside and counts.newest:
        return (
            f"No event from {report.since} to {report.until} (UTC): the newest of "
            f"{_count(counts.outside, 'event')} is of {counts.newest}. Choose other "
            "days with --since and --until."
        )
    if is_collected:
        return "There is no event in these files."
    if counting == "refused":
        return "No event: DO_NOT_TRACK is set here, so nothing is counted."
    if counting == "on":
        return (
            "No event yet. Analytics are on: servers that start from now on, or that "
            "have started since, write down what agents ask for."
        )
    return (
        "No event: nothing is counted until you turn it on. Write into config.yaml in "
        "~/.skills-mcp\n\nanalytics:\n  enabled: true\n  context: redacted\n\nand "
        "start your agent again. Tell the people whose work is counted."
    )


def _notes(report: Report, without_skills: str) -> Iterator[str]:
    counts = report.counts
    if counts.untold_tasks:
        yield (
            f"{_count(counts.untold_tasks, 'task')} without a clear answer can only be "
            "told apart, or not even that: analytics.context is hashed or none. Set it "
            "to redacted to read them here from then on."
        )
    if counts.events and without_skills:
        yield (
            "Without the skills this report cannot say which of them were never "
            f"served, or what a task would get today. {without_skills}"
        )
    if counts.events and not report.people:
        yield "People are not told apart: analytics.identity is none."
    if counts.dropped:
        yield (
            f"{_count(counts.dropped, 'event')} were lost: more waited to be sent than "
            "analytics.max_spool_bytes allows, or the disk was full."
        )
    if counts.unreadable:
        yield (
            f"{_count(counts.unreadable, 'line')} left out: no event, or one that this "
            "version does not know."
        )
    if counts.repeated:
        yield f"{_count(counts.repeated, 'event')} came again; each counts once."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
