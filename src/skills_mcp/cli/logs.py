"""Logging to standard error: one line per event, without secrets."""

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from skills_mcp.text.redaction import redact, register_secret

# Text by a model or a skill's author must not control the reader's terminal.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")

LEVELS = ("debug", "info", "warning", "error")

_SHARED_LEVELS = {level.upper(): level for level in LEVELS} | {"WARN": "warning"}

# Strangers choose how often these write, and the log may share a disk with the cache.
_LIMITED = ("skills_mcp.http.", "skills_mcp.features.web.", "uvicorn.")
_LINES_A_MINUTE = 60
_MINUTE_SECONDS = 60.0


def shared_level(environment: Mapping[str, str]) -> str | None:
    """The level in `LOG_LEVEL`; None if it is invalid.

    Other programs read the same variable, so other values are ignored.
    """
    # 000 §8.2
    return _SHARED_LEVELS.get(environment.get("LOG_LEVEL", "").strip().upper())


class _OneLine(logging.Formatter):
    """`2026-02-18T14:30:00Z INFO snapshots: Serving 24 skills`, with the package."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        name = record.name.removeprefix("skills_mcp.").removeprefix("features.").partition(".")[0]
        message = " ".join(_CONTROLS.sub(" ", record.getMessage()).split())
        line = f"{moment:%Y-%m-%dT%H:%M:%SZ} {record.levelname} {name}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redact(line)


@dataclass(slots=True)
class _Minute:
    began_at: float
    lines: int = 0


class _FloodFilter(logging.Filter):
    """Rate-limits the messages of the HTTP guards, and logs how many were dropped.

    Messages count by their template; the number of templates is fixed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._minutes: dict[str, _Minute] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        is_limited = record.name.startswith(_LIMITED) and record.levelno < logging.ERROR
        return not is_limited or self._count(record)

    def _count(self, record: logging.LogRecord) -> bool:
        template = str(record.msg)
        minute = self._minutes.get(template)
        if minute is None or record.created - minute.began_at >= _MINUTE_SECONDS:
            dropped = minute.lines - _LINES_A_MINUTE if minute else 0
            if dropped > 0:
                record.msg = f"{template} ({dropped:,} such lines before were left out)"
            minute = self._minutes[template] = _Minute(record.created)
        minute.lines += 1
        return minute.lines <= _LINES_A_MINUTE


def configure_logging(level: str, *, secrets: Iterable[str | None]) -> None:
    """Send the log to standard error; no secret ever appears in it."""
    for secret in filter(None, secrets):
        register_secret(secret)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    handler.addFilter(_FloodFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # of libraries, only what is wrong
    logging.getLogger("skills_mcp").setLevel(level.upper())
