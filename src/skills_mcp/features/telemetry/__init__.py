"""OpenTelemetry export of traces, metrics and logs, configured by `OTEL_*` variables.

Nothing is imported unless they are set; on standard input and output not before the
first response.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

from skills_mcp.about import compose_install_command

logger = logging.getLogger(__name__)

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)

_PROTOCOL = "http/protobuf"

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURED = frozenset({"true", "span_only", "span_and_event"})


@dataclass(frozen=True, slots=True)
class OtelSettings:
    signals: frozenset[Signal]
    capture_arguments: bool
    """Record tool arguments in spans, and let error messages pass."""


def configure_telemetry(environment: Mapping[str, str]) -> OtelSettings | None:
    """Settings of the environment; None if disabled.

    Unusable settings are logged once, and the server runs without telemetry.
    """
    if _read(environment, "OTEL_SDK_DISABLED") == "true":
        return None
    signals = frozenset(signal for signal in SIGNALS if _is_enabled(environment, signal))
    if not signals:
        return None
    if not _is_installed():
        logger.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is sent: OpenTelemetry is "
            "not installed. Install it: %s",
            compose_install_command("otel"),
        )
        return None
    return OtelSettings(signals, _read(environment, _CAPTURE) in _CAPTURED)


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _is_enabled(environment: Mapping[str, str], signal: Signal) -> bool:
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}"
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"{own}_ENDPOINT")
    if not any(environment.get(name, "").strip() for name in endpoints):
        return False
    if _read(environment, f"OTEL_{signal.upper()}_EXPORTER") == "none":
        return False
    names = (f"{own}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, (_read(environment, n) for n in names)), _PROTOCOL)
    if protocol != _PROTOCOL:
        logger.warning(
            "No %s are sent: OTEL_EXPORTER_OTLP_PROTOCOL is %s, and this server speaks "
            "only %s. Set it to that, and the endpoint to the port for it, usually "
            "4318",
            signal,
            protocol,
            _PROTOCOL,
        )
    return protocol == _PROTOCOL


def _read(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip().lower()
