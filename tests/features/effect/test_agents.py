"""Known agents: their command lines, and what their output says."""

import json
from collections.abc import Sequence

import pytest

from skills_mcp.features.effect.agents import AgentOutput, choose_agent, parse_output

CLAUDE = [
    {"type": "system", "subtype": "init", "model": "opus"},
    {"type": "assistant", "message": {"content": []}},
    {
        "type": "result",
        "result": "done",
        "is_error": False,
        "num_turns": 3,
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 1, "cache_read_input_tokens": 20, "output_tokens": 300},
    },
]
CODEX = [
    {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
    {"type": "item.completed", "item": {"type": "command_execution"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
    {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 10}},
]
OPENCODE = [
    {"type": "text", "part": {"text": "done"}},
    {"type": "step_finish", "part": {"cost": 0.5, "tokens": {"input": 7, "output": 2}}},
    {"type": "step_finish", "part": {"cost": 0.5, "tokens": {"input": 1, "output": 0}}},
]
MODELS = {"pro": {"tokens": {"total": 5}, "api": {"totalRequests": 2}}}
GEMINI = {"response": "done", "stats": {"models": {**MODELS, "flash": MODELS["pro"]}}}


def lines(events: Sequence[object]) -> str:
    return "\n".join(["a notice", *map(json.dumps, events)])


OUTPUTS = {
    "claude": (
        lines(CLAUDE),
        AgentOutput(text="done", cost=0.25, tokens=321, turns=3, model="opus"),
    ),
    "codex": (lines(CODEX), AgentOutput(text="done", tokens=110, turns=2)),
    "gemini": (
        f"a notice\n{json.dumps(GEMINI, indent=2)}",
        AgentOutput(text="done", tokens=10, turns=4),
    ),
    "opencode": (lines(OPENCODE), AgentOutput(text="done", cost=1.0, tokens=10, turns=2)),
    "my-agent": (
        'a notice\n{"result": "done", "cost": 1, "usage": {"input_tokens": 2}}',
        AgentOutput(text="done", cost=1.0, tokens=2),
    ),
    "another": ("only text", AgentOutput(text="only text")),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_an_agent_has_used_is_read_from_its_output(name: str) -> None:
    output, expected = OUTPUTS[name]

    assert parse_output(output, name) == expected


def test_an_agent_that_has_failed_says_why() -> None:
    faults = {
        "claude": {"type": "result", "is_error": True, "result": "no key"},
        "codex": {"type": "turn.failed", "error": {"message": "no key"}},
        "gemini": {"error": {"message": "no key"}},
        "opencode": {"type": "error", "error": {"data": {"message": "no key"}}},
    }

    found = {parse_output(json.dumps(event), name).fault for name, event in faults.items()}

    assert found == {"no key"}
    assert {parse_output("", name).fault for name in faults} == {"it printed no answer"}


def test_a_limit_of_turns_is_a_failed_run_and_no_fault() -> None:
    result = {"type": "result", "subtype": "error_max_turns", "is_error": True, "num_turns": 9}

    assert parse_output(json.dumps(result), "claude").fault == ""


def test_options_stand_in_front_of_the_task() -> None:
    agent = choose_agent("claude", None, "opus")

    words = agent.command_line("Do it", ("--mcp-config", "x"))

    assert words[:5] == ("claude", "--model", "opus", "--mcp-config", "x")
    assert words[-2:] == ("-p", "Do it")


def test_a_known_agent_may_have_other_words() -> None:
    agent = choose_agent("codex", "nice codex exec {prompt}", "")

    assert agent.name == "codex"
    assert agent.command_line("Do it") == ("nice", "codex", "exec", "Do it")
