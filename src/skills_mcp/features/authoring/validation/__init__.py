"""What an author should repair before a skill is served."""

from skills_mcp.features.authoring.validation.repair import Repair, repair
from skills_mcp.features.authoring.validation.rule_choice import (
    RuleChoice,
    UnknownRuleError,
    choose_rules,
)
from skills_mcp.features.authoring.validation.rules import LEVELS, RULES
from skills_mcp.features.authoring.validation.validator import Validation, validate

__all__ = [
    "LEVELS",
    "RULES",
    "Repair",
    "RuleChoice",
    "UnknownRuleError",
    "Validation",
    "choose_rules",
    "repair",
    "validate",
]
