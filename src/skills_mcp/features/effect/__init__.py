"""Does a skill help?  Runs of agents with it and without it, and what came out.

Rule: this feature imports no other but `export`, so that the tests of routing,
`validate`, the report and the pages can read cases and evidence.
"""

EVAL_RESULTS = "evals/results.jsonl"
