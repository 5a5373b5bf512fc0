"""What an author should repair before a skill is served."""

from skills_mcp.authoring.validation.rules import LEVELS
from skills_mcp.authoring.validation.validator import Validation, validate

__all__ = ["LEVELS", "Validation", "validate"]
