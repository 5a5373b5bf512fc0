"""Usage reports from recorded events, and suggested changes to skills."""

from skills_mcp.features.report.aggregation import Aggregation
from skills_mcp.features.report.event_rows import EventFilesError, load_event_files
from skills_mcp.features.report.figure_queries import CurrentSkills, derive_current_skills
from skills_mcp.features.report.report_page import render_report_page
from skills_mcp.features.report.report_text import (
    RecordingState,
    derive_report_notes,
    describe_empty_report,
)
from skills_mcp.features.report.usage_report import (
    Span,
    UsageReport,
    parse_since,
    render_report,
)

__all__ = [
    "Aggregation",
    "CurrentSkills",
    "EventFilesError",
    "RecordingState",
    "Span",
    "UsageReport",
    "derive_current_skills",
    "derive_report_notes",
    "describe_empty_report",
    "load_event_files",
    "parse_since",
    "render_report",
    "render_report_page",
]
