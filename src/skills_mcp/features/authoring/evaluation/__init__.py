"""Routing regression tests: outcome of each prompt, reason of a failure, and scores."""

from skills_mcp.features.authoring.evaluation.outcomes import (
    AnswerChange,
    Outcome,
    RoutingScores,
    diff_outcomes,
    evaluate_snapshot,
    explain_failure,
    score_outcomes,
)
from skills_mcp.features.authoring.evaluation.prompts import (
    Prompt,
    PromptFinding,
    PromptsError,
    check_prompts,
    collect_examples,
    load_prompts,
)
from skills_mcp.features.authoring.evaluation.skill_evals import (
    collect_evals,
    load_tasks,
    resolve_names,
)

__all__ = [
    "AnswerChange",
    "Outcome",
    "Prompt",
    "PromptFinding",
    "PromptsError",
    "RoutingScores",
    "check_prompts",
    "collect_evals",
    "collect_examples",
    "diff_outcomes",
    "evaluate_snapshot",
    "explain_failure",
    "load_prompts",
    "load_tasks",
    "resolve_names",
    "score_outcomes",
]
