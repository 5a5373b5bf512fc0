"""Events have the documented fields, and the documented receiver takes them."""

import json
import re
import threading
import typing
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.analytics.events import EventType
from skills_mcp.analytics.publisher import Publisher
from skills_mcp.analytics.spool import Spool
from skills_mcp.config import Analytics
from tests.clients import connected
from tests.docs.pages import DOCS, REFERENCE, block, blocks, code, prose, section, table
from tests.support import SKILLS_CONTENT, open_library, spooled


@pytest.mark.spec("10.1")
@pytest.mark.spec("10.2")
async def test_every_event_has_exactly_the_documented_fields(spool: Spool) -> None:
    library = open_library(
        SKILLS_CONTENT, settings={"analytics": {"enabled": True}}, spool=spool
    )
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
        await client.call_tool("refresh_skills", {})
    page = REFERENCE / "events.md"
    events = spooled(spool)

    assert [event["type"] for event in events] == list(typing.get_args(EventType))
    assert re.findall(r"^### (\w+)$", prose(page), re.MULTILINE) == list(
        typing.get_args(EventType)
    )
    outer = [code(row["Field"]) for row in table(section(page, "## Every event"))]
    for event in events:
        rows = table(section(page, f"### {event['type']}"))
        assert list(event) == outer
        assert list(event["data"]) == [code(row["Field"]) for row in rows]
    [served] = [event for event in events if event["type"] == "skill_served"]
    [shown] = json.loads(block(page, "json", "event"))["events"]
    assert list(shown) == list(served)
    assert list(shown["data"]) == list(served["data"])


@pytest.mark.spec("10.3")
async def test_the_receiver_of_the_page_takes_what_the_publisher_sends(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [page] = blocks(DOCS / "how-to" / "analytics.md", "python", "title=receiver.py")
    names: dict[str, Any] = {"__name__": "receiver"}
    exec(page.text, names)  # noqa: S102 - our own page
    names["Receiver"].log_message = lambda *_: None
    monkeypatch.chdir(tmp_path)
    received = tmp_path / "events.jsonl"
    spool.append('{"type": "no_match"}')
    with HTTPServer(("127.0.0.1", 0), names["Receiver"]) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        rules = Analytics(
            enabled=True, endpoint=f"http://127.0.0.1:{receiver.server_port}/"
        )

        sent = await Publisher(spool, lambda: rules).publish()
        receiver.shutdown()

    assert sent == 1
    assert received.read_text(encoding="utf-8") == '{"type": "no_match"}\n'
