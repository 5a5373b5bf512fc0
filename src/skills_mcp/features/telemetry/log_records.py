"""Log records for OpenTelemetry."""

import logging
import time

from opentelemetry._logs import LoggerProvider, LogRecord, SeverityNumber
from opentelemetry.context import get_current

from skills_mcp.text.redaction import redact

_SEVERITIES = (
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)


class OtelLogHandler(logging.Handler):
    """Log handler that redacts secrets; stack traces stay on standard error."""

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._provider = provider

    def emit(self, record: logging.LogRecord) -> None:
        attributes = {}
        if record.exc_info and record.exc_info[0]:
            attributes["exception.type"] = record.exc_info[0].__qualname__
        self._provider.get_logger(record.name).emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                observed_timestamp=time.time_ns(),
                context=get_current(),
                severity_number=_derive_severity(record.levelno),
                severity_text=record.levelname,
                body=redact(record.getMessage()),
                attributes=attributes,
            )
        )


def _derive_severity(level: int) -> SeverityNumber:
    return next(
        (number for minimum, number in _SEVERITIES if level >= minimum),
        SeverityNumber.DEBUG,
    )
