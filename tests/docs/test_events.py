"""Events have the documented fields, and the documented receiver takes them."""

import json
import re
import shutil
import threading
import typing
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Analytics
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import SyncPolicy
from skills_mcp.events.heartbeat import parse_heartbeat
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.spool import MAX_FILE_BYTES, Outbox, Spool
from skills_mcp.events.tracker import EventType
from skills_mcp.features.effect.evidence import summarise, track_effect
from tests.clients import connected
from tests.docs.pages import DOCS, REFERENCE, block, blocks, code, prose, section, table
from tests.support import SKILLS_CONTENT, Upstream, open_library, spooled, write

EVERYTHING = {
    "toolsets": ["core", "packages"],
    "commands": {"enabled": True},
    "analytics": {"enabled": True},
}


FULL = {"enabled": True, "context": "full", "identity": "user"}


@pytest.mark.spec("10.1")
@pytest.mark.spec("10.2")
@pytest.mark.parametrize("analytics", [{"enabled": True}, FULL])
async def test_every_event_has_exactly_the_documented_fields(
    analytics: dict[str, Any], spool: Spool, upstream: Upstream, tmp_path: Path
) -> None:
    settings = {**EVERYTHING, "analytics": analytics}
    shutil.copytree(SKILLS_CONTENT, upstream.work, dirs_exist_ok=True)
    upstream.commit({})
    policy = SyncPolicy(timeout_seconds=60)
    source = RemoteBranch(Remote.parse(upstream.url, "main"), tmp_path / "cache", policy)
    library = open_library(source, settings=settings, spool=spool)
    script = {
        "file": "scripts/validate-auth-config.py",
        "args": {"client_id": "web", "redirect_uri": "https://x.example/auth/callback"},
    }
    auth = {"skill_path": "ui/react/auth"}
    async with connected(library, "auto") as client:
        await client.call_tool("get_skill", {"context": "bake a cake"})
        await client.call_tool("get_skill", {"context": "require authentication"})
        await client.call_tool("get_skill", {"context": "a login in React"})
        file = "assets/auth-flow.svg"
        await client.call_tool("get_asset", {**auth, "file": file})
        await client.call_tool("run_script", {**auth, **script})
        await client.call_tool("report_usage", {**auth, "useful": True})
        track_effect(library.tracker, summarise("ui/react/auth", "0123", []))
        fill(spool)
        await client.call_tool("refresh_skills", {})
    page = REFERENCE / "events.md"
    events = spooled(spool)

    assert [event["type"] for event in events] == list(typing.get_args(EventType))
    assert re.findall(r"^### (\w+)$", prose(page), re.MULTILINE) == list(typing.get_args(EventType))
    for event in events:
        assert_documented(event)
    [served] = [event for event in events if event["type"] == "skill_served"]
    [shown] = json.loads(block(page, "json", "event"))["events"]
    assert list(shown) == list(served)
    hashed = ["context_tokens"] if analytics is not FULL else []
    assert sorted([*shown["data"], *hashed]) == sorted(served["data"])


async def test_the_tools_of_packages_write_the_same_events(spool: Spool) -> None:
    library = open_library(SKILLS_CONTENT, settings=EVERYTHING, spool=spool)
    auth = {"skill_name": "ui/react/auth"}
    async with connected(library, "auto") as client:
        await client.call_tool("search_skills", {"query": "bake a cake"})
        await client.call_tool("load_skill", auth)
        file = "assets/auth-flow.svg"
        await client.call_tool("read_skill_file", {**auth, "file_path": file})
        await client.call_tool("run_skill_command", {**auth, "command": "python3"})
    events = spooled(spool)

    assert [event["type"] for event in events] == [
        "no_match",
        "skill_served",
        "asset_served",
        "script_executed",
    ]
    for event in events:
        assert_documented(event)


def test_the_heartbeat_of_the_page_has_the_documented_fields() -> None:
    page = REFERENCE / "events.md"
    shown = json.loads(block(page, "json", "heartbeat"))
    [source] = shown["data"]["sources"]
    fields, of_source = section(page, "## Heartbeats").split("| Field of a source")

    made = json.loads(parse_heartbeat(shown).to_json())

    assert made | {"event_id": shown["event_id"]} == shown
    assert re.findall(r"^\| `(\w+)`", fields, re.MULTILINE) == [*shown["data"]]
    assert re.findall(r"^\| `(\w+)`", of_source, re.MULTILINE) == [*source]


def fill(spool: Spool) -> None:
    """Have more events wait than may."""
    spool.rotate()
    large = json.dumps({"type": "no_match", "data": {"context": "x" * 60_000}})
    write(spool.directory / "0.jsonl", f"{large}\n" * (MAX_FILE_BYTES // (len(large) + 1)))


def assert_documented(event: dict[str, Any]) -> None:
    page = REFERENCE / "events.md"
    outer = table(section(page, "## Every event"))
    inner = table(section(page, f"### {event['type']}"))
    assert list(event) == documented(outer, event)
    assert list(event["data"]) == documented(inner, event["data"])


def documented(rows: list[dict[str, str]], present: dict[str, Any]) -> list[str]:
    """Return the fields of a table; an optional one only if it is there."""
    return [
        name
        for row in rows
        if (name := code(row["Field"])) in present or "optional" not in row["Type"]
    ]


@pytest.mark.spec("10.3")
async def test_the_receiver_of_the_page_takes_what_the_publisher_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [page] = blocks(DOCS / "how-to" / "analytics.md", "python", "title=receiver.py")
    names: dict[str, Any] = {"__name__": "receiver"}
    exec(page.text, names)  # noqa: S102 - our own page
    names["Receiver"].log_message = lambda *_: None
    monkeypatch.chdir(tmp_path)
    received = tmp_path / "events.jsonl"
    outbox = Outbox(tmp_path)
    outbox.spool.append('{"type": "no_match"}')
    with HTTPServer(("127.0.0.1", 0), names["Receiver"]) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        rules = Analytics(enabled=True, endpoint=f"http://127.0.0.1:{receiver.server_port}/")

        sent = await Publisher(outbox, lambda: rules).publish()
        receiver.shutdown()

    assert sent == 1
    assert received.read_text(encoding="utf-8") == '{"type": "no_match"}\n'
