"""`skills-mcp diff`: what changes for agents from one commit to another."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.support import Upstream, skill_text


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    made = Upstream.create(tmp_path_factory.mktemp("diff"))
    made.commit(
        {
            "skills/_root.md": skill_text(body="Be kind."),
            "skills/auth.md": skill_text(keywords=["login"], examples=["add a login"]),
            "skills/soap.md": skill_text(keywords=["soap"], examples=["call the soap endpoint"]),
            "skills/same.md": skill_text(keywords=["same"], body="As before."),
            "skills/plan.md": skill_text(keywords=["plan"], status="draft"),
        }
    )
    made.commit(
        {
            "skills/_root.md": skill_text(body="Be kind.\nBe brief."),
            "skills/auth.md": skill_text(keywords=["login"], body="Ask.\n\n~~~\ntwice\n~~~"),
            "skills/soap.md": None,
            "skills/rest.md": skill_text(
                keywords=["rest"], description="Ping @everybody", examples=["call the rest api"]
            ),
            "skills/plan.md": skill_text(keywords=["plan"], body="Other.", status="draft"),
        }
    )
    return made


def read_diff(invoke: Run, *arguments: str) -> dict[str, Any]:
    done = invoke("diff", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_has_what_was_added_removed_and_changed_and_the_skills_of_tasks(
    invoke: Run, upstream: Upstream
) -> None:
    found = read_diff(invoke, "HEAD~1..HEAD", "--patch", "--skills-dir", str(upstream.work))

    assert [each["skill_path"] for each in found["added"]] == ["rest"]
    assert [each["skill_path"] for each in found["removed"]] == ["soap"]
    changed = {each["skill_path"]: each for each in found["changed"]}
    assert {path: each["reached"] for path, each in changed.items()} == {"_root": 2, "auth": 0}
    assert "+Be brief." in changed["_root"]["patch"]
    assert found["changed_texts"] == 2
    moves = {each["query"]: (each["before"], each["after"]) for each in found["answers"]}
    assert moves == {
        "call the soap endpoint": (["soap"], []),
        "call the rest api": ([], ["rest"]),
    }


def test_markdown_mentions_nobody_and_no_text_ends_its_fence(
    invoke: Run, upstream: Upstream
) -> None:
    printed = invoke("diff", "HEAD~1..", "--patch", "--skills-dir", str(upstream.work)).stdout

    assert "- `rest`: `Ping @everybody`" in printed
    assert "- `_root`: +1 -0 lines, in 2 more skills" in printed
    assert printed.count("  ~~~~") == 2


def test_a_commit_left_out_is_the_served_one(invoke: Run, upstream: Upstream) -> None:
    forth = read_diff(invoke, "HEAD~1..", "--skills-dir", str(upstream.work))
    back = read_diff(invoke, "..HEAD~1", "--skills-dir", str(upstream.work))

    assert forth["added"] == back["removed"]
    assert forth["removed"] == back["added"]


def test_an_abbreviated_commit_of_a_repository_is_found(invoke: Run, upstream: Upstream) -> None:
    log = invoke("log", "same", "--repo", upstream.url, "--json").stdout
    oldest = json.loads(log)["commits"][-1]["commit"]

    found = read_diff(invoke, f"{oldest[:8]}..", "--repo", upstream.url)

    assert [each["skill_path"] for each in found["added"]] == ["rest"]


@pytest.mark.parametrize("commits", ["HEAD", "..", "a...b"])
def test_what_is_no_range_says_how_to_write_one(
    invoke: Run, upstream: Upstream, commits: str
) -> None:
    done = invoke("diff", commits, "--skills-dir", str(upstream.work))

    assert done.returncode == 2
    assert "v1..v2" in done.stderr


def test_a_revision_of_a_repository_says_what_it_needs(invoke: Run, upstream: Upstream) -> None:
    done = invoke("diff", "HEAD~1..", "--repo", upstream.url)

    assert done.returncode == 3
    assert "HEAD~1 and the like need a folder inside of a clone: --skills-dir" in done.stderr
