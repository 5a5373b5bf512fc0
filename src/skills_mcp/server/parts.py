"""Parts that features add to a server: what runs from its start to its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from skills_mcp.events.publisher import Publisher
from skills_mcp.hooks import load_hooks
from skills_mcp.library import SkillLibrary
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.measurements import ContentGauges, Measurements, read_gauges

if TYPE_CHECKING:  # SQLAlchemy, which only a server over HTTP needs
    from skills_mcp.events.collector.event_store import EventStore

Transport = Literal["pipe", "tcp"]
"""The `network.transport` of OpenTelemetry: stdio is a pipe, HTTP is TCP."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A server that is about to start, with everything that a part may use."""

    server: SkillsServer
    library: SkillLibrary
    publisher: Publisher
    transport: Transport
    home: Path = field(default_factory=Path)
    arguments: Sequence[str] = ()
    """The command line, without the name of the program."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """All variables, those with secrets included."""
    store: "EventStore | None" = None
    """None unless events are collected."""

    @cached_property
    def measurements(self) -> Measurements:
        """Measurements of this server; they cost time, so they start with a reader."""
        return Measurements(self.server, self.library)

    def read_condition(self) -> ContentGauges:
        """Read the gauges: what is served, and the events that wait."""
        return read_gauges(self.library, self.publisher)


class ServerPart:
    """A part of a server; each step does nothing unless a feature overrides it."""

    async def open(self) -> None:
        """Start before the first request; on stdio, the first reply waits for it."""

    async def run(self) -> None:
        """Work beside the server until cancelled."""

    async def close(self) -> None:
        """Release everything, within a bounded time."""


def open_parts(serving: Serving) -> Sequence[ServerPart]:
    """Open the part of each feature that has one for this server.

    Raises:
        ConfigError: A setting of a feature cannot be used.
    """
    opened = (hook(serving) for hook in load_hooks("open_part"))
    return [part for part in opened if part is not None]
