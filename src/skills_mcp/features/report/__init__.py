"""What the recorded events say: what agents use, what is missing, what to change."""

from skills_mcp.features.report.aggregation import (
    Aggregation,
    CurrentSkills,
    derive_current_skills,
)
from skills_mcp.features.report.report_page import render_page
from skills_mcp.features.report.report_text import (
    Counting,
    derive_notes,
    describe_emptiness,
)
from skills_mcp.features.report.usage_report import (
    Span,
    UsageReport,
    parse_since,
    render_report,
)
from skills_mcp.features.report.usage_rows import EventFilesError, load_event_files

__all__ = [
    "Aggregation",
    "Counting",
    "CurrentSkills",
    "EventFilesError",
    "Span",
    "UsageReport",
    "derive_current_skills",
    "derive_notes",
    "describe_emptiness",
    "load_event_files",
    "parse_since",
    "render_page",
    "render_report",
]
