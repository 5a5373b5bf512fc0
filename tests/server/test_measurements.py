from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PingRequest, Request

from skills_mcp.config import Analytics
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Mount
from skills_mcp.errors import SyncError
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.spool import Outbox
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.app import create_server
from skills_mcp.server.measurements import (
    OPERATION,
    SESSION,
    Measurement,
    Measurements,
    read_gauges,
)
from tests.clients import ERAS
from tests.content.sources import FakeSource, checkout_of
from tests.support import BROKEN, SKILLS_CONTENT, open_library, until

LOGIN = "add login to the React app"


class Operation(NamedTuple):
    method: str
    tool: str
    error_type: str
    protocol_version: str
    seconds: float


@dataclass
class Recorded:
    """Instruments that keep what they are given."""

    operations: list[Operation] = field(default_factory=list)
    sessions: list[tuple[object, ...]] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def record(self, measurement: Measurement, value: float, *labels: str) -> None:
        if measurement is OPERATION:
            method, tool, error_type, version = labels
            self.operations.append(Operation(method, tool, error_type, version, value))
        elif measurement is SESSION:
            self.sessions.append((*labels, value))
        else:
            self.outcomes[labels[0]] += int(value)

    def errors_of(self, method: str) -> list[tuple[str, str]]:
        return [(o.tool, o.error_type) for o in self.operations if o.method == method]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def measured(library: SkillLibrary, recorded: Recorded, era: str) -> Client:
    server = create_server(library)
    Measurements(server, library).add(recorded)
    return Client(server, mode=era)


async def test_a_call_is_measured_with_its_tool_and_revision(
    library: SkillLibrary, recorded: Recorded, era: str
) -> None:
    async with measured(library, recorded, era) as client:
        await client.call_tool("get_skill", {"context": LOGIN})

    [call] = [each for each in recorded.operations if each.method == "tools/call"]
    assert (call.tool, call.error_type) == ("get_skill", "")
    assert call.protocol_version == ERAS[era]
    assert call.seconds > 0


async def test_an_error_of_a_tool_is_told_from_one_of_the_protocol(
    library: SkillLibrary, recorded: Recorded, era: str
) -> None:
    async with measured(library, recorded, era) as client:
        await client.call_tool("get_asset", {"skill_path": "nowhere", "file": "a"})
        with pytest.raises(MCPError):
            await client.call_tool("the_salary_of_ada", {})

    assert recorded.errors_of("tools/call") == [
        ("get_asset", "tool_error"),
        ("other", "-32602"),
    ]


async def test_a_method_that_the_caller_made_up_is_no_label(
    library: SkillLibrary, recorded: Recorded
) -> None:
    async with measured(library, recorded, "legacy") as client:
        made_up = Request(method="the/salary/of/ada", params=None)
        with pytest.raises(MCPError):
            await client.session.send_request(made_up, PingRequest)

    assert recorded.errors_of("other") == [("", "-32601")]


async def test_a_call_that_the_client_gives_up_is_an_operation(
    recorded: Recorded,
) -> None:
    library = open_library(Mounts([Mount(source=FakeSource())]), load=False)
    async with measured(library, recorded, "legacy") as client:
        with anyio.move_on_after(0.1):
            await client.call_tool("list_skills", {})
        await until(lambda: recorded.errors_of("tools/call"))

    assert recorded.errors_of("tools/call") == [("list_skills", "cancelled")]


async def test_a_session_is_measured_when_it_ends(
    library: SkillLibrary, recorded: Recorded
) -> None:
    async with measured(library, recorded, "legacy"):
        assert recorded.sessions == []

    [(version, seconds)] = recorded.sessions
    assert version == ERAS["legacy"]
    assert isinstance(seconds, float)
    assert seconds > 0


async def test_each_answer_to_a_task_is_counted(library: SkillLibrary, recorded: Recorded) -> None:
    async with measured(library, recorded, "auto") as client:
        for arguments in (
            {"context": LOGIN},
            {"context": "xyzzy plugh"},
            {"context": LOGIN, "skill_path": "ui/react/auth"},
        ):
            await client.call_tool("get_skill", arguments)

    assert recorded.outcomes == {"match": 1, "no_match": 1, "picked": 1}


def test_events_are_counted_while_none_is_written(library: SkillLibrary) -> None:
    kinds = []
    library.tracker.observe(lambda kind, _: kinds.append(kind))

    library.view().route(LOGIN)

    assert not library.config.analytics.enabled
    assert kinds == ["skill_served"]


def publisher_at(home: Path) -> Publisher:
    return Publisher(Outbox(home), Analytics)


def test_the_condition_counts_skills_problems_and_events(tmp_path: Path) -> None:
    library, publisher = open_library(BROKEN), publisher_at(tmp_path)
    for _ in range(3):
        publisher.outbox.spool.append("{}")
    publisher.outbox.spool.rotate()

    condition = read_gauges(library, publisher)

    levels = Counter(each.level for each in library.view().snapshot.problems)
    assert condition.problems == {
        "error": levels["error"],
        "warning": levels["warning"],
    }
    assert levels["error"] > 0
    assert condition.skills == len(library.view().snapshot.index)
    assert condition.events_waiting == 3


def test_a_source_is_named_by_its_place_and_never_by_its_address(
    tmp_path: Path,
) -> None:
    at_top = FakeSource("https://one.example", checkout_of("c0ffee", SKILLS_CONTENT))
    web = FakeSource("https://two.example", SyncError("away"))
    mounts = Mounts([Mount(source=at_top), Mount(source=web, at="teams/web")])
    library = open_library(mounts, load=False)
    library.sync()

    [first, second] = read_gauges(library, publisher_at(tmp_path)).sources

    assert (first.mount, first.commit, first.failed_syncs) == ("", "c0ffee", 0)
    assert first.age_seconds is not None
    assert (second.mount, second.commit) == ("teams/web", None)
    assert (second.age_seconds, second.failed_syncs) == (None, 1)


def test_before_the_first_content_there_is_a_condition(tmp_path: Path) -> None:
    library = open_library(SKILLS_CONTENT, load=False)

    assert read_gauges(library, publisher_at(tmp_path)).skills == 0
