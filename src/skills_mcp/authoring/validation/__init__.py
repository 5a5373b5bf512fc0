"""What an author should repair before anybody is served."""

from skills_mcp.authoring.validation.checking import Report, validate
from skills_mcp.authoring.validation.rules import LEVELS
from skills_mcp.authoring.validation.verdict import Validation

__all__ = ["LEVELS", "Report", "Validation", "validate"]
