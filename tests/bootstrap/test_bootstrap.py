import json
import logging
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.bootstrap import Application, Options, build
from skills_mcp.config import Analytics
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    ContentSource,
    Freshness,
    LocalFolder,
    Signers,
    SyncPolicy,
    accept_any_commit,
)
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.library.answers import Match
from tests.content.git_server import serving
from tests.events.test_publisher import listening
from tests.features.embeddings import embedding_server
from tests.support import (
    SKILLS_CONTENT,
    Upstream,
    git,
    running,
    skill_text,
    spooled,
    write,
    write_skill,
)


def mounts_of(application: Application) -> Mounts:
    """Return the sources that bootstrap has wired."""
    return application.library.mounts


def only(application: Application) -> ContentSource:
    """Return the one source that is served, which stands at the top."""
    [mount] = mounts_of(application).mounts
    assert (mount.at, mount.scope) == ("", "org")
    return mount.source


def served_commits(application: Application) -> list[str | None]:
    return [state.commit for state in application.library.view().states()]


LOCAL = Options(skills_dir=str(SKILLS_CONTENT))


@pytest.mark.spec("2.2")
def test_a_folder_is_served_as_it_is() -> None:
    application = build(LOCAL, {})

    assert isinstance(only(application), LocalFolder)
    assert application.library.mounts.name == str(SKILLS_CONTENT)


@pytest.mark.spec("3.1")
def test_a_folder_wins_over_a_repository() -> None:
    both = Options(skills_dir=str(SKILLS_CONTENT), repo="https://example.com/a.git")

    application = build(both, {})

    assert isinstance(only(application), LocalFolder)


@pytest.mark.spec("3.1")
def test_without_a_folder_the_repository_is_followed() -> None:
    application = build(Options(repo="https://example.com/a.git", branch="next"), {})

    assert isinstance(only(application), RemoteBranch)
    assert application.library.mounts.name == "https://example.com/a.git (next)"


@pytest.mark.parametrize("empty", [Options(), Options(skills_dir="", repo="")])
@pytest.mark.spec("3.1")
def test_neither_is_an_error_that_says_what_to_set(empty: Options) -> None:
    with pytest.raises(
        ConfigError, match=r"Set SKILLS_REPO .* or SKILLS_DIR .* sources .* --discover"
    ):
        build(empty, {})


def test_a_tilde_is_the_home_of_the_user(home: Path) -> None:
    application = build(Options(skills_dir="~/skills"), {})

    assert application.library.mounts.name == str(home / "skills")


def test_a_relative_folder_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    application = build(Options(skills_dir="content"), {})

    assert application.library.mounts.name == str(tmp_path / "content")


def test_nothing_is_read_but_the_operators_file(tmp_path: Path) -> None:
    application = build(Options(skills_dir=str(tmp_path / "nowhere")), {})

    assert not application.library.is_ready


@pytest.mark.spec("11.1")
def test_the_environment_sets_the_interval() -> None:
    application = build(LOCAL, {"REFRESH_INTERVAL_MINUTES": "3"})

    assert application.library.config.refresh.interval_minutes == 3
    assert application.library.config.refresh.enabled


@pytest.mark.spec("11.1")
def test_only_the_operators_endpoint_is_told_the_token(tmp_path: Path) -> None:
    ours, theirs = "https://example.com/events", "https://evil.example/events"
    given = {"ANALYTICS_ENDPOINT": ours, "ANALYTICS_TOKEN": "of-the-variable"}
    file = write(tmp_path / "token", "of-the-file\n")
    missing = str(tmp_path / "missing")

    def told(endpoint: str, **more: str) -> str:
        publisher = build(LOCAL, {**given, **more}).publisher
        return publisher.read_token(endpoint)

    assert told(ours) == "of-the-variable"
    assert told(ours, ANALYTICS_TOKEN_FILE=str(file)) == "of-the-file"
    assert told(ours, ANALYTICS_TOKEN_FILE=missing) == ""
    assert told(theirs) == ""
    assert told("", ANALYTICS_ENDPOINT="") == "of-the-variable"  # and nothing is sent


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
    application.library.sync()

    config = application.library.config
    assert config.refresh.interval_minutes == 3
    assert config.matching.max_results == 5
    assert config.matching.min_score == 0.5
    assert config.matching.ambiguity_threshold == 0.1


@pytest.mark.spec("11.3")
def test_a_file_that_is_named_replaces_the_one_at_home(tmp_path: Path, home: Path) -> None:
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
    application.library.sync()
    application.library.view().report("one", useful=True, comment=None)
    application.publisher.outbox.spool.rotate()

    assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {
        "analytics.key",
        "cache",
        "spool",
    }
    assert list(home.iterdir()) == []


@pytest.mark.spec("9.1")
def test_two_branches_never_share_a_cache(tmp_path: Path) -> None:
    main = Upstream.create(tmp_path / "a")
    main.commit({"one.md": skill_text(keywords=["one"])})
    main.commit({"one.md": skill_text(keywords=["two"])})

    first = mounts_of(build(Options(repo=main.url), {}))
    first.sync(Freshness(0.0), accept_any_commit)
    other = mounts_of(build(Options(repo=main.url, branch="other"), {}))

    assert first.open() is not None
    assert other.open() is None


@pytest.mark.spec("10.1")
@pytest.mark.parametrize(
    "identity, server_id",
    [("user", r"dev-grace"), ("hash", r"dev-[0-9a-f]{12}"), ("none", r"dev")],
)
def test_events_name_the_developer_as_the_operator_wants(
    identity: str, server_id: str, tmp_path: Path
) -> None:
    settings = {"analytics": {"enabled": True, "identity": identity}}
    write(tmp_path / "ours" / "config.yaml", json.dumps(settings))
    environment = {"USER": "grace", "SKILLS_MCP_HOME": str(tmp_path / "ours")}

    application = build(LOCAL, environment)
    application.library.view().report("a", useful=True, comment=None)

    [event] = spooled(application.publisher.outbox.spool)
    assert re.fullmatch(server_id, event["server_id"])


@pytest.mark.parametrize("value", ["1", "true", "yes", " 1 "])
async def test_do_not_track_wins_over_everything(
    value: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configure(home, analytics={"enabled": True})
    caplog.set_level(logging.INFO)
    with listening() as endpoint:
        environment = {"ANALYTICS_ENDPOINT": endpoint.url, "DO_NOT_TRACK": value}
        application = build(LOCAL, environment)
        application.library.sync()
        application.library.view().report("a", useful=True, comment=None)

        sent = await application.publisher.publish()

        assert (sent, endpoint.received) == (0, [])
    ours = home / ".skills-mcp"
    assert not (ours / "spool").exists()
    assert not (ours / "analytics.key").exists()
    assert caplog.text.count("DO_NOT_TRACK is set") == 1


@pytest.mark.parametrize("value", ["", "0"])
def test_do_not_track_can_say_no(value: str, home: Path) -> None:
    configure(home, analytics={"enabled": True})

    application = build(LOCAL, {"DO_NOT_TRACK": value})

    assert application.library.config.analytics.enabled


@pytest.mark.parametrize("trusted", [False, True])
def test_no_content_says_what_is_written_down_of_people(
    *, trusted: bool, home: Path, upstream: Upstream
) -> None:
    loose = {
        "context": "full",
        "identity": "user",
        "keep_days": 3650,
    }
    config = json.dumps({"analytics": {"enabled": True, **loose}})
    upstream.commit({"config.yaml": config, "one.md": skill_text(keywords=["one"])})
    configure(home, trust_content_config=trusted)

    library = build(Options(repo=upstream.url), {}).library
    library.sync()

    assert library.config.analytics == Analytics(enabled=trusted)


@pytest.mark.spec("9.2")
def test_the_token_of_the_environment_is_not_part_of_any_name() -> None:
    url = "https://user:secret@example.com/a.git"

    application = build(Options(repo=url), {"GITHUB_TOKEN": "ghp_canary"})

    assert "secret" not in application.library.mounts.name
    assert "ghp_canary" not in repr(application)


def configure(home: Path, **settings: Any) -> Path:
    """Write the operator's file; a JSON object is YAML, too."""
    return write(home / ".skills-mcp" / "config.yaml", json.dumps(settings))


def places(application: Application) -> dict[str, str]:
    """Return the name of each source, by the place where it stands."""
    return {mount.at: mount.source.name for mount in mounts_of(application).mounts}


def branches(application: Application) -> dict[str, RemoteBranch]:
    """Return the repositories, by the place where they stand."""
    every = {mount.at: mount.source for mount in mounts_of(application).mounts}
    return {at: each for at, each in every.items() if isinstance(each, RemoteBranch)}


def remotes(application: Application) -> dict[str, Remote]:
    """Return what is asked, by the place where its skills stand."""
    every = branches(application)
    return {at: branch._remote for at, branch in every.items()}


def policies(application: Application) -> dict[str, SyncPolicy]:
    """Return what is demanded, by the place where the skills stand."""
    return {at: branch._policy for at, branch in branches(application).items()}


def served(application: Application) -> list[str]:
    """Sync everything and return the paths of all skills."""
    application.library.sync()
    return sorted(skill.path for skill in application.library.view().snapshot.index)


def test_the_sources_of_the_file_are_served_together(tmp_path: Path, home: Path) -> None:
    one, two = Upstream.create(tmp_path / "1"), Upstream.create(tmp_path / "2")
    one.commit({"skills/ui.md": skill_text(), "skills/db.md": skill_text()})
    two.commit({"docs/rules/ui.md": skill_text(), "other.md": skill_text()})
    write_skill(tmp_path, "mine/notes.md")
    configure(
        home,
        sources=[
            {"repo": one.url},
            {"repo": two.url, "mount": "teams/two", "subfolder": "docs/rules"},
            {"folder": str(tmp_path / "mine"), "mount": "mine"},
        ],
    )

    application = build(Options(), {})

    assert served(application) == ["db", "mine/notes", "teams/two/ui", "ui"]
    assert mounts_of(application).mode == "git"


@pytest.mark.spec("8.6")
async def test_a_refresh_says_how_each_source_is_doing(tmp_path: Path, home: Path) -> None:
    one, two = Upstream.create(tmp_path / "1"), Upstream.create(tmp_path / "2")
    first = one.commit({"a.md": skill_text()})
    second = two.commit({"a.md": skill_text()})
    sources = [{"repo": one.url}, {"repo": two.url, "mount": "two"}]
    configure(home, sources=sources)
    library = build(Options(), {}).library

    async with running(library):
        whole = await library.refresh()
        newer = one.commit({"a.md": skill_text(body="New"), "b.md": skill_text()})
        shutil.rmtree(two.bare)
        partial = await library.refresh()

    assert (whole.error, whole.commit, whole.skills_reindexed) == (None, first, 2)
    assert [(s.mount, s.commit, s.error) for s in whole.sources] == [
        ("", first, None),
        ("two", second, None),
    ]
    assert isinstance(partial.error, SyncError)
    assert two.url in str(partial.error)
    assert one.url not in str(partial.error)
    assert (partial.commit, partial.files_changed) == (newer, 2)
    assert partial.skills_reindexed == 3
    assert [s.commit for s in partial.sources] == [newer, second]
    assert [s.error is None for s in partial.sources] == [True, False]
    assert partial.synced_at == partial.sources[0].synced_at


@pytest.mark.spec("13")
async def test_a_start_with_one_remote_away_serves_the_others(tmp_path: Path, home: Path) -> None:
    one = Upstream.create(tmp_path / "1")
    commit = one.commit({"a.md": skill_text(keywords=["served"])})
    away = {"repo": f"file://{tmp_path}/away.git", "mount": "away"}
    configure(home, sources=[away, {"repo": one.url}])
    library = build(Options(), {}).library

    async with running(library):
        library.refresher.wake()
        await library.refresher.wait_until_ready(20)
        refreshed = await library.refresh()

    assert isinstance(library.view().route("served"), Match)
    assert refreshed.commit is None  # of the first repository, which is away
    assert [s.commit for s in refreshed.sources] == [None, commit]


@pytest.mark.spec("3.1")
@pytest.mark.parametrize("short", ["skills_dir", "repo"])
def test_the_short_form_wins_over_the_sources_of_the_file(
    short: str, tmp_path: Path, home: Path
) -> None:
    configure(home, sources=[{"folder": "/elsewhere"}, {"repo": "/x", "mount": "x"}])
    options = Options(**{short: str(tmp_path)})  # type: ignore[arg-type]

    assert list(places(build(options, {}))) == [""]
    assert str(tmp_path) in only(build(options, {})).name


def test_a_relative_source_begins_at_the_folder_of_its_file(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [
        {"folder": "skills"},
        {"folder": "~/mine", "mount": "mine"},
        {"repo": "../content.git", "mount": "git"},
        {"repo": "https://example.com/a.git", "mount": "far"},
    ]
    file = write(tmp_path / "etc" / "mine.yaml", json.dumps({"sources": sources}))
    monkeypatch.chdir(tmp_path)

    application = build(Options(config_file=file.relative_to(tmp_path)), {})

    assert places(application) == {
        "": str(tmp_path / "etc" / "skills"),
        "mine": str(home / "mine"),
        "git": f"{tmp_path}/content.git (main)",
        "far": "https://example.com/a.git (main)",
    }


def test_a_missing_folder_of_the_file_is_named_by_its_setting(tmp_path: Path, home: Path) -> None:
    configure(home, sources=[{"folder": str(tmp_path / "no")}])

    with pytest.raises(SyncError, match=r"set sources\[0\]\.folder"):
        build(Options(), {}).library.sync()


def test_two_folders_of_one_repository_are_of_one_commit(upstream: Upstream, home: Path) -> None:
    commit = upstream.commit({"x/a.md": skill_text(), "y/b.md": skill_text()})
    sources = [{"repo": upstream.url, "subfolder": name, "mount": name} for name in "xy"]
    configure(home, sources=sources)

    application = build(Options(), {})

    assert len({id(mount.source) for mount in mounts_of(application).mounts}) == 1
    assert served(application) == ["x/a", "y/b"]
    parts = application.library.view().snapshot.content.parts
    assert [part.checkout.revision for part in parts] == [commit, commit]


def test_a_source_can_be_pinned(upstream: Upstream, home: Path) -> None:
    first = upstream.commit({"old.md": skill_text()})
    git("tag", "v1", cwd=upstream.work)
    git("push", "-q", "origin", "v1", cwd=upstream.work)
    upstream.commit({"new.md": skill_text()})
    sources = [
        {"repo": upstream.url, "ref": ref, "mount": at}
        for at, ref in {"tag": "v1", "commit": first, "branch": ""}.items()
    ]
    configure(home, sources=sources)

    paths = served(build(Options(), {}))

    assert paths == ["branch/new", "branch/old", "commit/old", "tag/old"]


@pytest.mark.parametrize("source", [{"ref": "--output=x"}, {"ref": "a:b"}, {"branch": "a..b"}])
def test_a_name_that_is_none_stops_the_start(source: dict[str, str], home: Path) -> None:
    configure(home, sources=[{"repo": "https://example.com/a.git", **source}])

    with pytest.raises(ConfigError, match="is no name of a"):
        build(Options(), {})


def test_a_variable_that_nobody_filled_in_is_named_by_its_setting(home: Path) -> None:
    configure(home, sources=[{"repo": "${HOME}/skills.git"}])

    with pytest.raises(ConfigError, match=r"sources\[0\]\.repo is .*HOME"):
        build(Options(), {})


@pytest.mark.spec("9.2")
def test_the_token_goes_to_the_host_of_the_first_repository_only(home: Path) -> None:
    configure(
        home,
        sources=[
            {"repo": "git@ssh.example:a", "mount": "a"},
            {"repo": "https://own:secret@own.example/b", "mount": "b"},
            {"repo": "https://first.example/c", "mount": "c"},
            {"repo": "https://other.example/d", "mount": "d"},
            {"repo": "https://FIRST.example/e", "mount": "e"},
            {"repo": "https://first.example:8443/f", "mount": "f"},
        ],
    )

    application = build(Options(), {"GITHUB_TOKEN": "canary"})

    sent = {at: each for at, each in remotes(application).items() if each.sends_token}
    tokens = {at: each.token for at, each in sent.items()}
    assert tokens == {"b": "secret", "c": "canary", "e": "canary"}


@pytest.mark.spec("9.2")
def test_another_host_is_asked_without_the_token(
    upstream: Upstream, tmp_path: Path, home: Path
) -> None:
    commit = upstream.commit({"a.md": skill_text()})
    with serving(tmp_path, "canary") as first, serving(tmp_path) as second:
        sources = [
            {"repo": f"{server.url}/upstream.git", "mount": at}
            for at, server in {"first": first, "second": second}.items()
        ]
        configure(home, sources=sources)
        application = build(Options(), {"GITHUB_TOKEN": "canary"})
        application.library.sync()

    assert served_commits(application) == [commit, commit]
    assert any(first.authorizations)
    assert set(second.authorizations) == {None}


@pytest.mark.spec("9.2")
def test_a_file_with_a_token_wins_over_the_token_and_is_for_one_host_too(
    home: Path,
) -> None:
    configure(
        home,
        sources=[
            {"repo": "https://own:secret@own.example/a", "mount": "a"},
            {"repo": "https://first.example/b", "mount": "b"},
            {"repo": "https://other.example/c", "mount": "c"},
        ],
    )
    environment = {"SKILLS_MCP_TOKEN_FILE": "~/token", "GITHUB_TOKEN": "canary"}

    both = remotes(build(Options(), environment))
    alone = remotes(build(Options(), {"SKILLS_MCP_TOKEN_FILE": "~/token"}))
    none = remotes(build(Options(), {"SKILLS_MCP_TOKEN_FILE": ""}))

    for every in (both, alone):
        files = {at: remote.token_file for at, remote in every.items()}
        assert files == {"a": None, "b": home / "token", "c": None}
        assert [remote.sends_token for remote in every.values()] == [True, True, False]
    assert [remote.sends_token for remote in none.values()] == [True, False, False]


@pytest.mark.spec("9.2")
@pytest.mark.parametrize("form", ["short", "listed"])
def test_what_the_file_says_is_sent_and_not_the_token_beside_it(
    form: str, upstream: Upstream, tmp_path: Path, home: Path
) -> None:
    commit = upstream.commit({"a.md": skill_text()})
    write(home / "token", "right\n")
    environment = {"SKILLS_MCP_TOKEN_FILE": "~/token", "GITHUB_TOKEN": "wrong"}

    with serving(tmp_path, "right") as server:
        url = f"{server.url}/upstream.git"
        configure(home, sources=[{"repo": url}])
        options = Options(repo=url) if form == "short" else Options()
        application = build(options, environment)
        application.library.sync()

    assert served_commits(application) == [commit]


def test_a_relative_file_with_a_token_begins_where_the_server_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options(repo="https://example.com/a.git")

    application = build(options, {"SKILLS_MCP_TOKEN_FILE": "run/token"})

    assert remotes(application)[""].token_file == tmp_path / "run" / "token"


def test_a_repository_is_one_source_whether_or_not_its_url_has_a_secret(
    home: Path,
) -> None:
    configure(
        home,
        sources=[
            {"repo": "https://example.com/a", "subfolder": "x", "mount": "x"},
            {"repo": "https://ghp_canary@example.com/a", "subfolder": "y", "mount": "y"},
        ],
    )

    application = build(Options(), {})

    assert len(set(branches(application).values())) == 1
    assert remotes(application)["x"].sends_token


def test_a_repository_is_one_source_whether_or_not_its_url_has_a_user(home: Path) -> None:
    addresses = ("https://example.com/a", "https://acme@example.com/a")
    configure(home, sources=[{"repo": url, "mount": f"at-{n}"} for n, url in enumerate(addresses)])

    application = build(Options(), {"GITHUB_TOKEN": "right"})

    assert len(set(branches(application).values())) == 1
    assert {remote.user for remote in remotes(application).values()} == {"acme"}


# --- what is demanded of a repository ------------------------------------------


FAR = "https://example.com/a.git"


def test_the_defaults_of_a_policy_are_those_of_the_configuration() -> None:
    application = build(Options(repo=FAR), {})

    assert policies(application) == {"": SyncPolicy()}


def test_every_demand_of_the_file_reaches_the_repository(tmp_path: Path, home: Path) -> None:
    limits = {
        "max_files": 1,
        "max_file_bytes": 2,
        "max_total_bytes": 3,
    }
    demands = {
        "timeout_seconds": 9,
        "allow_non_fast_forward": False,
        "allowed_signers": "~/may",
        "revoked_signers": str(tmp_path / "gone"),
        "verify": "both",
        "offline": True,
    }
    configure(home, limits=limits, sync=demands)

    [policy] = policies(build(Options(repo=FAR, pin="v1"), {})).values()

    allowed, revoked = home / "may", tmp_path / "gone"
    assert policy == SyncPolicy(
        max_files=1,
        max_file_bytes=2,
        max_total_bytes=3,
        timeout_seconds=9,
        allow_non_fast_forward=False,
        signers=Signers(allowed=allowed, revoked=revoked, verify="both"),
        is_offline=True,
    )
    untouched = {
        field.name
        for field in fields(SyncPolicy)
        if getattr(policy, field.name) == getattr(SyncPolicy(), field.name)
    }
    assert untouched == {"selections"}


def test_what_a_source_demands_wins_over_sync_and_only_for_itself(
    tmp_path: Path,
) -> None:
    sync = {
        "allow_non_fast_forward": False,
        "allowed_signers": "may",
        "revoked_signers": "gone",
        "verify": "tag",
    }
    sources = [
        {"repo": FAR, "ref": "v1"},
        {"repo": f"{FAR}#b", "mount": "free", "allowed_signers": ""},
        {
            "repo": f"{FAR}#c",
            "mount": "own",
            "allowed_signers": "/etc/may",
            "verify": "commit",
        },
    ]
    configured = json.dumps({"sync": sync, "sources": sources})
    file = write(tmp_path / "etc" / "mine.yaml", configured)

    found = policies(build(Options(config_file=file), {}))

    folder = file.parent
    assert found == {
        "": SyncPolicy(
            allow_non_fast_forward=False,
            signers=Signers(allowed=folder / "may", revoked=folder / "gone", verify="tag"),
        ),
        "free": SyncPolicy(allow_non_fast_forward=False),
        "own": SyncPolicy(
            allow_non_fast_forward=False,
            signers=Signers(allowed=Path("/etc/may"), revoked=folder / "gone"),
        ),
    }


@pytest.mark.parametrize(
    "section, key",
    [
        ("sync", "allowed_signers"),
        ("sync", "revoked_signers"),
        ("source", "allowed_signers"),
        ("short", "allowed_signers"),
        ("short", "revoked_signers"),
    ],
)
def test_keys_that_content_could_write_are_refused(section: str, key: str, home: Path) -> None:
    demands = {"allowed_signers": "mine", key: "cache/1/snap/2/signers"}
    source = {"repo": FAR, **(demands if section == "source" else {})}
    configure(home, sync={} if section == "source" else demands, sources=[source])
    options = Options(repo=FAR) if section == "short" else Options()

    with pytest.raises(ConfigError, match=f"{key} .* is in the cache"):
        build(options, {})


@pytest.mark.parametrize("pin, what", [("", "follows a branch"), ("a" * 40, "stays at a commit")])
@pytest.mark.parametrize("verify", ["tag", "both"])
def test_a_signed_tag_is_not_demanded_of_the_short_form_without_a_tag(
    verify: str, pin: str, what: str, home: Path
) -> None:
    configure(home, sync={"allowed_signers": "may", "verify": verify})

    with pytest.raises(ConfigError, match=f"{what}.*verify: {verify}.* Set SKILLS_REF to a tag"):
        build(Options(repo=FAR, pin=pin), {})

    application = build(Options(repo=FAR, pin="v1"), {})
    signers = policies(application)[""].signers
    assert signers is not None
    assert signers.verify == verify


def test_a_commit_of_a_source_has_no_tag_that_could_be_signed(home: Path) -> None:
    sources = [
        {"folder": "x"},
        {"repo": FAR, "mount": "a", "ref": "B" * 40, "verify": "tag"},
    ]
    configure(home, sync={"allowed_signers": "may"}, sources=sources)

    with pytest.raises(ConfigError, match=r"a commit.* Set sources\[1\]\.ref to a tag"):
        build(Options(), {})


@pytest.mark.parametrize(
    "demand",
    [
        {"allowed_signers": "other"},
        {"allowed_signers": ""},
        {"verify": "both"},
    ],
)
@pytest.mark.parametrize("secret", ["", "canary@"])
def test_one_repository_with_two_demands_stops_the_start(
    secret: str, demand: dict[str, object], home: Path
) -> None:
    same = {"ref": "v1", "subfolder": "x"}
    url = f"https://{secret}example.com/a.git"
    configure(
        home,
        sync={"allowed_signers": "may"},
        sources=[
            {"repo": FAR, **same, "mount": "plain"},
            {"repo": url, **same, "mount": "other", **demand},
        ],
    )

    with pytest.raises(ConfigError) as caught:
        build(Options(), {})

    assert f"{FAR} (v1) is listed several times, with different" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_demand_may_be_written_in_two_ways(home: Path) -> None:
    sources = [
        {"repo": FAR, "mount": "a"},
        {"repo": FAR, "mount": "b", "allowed_signers": "./may", "verify": "commit"},
    ]
    configure(home, sync={"allowed_signers": "may"}, sources=sources)

    assert len(set(branches(build(Options(), {})).values())) == 1


@pytest.mark.parametrize(
    "parts, needed",
    [
        (["y", "x"], ("y", "x")),
        (["x", "x"], ("x",)),
        (["x", ""], ("x", "")),
        (["x", "."], ("x", ".")),
    ],
)
def test_only_the_parts_that_are_served_are_needed(
    parts: list[str], needed: tuple[str, ...], home: Path
) -> None:
    configure(
        home,
        sources=[
            {"repo": FAR, "subfolder": part, "mount": f"m{number}"}
            for number, part in enumerate(parts)
        ],
    )

    every = policies(build(Options(), {})).values()

    found = {tuple(s.subfolder for s in policy.selections) for policy in every}
    assert found == {needed}


@pytest.mark.parametrize("form", ["short", "listed"])
def test_a_rewritten_history_can_be_followed_once(form: str, home: Path) -> None:
    configure(
        home,
        sync={"allow_non_fast_forward": False},
        sources=[{"repo": FAR}],
    )
    repo = FAR if form == "short" else None

    strict = policies(build(Options(repo=repo), {}))
    once = policies(build(Options(repo=repo, allows_rewrite=True), {}))

    assert not strict[""].allow_non_fast_forward
    assert once[""].allow_non_fast_forward


def test_a_ref_wins_over_the_branch_of_the_short_form() -> None:
    application = build(Options(repo=FAR, branch="next", pin="v1"), {})

    assert application.library.mounts.name == f"{FAR} (v1)"


def test_a_ref_that_would_pin_nothing_stops_the_start(home: Path) -> None:
    configure(home, sources=[{"repo": FAR}])

    with pytest.raises(ConfigError, match=r"SKILLS_REF .* Write ref into the sources"):
        build(Options(pin="v1"), {})

    options = Options(skills_dir=str(SKILLS_CONTENT), pin="v1")
    assert isinstance(only(build(options, {})), LocalFolder)


def test_a_secret_beside_a_variable_that_nobody_filled_in_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="SKILLS_REPO is") as caught:
        build(Options(repo="https://ada:canary@example.com/${TEAM}.git"), {})

    assert "canary" not in str(caught.value)


# --- without a network ----------------------------------------------------------


@pytest.mark.parametrize("switch", ["file", "command line"])
def test_offline_what_is_here_is_served_and_the_remote_is_not_asked(
    switch: str, upstream: Upstream, tmp_path: Path, home: Path
) -> None:
    configure(home)
    first = upstream.commit({"a.md": skill_text()})
    typed = None if switch == "file" else True
    with serving(tmp_path) as server:
        url = f"{server.url}/upstream.git"
        build(Options(repo=url), {}).library.sync()
        upstream.commit({"b.md": skill_text()})
        asked = len(server.kinds)
        configure(home, sync={"offline": typed is None})

        application = build(Options(repo=url, offline=typed), {})
        application.library.sync()

    assert served_commits(application) == [first]
    assert len(server.kinds) == asked > 0


def test_the_command_line_can_end_what_the_file_calls_offline(home: Path) -> None:
    configure(home, sync={"offline": True})

    [policy] = policies(build(Options(repo=FAR, offline=False), {})).values()

    assert not policy.is_offline


@pytest.mark.parametrize("offline", [False, True])
async def test_offline_events_wait_in_the_spool(*, offline: bool) -> None:
    with listening() as endpoint:
        options = Options(skills_dir=str(SKILLS_CONTENT), offline=offline)
        application = build(options, {"ANALYTICS_ENDPOINT": endpoint.url})
        application.library.view().report("a", useful=True, comment=None)

        sent = await application.publisher.publish()

    waiting = spooled(application.publisher.outbox.spool)
    assert (sent, len(endpoint.events()), len(waiting)) == ((0, 0, 1) if offline else (1, 1, 0))


@pytest.mark.parametrize("offline", [False, True])
def test_offline_nobody_is_asked_for_meanings(*, offline: bool, home: Path) -> None:
    with embedding_server.serving() as server:
        embedding = {
            "provider": "openai-compatible",
            "model": "m",
            "base_url": server.url,
        }
        configure(home, sync={"offline": offline}, embedding=embedding)
        library = build(LOCAL, {}).library
        library.sync()
        library.current.wait_for_vectors()

    assert bool(server.received) is not offline
    assert library.current.waits_for_network is not offline


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of real packages; the working directory is deep inside it."""
    root = tmp_path / "project"
    web = root / "packages" / "web"
    (web / "src").mkdir(parents=True)
    git("init", "-q", cwd=root)
    write_package(root, "deploy")
    write_package(root, "skills")
    write_package(web, "styling")
    write_package(root / "packages" / "api", "elsewhere")
    write_package(tmp_path, "above")
    monkeypatch.chdir(web / "src")
    return root


def write_package(folder: Path, name: str) -> None:
    head = f"---\nname: {name}\ndescription: All about {name}\n---\n"
    write(folder / ".agents" / "skills" / name / "SKILL.md", f"{head}Rules.\n")


DISCOVERING = Options(discover=True)


def test_the_skills_of_the_project_are_found_from_its_root_down(project: Path, home: Path) -> None:
    write_package(home, "mine")

    application = build(DISCOVERING, {})

    assert served(application) == [
        ".agents/skills/deploy",
        ".agents/skills/skills",
        "packages/web/.agents/skills/styling",
        "~/.agents/skills/mine",
    ]
    scopes = {skill.path: skill.scope for skill in application.library.view().snapshot.index}
    assert {path for path, scope in scopes.items() if scope == "user"} == {"~/.agents/skills/mine"}
    assert "org" not in scopes.values()
    assert (project / ".agents" / "skills").is_dir()


@pytest.mark.usefixtures("project")
def test_what_is_found_stands_beside_what_is_named() -> None:
    options = Options(skills_dir=str(SKILLS_CONTENT), discover=True)

    paths = served(build(options, {}))

    assert "_root" in paths
    assert ".agents/skills/deploy" in paths


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("setting", [None, True, False])
def test_the_file_switches_discovery_and_the_command_line_decides(
    *, setting: bool | None, home: Path
) -> None:
    configure(home, discover=True)
    options = Options(skills_dir=str(SKILLS_CONTENT), discover=setting)

    application = build(options, {})

    is_on = len(mounts_of(application).mounts) > 1
    assert is_on is (setting is not False)
    assert application.library.config.discover is is_on


@pytest.mark.usefixtures("project")
def test_nothing_is_looked_for_unless_somebody_asks(home: Path) -> None:
    write_package(home, "mine")

    assert list(places(build(LOCAL, {}))) == [""]


def test_a_project_without_skills_is_an_empty_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    application = build(DISCOVERING, {})
    before = served(application)
    write_package(tmp_path, "late")

    assert before == []
    assert served(application) == [".agents/skills/late"]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["CODELIA_AGENTS_ROOT", "SKILLS_MCP_PROJECT_ROOT"])
def test_the_environment_may_name_the_root(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    application = build(DISCOVERING, {name: str(tmp_path / "link")})

    assert served(application) == [
        ".agents/skills/above",
        "project/.agents/skills/deploy",
        "project/.agents/skills/skills",
        "project/packages/web/.agents/skills/styling",
    ]


def test_of_two_variables_ours_names_the_root(project: Path, tmp_path: Path) -> None:
    environment = {
        "SKILLS_MCP_PROJECT_ROOT": str(project / "packages"),
        "CODELIA_AGENTS_ROOT": str(tmp_path),
    }

    paths = served(build(DISCOVERING, environment))

    assert paths == ["web/.agents/skills/styling"]


def test_a_home_that_is_the_project_is_served_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(home, "mine")
    git("init", "-q", cwd=home)
    monkeypatch.chdir(home)

    application = build(DISCOVERING, {})

    assert served(application) == [".agents/skills/mine"]
    [skill] = application.library.view().snapshot.index
    assert skill.scope == "repo"


def test_settings_that_come_with_a_project_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path, "a")
    settings = "matching: {max_results: 9}\ncommands: {enabled: true}\n"
    write(tmp_path / ".agents" / "skills" / "config.yaml", settings)
    monkeypatch.chdir(tmp_path)

    application = build(DISCOVERING, {})
    served(application)

    assert application.library.config.matching.max_results == 3
    assert not application.library.config.commands.enabled


def test_a_working_directory_that_is_gone_has_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(ConfigError, match="the working directory is gone"):
        build(DISCOVERING, {})

    assert build(LOCAL, {}).library.mounts.name == str(SKILLS_CONTENT)


@pytest.mark.spec("11.3")
def test_the_command_line_wins_over_the_file(home: Path) -> None:
    configure(home, toolsets=["core"])
    options = Options(skills_dir=str(SKILLS_CONTENT), toolsets=("core", "packages"))

    application = build(options, {})

    assert application.library.config.toolsets == ("core", "packages")


def test_a_wrong_value_of_the_command_line_is_named() -> None:
    with pytest.raises(ConfigError, match="command line: toolsets"):
        build(Options(toolsets=("all",)), {})


def test_a_project_root_that_is_no_folder_is_a_mistake(tmp_path: Path) -> None:
    environment = {"SKILLS_MCP_PROJECT_ROOT": str(tmp_path / "absent")}

    with pytest.raises(ConfigError, match="SKILLS_MCP_PROJECT_ROOT"):
        build(Options(discover=True), environment)
