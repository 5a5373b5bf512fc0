"""What is opened: folders, repositories, settings, and what the environment names."""

from pathlib import Path

import pytest

import skills_mcp
from tests.support import Upstream, skill_text, write, write_skill

SECRET = "s3cr3t-t0ken-of-ours"  # noqa: S105 - of no host


def _paths(**options: object) -> list[str]:
    with skills_mcp.open_sync(**options) as skills:  # type: ignore[arg-type]
        return [skill.path for skill in skills.list()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "one", "first.md", keywords=["first"])
    return tmp_path / "one"


def test_a_folder_may_be_a_text_or_a_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)

    assert _paths(directory="one") == ["first"]
    assert [skill.path for skill in skills_mcp.open_sync("one").list()] == ["first"]
    assert _paths(directory=folder) == ["first"]
    assert _paths(directory=[folder]) == ["first"]


def test_a_tilde_is_the_home(home: Path) -> None:
    write_skill(home / "mine", "own.md", keywords=["own"])

    assert _paths(directory="~/mine") == ["own"]


def test_a_branch_or_a_tag_is_followed(upstream: Upstream) -> None:
    first = upstream.commit({"skills/old.md": skill_text(keywords=["old"])})
    upstream.commit({"skills/new.md": skill_text(keywords=["new"])})

    assert _paths(repo=upstream.url) == ["new", "old"]
    assert _paths(repo=upstream.url, branch="main") == ["new", "old"]
    assert _paths(repo=upstream.url, ref=first) == ["old"]


def test_a_folder_and_a_repository_at_once_belong_into_sources(
    folder: Path, upstream: Upstream
) -> None:
    upstream.commit({"skills/new.md": skill_text(keywords=["new"])})

    with pytest.raises(skills_mcp.ConfigError, match="sources"):
        skills_mcp.open_sync(directory=folder, repo=upstream.url)

    sources = [{"folder": str(folder)}, {"repo": upstream.url, "mount": "org"}]
    assert _paths(config={"sources": sources}) == ["first", "org/new"]


def test_settings_may_be_a_mapping_or_a_file(folder: Path, tmp_path: Path) -> None:
    write_skill(folder, "second.md", keywords=["second"])
    file = write(tmp_path / "settings.yaml", "visibility: {deny: [first]}")

    hidden = {"visibility": {"deny": ["first"]}}
    assert _paths(directory=folder, config=hidden) == ["second"]
    assert _paths(directory=folder, config=file) == ["second"]


def test_a_wrong_setting_is_named(folder: Path) -> None:
    with pytest.raises(skills_mcp.ConfigError, match=r"config: .*visibility"):
        skills_mcp.open_sync(directory=folder, config={"visibilty": {}})


def test_the_environment_names_the_source_where_the_program_does_not(
    folder: Path, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"skills/new.md": skill_text(keywords=["new"])})
    write_skill(tmp_path / "two", "second.md", keywords=["second"])
    named = {"SKILLS_DIR": str(folder), "HOME": str(tmp_path)}

    assert _paths(environment=named) == ["first"]
    assert _paths(environment=named, directory=tmp_path / "two") == ["second"]
    assert _paths(environment=named, repo=upstream.url) == ["new"]
    with pytest.raises(skills_mcp.ConfigError, match="No skills to serve"):
        skills_mcp.open_sync(environment={"HOME": str(tmp_path)})


def test_the_cache_is_where_the_program_says(
    upstream: Upstream, tmp_path: Path, home: Path
) -> None:
    upstream.commit({"skills/new.md": skill_text(keywords=["new"])})

    assert _paths(repo=upstream.url, home=tmp_path / "cache") == ["new"]

    assert (tmp_path / "cache" / "cache").is_dir()
    assert not (home / ".skills-mcp").exists()


def test_offline_nothing_is_fetched(upstream: Upstream) -> None:
    upstream.commit({"skills/new.md": skill_text(keywords=["new"])})

    with pytest.raises(skills_mcp.SkillsError, match="offline"):
        _paths(repo=upstream.url, offline=True)


def test_a_token_is_shown_nowhere(home: Path) -> None:
    url = "http://127.0.0.1:1/skills.git"
    skills = skills_mcp.open_sync(repo=url, token=SECRET)

    with pytest.raises(skills_mcp.SyncError) as caught:
        skills.open()

    assert "s3cr3t" not in f"{caught.value}{skills!r}"
    kept = [file for file in home.rglob("*") if file.is_file()]
    assert not [file for file in kept if b"s3cr3t" in file.read_bytes()]


@pytest.mark.parametrize(
    "options, named",
    [
        ({"directory": ""}, "directory: is empty"),
        ({"directory": []}, "directory: is empty"),
        ({"directory": [".", ""]}, "directory: is empty"),
        ({"repo": " "}, "repo: is empty"),
        ({"directory": ".", "branch": "main"}, "branch and ref belong to repo"),
        ({"ref": "v1"}, "branch and ref belong to repo"),
        ({"directory": ".", "offline": "no"}, "^offline: must be true or false"),
        ({"directory": ".", "token": SECRET}, "token belongs to a repository"),
    ],
)
def test_what_would_be_ignored_is_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(skills_mcp.ConfigError, match=named) as caught:
        skills_mcp.open_sync(**options)  # type: ignore[arg-type]

    assert SECRET not in str(caught.value)


def test_a_missing_folder_is_named_by_the_argument(tmp_path: Path) -> None:
    skills = skills_mcp.open_sync(directory=tmp_path / "missing")

    with pytest.raises(skills_mcp.SyncError, match="or set directory to the folder"):
        skills.list()


def test_an_error_names_the_argument(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"skills/new.md": skill_text()})
    refused: dict[str, dict[str, object]] = {
        "pass repo or directory": {"environment": {"HOME": str(tmp_path)}},
        "set branch to that": {"repo": upstream.url, "branch": "missing"},
        "offline": {"repo": upstream.url, "offline": True},
    }

    for named, options in refused.items():
        with pytest.raises(skills_mcp.SkillsError, match=named) as caught:
            _paths(**options)
        assert "--" not in str(caught.value)


def test_a_relative_home_begins_at_the_working_directory(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.commit({"skills/new.md": skill_text()})
    monkeypatch.chdir(tmp_path)

    assert _paths(repo=upstream.url, home="state") == ["new"]
    assert list(tmp_path.glob("state/cache/*/objects.git"))


def test_a_placeholder_that_nobody_has_replaced_counts_as_unset(
    upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.commit({"skills/new.md": skill_text()})
    variables = {"SKILLS_REPO": upstream.url, "SKILLS_REF": "${REF}", "GITHUB_TOKEN": "${T}"}

    assert _paths(environment=variables) == ["new"]
    assert "SKILLS_REF is an unreplaced placeholder" in caplog.text
