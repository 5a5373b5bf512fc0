"""Whether tasks find the right skills: the author's regression test of routing."""

from skills_mcp.authoring.evaluation.outcomes import (
    Change,
    Outcome,
    Scores,
    compare,
    give_reason,
    measure,
    score_outcomes,
)
from skills_mcp.authoring.evaluation.prompts import (
    Prompt,
    PromptFinding,
    PromptsError,
    check_prompts,
    collect_examples,
    load_prompts,
)

__all__ = [
    "Change",
    "Outcome",
    "Prompt",
    "PromptFinding",
    "PromptsError",
    "Scores",
    "check_prompts",
    "collect_examples",
    "compare",
    "give_reason",
    "load_prompts",
    "measure",
    "score_outcomes",
]
