"""The log: one line an event, on standard error, without secrets."""

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from skills_mcp.text.redaction import redact, remember_secret

# Text by a model or a skill's author must not control the reader's terminal.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")

LEVELS = ("debug", "info", "warning", "error")

_SHARED_LEVELS = {level.upper(): level for level in LEVELS} | {"WARN": "warning"}


def shared_level(environment: Mapping[str, str]) -> str | None:
    """Return the level that `LOG_LEVEL` sets; None if it is none of ours.

    Other programs read the same variable, so other values are ignored.
    """
    # 000 §8.2
    return _SHARED_LEVELS.get(environment.get("LOG_LEVEL", "").strip().upper())


class _OneLine(logging.Formatter):
    """`2026-02-18T14:30:00Z INFO snapshots: Serving 24 skills`, with the room."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        name = record.name.removeprefix("skills_mcp.").partition(".")[0]
        message = " ".join(_CONTROLS.sub(" ", record.getMessage()).split())
        line = f"{moment:%Y-%m-%dT%H:%M:%SZ} {record.levelname} {name}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redact(line)


def configure_logging(level: str, *, secrets: Iterable[str | None]) -> None:
    """Send the log to standard error; no secret ever appears in it."""
    for secret in filter(None, secrets):
        remember_secret(secret)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # of libraries, only what is wrong
    logging.getLogger("skills_mcp").setLevel(level.upper())
