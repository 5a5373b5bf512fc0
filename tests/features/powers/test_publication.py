"""`sync.powers: enforce`: what a commit may not exceed."""

import json
from pathlib import Path

import pytest

from skills_mcp.bootstrap import Options, build
from skills_mcp.errors import PowersExceededError
from skills_mcp.library import SkillLibrary
from tests.support import Upstream, skill_text, write

_POWERS = "allow: [{in: ui, command: [terraform]}]"
_TEXT = skill_text(body="```sh\n{}\n```\n")


@pytest.fixture
def library(upstream: Upstream, tmp_path: Path) -> SkillLibrary:
    """A library that serves what is allowed."""
    write(tmp_path / "home" / "config.yaml", json.dumps({"sync": {"powers": "enforce"}}))
    upstream.commit({"powers.yaml": _POWERS, "skills/ui.md": _TEXT.format("terraform init")})
    library = build(Options(repo=upstream.url), {"SKILLS_MCP_HOME": str(tmp_path / "home")}).library
    library.sync()
    return library


@pytest.mark.parametrize(
    "change, said",
    [
        ({"skills/ui.md": _TEXT.format("terraform init\nkubectl apply")}, "command, kubectl"),
        ({"powers.yaml": None}, "no powers.yaml"),
        ({"powers.yaml": "allow: 3"}, "one list"),
    ],
    ids=["a new power", "no file", "a broken file"],
)
def test_a_commit_beyond_its_powers_is_refused_and_the_last_one_stays(
    library: SkillLibrary, upstream: Upstream, change: dict[str, str | None], said: str
) -> None:
    served = library.view().revision
    upstream.commit(change)

    with pytest.raises(PowersExceededError, match=said):
        library.sync()

    assert library.view().revision == served
    assert "kubectl" not in library.view().read_raw("ui")


def test_rules_of_a_folder_that_is_not_offered_count_where_they_reach_a_skill(
    upstream: Upstream, tmp_path: Path
) -> None:
    settings = {"sync": {"powers": "enforce"}, "visibility": {"allow": ["ui"]}}
    write(tmp_path / "home" / "config.yaml", json.dumps(settings))
    upstream.commit({"powers.yaml": _POWERS, "skills/ui.md": _TEXT.format("terraform init")})
    library = build(Options(repo=upstream.url), {"SKILLS_MCP_HOME": str(tmp_path / "home")}).library
    library.sync()
    upstream.commit({"skills/_root.md": _TEXT.format("kubectl apply")})

    with pytest.raises(PowersExceededError, match="_root has the power command, kubectl"):
        library.sync()


@pytest.mark.parametrize("subfolder", ["", "plugins/forms"])
def test_a_file_of_the_plugin_that_a_skill_names_counts(
    upstream: Upstream, tmp_path: Path, subfolder: str
) -> None:
    source = {"repo": upstream.url, "subfolder": subfolder}
    settings = {"sync": {"powers": "enforce"}, "sources": [source]}
    write(tmp_path / "home" / "config.yaml", json.dumps(settings))
    text = "---\nname: pdf\ndescription: Fills forms.\n---\nRun ${CLAUDE_PLUGIN_ROOT}/run.sh.\n"
    files = {"powers.yaml": _POWERS, f"{subfolder}/powers.yaml".lstrip("/"): _POWERS}
    folder = "plugins/forms"
    files |= {f"{folder}/.claude-plugin/plugin.json": "{}", f"{folder}/skills/pdf/SKILL.md": text}
    upstream.commit(files | {f"{folder}/run.sh": "kubectl apply\n"})
    library = build(Options(), {"SKILLS_MCP_HOME": str(tmp_path / "home")}).library

    with pytest.raises(PowersExceededError, match="pdf has the power command, kubectl"):
        library.sync()


def test_a_commit_that_allows_what_it_adds_is_served(
    library: SkillLibrary, upstream: Upstream
) -> None:
    text = _TEXT.format("terraform init\nkubectl apply")
    upstream.commit({"powers.yaml": "allow: [{in: '**', command: true}]", "skills/ui.md": text})

    assert library.sync() is None
    assert "kubectl" in library.view().read_raw("ui")
