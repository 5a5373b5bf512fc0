"""Packages that are the same in several places are one skill."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Content, ContentPart, Mount
from skills_mcp.skills.model import SkillPath
from skills_mcp.snapshots.skill_snapshot import Snapshot
from tests.skills.contents import take
from tests.support import Upstream, skill_text, sync, write

PACKAGE = "---\nname: pdf\ndescription: Fills forms.\n---\nBody.\n"
SCRIPT = "print('filled')\n"
TWICE = {
    "skills/pdf/SKILL.md": PACKAGE,
    "skills/pdf/scripts/fill.py": SCRIPT,
    "plugins/office/skills/pdf/SKILL.md": PACKAGE,
    "plugins/office/skills/pdf/scripts/fill.py": SCRIPT,
}


@pytest.fixture(params=["folder", "commit"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function that serves files, from a folder or from a commit of them."""

    def from_folder(
        files: Mapping[str, str], settings: Mapping[str, Any] | None = None
    ) -> Snapshot:
        for file, text in files.items():
            write(tmp_path / "content" / file, text)
        return take(tmp_path / "content", settings=settings)

    def from_commit(
        files: Mapping[str, str], settings: Mapping[str, Any] | None = None
    ) -> Snapshot:
        upstream = Upstream.create(tmp_path)
        upstream.commit(dict(files))
        source = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
        checkout = sync(source)
        assert checkout is not None
        return take(ContentPart(Mount(source=source), checkout), settings=settings)

    return from_folder if request.param == "folder" else from_commit


def paths(snapshot: Snapshot) -> list[str]:
    return [skill.path for skill in snapshot.index]


def test_packages_with_the_same_files_are_one_skill_with_two_places(serve: Any) -> None:
    snapshot = serve(TWICE)

    assert paths(snapshot) == ["pdf"]
    assert snapshot.problems == ()
    assert snapshot.index.other_places(SkillPath("pdf")) == ("office/pdf",)


def test_the_path_of_a_copy_is_answered_with_the_skill(serve: Any) -> None:
    index = serve(TWICE).index

    assert index.resolve("office/pdf").path == "pdf"
    assert index.resolve("pdf").path == "pdf"


@pytest.mark.parametrize(
    "change",
    [
        {"plugins/office/skills/pdf/SKILL.md": PACKAGE.replace("Body", "Bodu")},
        {"plugins/office/skills/pdf/scripts/fill.py": SCRIPT.replace("ed", "er")},
        {"plugins/office/skills/pdf/more.txt": ""},
    ],
)
def test_one_other_byte_makes_two_skills(serve: Any, change: dict[str, str]) -> None:
    snapshot = serve({**TWICE, **change})

    assert paths(snapshot) == ["office/pdf", "pdf"]
    assert snapshot.index.other_places(SkillPath("pdf")) == ()


def test_other_rules_above_make_two_skills(serve: Any) -> None:
    rules = {"plugins/office/skills/_index.md": skill_text(body="Be formal.")}

    assert {"office/pdf", "pdf"} <= set(paths(serve({**TWICE, **rules})))


def test_another_name_of_the_folder_makes_two_skills(serve: Any) -> None:
    files = {"skills/pdf/SKILL.md": PACKAGE, "skills/forms/SKILL.md": PACKAGE}

    assert paths(serve(files)) == ["forms", "pdf"]


def test_of_copies_the_first_that_may_be_offered_is(serve: Any) -> None:
    files = {
        "skills/docs/pdf/SKILL.md": PACKAGE,
        "plugins/office/skills/pdf/SKILL.md": PACKAGE,
    }

    snapshot = serve(files, {"visibility": {"deny": ["docs/*"]}})

    assert paths(snapshot) == ["office/pdf"]
    assert snapshot.index.other_places(SkillPath("office/pdf")) == ()


def test_rule_files_with_one_text_stay_apart(serve: Any) -> None:
    text = skill_text()

    assert paths(serve({"a/x.md": text, "b/x.md": text})) == ["a/x", "b/x"]


def test_copies_in_two_sources_stay_apart(tmp_path: Path) -> None:
    write(tmp_path / "one/pdf/SKILL.md", PACKAGE)
    write(tmp_path / "two/office/pdf/SKILL.md", PACKAGE)

    assert paths(take(tmp_path / "one", tmp_path / "two")) == ["office/pdf", "pdf"]
    assert isinstance(take(tmp_path / "one").content, Content)
