import logging
from collections.abc import Iterator

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    InMemoryLogRecordExporter,
    SimpleLogRecordProcessor,
)

from skills_mcp.features.telemetry.pipeline import OtelLogHandler
from skills_mcp.text.redaction import register_secret


@pytest.fixture
def sent() -> InMemoryLogRecordExporter:
    return InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]


@pytest.fixture
def logger(sent: InMemoryLogRecordExporter) -> Iterator[logging.Logger]:
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(sent))
    ours, handler = logging.getLogger("skills_mcp.test"), OtelLogHandler(provider)
    ours.addHandler(handler)
    yield ours
    ours.removeHandler(handler)


def test_a_line_has_its_level_and_its_module(
    logger: logging.Logger, sent: InMemoryLogRecordExporter
) -> None:
    logger.warning("Serving %d skills", 27)

    [log] = sent.get_finished_logs()
    assert log.log_record.body == "Serving 27 skills"
    assert log.log_record.severity_number is SeverityNumber.WARN
    assert log.instrumentation_scope
    assert log.instrumentation_scope.name == "skills_mcp.test"


def test_a_secret_is_not_sent(logger: logging.Logger, sent: InMemoryLogRecordExporter) -> None:
    register_secret("a-token-of-ours")

    logger.warning("The remote said a-token-of-ours")

    [log] = sent.get_finished_logs()
    assert "a-token-of-ours" not in str(log.log_record.body)


def test_an_exception_is_sent_without_its_text(
    logger: logging.Logger, sent: InMemoryLogRecordExporter
) -> None:
    logger.error("It failed", exc_info=ValueError("the salary of Ada"))

    [log] = sent.get_finished_logs()
    assert dict(log.log_record.attributes or {}) == {"exception.type": "ValueError"}
