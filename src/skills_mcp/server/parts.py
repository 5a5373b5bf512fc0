"""A server process: parts that features add, signals, and the exit."""

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskStatus

from skills_mcp.events.publisher import Publisher
from skills_mcp.hooks import load_hooks
from skills_mcp.library import SkillLibrary
from skills_mcp.server.app import SkillsServer
from skills_mcp.server.measurements import ContentGauges, Measurements, read_gauges

if TYPE_CHECKING:  # SQLAlchemy, which only a server over HTTP needs
    from skills_mcp.events.collector.event_store import EventStore

logger = logging.getLogger(__name__)

_LAST_PUBLISH_SECONDS = 1.0

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
        """Read the gauges of skills and pending events."""
        return read_gauges(self.library, self.publisher)


@dataclass(frozen=True, kw_only=True, eq=False)
class Window:
    """A window of a host, as its server knows it."""

    library: SkillLibrary
    """The skills, with what was served to this window."""
    process_id: int
    """What the host has started: the server itself, or its forwarder."""
    folder: Path | None
    """The working directory of the client; None if it is gone."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """All variables, those with secrets included."""


class ServerPart:
    """A part of a server; each step does nothing unless a feature overrides it."""

    async def open(self) -> None:
        """Start before the first request; on stdio, the first reply waits for it."""

    def open_window(self, window: Window) -> Callable[[], object]:  # noqa: ARG002 - see above
        """Add a window of a server with several; call the result when it closes."""
        return lambda: None

    async def run(self) -> None:
        """Work until cancelled, concurrently with the server."""

    async def close(self) -> None:
        """Release everything, within a bounded time."""


def open_parts(serving: Serving) -> Sequence[ServerPart]:
    """Open the part of each feature that has one for this server.

    Raises:
        ConfigError: A setting of a feature cannot be used.
    """
    opened = (hook(serving) for hook in load_hooks("open_part"))
    return [part for part in opened if part is not None]


def list_background_work(
    serving: Serving, parts: Sequence[ServerPart]
) -> Iterator[Callable[[], Awaitable[object]]]:
    yield from (serving.library.refresher.run, serving.publisher.run)
    if early := serving.library.early:
        early.refresher.wake()
        yield early.refresher.run
    yield from (part.run for part in parts)


async def stop_serving(
    serving: Serving, parts: Sequence[ServerPart], shutdown: anyio.Event
) -> None:
    """Close library and parts, and publish the last events, within a second."""
    serving.library.close()
    for part in parts:
        await part.close()
    with anyio.move_on_after(_LAST_PUBLISH_SECONDS):
        await run_or_shut_down(serving.publisher.publish, shutdown)


async def run_or_shut_down(
    work: Callable[[], Awaitable[object]],
    shutdown: anyio.Event,
    failed: anyio.Event | None = None,
) -> None:
    """Run a task; on failure set both events, for an exit with `exit_process`.

    An error raised from the task group would wait forever for uninterruptible threads.
    """
    try:
        await work()
    except Exception:
        logger.exception("The server ends because of an unexpected error")
        if failed:
            failed.set()
        shutdown.set()


async def watch_signals(
    shutdown: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Set the event on SIGTERM, SIGINT or SIGHUP; started once signals are caught."""
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    try:
        with anyio.open_signal_receiver(*numbers) as received:
            task_status.started()
            async for number in received:
                logger.info("Ending on %s", signal.Signals(number).name)
                shutdown.set()
    except NotImplementedError:
        task_status.started()  # Windows: the end of the input is the only sign


def exit_process(exit_code: int = 0) -> None:
    """Exit at once with `os._exit`: threads may still be running."""
    # Late: the first answer waits for no module that only the end needs.
    from skills_mcp.files.locks import remove_own_temporary_folders

    remove_own_temporary_folders()
    logging.shutdown()
    os._exit(exit_code)
