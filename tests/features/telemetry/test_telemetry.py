"""Which variables ask for what, and what is said where it cannot be done."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from skills_mcp.config import Analytics
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.spool import Outbox
from skills_mcp.features.telemetry import exporters
from skills_mcp.features.telemetry.exporters import SIGNALS, configure_telemetry
from skills_mcp.features.telemetry.hooks import open_part
from skills_mcp.server.app import create_server
from skills_mcp.server.parts import Serving
from tests.support import SKILLS_CONTENT, open_library

COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


def signals_of(environment: Mapping[str, str]) -> set[str]:
    found = configure_telemetry(environment)
    return set(found.signals) if found else set()


def test_nothing_is_sent_unless_it_is_asked_for() -> None:
    assert configure_telemetry({}) is None
    assert configure_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}) is None
    assert configure_telemetry({**COLLECTOR, "OTEL_SDK_DISABLED": "True"}) is None


def test_one_variable_turns_each_signal_on() -> None:
    assert signals_of(COLLECTOR) == set(SIGNALS)


def test_each_signal_can_be_turned_on_and_off() -> None:
    only = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}

    assert signals_of(only) == {"traces"}
    assert signals_of({**COLLECTOR, "OTEL_LOGS_EXPORTER": "none"}) == {
        "traces",
        "metrics",
    }


def test_another_protocol_is_named_instead_of_spoken_to_the_wrong_port(
    caplog: pytest.LogCaptureFixture,
) -> None:
    protocol = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    traces = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}

    assert signals_of({**COLLECTOR, **protocol, **traces}) == {"traces"}
    assert "No metrics are sent: OTEL_EXPORTER_OTLP_PROTOCOL is grpc" in caplog.text


def test_without_the_extra_one_warning_names_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporters, "find_spec", lambda _: None)

    assert configure_telemetry(COLLECTOR) is None
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "[otel]" in record.getMessage()


def test_a_package_that_is_missing_above_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(exporters, "find_spec", find)

    assert configure_telemetry(COLLECTOR) is None


async def test_a_variable_that_makes_no_sense_costs_no_server(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
    theirs = logging.getLogger("opentelemetry")
    monkeypatch.setattr(theirs, "propagate", theirs.propagate)
    monkeypatch.setattr(theirs, "handlers", list(theirs.handlers))
    library = open_library(SKILLS_CONTENT)
    serving = Serving(
        server=create_server(library),
        library=library,
        publisher=Publisher(Outbox(tmp_path), Analytics),
        transport="tcp",
        environment=COLLECTOR,
    )
    part = open_part(serving)
    assert part

    await part.open()
    await part.close()

    assert "Correct the variables that begin with OTEL_" in caplog.text


@pytest.mark.parametrize(
    "value, is_kept",
    [("", False), ("false", False), ("event_only", False), ("TRUE", True)],
)
def test_arguments_are_kept_only_on_demand(value: str, is_kept: bool) -> None:  # noqa: FBT001
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    found = configure_telemetry({**COLLECTOR, name: value})

    assert found
    assert found.capture_arguments is is_kept
