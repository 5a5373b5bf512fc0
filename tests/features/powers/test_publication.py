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


def test_a_commit_that_allows_what_it_adds_is_served(
    library: SkillLibrary, upstream: Upstream
) -> None:
    text = _TEXT.format("terraform init\nkubectl apply")
    upstream.commit({"powers.yaml": "allow: [{in: '**', command: true}]", "skills/ui.md": text})

    assert library.sync() is None
    assert "kubectl" in library.view().read_raw("ui")
