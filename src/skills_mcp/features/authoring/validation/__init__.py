"""Validation of skills, before they are served."""

from skills_mcp.features.authoring.validation.repair import FixedFile, fix_findings
from skills_mcp.features.authoring.validation.rule_choice import (
    RuleSelection,
    UnknownRuleError,
    select_rules,
)
from skills_mcp.features.authoring.validation.rules import RULE_LEVELS, RULES
from skills_mcp.features.authoring.validation.validator import (
    Validation,
    validate_paths,
)

__all__ = [
    "RULES",
    "RULE_LEVELS",
    "FixedFile",
    "RuleSelection",
    "UnknownRuleError",
    "Validation",
    "fix_findings",
    "select_rules",
    "validate_paths",
]
