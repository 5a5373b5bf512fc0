"""Redaction of spans."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace.status import Status

from skills_mcp.features.telemetry import Transport
from skills_mcp.server.measurements import METHODS, OTHER, VERSIONS, Outcome, to_label

ARGUMENTS = "gen_ai.tool.call.arguments"
OUTCOME = "skills.outcome"

_METHOD = "mcp.method.name"
_TOOL = "gen_ai.tool.name"

# Numbers, and the identifiers that clients make: no text.
_REQUEST_ID = re.compile(r"[0-9a-fA-F-]{1,36}")

# The names of our classes, and of Python's, and the codes of JSON-RPC.
_ERROR_TYPE = re.compile(r"[A-Za-z_.]{1,80}|-?[0-9]{1,9}")


def set_span_outcome(outcome: Outcome) -> None:
    trace.get_current_span().set_attribute(OUTCOME, outcome)


class RedactingSpanExporter(SpanExporter):
    """Span exporter that removes texts of callers and skills.

    The MCP SDK creates the spans. Names of unknown tools and errors with quoted
    arguments
    are texts of callers, so each span is rebuilt from an allowlist.

    Args:
        capture_arguments: Let tool arguments and error messages pass.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        tools: frozenset[str],
        transport: Transport,
        *,
        capture_arguments: bool,
    ) -> None:
        self._exporter = exporter
        self._transport = transport
        self._capture_arguments = capture_arguments
        self._rules: dict[str, Callable[[object], object | None]] = {
            _METHOD: lambda value: to_label(value, METHODS),
            _TOOL: lambda value: to_label(value, tools),
            "mcp.protocol.version": lambda value: to_label(value, VERSIONS),
            "gen_ai.operation.name": lambda _: "execute_tool",
            "jsonrpc.request.id": lambda value: _match_or_none(_REQUEST_ID, value),
            "error.type": lambda value: _match_or_none(_ERROR_TYPE, value) or "_OTHER",
            "rpc.response.status_code": lambda value: _match_or_none(_ERROR_TYPE, value),
            OUTCOME: lambda value: value,
        }
        if capture_arguments:
            self._rules[ARGUMENTS] = lambda value: value

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Redact and export spans. Blocking."""
        return self._exporter.export([self._rewrite(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _rewrite(self, span: ReadableSpan) -> ReadableSpan:
        attributes = dict(self._filter(span.attributes or {}))
        attributes["network.transport"] = self._transport
        method, tool = attributes.get(_METHOD, OTHER), attributes.get(_TOOL)
        status = span.status
        if not self._capture_arguments:
            status = Status(status.status_code)
        return ReadableSpan(
            name=f"{method} {tool}" if tool else str(method),
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=[_redact_event(event) for event in span.events],
            links=span.links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _filter(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        filtered = {
            name: rule(attributes[name]) for name, rule in self._rules.items() if name in attributes
        }
        return {name: value for name, value in filtered.items() if value is not None}


def _match_or_none(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _redact_event(event: Event) -> Event:
    """Reduce an exception event to its type."""
    kind = (event.attributes or {}).get("exception.type")
    attributes = {"exception.type": kind} if kind else {}
    return Event(event.name, attributes, event.timestamp)
