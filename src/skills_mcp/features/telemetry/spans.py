"""What a span may hold when it leaves this process.

The MCP SDK makes the spans.  A name of a tool that does not exist, and an error that
quotes an argument, are texts of a caller, so each span is written anew from what is
known.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace.status import Status

from skills_mcp.features.telemetry import Transport
from skills_mcp.server.measurements import METHODS, OTHER, VERSIONS, Outcome, known

ARGUMENTS = "gen_ai.tool.call.arguments"
OUTCOME = "skills.outcome"

_METHOD = "mcp.method.name"
_TOOL = "gen_ai.tool.name"

# Numbers, and the identifiers that clients make: no text.
_REQUEST_ID = re.compile(r"[0-9a-fA-F-]{1,36}")

# The names of our classes, and of Python's, and the codes of JSON-RPC.
_ERROR_TYPE = re.compile(r"[A-Za-z_.]{1,80}|-?[0-9]{1,9}")


def mark_outcome(outcome: Outcome) -> None:
    """Add to the span of the current call what became of its task."""
    trace.get_current_span().set_attribute(OUTCOME, outcome)


class DiscreetSpans(SpanExporter):
    """Passes each span on, without a text of a caller or of a skill.

    Args:
        exporter: Sends them.
        tools: The tools that there are.
        transport: How clients reach the server.
        keeps_arguments: Whether the arguments of tools and messages of errors pass.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        tools: frozenset[str],
        transport: Transport,
        *,
        keeps_arguments: bool,
    ) -> None:
        self._exporter = exporter
        self._transport = transport
        self._keeps_arguments = keeps_arguments
        self._rules: dict[str, Callable[[object], object | None]] = {
            _METHOD: lambda value: known(value, METHODS),
            _TOOL: lambda value: known(value, tools),
            "mcp.protocol.version": lambda value: known(value, VERSIONS),
            "gen_ai.operation.name": lambda _: "execute_tool",
            "jsonrpc.request.id": lambda value: _matching(_REQUEST_ID, value),
            "error.type": lambda value: _matching(_ERROR_TYPE, value) or "_OTHER",
            "rpc.response.status_code": lambda value: _matching(_ERROR_TYPE, value),
            OUTCOME: lambda value: value,
        }
        if keeps_arguments:
            self._rules[ARGUMENTS] = lambda value: value

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans.  Blocking."""
        return self._exporter.export([self._rewrite(span) for span in spans])

    def shutdown(self) -> None:
        """End, without waiting for what is on its way."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits."""
        return self._exporter.force_flush(timeout_millis)

    def _rewrite(self, span: ReadableSpan) -> ReadableSpan:
        attributes = dict(self._filter(span.attributes or {}))
        attributes["network.transport"] = self._transport
        method, tool = attributes.get(_METHOD, OTHER), attributes.get(_TOOL)
        status = span.status
        if not self._keeps_arguments:
            status = Status(status.status_code)
        return ReadableSpan(
            name=f"{method} {tool}" if tool else str(method),
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=[_without_text(event) for event in span.events],
            links=span.links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _filter(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = {
            name: rule(attributes[name])
            for name, rule in self._rules.items()
            if name in attributes
        }
        return {name: value for name, value in kept.items() if value is not None}


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _without_text(event: Event) -> Event:
    """Return an exception with its type, and without its message and stack."""
    kind = (event.attributes or {}).get("exception.type")
    attributes = {"exception.type": kind} if kind else {}
    return Event(event.name, attributes, event.timestamp)
