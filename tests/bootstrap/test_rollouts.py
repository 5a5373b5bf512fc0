"""`rollout` under a source: some users get another version before the others."""

import json
import sys
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ResourceListChangedNotification

from skills_mcp.bootstrap import Application, Options, build, read_heartbeat
from skills_mcp.config import rollouts
from skills_mcp.errors import ConfigError
from skills_mcp.events.privacy import Privacy
from skills_mcp.http.authentication import derive_grants
from skills_mcp.skills.access import EVERYTHING, OPERATOR, Principal, is_early
from tests.clients import ask
from tests.e2e.test_sign_in import calling
from tests.http_server import following
from tests.issuer import AUDIENCE, running_issuer
from tests.support import PATIENCE_SECONDS, Upstream, running, skill_text, until, write


class Now(datetime):
    """A clock that stands still, so that no test meets midnight."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Now":
        return cls(2026, 3, 14, 12, tzinfo=tz)


Commits = tuple[Upstream, str, str]
"""A repository, its commit for all, and the newer one of the branch `next`."""


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Commits:
    made = Upstream.create(tmp_path_factory.mktemp("rollout"))
    stable = made.commit({"skills/auth.md": skill_text(body="Old.")})
    newer = made.commit({"skills/auth.md": skill_text(body="New.")})
    return made, stable, newer


def settings(commits: Commits, ref: str = "main", **rollout: Any) -> dict[str, Any]:
    upstream, stable, _ = commits
    return {"sources": [{"repo": upstream.url, "ref": stable, "rollout": {"ref": ref, **rollout}}]}


def application(folder: Path, values: dict[str, Any], **options: Any) -> Application:
    file = write(folder / "mine.yaml", json.dumps(values))
    return build(Options(config_file=file, **options), {"SKILLS_MCP_HOME": str(folder / "home")})


def served(made: Application) -> str | None:
    made.library.sync()
    [state] = made.library.view().states()
    return state.commit


@pytest.mark.parametrize("share, is_newer", [(1.0, True), (0.0, False)])
def test_a_share_of_the_machines_gets_the_newer_commit(
    commits: Commits, tmp_path: Path, share: float, *, is_newer: bool
) -> None:
    target = {"share": share, "groups": ["web"]}

    commit = served(application(tmp_path, settings(commits, to=target)))

    assert commit == commits[2 if is_newer else 1]


def test_a_machine_keeps_its_place_and_about_a_share_of_them_is_in(tmp_path: Path) -> None:
    places = [
        Privacy(tmp_path / f"{number}.key", {}).machine_share("https://acme.com/skills.git")
        for number in range(400)
    ]

    again = Privacy(tmp_path / "7.key", {}).machine_share("https://acme.com/skills.git")

    assert again == places[7]
    assert 15 < sum(place < 0.1 for place in places) < 75


@pytest.mark.parametrize("days, is_newer", [(0, True), (-1, False)])
def test_it_ends_after_its_last_day(
    commits: Commits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    *,
    is_newer: bool,
) -> None:
    monkeypatch.setattr(rollouts, "datetime", Now)
    until = (Now.now(UTC) + timedelta(days=days)).date().isoformat()
    values = settings(commits, until=until, to={"share": 1.0, "groups": ["web"]})

    made = application(tmp_path, values)
    grants = derive_grants(made.library.config)

    assert served(made) == commits[2 if is_newer else 1]
    assert is_early(grants, {"groups": ["web"]}) is is_newer


def test_a_group_gets_the_newer_commit_and_is_told_apart(commits: Commits, tmp_path: Path) -> None:
    made = application(tmp_path, settings(commits, to={"groups": ["web"]}), serves_groups=True)
    library, early = made.library, made.early
    assert early is not None
    member = Principal("ada", "issuer", OPERATOR.scopes, EVERYTHING, is_early=True)
    library.sync()

    before = library.serving(member).view().load_skill("auth")
    early.sync()
    after = library.serving(member).view().load_skill("auth")
    others = library.serving(OPERATOR).view().load_skill("auth")

    assert [each.provenance.commit for each in (before, after, others)] == [
        commits[1],
        commits[2],
        commits[1],
    ]
    states = library.view().states()
    assert [(state.commit, state.rollout) for state in states] == [
        (commits[1], ""),
        (commits[2], "group web"),
    ]
    beat = read_heartbeat(library, Privacy(tmp_path / "key", {}), "http")
    assert beat is not None
    assert [source.commit for source in beat.sources] == [*commits[1:]]


async def test_a_source_that_fails_keeps_no_newer_version_back(
    tmp_path: Path, upstream: Upstream
) -> None:
    stable = upstream.commit({"skills/auth.md": skill_text(body="Old.")})
    values = settings((upstream, stable, ""), to={"groups": ["web"]})
    values["sources"] += [{"repo": (tmp_path / "gone").as_uri(), "mount": "gone"}]
    made = application(tmp_path, values, serves_groups=True)
    assert made.early
    async with running(made.early), running(made.library):
        await made.early.refresh()
        newer = upstream.commit({"skills/auth.md": skill_text(body="New.")})
        refreshed = await made.library.refresh()

    early = made.early.view().load_skill("auth")
    assert (refreshed.error is not None, early.provenance.commit) == (True, newer)


@pytest.mark.parametrize(
    "others, said",
    [
        ({"to": {}}, "neither groups nor a share"),
        ({"to": {"groups": ["web"]}, "until": "soon"}, "a day, such as 2026-12-31"),
        ({"to": {"groups": ["web"], "user": "ada"}}, "unknown key"),
    ],
)
def test_what_is_no_rollout_says_what_to_write(
    commits: Commits, tmp_path: Path, others: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        application(tmp_path, settings(commits, **others))


async def test_a_token_decides_which_version_is_served_over_http(
    commits: Commits, tmp_path: Path
) -> None:
    with running_issuer() as issuer:
        sign_in = {"issuer": issuer.url, "audience": AUDIENCE}
        http = {"port": 0, "operations_port": 0, "auth": sign_in}
        values = settings(commits, ref=commits[2], to={"groups": ["web"]}) | {"http": http}
        write(tmp_path / "config.yaml", json.dumps(values))
        command = [sys.executable, "-m", "skills_mcp", "--transport", "http"]
        with following(command, {"SKILLS_MCP_HOME": str(tmp_path)}) as server:
            server.wait_for_log(f"skills at {commits[2]}")
            found = {}
            for group in ("web", "ui"):
                async with calling(server, issuer.token(groups=[group]), "auto") as client:
                    found[group] = await ask(client, "get_skill", context="an example")
                    await ask(client, "report_usage", skill_path="auth", useful=group == "web")

    assert {group: reply["commit"] for group, reply in found.items()} == {
        "web": commits[2],
        "ui": commits[1],
    }
    assert "New." in found["web"]["content"]


@pytest.mark.parametrize("grants", [[], [{"allow": ["auth"]}]], ids=["everything", "granted"])
async def test_who_gets_the_newer_version_is_notified_of_its_changes(
    tmp_path: Path, grants: list[dict[str, Any]]
) -> None:
    upstream = Upstream.create(tmp_path / "rollout")
    stable = upstream.commit({"skills/auth.md": skill_text(body="Old.")})
    heard: list[str] = []

    async def hear(message: object) -> None:
        if isinstance(message, ResourceListChangedNotification):
            heard.append(message.method)

    with running_issuer() as issuer:
        sign_in = {"issuer": issuer.url, "audience": AUDIENCE}
        http = {"port": 0, "operations_port": 0, "auth": sign_in}
        values = settings((upstream, stable, ""), to={"groups": ["web"]})
        write(tmp_path / "config.yaml", json.dumps(values | {"http": http, "access": grants}))
        command = [sys.executable, "-m", "skills_mcp", "--transport", "http"]
        with following(command, {"SKILLS_MCP_HOME": str(tmp_path)}) as server:
            server.wait_for_log(f"skills at {stable}")
            signed = {"Authorization": f"Bearer {issuer.token(groups=['web'])}"}
            async with (
                httpx2.AsyncClient(headers=signed, timeout=PATIENCE_SECONDS) as http_client,
                Client(
                    streamable_http_client(server.url, http_client=http_client),
                    message_handler=hear,
                ) as client,
                client.listen(resources_list_changed=True),
            ):
                upstream.commit({"skills/auth.md": skill_text(description="Other words")})
                await ask(client, "refresh_skills")
                await until(lambda: heard)
