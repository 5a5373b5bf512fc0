"""A report as one file for a browser: no script, no address, nothing to fetch."""

from functools import cache
from typing import TYPE_CHECKING, Any

from skills_mcp.usage.charts import describe_period, draw_answers, sparkline
from skills_mcp.usage.excerpts import (
    describe_commit,
    describe_day,
    describe_share,
    describe_untold,
    pick_feedback,
    pick_gaps,
    pick_scripts,
)
from skills_mcp.usage.span import Span
from skills_mcp.usage.summary import Report

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 40
"""Of a table: nobody reads on, and JSON has them all."""


def render_page(report: Report, notes: tuple[str, ...]) -> str:
    """Return the page; every text in it is escaped by the template library."""
    return _load_template().render(_compose(report, notes))


@cache
def _load_template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # late: big

    environment = Environment(
        loader=PackageLoader("skills_mcp.usage"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "thousands": "{:,}".format,
        "share": describe_share,
        "day": describe_day,
        "short": describe_commit,
    }
    return environment.get_template("page.html")


def _compose(report: Report, notes: tuple[str, ...]) -> dict[str, Any]:
    starts = [each.start for each in report.periods]
    return {
        "report": report,
        "notes": notes,
        "most": MOST_ROWS,
        "days": Span(report.since, report.until).days,
        "chart": draw_answers(report.periods, report.releases),
        "describe_period": lambda start: describe_period(start, report.period),
        "gaps": pick_gaps(report),
        "untold": describe_untold(report),
        "feedback": pick_feedback(report),
        "scripts": pick_scripts(report),
        "spark": lambda rivalry: sparkline(rivalry.days, starts),
        "useful": sum(each.useful for each in report.feedback),
        "judged": sum(each.useful + each.not_useful for each in report.feedback),
        "failed": sum(each.failures + each.timeouts for each in report.scripts),
        "runs": sum(each.runs for each in report.scripts),
    }
