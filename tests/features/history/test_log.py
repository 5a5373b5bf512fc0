"""`skills-mcp log`: who changed what agents get of a skill, and in which pull request."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.content.git.test_signatures import make_key
from tests.support import Upstream, git, skill_text, write


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """Two pull requests: one of a rule that was inherited once, one of the skill."""
    made = Upstream.create(tmp_path)
    rule = skill_text(body="Old rule.")
    made.commit({"skills/ui/_index.md": rule, ".github/CODEOWNERS": "/skills/ui/ @web"})
    made.commit({"skills/ui/auth.md": skill_text(body="First.", requires=["data/events"])})
    made.commit({"skills/data/events.md": skill_text(body="Required.")})
    made.commit({"skills/other.md": skill_text(body="Nothing of it.")})
    git("checkout", "-q", "-b", "stricter", cwd=made.work)
    made.commit({"skills/ui/auth.md": skill_text(body="Second.")}, push=False)
    git("checkout", "-q", "main", cwd=made.work)
    merge = ("merge", "-q", "--no-ff", "-m", "Merge pull request #7 from acme/stricter")
    git(*merge, "stricter", cwd=made.work)
    made.commit({"skills/ui/_index.md": None})
    return made


def read_log(invoke: Run, *arguments: str) -> dict[str, Any]:
    done = invoke("log", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_names_the_changed_parts_and_the_pull_request(invoke: Run, upstream: Upstream) -> None:
    found = read_log(invoke, "auth", "--patch", "--repo", upstream.url)

    assert (found["skill_path"], found["searched_commits"]) == ("ui/auth", 6)
    assert found["owner"] == "@web"
    changes = [(each["changed"], each["pull_request"]) for each in found["commits"]]
    assert changes == [
        (["skills/ui/_index.md"], None),
        (["ui/auth"], "#7"),
        (["ui/auth"], None),
        (["skills/ui/_index.md"], None),
    ]
    merged = found["commits"][1]
    assert merged["merged_by"] == merged["author"]
    assert "+Second." in merged["patch"]


def test_text_for_people_has_the_same(invoke: Run, upstream: Upstream) -> None:
    done = invoke("log", "ui/auth", "--repo", upstream.url)

    assert "4 of the 6 commits changed what agents get of ui/auth." in done.stdout
    assert "pull request #7, merged by" in done.stdout


def test_a_shallow_clone_of_one_commit_is_named_with_how_to_complete_it(
    invoke: Run, upstream: Upstream, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git("clone", "--quiet", "--depth", "1", upstream.url, str(clone), cwd=tmp_path)

    done = invoke("log", "ui/auth", "--repo", clone.as_uri())

    assert (done.returncode, done.stdout) == (4, "")
    assert "ui/auth: No commit came with the one before." in done.stderr
    assert "git fetch --unshallow" in done.stderr


def test_a_change_of_a_required_skill_counts(invoke: Run, tmp_path: Path) -> None:
    made = Upstream.create(tmp_path)
    made.commit({"skills/auth.md": skill_text(requires=["events"])})
    made.commit({"skills/events.md": skill_text(body="Required.")})

    newest = read_log(invoke, "auth", "--repo", made.url)["commits"][0]

    assert newest["changed"] == ["events"]


def test_only_a_trusted_signature_names_a_signer(invoke: Run, tmp_path: Path) -> None:
    made, key = Upstream.create(tmp_path), tmp_path / "key"
    make_key(key, "ops")
    made.commit({"skills/auth.md": skill_text(body="Unsigned.")})
    git("config", "gpg.format", "ssh", cwd=made.work)
    git("config", "user.signingkey", str(key), cwd=made.work)
    git("config", "commit.gpgsign", "true", cwd=made.work)
    made.commit({"skills/auth.md": skill_text(body="Signed.")})
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    allowed = write(tmp_path / "signers/allowed", f"ops@acme.example {public}")
    settings = {"sync": {"allowed_signers": str(allowed)}}
    config = str(write(tmp_path / "config.yaml", json.dumps(settings)))

    trusted = read_log(invoke, "auth", "--repo", made.url, "--config", config)
    unchecked = read_log(invoke, "auth", "--repo", made.url)

    assert [each["signer"] for each in trusted["commits"]] == ["ops@acme.example", None]
    assert [each["signer"] for each in unchecked["commits"]] == [None, None]


def test_a_folder_says_which_repository_to_name(invoke: Run, upstream: Upstream) -> None:
    done = invoke("log", "ui/auth", "--skills-dir", str(upstream.work / "skills"))

    assert done.returncode == 4
    assert "--repo PATH" in done.stderr
