"""What the record of events says: what is used, what is missing, what to change."""

from skills_mcp.usage.collected import CollectedError, load_collected
from skills_mcp.usage.notes import Counting, derive_notes, describe_emptiness
from skills_mcp.usage.offer import derive_offer
from skills_mcp.usage.page import render_page
from skills_mcp.usage.reckoning import Offer, Reckoning
from skills_mcp.usage.span import Span, parse_since
from skills_mcp.usage.summary import Report, render_report

__all__ = [
    "CollectedError",
    "Counting",
    "Offer",
    "Reckoning",
    "Report",
    "Span",
    "derive_notes",
    "derive_offer",
    "describe_emptiness",
    "load_collected",
    "parse_since",
    "render_page",
    "render_report",
]
