"""Skills that may no longer be true, as `validate --stale` finds them."""

import json
import re
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from skills_mcp.errors import ConfigError
from skills_mcp.features.authoring import stale_skills
from skills_mcp.features.authoring.stale_skills import (
    StaleOptions,
    find_stale,
    load_usage,
    read_project_past,
)
from skills_mcp.features.authoring.validation import validate_paths
from skills_mcp.skills.model import Problem
from tests.packages import write_package
from tests.support import git, write, write_skill

TODAY = date(2026, 11, 27)
RULES = {"review-overdue", "unchanged", "gone-file", "gone-package", "gone-command", "gone-url"}


def commit(folder: Path, day: str, author: str = "Ada") -> None:
    if not (folder / ".git").exists():
        git("init", "-q", "-b", "main", ".", cwd=folder)
    at = {"GIT_AUTHOR_DATE": f"{day}T12:00:00Z", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    git("add", "--all", ".", cwd=folder)
    git("commit", "-q", "-m", "Change", cwd=folder, GIT_AUTHOR_NAME=author, **at)


def find(folder: Path, project: Path | None = None, **options: Any) -> list[Problem]:
    settings = StaleOptions(project=project, today=TODAY, **options)
    found = validate_paths(folder, checks=[partial(find_stale, settings)]).problems
    return [problem for problem in found if problem.rule in RULES]


USAGE = json.dumps({"skills": [{"skill": "team/old", "served": 1, "last_seen": "2026-10-01"}]})


@pytest.mark.parametrize("text", ["[]", "{", '{"skills": [1]}', '{"skills": [{"skill": "a"}]}'])
def test_what_is_no_report_of_use_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="report --json"):
        load_usage(write(tmp_path / "usage.json", text))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that once had more."""
    top = tmp_path_factory.mktemp("shop")
    write(top / "src/cart.ts", "")
    write(top / "src/old/basket.ts", "")
    write(top / "Makefile", "lint: src\n\techo\n\nVAR := x\nlegacy:\n\techo\n")
    scripts = {"build": "vite", "build:old": "webpack"}
    manifest = {"dependencies": {"moment": "^2", "react": "^18"}, "scripts": scripts}
    write(top / "package.json", json.dumps(manifest))
    commit(top, "2024-01-01")
    (top / "src/old/basket.ts").unlink()
    write(top / "Makefile", "lint: src\n\techo\n")
    manifest = {"dependencies": {"react": "^19"}, "scripts": {"build": "vite"}}
    write(top / "package.json", json.dumps(manifest))
    commit(top, "2026-01-01")
    git("remote", "add", "origin", "git@git.acme.com:acme/shop.git", cwd=top)
    return top


def test_what_is_past_its_review_or_long_unchanged_is_named_with_who_knows(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/old.md", owner="team-web")
    write_skill(tmp_path, "skills/due.md", review_by="2026-06-01")
    write_skill(tmp_path, "skills/later.md", review_by="2027-06-01")
    write_skill(tmp_path, "skills/gone.md", status="deprecated")
    write_package(tmp_path, "skills/forms", description="Fill in forms")
    write(tmp_path / "CODEOWNERS", "/skills/due.md @acme/data\n")
    commit(tmp_path, "2025-01-31")
    write_skill(tmp_path, "skills/new.md")
    write(tmp_path / "skills/forms/references/more.md", "# More\n")
    commit(tmp_path, "2026-11-01", "Grace")

    due, old = find(tmp_path)

    assert (due.rule, old.rule) == ("review-overdue", "unchanged")
    assert due.line > 1
    assert due.level == "warning"
    assert due.reason.endswith("2026-06-01 (owner: @acme/data, last changed by Ada on 2025-01-31)")
    assert old.reason.endswith("12 months (owner: team-web, last changed by Ada on 2025-01-31)")
    assert len(find(tmp_path, months=36)) == 1

    report = write(tmp_path.parent / f"{tmp_path.name}.json", USAGE)
    usage = load_usage(report)
    assert [each.rule for each in find(tmp_path, usage=usage)] == ["review-overdue"]
    [_, old] = find(tmp_path, usage=dict.fromkeys(usage, date(2025, 1, 1)))
    assert old.reason.startswith("has not changed or been used")


def test_a_date_of_a_folder_is_reported_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/ui/_index.md", review_by="2026-06-01")
    write_skill(tmp_path, "skills/ui/forms.md")
    write_skill(tmp_path, "skills/ui/lists.md", review_by="2026-05-01")

    found = find(tmp_path)

    assert [Path(each.file).name for each in found] == ["_index.md", "lists.md"]
    assert all("(owner: none)" in each.reason for each in found)  # and no history


GONE = [
    ("Put it into `src/old/basket.ts`.", "gone-file", "'src/old/basket.ts'"),
    ("Put it into `./src/old/basket.ts`.", "gone-file", "'./src/old/basket.ts'"),
    ("Put it into `src/cart.ts`, or `src/example.ts`.", "", ""),
    ("Put it into src/old/basket.ts.", "gone-file", "'src/old/basket.ts'"),
    ("```ts\nimport moment from 'moment'\n```", "gone-package", "'moment'"),
    ("Wait a moment, then use `react`.", "", ""),
    ("Run `npm run build:old -- --watch`.", "gone-command", "'npm run build:old'"),
    ("```sh\nmake legacy\n```", "gone-command", "'make legacy'"),
    ("Run `npm run build`, `make lint`, `make legacy-docs` or `npm run dev`.", "", ""),
    (
        "See https://git.acme.com/acme/shop/-/blob/main/src/old/basket.ts.",
        "gone-url",
        "https://git.acme.com/acme/shop",
    ),
    ("See https://git.acme.com/acme/shop/blob/main/src/cart.ts#L3.", "", ""),
    ("See https://git.acme.com/acme/other/blob/main/no.ts and https://x.org/acme/shop.", "", ""),
]


def test_a_text_about_what_a_project_no_longer_has_is_found(tmp_path: Path, shop: Path) -> None:
    for number, (text, _, _) in enumerate(GONE):
        write_skill(tmp_path, f"skills/s{number:02}.md", keywords=[f"k{number}"], body=text)
    applies_to = [{"package": "npm:moment"}, {"package": "npm:react", "versions": ">1"}]
    write_skill(tmp_path, "skills/t.md", keywords=["t"], applies_to=applies_to)

    found = {Path(each.file).stem: each for each in find(tmp_path, shop)}

    wrong = []
    for number, (text, rule, named) in enumerate(GONE):
        each = found.get(f"s{number:02}")
        if (each.rule if each else "") != rule or (each and named not in each.reason):
            wrong.append((text, each))
    assert wrong == []
    assert found["t"].rule == "gone-package"
    assert "'react'" not in found["t"].reason
    assert "(owner: none)" in found["t"].reason


class Asked:
    """Answers requests, and notes their addresses."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    def head(self, url: str, **_: object) -> httpx.Response:
        self.urls.append(url)
        return httpx.Response(404 if "gone" in url else 200)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(httpx, "head", asked.head)
    return asked


def test_pages_of_the_organisation_alone_are_asked_for_and_only_if_wanted(
    tmp_path: Path, shop: Path, asked: Asked
) -> None:
    own = ("https://git.acme.com/acme/gone", "https://git.acme.com/acme/docs")
    others = ("https://git.acme.com/else/gone", "https://x.org/gone", "http://git.acme.com/acme/a")
    write_skill(tmp_path, "skills/s.md", body=" ".join((*own, *others)))

    offline = find(tmp_path, shop)
    assert (offline, asked.urls) == ([], [])
    [online] = find(tmp_path, shop, is_online=True)

    assert asked.urls == [*own]
    assert re.findall(r"https://\S+(?=')", online.reason) == [own[0]]


def test_without_an_answer_no_page_is_called_gone() -> None:
    assert stale_skills._ask("https://127.0.0.1:9/gone") == 0


def test_a_project_without_a_history_is_refused(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/s.md")
    (tmp_path / "project").mkdir()

    with pytest.raises(ConfigError, match="no work tree of Git"):
        find(tmp_path / "skills", tmp_path / "project")


def test_the_past_of_a_project_is_what_it_lost(shop: Path) -> None:
    past = read_project_past(shop)

    assert past.files == {"src/old/basket.ts"}
    assert past.packages == {"moment"}
    assert {"make legacy", "npm run build:old"} <= past.commands
    assert past.origin == ("git.acme.com", "acme/shop")
