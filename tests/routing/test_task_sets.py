"""The sets of tasks that `make accuracy` measures, and how their skills are fetched."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import task_sets
from benchmarks.accuracy import SERVED, load_set
from benchmarks.task_sets import QUERIES, SOURCES, TASKS, SkillSource
from tests.support import Upstream

SETS = sorted(file.parent for file in TASKS.glob(f"*/{SOURCES}"))

PDF = "---\nname: pdf\ndescription: Fill in the forms of a PDF.\n---\n# Forms\n"
LONGEST = 2_000  # characters of a task


def write_set(folder: Path, source: dict[str, Any], *rows: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / SOURCES).write_text(json.dumps([source]), encoding="utf-8")
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "queries.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "fetched"
    monkeypatch.setattr(task_sets, "FETCHED", place)
    return place


def test_skills_are_those_of_the_commit_and_read_as_they_are_served(
    tmp_path: Path, upstream: Upstream, fetched: Path
) -> None:
    commit = upstream.commit({"skills/pdf/SKILL.md": PDF, "other/SKILL.md": PDF})
    upstream.commit({"skills/pdf/SKILL.md": "nothing of this"})
    source = {"folder": "me__it", "git": upstream.url, "commit": commit}
    task = {"query": "fill in a form", "expect": ["me__it/skills/pdf"]}
    folder = write_set(tmp_path / "set", {**source, "paths": ["skills"]}, task)

    found = load_set(folder)

    [skill] = found.skills
    assert skill.description == "Fill in the forms of a PDF."
    assert [(kind, prompt.expect) for kind, prompt in found.tasks] == [(SERVED, (skill.path,))]
    assert [each.name.partition("-")[0] for each in fetched.iterdir()] == ["set"]


def test_skills_are_fetched_once(tmp_path: Path, upstream: Upstream, fetched: Path) -> None:
    commit = upstream.commit({"skills/pdf/SKILL.md": PDF})
    source = {"folder": "me__it", "git": upstream.url, "commit": commit}
    folder = write_set(tmp_path / "set", {**source, "paths": ["skills"]})
    first = load_set(folder)

    shutil.rmtree(upstream.bare)

    assert load_set(folder).skills == first.skills
    assert fetched.is_dir()


def test_another_version_is_fetched_anew(tmp_path: Path, upstream: Upstream, fetched: Path) -> None:
    source = {"folder": "me__it", "git": upstream.url, "paths": ["skills"]}
    first = upstream.commit({"skills/pdf/SKILL.md": PDF})
    folder = write_set(tmp_path / "set", {**source, "commit": first})
    load_set(folder)
    second = upstream.commit({"skills/pdf/SKILL.md": PDF.replace("Fill in", "Sign")})

    (folder / SOURCES).write_text(json.dumps([{**source, "commit": second}]))

    [skill] = load_set(folder).skills
    assert skill.description == "Sign the forms of a PDF."
    assert len(list(fetched.iterdir())) == 2


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_skills_are_those_of_an_npm_package(tmp_path: Path, fetched: Path) -> None:
    package = tmp_path / "package"
    (package / "skills" / "pdf").mkdir(parents=True)
    (package / "skills" / "pdf" / "SKILL.md").write_text(PDF, encoding="utf-8")
    manifest = {"name": "of-a-test", "version": "1.0.0"}
    (package / "package.json").write_text(json.dumps(manifest), encoding="utf-8")
    source = {"folder": "me", "npm": str(package), "paths": ["skills"]}
    folder = write_set(tmp_path / "set", source)

    [skill] = load_set(folder).skills

    assert skill.name == "pdf"
    assert fetched.is_dir()


def test_a_copy_at_hand_is_not_fetched(tmp_path: Path, fetched: Path) -> None:
    copy = tmp_path / "copies" / "me__it"
    for name in ("pdf", "secret"):
        (copy / "skills" / name).mkdir(parents=True)
        (copy / "skills" / name / "SKILL.md").write_text(PDF, encoding="utf-8")
    source = {"folder": "me__it", "git": "file:///nowhere", "commit": "0" * 40}
    chosen = {"paths": ["skills"], "without": ["skills/secret"]}
    folder = write_set(tmp_path / "set", {**source, **chosen})

    [skill] = load_set(folder, copy.parent).skills

    assert skill.name == "pdf"
    assert not list(fetched.glob("*/*/skills/secret"))


def test_documents_of_a_source_are_tasks_for_the_skills_of_their_names(
    tmp_path: Path, upstream: Upstream, fetched: Path
) -> None:
    files = {"skills/pdf/SKILL.md": PDF, "tasks/1/pdf.md": "# Fill in", "tasks/1/tea.md": "# Brew"}
    source = {"folder": "me__it", "git": upstream.url, "commit": upstream.commit(files)}
    folder = write_set(tmp_path / "set", {**source, "paths": ["skills"], "documents": "tasks"})
    (folder / "queries.jsonl").unlink()

    found = load_set(folder)

    [skill] = found.skills
    assert [(p.query, p.expect) for _, p in found.tasks] == [("# Fill in", (skill.path,))]
    assert fetched.is_dir()


def test_what_cannot_be_fetched_leaves_nothing(tmp_path: Path, fetched: Path) -> None:
    source = {"folder": "me__it", "git": "file:///nowhere", "commit": "0" * 40}
    folder = write_set(tmp_path / "set", {**source, "paths": ["skills"]})

    with pytest.raises(SystemExit, match="cannot be fetched"):
        load_set(folder)

    assert not list(fetched.iterdir())


def test_a_task_for_a_skill_that_is_not_served_is_named(
    tmp_path: Path, upstream: Upstream, fetched: Path
) -> None:
    commit = upstream.commit({"skills/pdf/SKILL.md": PDF})
    source = {"folder": "me__it", "git": upstream.url, "commit": commit}
    task = {"query": "brew tea", "expect": ["me__it/skills/tea"]}
    folder = write_set(tmp_path / "set", {**source, "paths": ["skills"]}, task)

    with pytest.raises(SystemExit, match="me__it/skills/tea"):
        load_set(folder)

    assert fetched.is_dir()


@pytest.mark.parametrize("folder", SETS, ids=lambda folder: folder.name)
def test_a_set_can_be_measured(folder: Path) -> None:
    sources = [SkillSource(**row) for row in json.loads((folder / SOURCES).read_text())]
    has_documents = any(source.documents for source in sources)
    assert has_documents != (folder / QUERIES).exists()
    lines = [] if has_documents else (folder / QUERIES).read_text("utf-8").splitlines()
    rows = [*map(json.loads, lines)]
    kinds = Counter("served" if row["expect"] else row["kind"] for row in rows)

    assert sources
    for source in sources:
        assert bool(source.npm) != bool(source.git)
        assert source.npm or re.fullmatch("[0-9a-f]{40}", source.commit)
    assert has_documents or kinds["served"] >= 40
    negated = [row for row in rows if "negated" in row]
    if not negated and rows:  # of a set about negation every task is served
        assert min(kinds["same_field"], kinds["other_field"]) >= 5
        assert set(kinds) == {"served", "same_field", "other_field"}
    assert all(scope in row["query"] for row in negated for scope in row["scope"])
    assert all(row["scope"] for row in negated)
    assert len({row["query"] for row in rows}) == len(rows)
    assert all(0 < len(row["query"]) <= LONGEST for row in rows)
    names = tuple(f"{source.folder}/" for source in sources)
    assert all(name.startswith(names) for row in rows for name in row["expect"])
    assert all(name.startswith(names) for row in negated for name in row["negated"])
