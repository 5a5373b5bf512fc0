"""A copy of the content is served as the content is, and with it what was edited."""

import sys
from pathlib import Path

import pytest

from repositories.layouts import BIG, LAYOUTS, make_layout
from repositories.tree import BRANCH
from skills_mcp.bootstrap import Options, build
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import LocalFolder, Mount
from skills_mcp.features.embeddings.skill_embeddings import HybridMatcher
from skills_mcp.library import SkillLibrary, UneditableError
from skills_mcp.skills.model import Skill
from skills_mcp.skills.source_layout import Selection
from tests.features.embeddings import embedding_server
from tests.packages import package_text, write_package
from tests.repositories.test_layouts import look
from tests.support import Upstream, git, open_library, skill_text, write, write_skill

FOLDERS = [name for name in LAYOUTS if name != BIG]
REPOSITORIES = ("marketplace", "copies", "rules and packages", "encodings")


def skill_of(library: SkillLibrary, path: str) -> Skill:
    return library.view().snapshot.index.require(path)


def place_of(library: SkillLibrary, path: str) -> Path:
    location = skill_of(library, path).location
    assert location
    return location


def assert_same(library: SkillLibrary) -> None:
    with library.edited_copy() as copy:
        copied = copy.serve({})

    assert look(copied).skills == look(library.view().snapshot).skills
    assert copied.algorithm == library.view().snapshot.algorithm


@pytest.mark.skipif(sys.platform != "linux", reason="some names exist only there")
@pytest.mark.parametrize("name", FOLDERS)
def test_the_skills_of_each_layout_are_the_same_in_a_copy(tmp_path: Path, name: str) -> None:
    assert_same(open_library(make_layout(name).write(tmp_path / "folder")))


@pytest.mark.skipif(sys.platform != "linux", reason="some names exist only there")
@pytest.mark.parametrize("name", REPOSITORIES)
def test_the_skills_of_a_repository_are_the_same_in_a_copy(tmp_path: Path, name: str) -> None:
    remote = Remote(make_layout(name).commit(tmp_path / "bare.git"), BRANCH)

    assert_same(open_library(RemoteBranch(remote, tmp_path / "cache")))


def test_an_edit_is_served_until_the_next_and_only_in_the_copy(tmp_path: Path) -> None:
    write_skill(tmp_path, "a.md", keywords=["one"])
    write_skill(tmp_path, "b.md", keywords=["two"])
    library = open_library(tmp_path)
    first = skill_text(keywords=["one", "sso"]).encode()
    second = skill_text(keywords=["two", "otp"]).encode()

    with library.edited_copy() as copy:
        one = copy.serve({place_of(library, "a"): first})
        two = copy.serve({place_of(library, "b"): second})

        assert one.index.require("a").keywords == ("one", "sso")
        assert one.index.require("b").keywords == ("two",)
        assert one.matcher.score("sso")[0].skill.path == "a"
        assert two.index.require("a").keywords == ("one",)
        assert two.index.require("b").keywords == ("two", "otp")
    assert skill_of(library, "a").keywords == ("one",)
    assert (tmp_path / "a.md").read_text() == skill_text(keywords=["one"])


def test_the_settings_of_the_content_hold_in_the_copy(tmp_path: Path) -> None:
    write_skill(tmp_path, "skills/a.md", keywords=["one"])
    write(tmp_path / "config.yaml", "matching:\n  min_score: 0.9\n")
    library = open_library(tmp_path)

    with library.edited_copy() as copy:
        assert copy.serve({}).config.matching.min_score == 0.9


def test_a_file_is_named_from_the_top_of_its_repository(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    write_skill(tmp_path, "docs/skills/ui/a.md")
    library = open_library(tmp_path / "docs")

    with library.edited_copy() as copy:
        found = copy.read(skill_of(library, "ui/a"))

    assert found.file == "docs/skills/ui/a.md"
    assert found.source.top == tmp_path.resolve()
    assert found.raw == skill_text().encode()


def test_a_file_of_a_remote_repository_is_named_from_its_top(tmp_path: Path) -> None:
    upstream = Upstream.create(tmp_path)
    upstream.commit({"docs/skills/ui/a.md": skill_text()})
    remote = Remote(upstream.url, "main")
    source = RemoteBranch(remote, tmp_path / "cache")
    library = open_library(source)

    with library.edited_copy() as copy:
        found = copy.read(next(iter(library.view().snapshot.index)))

    assert found.file == "docs/skills/ui/a.md"
    assert found.source.name == source.name


def test_each_of_several_sources_has_its_own_files(tmp_path: Path) -> None:
    write_skill(tmp_path, "one/a.md", keywords=["one"])
    write_skill(tmp_path, "one/two/a.md", keywords=["two"])  # a source in another one
    mounts = (
        Mount(source=LocalFolder(tmp_path / "one")),
        Mount(source=LocalFolder(tmp_path / "one/two"), at="team"),
    )
    library = open_library(Mounts(mounts))
    new = skill_text(keywords=["two", "sso"]).encode()

    with library.edited_copy() as copy:
        changed = copy.serve({place_of(library, "team/a"): new})

        assert copy.read(skill_of(library, "team/a")).source.mount == "team"
        assert changed.index.require("team/a").keywords == ("two", "sso")
        assert changed.index.require("a").keywords == ("one",)


def test_each_of_several_parts_of_a_repository_has_its_own_files(
    tmp_path: Path,
) -> None:
    upstream = Upstream.create(tmp_path)
    upstream.commit({"a/login.md": skill_text(), "b/login.md": skill_text()})
    branch = RemoteBranch(Remote(upstream.url, "main"), tmp_path / "cache")
    parts = (Mount(source=branch, at=name, selection=Selection(name)) for name in "ab")
    library = open_library(Mounts(tuple(parts)))
    new = skill_text(keywords=["two", "sso"]).encode()

    with library.edited_copy() as copy:
        changed = copy.serve({place_of(library, "b/login"): new})

        assert copy.read(skill_of(library, "b/login")).source.mount == "b"
        assert changed.index.require("b/login").keywords == ("two", "sso")
        assert changed.index.require("a/login").keywords != ("two", "sso")


def test_a_file_that_two_sources_have_is_changed_in_both(tmp_path: Path) -> None:
    write_skill(tmp_path, "a.md", keywords=["one"])
    folder = LocalFolder(tmp_path)
    library = open_library(Mounts((Mount(source=folder), Mount(source=folder, at="team"))))
    new = skill_text(keywords=["two", "sso"]).encode()

    with library.edited_copy() as copy:
        changed = copy.serve({place_of(library, "team/a"): new})

    for path in ("a", "team/a"):
        assert changed.index.require(path).keywords == ("two", "sso")


def test_a_package_with_a_copy_is_not_changed_alone(tmp_path: Path) -> None:
    for folder in ("skills/pdf", "plugins/office/skills/pdf"):
        write(tmp_path / folder / "SKILL.md", package_text())
    library = open_library(tmp_path)

    with (
        library.edited_copy() as copy,
        pytest.raises(UneditableError, match="office/pdf"),
    ):
        copy.read(skill_of(library, "pdf"))


def test_a_changed_skill_has_an_embedding_of_what_it_says_now(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "skills", "pdf", description="Fill in forms.")
    text = (folder / "SKILL.md").read_text()
    changed = text.replace("Fill in forms.", "Fill in customs forms.").encode()
    with embedding_server.serving() as server:
        embedding = {
            "provider": "openai-compatible",
            "model": "m",
            "base_url": server.url,
        }
        options = Options(skills_dir=str(tmp_path / "skills"), settings={"embedding": embedding})
        library = build(options, {}).library
        library.sync()
        library.current.wait_for_vectors()
        before = len(server.texts)

        with library.edited_copy() as copy:
            copied = copy.serve({place_of(library, "pdf"): changed})

        asked = server.texts[before:]
    assert len(asked) == 1
    assert "customs" in asked[0]
    assert isinstance(copied.matcher, HybridMatcher)
