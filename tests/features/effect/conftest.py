"""Skills, cases and a scripted agent: a program that follows the text that it gets."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, invoke, run
from tests.support import write, write_skill

__all__ = ["invoke", "run"]

AGENT = """
import json, pathlib, sys

prompt = sys.argv[-1]
texts = sorted(pathlib.Path(".agents/skills").glob("*/SKILL.md"))
told = prompt + "".join(text.read_text() for text in texts)
for line in told.splitlines():
    word, _, rest = line.partition(" ")
    name, _, content = rest.partition(" ")
    if word == "WRITE":
        pathlib.Path(name).write_text(content)
    if word == "DELETE":
        pathlib.Path(name).unlink(missing_ok=True)
print(json.dumps({"result": "done", "total_cost_usd": 0.01, "num_turns": 2, "tokens": 100}))
"""

Effect = Callable[..., Any]


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """Words of a command: the agent follows lines such as `WRITE file text`."""
    return program(tmp_path, AGENT)


def program(folder: Path, text: str, name: str = "agent.py") -> str:
    file = write(folder / "programs" / name, text)
    return f"{shlex.join([sys.executable, str(file)])} {{prompt}}"


def readable(folder: Path) -> tuple[str, ...]:
    return "--read", str(folder / "programs")


def write_case(skills: Path, skill: str, *entries: Mapping[str, Any]) -> Path:
    return write(skills / skill / "evals/cases.yaml", json.dumps(entries))


def expect(file: str, text: str, prompt: str = "Do it", **fields: Any) -> dict[str, Any]:
    return {"prompt": prompt, "checks": [{"file": file, "contains": text}], **fields}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """Skills that help, change nothing, harm, inherit everything, and are not needed."""
    folder = tmp_path / "skills"
    write_skill(folder, "helps.md", body="WRITE a.txt right")
    write_case(folder, "helps", expect("a.txt", "right"), expect("a.txt", "right", "Again"))
    write_skill(folder, "nothing.md", body="Be kind.")
    given: dict[str, Any] = {"files": {"b.txt": "right"}}
    write_case(folder, "nothing", expect("a.txt", "right"), expect("b.txt", "right", **given))
    write_skill(folder, "harms.md", body="DELETE b.txt")
    write_case(
        folder, "harms", expect("b.txt", "right", **given), expect("b.txt", "ri", "2", **given)
    )
    write_skill(folder, "rules/_index.md", body="WRITE a.txt right")
    write_skill(folder, "rules/inherits.md", body="Be kind.")
    write_case(folder, "rules/inherits", expect("a.txt", "right"), expect("a.txt", "ri", "2"))
    write_skill(folder, "fluent.md", body="Be kind.")
    write_case(
        folder, "fluent", expect("b.txt", "right", **given), expect("b.txt", "ri", "2", **given)
    )
    return folder


@pytest.fixture
def effect(invoke: Run, tmp_path: Path, agent: str) -> Effect:
    """Run the command over the skills with the scripted agent; give its JSON."""

    def run_effect(*words: str, command: str = agent, skills: Path = tmp_path / "skills") -> Any:
        options = ("--command", command, *readable(tmp_path), "--json")
        done = invoke("effect", *words, *options, "--skills-dir", str(skills))
        if not done.stdout.startswith("{"):
            pytest.fail(f"{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout) | {"exit_code": done.returncode, "stderr": done.stderr}

    return run_effect
