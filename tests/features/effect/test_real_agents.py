"""Agents that are installed on this machine, against a stand-in for their models.

npm has them: `npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex`, and
`FOLDER/node_modules/.bin` on the PATH.
"""

import json
import shutil
from pathlib import Path

import pytest

from skills_mcp.features.effect.evidence import read_results
from tests.cli.conftest import Run
from tests.features.effect.conftest import expect, write_case
from tests.features.effect.model import serving_model
from tests.support import git, write, write_skill

CODEX = """
model = "m"
model_provider = "standin"
[model_providers.standin]
name = "standin"
base_url = "{url}/v1"
wire_api = "responses"
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("via", ["native", "mcp"])
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_agent_gets_each_arm(
    agent: str, via: str, tmp_path: Path, invoke: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(agent) is None:
        pytest.skip(f"{agent} is not installed")
    folder = tmp_path / "skills"
    write_skill(folder, "team/_index.md", keywords=["team"], body="Be kind.")
    words = {"description": "the magic ritual", "keywords": ["ritual"]}
    write_skill(folder, "team/ritual.md", **words, body="WRITE a.txt wrong")
    write_case(folder, "team/ritual", expect("a.txt", "right", "do the magic ritual"))
    git("init", "-q", cwd=folder)
    git("add", ".", cwd=folder)
    git("commit", "-qm", "one", cwd=folder)
    write_skill(folder, "team/ritual.md", **words, body="WRITE a.txt right")

    with serving_model() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-stand-in")
        named = ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]
        if agent == "codex":
            named = [str(write(Path.home() / ".codex/config.toml", CODEX.format(url=url)))]
        credentials = [word for name in named for word in ("--credential", name)]
        options = ["--via", via, "--baseline", "HEAD", "--repetitions", "1", "--json"]
        words_of_call = ["--agent", agent, *credentials, *options, "--skills-dir", str(folder)]
        done = invoke("effect", *words_of_call)

    (skill,) = json.loads(done.stdout)["skills"]
    passed = {name: arm["passed"] for name, arm in skill["arms"].items()}
    assert passed == {"without": 0, "with": 1, "inherited": 0, "before": 0}
    assert skill["arms"]["with"]["tokens"] >= 220
    assert {result.version != "" for result in read_results(folder)} == {True}
