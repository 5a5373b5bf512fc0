"""Whether tasks find the right skills: the author's regression test of routing."""

from skills_mcp.features.authoring.evaluation.outcomes import (
    Change,
    Outcome,
    Scores,
    compare,
    give_reason,
    measure_snapshot,
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
    "Change",
    "Outcome",
    "Prompt",
    "PromptFinding",
    "PromptsError",
    "Scores",
    "check_prompts",
    "collect_evals",
    "collect_examples",
    "compare",
    "give_reason",
    "load_prompts",
    "load_tasks",
    "measure_snapshot",
    "resolve_names",
    "score_outcomes",
]
