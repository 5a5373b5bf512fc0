"""`validate --overlap`: pairs of skills that an ordinary task cannot tell apart."""

import json
from pathlib import Path

import pytest

from skills_mcp.features.authoring.skill_overlap import find_overlaps, find_rivals
from skills_mcp.features.authoring.validation import load_tree
from skills_mcp.skills.model import SkillPath
from tests.cli.conftest import Run
from tests.packages import write_package

REMINDERS = "Send reminders of unpaid invoices; write invoices for customers. Use it for dunning."
BILLS = "Write invoices for customers; send unpaid invoices again. Use it for bookkeeping."
SKILLS = {
    "reminders": REMINDERS,
    "billing": BILLS,
    "aws-costs": "Reduce the costs of unused machines",
    "azure-costs": "Reduce the costs of unused machines",
    "pdf-forms": "Fill in the forms of PDF documents",
}


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, description in SKILLS.items():
        write_package(tmp_path, f"skills/{name}", description=description, body="Do it.")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_pair_has_what_competes_and_the_words_that_part_it(content: Path) -> None:
    snapshot = load_tree(content).snapshot

    [pair] = find_overlaps(snapshot)

    assert find_rivals(snapshot, snapshot.index.require("reminders"), 4) == (pair,)
    own, other = pair.seen_from(SkillPath("reminders"))
    assert (own.path, other.path) == ("reminders", "billing")
    assert "write invoices for customers" in own.phrases
    assert "send unpaid invoices again" in other.phrases
    assert "dunning" in own.parting_words
    assert "bookkeeping" in other.parting_words


def test_one_finding_stands_for_a_pair_if_it_is_asked_for(invoke: Run, content: Path) -> None:
    usual = invoke("validate", "skills")
    found = json.loads(invoke("validate", "skills", "--overlap", "--json").stdout)
    elsewhere = invoke("validate", "skills/pdf-forms", "--overlap")

    assert content.is_dir()
    assert "skill-overlap" not in usual.stdout
    [problem] = [each for each in found["problems"] if each["rule"] == "skill-overlap"]
    assert (problem["file"], problem["line"]) == (str(Path("skills/billing/SKILL.md")), 3)
    assert problem["reason"].startswith("shares tasks with reminders (overlap 0.")
    assert "skill-overlap" not in elsewhere.stdout


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize(
    "options, code",
    [
        (["--overlap"], 0),
        (["--overlap", "--strict"], 1),
        (["--max-overlaps", "1", "--strict"], 0),
        (["--max-overlaps", "0"], 1),
        (["--max-overlaps", "0", "--ignore", "skill-overlap"], 0),
    ],
)
def test_more_pairs_than_the_budget_fail(invoke: Run, options: list[str], code: int) -> None:
    assert invoke("validate", "skills", "--ignore", "no-use-when", *options).returncode == code
