from pathlib import Path

import pytest

from skills_mcp.bootstrap import Options, build
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import LocalFolder
from skills_mcp.errors import ConfigError
from tests.support import (
    SKILLS_CONTENT,
    Upstream,
    skill_text,
    spooled,
    write,
    write_skill,
)

LOCAL = Options(skills_dir=str(SKILLS_CONTENT))


@pytest.mark.spec("2.2")
def test_a_folder_is_served_as_it_is() -> None:
    application = build(LOCAL, {})

    assert isinstance(application.source, LocalFolder)
    assert application.source.name == str(SKILLS_CONTENT)


@pytest.mark.spec("3.1")
def test_a_folder_wins_over_a_repository() -> None:
    both = Options(skills_dir=str(SKILLS_CONTENT), repo="https://example.com/a.git")

    application = build(both, {})

    assert isinstance(application.source, LocalFolder)


@pytest.mark.spec("3.1")
def test_without_a_folder_the_repository_is_followed() -> None:
    application = build(Options(repo="https://example.com/a.git", branch="next"), {})

    assert isinstance(application.source, RemoteBranch)
    assert application.source.name == "https://example.com/a.git (next)"


@pytest.mark.parametrize("empty", [Options(), Options(skills_dir="", repo="")])
@pytest.mark.spec("3.1")
def test_neither_is_an_error_that_says_what_to_set(empty: Options) -> None:
    with pytest.raises(ConfigError, match=r"Set SKILLS_REPO .* or SKILLS_DIR"):
        build(empty, {})


def test_a_tilde_is_the_home_of_the_user(home: Path) -> None:
    application = build(Options(skills_dir="~/skills"), {})

    assert application.source.name == str(home / "skills")


def test_a_relative_folder_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    application = build(Options(skills_dir="content"), {})

    assert application.source.name == str(tmp_path / "content")


def test_nothing_is_read_but_the_operators_file(tmp_path: Path) -> None:
    application = build(Options(skills_dir=str(tmp_path / "nowhere")), {})

    assert not application.library.is_ready


@pytest.mark.spec("11.1")
def test_the_environment_sets_the_interval() -> None:
    application = build(LOCAL, {"REFRESH_INTERVAL_MINUTES": "3"})

    assert application.library.config.refresh.interval_minutes == 3
    assert application.library.config.refresh.enabled


@pytest.mark.spec("11.1")
def test_the_environment_sets_the_endpoint_which_turns_analytics_on() -> None:
    plain = build(LOCAL, {})
    told = build(LOCAL, {"ANALYTICS_ENDPOINT": "https://example.com/events"})

    assert not plain.library.config.analytics.enabled
    assert told.library.config.analytics.enabled
    assert told.library.config.analytics.endpoint == "https://example.com/events"


@pytest.mark.spec("11.3")
def test_the_environment_wins_over_the_operators_file_and_that_over_the_content(
    tmp_path: Path, home: Path
) -> None:
    write_skill(tmp_path, "a.md")
    write(
        tmp_path / "config.yaml",
        "matching: {max_results: 7, min_score: 0.5}\nrefresh: {interval_minutes: 60}",
    )
    write(
        home / ".skills-mcp/config.yaml",
        "matching: {max_results: 5}\nrefresh: {interval_minutes: 30}",
    )
    options = Options(skills_dir=str(tmp_path))

    application = build(options, {"REFRESH_INTERVAL_MINUTES": "3"})
    application.library.load(application.source.sync())

    config = application.library.config
    assert config.refresh.interval_minutes == 3
    assert config.matching.max_results == 5
    assert config.matching.min_score == 0.5
    assert config.matching.ambiguity_threshold == 0.1


@pytest.mark.spec("11.3")
def test_a_file_that_is_named_replaces_the_one_at_home(
    tmp_path: Path, home: Path
) -> None:
    write(home / ".skills-mcp/config.yaml", "matching: {max_results: 5}")
    mine = write(tmp_path / "mine.yaml", "assets: {max_size_bytes: 9}")
    options = Options(skills_dir=str(SKILLS_CONTENT), config_file=mine)

    application = build(options, {})

    assert application.library.config.assets.max_size_bytes == 9
    assert application.library.config.matching.max_results == 3


def test_everything_of_ours_lies_where_the_operator_says(
    tmp_path: Path, upstream: Upstream, home: Path
) -> None:
    upstream.commit({"one.md": skill_text()})
    environment = {
        "SKILLS_MCP_HOME": str(tmp_path / "elsewhere"),
        "ANALYTICS_ENDPOINT": "https://example.com/events",
    }

    application = build(Options(repo=upstream.url), environment)
    application.library.load(application.source.sync())
    application.library.report("one", useful=True, comment=None)
    application.publisher._spool.rotate()

    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {
        "cache",
        "spool",
    }
    assert list(home.iterdir()) == []


@pytest.mark.spec("9.1")
def test_two_branches_never_share_a_cache(tmp_path: Path) -> None:
    main = Upstream.create(tmp_path / "a")
    main.commit({"one.md": skill_text(keywords=["one"])})
    main.commit({"one.md": skill_text(keywords=["two"])})

    first = build(Options(repo=main.url), {}).source
    first.sync()
    other = build(Options(repo=main.url, branch="other"), {}).source

    assert first.published() is not None
    assert other.published() is None


@pytest.mark.spec("10.1")
def test_events_name_the_developer(tmp_path: Path) -> None:
    environment = {
        "USER": "grace",
        "SKILLS_MCP_HOME": str(tmp_path / "ours"),
        "ANALYTICS_ENDPOINT": "https://example.com/events",
    }

    application = build(LOCAL, environment)
    application.library.report("a", useful=True, comment=None)

    [event] = spooled(application.publisher._spool)
    assert event["server_id"] == "dev-grace"


@pytest.mark.spec("9.2")
def test_the_token_of_the_environment_is_not_part_of_any_name() -> None:
    url = "https://user:secret@example.com/a.git"

    application = build(Options(repo=url), {"GITHUB_TOKEN": "ghp_canary"})

    assert "secret" not in application.source.name
    assert "ghp_canary" not in repr(application)
