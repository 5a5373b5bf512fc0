"""`skills-mcp import`: the files of an owner go in, skills that validate come out."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.features.authoring.validation import validate_paths
from tests.cli.conftest import Run
from tests.support import Upstream, write

FILES = {
    "AGENTS.md": "# Shop\n\n## Build\n\nRun make. See [the guide](docs/guide.md).\n",
    "CLAUDE.md": "@AGENTS.md\n",
    ".github/copilot-instructions.md": "Answer in British English.\n",
    "packages/api/AGENTS.md": "# API\n\n## Errors\n\nErrors are JSON.\n",
    "packages/web/.cursor/rules/forms.mdc": "---\nalwaysApply: false\n---\n# Formik\n\nUse it.\n",
    ".cursor/rules/react.mdc": (
        "---\ndescription: React components\nglobs: *.tsx,src/components/**\n"
        "alwaysApply: true\ncolour: red\n---\nUse hooks.\n\n```ts\nlet a\n"
    ),
    ".cursor/rules/react/hooks.mdc": "---\nglobs: **/use*.ts\n---\n# Hooks\n\nName them use.\n",
    ".github/instructions/python.instructions.md": (
        "---\napplyTo: '**/*.py'\ndescription: Python style\n---\nUse ruff.\n"
    ),
    ".windsurf/rules/sql.md": "---\ntrigger: always_on\n---\n# Migrations\n\nWrite SQL by hand.\n",
    ".clinerules/testing.md": "# Pytest\n\nTests are functions.\n",
    ".claude/commands/pr/review.md": (
        "---\nallowed-tools: Bash\n---\nReview the pull request $ARGUMENTS.\n"
    ),
    ".claude/agents/debugger.md": (
        "---\nname: debugger\ndescription: Finds bugs. Use it for a failing test.\n"
        "tools: Read, Bash\n---\nYou are a debugger.\n"
    ),
    ".claude/settings.json": "{}",
    ".cursor/rules/empty.mdc": "---\ndescription: nothing\n---\n",
    ".claude/skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Fill in forms.\n---\nFill.\n",
}

BECAME = {
    "_root.md": ["AGENTS.md", ".github/copilot-instructions.md"],
    "packages/api/_index.md": ["packages/api/AGENTS.md"],
    "packages/web/forms.md": ["packages/web/.cursor/rules/forms.mdc"],
    "packages/web/_index.md": [],
    "react/_index.md": [".cursor/rules/react.mdc"],
    "react/hooks.md": [".cursor/rules/react/hooks.mdc"],
    "python.md": [".github/instructions/python.instructions.md"],
    "sql.md": [".windsurf/rules/sql.md"],
    "testing.md": [".clinerules/testing.md"],
    "pr/review/SKILL.md": [".claude/commands/pr/review.md"],
    "debugger/SKILL.md": [".claude/agents/debugger.md"],
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for file, text in FILES.items():
        write(tmp_path / "shop" / file, text)
    return tmp_path / "shop"


def _import(invoke: Run, source: object, *options: str) -> dict[str, Any]:
    done = invoke("import", str(source), "--json", *options)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def test_each_file_becomes_a_skill_or_is_named(invoke: Run, shop: Path) -> None:
    data = _import(invoke, shop)

    became = {s["file"]: [each["file"] for each in s["sources"]] for s in data["skills"]}
    assert became == BECAME
    assert {each["file"] for each in data["not_imported"]} == {
        *("CLAUDE.md", ".claude/settings.json", ".cursor/rules/empty.mdc")
    }
    assert data["validation"] == {"errors": 0, "warnings": 0}
    assert validate_paths(shop / "skills").problems == ()


def test_what_a_skill_does_not_have_is_named(invoke: Run, shop: Path) -> None:
    skills = {skill["file"]: skill for skill in _import(invoke, shop)["skills"]}

    notes = {
        file: [n for s in skill["sources"] for n in s["notes"]] for file, skill in skills.items()
    }
    assert notes["react/_index.md"] == ["left out: colour"]
    assert notes["_root.md"] == ["1 link written as paths"]
    assert notes["pr/review/SKILL.md"] == ["left out: allowed-tools", "kept as text: $ARGUMENTS"]


def test_a_rule_keeps_its_text_and_says_which_keywords_are_proposed(
    invoke: Run, shop: Path
) -> None:
    skills = {skill["file"]: skill for skill in _import(invoke, shop)["skills"]}

    python = (shop / "skills" / "python.md").read_text(encoding="utf-8")
    assert "python" in skills["python.md"]["proposed_keywords"]
    assert "description: Python style. For the files **/*.py\n" in python
    assert "# proposed" in python
    assert python.endswith("---\nUse ruff.\n")
    react = (shop / "skills" / "react" / "_index.md").read_text(encoding="utf-8")
    assert "*.tsx, src/components/**" in react
    assert "alwaysApply: true" in react
    assert "(`docs/guide.md`)" in (shop / "skills" / "_root.md").read_text(encoding="utf-8")


def test_nothing_is_overwritten_without_force(invoke: Run, shop: Path, tmp_path: Path) -> None:
    to = ("--to", str(tmp_path / "skills"))
    dry = invoke("import", str(shop), *to, "--dry-run")
    assert "Nothing was written" in dry.stdout
    assert not (tmp_path / "skills").exists()
    own = write(tmp_path / "skills" / "python.md", "Mine.")

    kept = {s["file"]: s["state"] for s in _import(invoke, shop, *to)["skills"]}

    assert kept["python.md"] == "kept"
    assert kept["sql.md"] == "written"
    assert own.read_text() == "Mine."

    again = {s["file"]: s["state"] for s in _import(invoke, shop, *to, "--force")["skills"]}
    assert again["python.md"] == "replaced"
    assert again["sql.md"] == "unchanged"


def test_a_package_that_the_new_folder_hides_is_named(invoke: Run, tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "# Rules\n\nBe kind.\n")
    write(tmp_path / "CLAUDE.md", "@AGENTS.md\n\n# Claude\n\nSmall diffs.\n")
    for folder in ("tools/pdf", ".claude/skills/zip"):
        write(tmp_path / folder / "SKILL.md", FILES[".claude/skills/pdf/SKILL.md"])

    dry = invoke("import", str(tmp_path), "--dry-run")
    done = invoke("import", str(tmp_path))
    again = invoke("import", str(tmp_path))

    told = "1 package is not served beside a folder skills/: tools/pdf. Move it into"
    assert all(told in said.stdout for said in (dry, done, again))
    assert "@AGENTS.md" not in (tmp_path / "skills" / "_root.md").read_text()
    assert "Nothing was written: " in again.stdout


def test_a_repository_is_fetched(invoke: Run, upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({**FILES, "src/main.py": "print()"})

    data = _import(invoke, upstream.url, "--to", str(tmp_path / "skills"))

    assert {skill["file"] for skill in data["skills"]} == {*BECAME}


def test_files_of_agents_alone_are_no_empty_folder(invoke: Run, tmp_path: Path) -> None:
    write(tmp_path / "a" / "AGENTS.md", "# Rules\n\nBe kind.\n")
    (tmp_path / "b").mkdir()

    checked = invoke("validate", str(tmp_path / "a"))
    listed = invoke("tree", "--skills-dir", str(tmp_path / "a"))
    nothing = invoke("import", str(tmp_path / "b"))
    missing = invoke("import", str(tmp_path / "c"))

    assert "mport brings these: skills-mcp import" in checked.stdout
    assert "skills-mcp import" in listed.stdout
    assert nothing.returncode == 1
    assert "no instruction files" in nothing.stderr
    assert missing.returncode == 2


def test_two_files_with_one_place_are_both_kept_unless_they_are_equal(
    invoke: Run, tmp_path: Path
) -> None:
    write(tmp_path / ".cursor/rules/go.mdc", "# Go\n\nUse gofmt.\n")
    write(tmp_path / ".windsurf/rules/go.md", "# Go\n\nUse golangci.\n")
    write(tmp_path / ".clinerules/go.md", "# Go\n\nUse gofmt.\n")

    data = _import(invoke, tmp_path)

    assert [s["file"] for s in data["skills"]] == ["go.md", "go-windsurf/SKILL.md"]
    assert data["not_imported"] == [
        {"file": ".cursor/rules/go.mdc", "reason": "the same text as .clinerules/go.md"}
    ]


def test_commands_and_agents_of_plugins_are_found(invoke: Run, tmp_path: Path) -> None:
    write(tmp_path / "plugins/qa/.claude-plugin/plugin.json", "{}")
    write(tmp_path / "plugins/qa/agents/tester.md", "---\ndescription: Tests.\n---\nTest.\n")
    write(tmp_path / "docs/agents/about.md", "Our agents.\n")

    data = _import(invoke, tmp_path, "--to", str(tmp_path / "out"))

    assert [s["file"] for s in data["skills"]] == ["qa/tester/SKILL.md"]
