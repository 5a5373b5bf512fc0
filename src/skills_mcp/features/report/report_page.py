"""A report as one HTML file without scripts, external links or resources.

Macros of the template draw the charts, from positions computed here. A charting library
would bring scripts, fixed colours or a hundred modules for three kinds of rectangles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

from skills_mcp.features.report import report_text
from skills_mcp.features.report.usage_report import (
    Answers,
    Period,
    PeriodAnswers,
    Release,
    Span,
    UsageReport,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template

VISIBLE_ROWS = 10
"""Of a table; the others are folded."""

MAX_ROWS = 200
"""Of a table, folded ones included; the JSON report has all rows."""

_WIDTH = 880.0
_HEIGHT = 240.0
_LEFT = 44.0  # the numbers of the axis
_TOP = 26.0  # the names of releases
_BOTTOM = 26.0  # the days
_MOST_STEP = 64.0  # a bar as wide as the page says no more than a narrow one
_GAP = 0.22  # of a step stays free between two bars

_MAX_LABELS = 8  # of days: more would touch each other
_MOST_RELEASES = 6  # markers: more would hide the bars

_NICE = (1, 2, 3, 4, 5, 6, 8, 10)  # first digits of round numbers


def render_report_page(report: UsageReport, notes: tuple[str, ...]) -> str:
    """Render the page; the template library escapes every text."""
    return _load_template("page.html").render(_compose(report, notes, SkillLinks()))


@dataclass(frozen=True, slots=True)
class SkillLinks:
    """How a page names skills."""

    find_title: Callable[[str], str] = lambda _: ""
    """Title of a path; empty if there is none."""
    base: str = ""
    """URL below which the pages of skills are."""


def render_figures(report: UsageReport, notes: tuple[str, ...], links: SkillLinks) -> str:
    """Render the body for another page; every text is escaped."""
    return _load_template("body.html").render(_compose(report, notes, links))


def render_style() -> str:
    return _load_template("page.css").render()


def open_templates(package: str) -> "Environment":
    """Templates of a package, which escape every text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # late: big

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _load_template(name: str) -> "Template":
    environment = open_templates("skills_mcp.features.report")
    environment.filters |= {
        "thousands": "{:,}".format,
        "share": report_text.describe_share,
        "day": report_text.describe_day,
        "short": report_text.describe_commit,
        "age": report_text.describe_elapsed,
        "ratings": report_text.describe_ratings,
        "change": report_text.describe_part_change,
    }
    return environment.get_template(name)


def _compose(report: UsageReport, notes: tuple[str, ...], links: SkillLinks) -> dict[str, Any]:
    starts = [item.start for item in report.periods]
    doubtful, helpful = report_text.divide_feedback(report)
    return {
        "report": report,
        "notes": notes,
        "links": links,
        "is_long_counted": report_text.is_long_counted(report),
        "shown": VISIBLE_ROWS,
        "most": MAX_ROWS,
        "cards": derive_cards(report),
        "days": Span(report.since, report.until).days,
        "chart": draw_answers(report.periods, report.releases),
        "describe_period": lambda start: describe_period(start, report.period),
        "gaps": report_text.select_gaps(report),
        "unrecorded": report_text.describe_unrecorded(report),
        "doubtful": doubtful,
        "helpful": helpful,
        "helpful_skills": len({item.skill for item in helpful}),
        "scripts": report_text.select_scripts(report),
        "spark": lambda days: sparkline(days, starts),
        "failed": sum(item.failures + item.timeouts for item in report.scripts),
        "runs": sum(item.runs for item in report.scripts),
    }


@dataclass(frozen=True, slots=True)
class Card:
    """A main figure, with the section of its details."""

    kind: str
    figure: str
    text: str
    section: str
    change: str
    """Against the span before; empty if unknown."""


def derive_cards(report: UsageReport) -> tuple[Card, ...]:
    now, before = report.answers, report.before
    old = before.answers if before else Answers(0, 0, 0)
    was = f"{old.tasks:,} before" if before and before.is_complete else ""
    shares = (
        ("served", "served", "skills"),
        ("ambiguous", "ambiguous", "rivalries"),
        ("no_match", "no match", "gaps"),
    )
    return (
        Card(
            "",
            f"{now.tasks:,}",
            "task" if now.tasks == 1 else "tasks",
            "over-time",
            was,
        ),
        *(_derive_card(kind, text, section, now, old) for kind, text, section in shares),
        _derive_rating(report),
    )


def _derive_card(kind: str, text: str, section: str, now: Answers, old: Answers) -> Card:
    part, before = getattr(now, kind), getattr(old, kind)
    change = report_text.describe_change(part, now.tasks, before, old.tasks)
    return Card(kind, report_text.describe_share(part, now.tasks), text, section, change)


def _derive_rating(report: UsageReport) -> Card:
    useful, judged, before = report.useful, report.useful + report.not_useful, report.before
    old = (before.useful, before.useful + before.not_useful) if before else (0, 0)
    text = f"useful, of {judged:,} {'rating' if judged == 1 else 'ratings'}"
    change = report_text.describe_change(useful, judged, *old)
    return Card("good", report_text.describe_share(useful, judged), text, "feedback", change)


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A coloured segment of a bar; `kind` names the colour."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class ChartBar:
    x: float
    width: float
    pieces: tuple[BarPiece, ...]
    period: PeriodAnswers


@dataclass(frozen=True, slots=True)
class ChartLabel:
    """A label on an axis or at a line."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars, axes and lines, in drawing units."""

    width: float
    height: float
    left: float
    top: float
    base: float
    """The y of the bottom of the bars."""
    bars: tuple[ChartBar, ...]
    levels: tuple[ChartLabel, ...]
    days: tuple[ChartLabel, ...]
    releases: tuple[ChartLabel, ...]


def draw_answers(periods: Sequence[PeriodAnswers], releases: Sequence[Release]) -> Chart | None:
    """Bars of answers over time; None if there are none."""
    highest = max((period.answers.tasks for period in periods), default=0)
    if not highest:
        return None
    ceiling = derive_axis_maximum(highest)
    step = min((_WIDTH - _LEFT) / len(periods), _MOST_STEP)
    base = _HEIGHT - _BOTTOM
    scale = (base - _TOP) / ceiling
    bars = tuple(
        _stack(period, _LEFT + (index + _GAP / 2) * step, step * (1 - _GAP), base, scale)
        for index, period in enumerate(periods)
    )
    label_interval = -(-len(periods) // _MAX_LABELS)
    return Chart(
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        top=_TOP,
        base=base,
        bars=bars,
        levels=tuple(
            ChartLabel(round(base - level * scale, 1), f"{level:,}") for level in _levels(ceiling)
        ),
        days=tuple(
            ChartLabel(
                round(bar.x + bar.width / 2, 1),
                f"{bar.period.start.day} {bar.period.start:%b}",
            )
            for bar in bars[::label_interval]
        ),
        releases=_mark_releases(bars, releases),
    )


def derive_axis_maximum(highest: int) -> int:
    """Upper end of an axis: the next round number.

    >>> [derive_axis_maximum(number) for number in (1, 7, 34, 411)]
    [1, 8, 40, 500]
    """
    power = int(10 ** (len(str(highest)) - 1))
    return next(nice * power for nice in _NICE if nice * power >= highest)


def sparkline(days: Sequence[tuple[date, int]], periods: Sequence[date]) -> tuple[float, ...]:
    """Heights of the bars, the highest being 1."""
    counted = dict(days)
    highest = max(counted.values(), default=1)
    return tuple(round(counted.get(period, 0) / highest, 3) for period in periods)


def _stack(period: PeriodAnswers, x: float, width: float, base: float, scale: float) -> ChartBar:
    answers = period.answers
    pieces = []
    for kind in ("served", "ambiguous", "no_match"):
        height = getattr(answers, kind) * scale
        base -= height
        pieces.append(BarPiece(kind, round(base, 2), round(height, 2)))
    return ChartBar(round(x, 2), round(width, 2), tuple(pieces), period)


def _levels(ceiling: int) -> tuple[int, ...]:
    return (0, ceiling // 2, ceiling) if ceiling % 2 == 0 else (0, ceiling)


def _mark_releases(bars: Sequence[ChartBar], releases: Sequence[Release]) -> tuple[ChartLabel, ...]:
    """Positions of new commits; the first commit is not new."""
    new = releases[1:]
    if len(new) > _MOST_RELEASES:
        return ()
    marks = []
    for release in new:
        before = [bar for bar in bars if bar.period.start <= release.first_seen]
        bar = before[-1] if before else bars[0]
        marks.append(ChartLabel(bar.x, report_text.describe_commit(release.commit)))
    return tuple(marks)


def describe_period(start: date, period: Period) -> str:
    match period:
        case "day":
            return f"{start:%a} {start.day} {start:%b %Y}"
        case "week":
            return f"the week of {start.day} {start:%b %Y}"
        case "month":
            return f"{start:%B %Y}"
