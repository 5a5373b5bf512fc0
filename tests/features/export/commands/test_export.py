"""`skills-mcp export`, as a person and a pipeline run them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support import PATIENCE_SECONDS, Upstream, skill_text, wait_for, write, write_skill


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "web/.claude/skills")


def test_a_repository_becomes_a_folder_with_a_lock(
    invoke: Run, upstream: Upstream, target: str
) -> None:
    commit = upstream.commit({"skills/one.md": skill_text()})

    done = invoke("export", "--repo", upstream.url, "--to", target)
    verified = invoke("export", "--verify", target, "--json")
    shown = invoke("export", "--verify", target)

    lock = json.loads((Path(target) / "skills.lock").read_text())
    data = json.loads(verified.stdout)
    assert (done.returncode, verified.returncode) == (0, 0)
    assert "1 skill in" in done.stdout
    assert f"1 skill of {commit}" in shown.stdout
    assert lock["settings"]["format"] == "claude"
    assert lock["sources"][0]["commit"] == commit
    assert lock["skills"]["one"]["path"] == "one"
    assert (data["ok"], data["skills"], data["differences"]) == (True, 1, [])


def test_a_pipeline_learns_that_the_folder_is_behind(
    invoke: Run, upstream: Upstream, target: str
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    where = ("--repo", upstream.url, "--to", target)
    invoke("export", *where)
    current = invoke("export", *where, "--check")
    upstream.commit({"README.md": "No skill."})
    commit_alone = invoke("export", *where, "--check")
    upstream.commit({"skills/two.md": skill_text()})
    behind = invoke("export", *where, "--check", "--json")

    assert (current.returncode, "is up to date: 1 skill." in current.stdout) == (0, True)
    assert commit_alone.returncode == 1
    assert "skills.lock is behind" in commit_alone.stdout
    data = json.loads(behind.stdout)
    assert (behind.returncode, data["ok"]) == (1, False)
    assert data["written"] == ["two/SKILL.md"]
    assert not (Path(target) / "two").exists()


def test_an_export_into_the_content_itself_is_not_exported_again(
    invoke: Run, tmp_path: Path
) -> None:
    example = '---\nname: forms\ndescription: Forms\n---\n```yaml\na:\n  path: "ui/Ärger"\n```\n'
    write_skill(tmp_path, "skills/ui/Ärger.md")
    write(tmp_path / "skills/forms/SKILL.md", example)
    where = ("--skills-dir", str(tmp_path), "--to", str(tmp_path / ".claude/skills"))
    first = invoke("export", *where)

    current = invoke("export", *where, "--check")

    assert "2 skills in" in first.stdout
    assert (current.returncode, "is up to date: 2 skills." in current.stdout) == (0, True)


def test_frozen_writes_the_commit_and_the_settings_of_the_lock(
    invoke: Run, upstream: Upstream, target: str
) -> None:
    upstream.commit({"skills/a/one.md": skill_text(), "skills/b.md": skill_text()})
    where = ("--repo", upstream.url, "--to", target)
    invoke("export", *where, "--select", "a/**")
    lock = (Path(target) / "skills.lock").read_bytes()
    [package] = [each for each in Path(target).iterdir() if each.is_dir()]
    (package / "SKILL.md").unlink()
    upstream.commit({"skills/a/two.md": skill_text()})

    done = invoke("export", *where, "--frozen")

    assert done.returncode == 0, done.stderr
    assert (package / "SKILL.md").exists()
    assert (Path(target) / "skills.lock").read_bytes() == lock


def test_frozen_without_a_lock_or_with_another_source_is_refused(
    invoke: Run, upstream: Upstream, target: str, tmp_path: Path
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    write(tmp_path / "folder/one.md", skill_text())
    none = invoke("export", "--repo", upstream.url, "--to", target, "--frozen")
    invoke("export", "--repo", upstream.url, "--to", target)

    other = invoke("export", "--skills-dir", str(tmp_path / "folder"), "--to", target, "--frozen")

    assert "has no skills.lock. Export once without --frozen." in none.stderr
    assert other.returncode == 1
    assert "and skills.lock wants" in other.stderr


def test_differences_are_a_line_each(
    invoke: Run, upstream: Upstream, target: str, tmp_path: Path
) -> None:
    upstream.commit({"skills/one.md": skill_text()})
    invoke("export", "--repo", upstream.url, "--to", target)
    write(Path(target) / "one/SKILL.md", "edited")

    done = invoke("export", "--verify", target)
    again = invoke("export", "--repo", upstream.url, "--to", target)
    nothing = invoke("export", "--verify", str(tmp_path))

    assert (done.returncode, done.stdout) == (1, "edited: one/SKILL.md\n")
    assert "Kept one/SKILL.md: it was edited, or no export has written it" in again.stderr
    assert "has no skills.lock" in nothing.stderr


def test_the_folder_follows_the_skills_until_it_is_interrupted(tmp_path: Path, target: str) -> None:
    content = write(tmp_path / "content/one.md", skill_text()).parent
    command = [sys.executable, "-m", "skills_mcp", "export", "--watch"]
    where = ["--skills-dir", str(content), "--to", target]
    with subprocess.Popen([*command, *where], stderr=subprocess.PIPE) as process:
        wait_for((Path(target) / "one/SKILL.md").exists)
        write(content / "two.md", skill_text())
        wait_for((Path(target) / "two/SKILL.md").exists)
        write(content / "one.md", skill_text(body="Only the text has changed."))
        exported = Path(target) / "one/SKILL.md"
        wait_for(lambda: "Only the text" in exported.read_text())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert b"Traceback" not in errors


@pytest.mark.parametrize("hint", ["[issue] [priority]", "[issue]", "<a> | [b]", "[a|b, c]"])
def test_a_key_is_exported_as_it_was_or_named(invoke: Run, tmp_path: Path, hint: str) -> None:
    head = (
        f"name: fix\ndescription: Fix an issue\nargument-hint: {hint}\n"
        "disable-model-invocation: true\nallowed-tools: Read, Bash(git:*)\n"
        "hooks:\n  Stop:\n    - timeout: 30\n"
    )
    write(tmp_path / "skills/fix/SKILL.md", f"---\n{head}---\nFix it.\n")
    where = ("export", "--skills-dir", str(tmp_path / "skills"))

    claude = invoke(*where, "--to", str(tmp_path / "a"), "--format", "claude")
    plain = invoke(*where, "--to", str(tmp_path / "b"), "--format", "plain")

    text = (tmp_path / "a/fix/SKILL.md").read_text()
    assert f'argument-hint: "{hint}"\n' in text
    assert "disable-model-invocation: true\n" in text
    assert 'allowed-tools: "Read Bash(git:*)"\n' in text
    assert 'hooks: {"Stop": [{"timeout": 30}]}\n' in text
    assert "hooks" not in claude.stderr
    for key in ("argument-hint", "disable-model-invocation", "hooks"):
        assert f"plain cannot hold {key} of 1 skill: fix" in plain.stderr
    assert invoke("validate", str(tmp_path / "b")).returncode == 0


def test_a_key_that_many_skills_have_and_no_format_holds_is_one_line(
    invoke: Run, tmp_path: Path
) -> None:
    for number in range(40):
        head = f"name: s{number}\ndescription: D {number}\nversion: 1\nmetadata: {{a: {{b: c}}}}"
        write(tmp_path / f"skills/s{number}/SKILL.md", f"---\n{head}\n---\nDo it.\n")

    done = invoke("export", "--skills-dir", str(tmp_path / "skills"), "--to", str(tmp_path / "out"))

    told = [line for line in done.stderr.splitlines() if "cannot hold" in line]
    assert [line.split(":")[0] for line in told] == [
        "plain cannot hold metadata.a of 40 skills",
        "plain cannot hold version of 40 skills",
    ]


def test_drafts_are_left_out_and_deprecated_skills_are_marked(
    invoke: Run, tmp_path: Path, target: str
) -> None:
    write_skill(tmp_path / "skills", "queues.md", status="draft")
    write_skill(tmp_path / "skills", "kafka.md", replaced_by="streams", description="Events")
    write_skill(tmp_path / "skills", "streams.md", keywords=["streams"])

    invoke("export", "--skills-dir", str(tmp_path / "skills"), "--to", target)

    written = {file.parent.name: file.read_text("utf-8") for file in Path(target).rglob("SKILL.md")}
    assert sorted(written) == ["kafka", "streams"]
    assert "Deprecated, use streams instead: Events" in written["kafka"]
