"""Whether tasks find the skills that they should: the author's regression test."""

from skills_mcp.authoring.evaluation.comparing import Change, compare
from skills_mcp.authoring.evaluation.measuring import Outcome, measure
from skills_mcp.authoring.evaluation.prompts import (
    Finding,
    Prompt,
    PromptsError,
    check_prompts,
    collect_examples,
    load_prompts,
)
from skills_mcp.authoring.evaluation.scores import Scores, score_outcomes

__all__ = [
    "Change",
    "Finding",
    "Outcome",
    "Prompt",
    "PromptsError",
    "Scores",
    "check_prompts",
    "collect_examples",
    "compare",
    "load_prompts",
    "measure",
    "score_outcomes",
]
