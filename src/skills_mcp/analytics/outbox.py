"""The folders that an event goes through: spool, then archive or dead letters."""

import logging
from collections.abc import Sequence
from pathlib import Path

from skills_mcp.analytics.ledger import Ledger
from skills_mcp.analytics.lines import Line
from skills_mcp.analytics.record import ARCHIVE, DEAD_LETTERS, SPOOL
from skills_mcp.analytics.spool import Segment, Spool

logger = logging.getLogger(__name__)

# A year of a busy developer; nobody looks for more room that events could take.
_MAX_ARCHIVE_BYTES = 64 * 1024 * 1024
_MAX_ARCHIVE_FILE_BYTES = 4 * 1024 * 1024

# Enough to see what a receiver refuses. Four files: the newest three quarters stay.
_MAX_DEAD_BYTES = 1024 * 1024
_MAX_DEAD_FILE_BYTES = 256 * 1024


class Outbox:
    """Those folders of a home.  All methods block.

    Args:
        home: The folder that everything of ours lies in, `~/.skills-mcp`.
    """

    def __init__(self, home: Path) -> None:
        self.spool = Spool(home / SPOOL)
        self._archive = Ledger(
            home / ARCHIVE,
            max_bytes=_MAX_ARCHIVE_BYTES,
            max_file_bytes=_MAX_ARCHIVE_FILE_BYTES,
        )
        self._dead_letters = Ledger(
            home / DEAD_LETTERS,
            max_bytes=_MAX_DEAD_BYTES,
            max_file_bytes=_MAX_DEAD_FILE_BYTES,
        )

    def settle(
        self,
        segment: Segment,
        accepted: Sequence[Line],
        refused: Sequence[Line],
        keep_days: int,
    ) -> None:
        """Move events that a receiver has answered for; the others stay.

        A crash in between means that some are sent again, with the same ids.
        """
        if segment.lines and not accepted and not refused:
            return
        settled = set(map(id, (*accepted, *refused)))
        rest = [line for line in segment.lines if id(line) not in settled]
        try:
            if keep_days:
                _keep(self._archive, accepted)
            _keep(self._dead_letters, refused)
            self.spool.remove(segment, rest)
        except OSError as error:
            logger.warning("Events are sent once more: %s", error)

    def keep_all(self, keep_days: int) -> None:
        """Move everything into the archive: there is nobody to send it to.

        With 0 days it stays, as the archive would lose it at once.
        """
        if self.spool.is_empty or not keep_days:
            return
        self.spool.rotate()
        try:
            for segment in self.spool.take():
                self._archive.append(segment.lines)
                self.spool.remove(segment)
        except OSError as error:
            logger.warning("Events stay in the spool: %s", error)

    def prune(self, keep_days: int) -> None:
        """Forget what is older than the operator wants it to be kept."""
        self._archive.prune(keep_days)
        self._dead_letters.prune(max(1, keep_days))


def _keep(ledger: Ledger, lines: Sequence[Line]) -> None:
    """Keep what is settled, or lose it: to send it again would not help."""
    try:
        ledger.append(lines)
    except OSError as error:
        logger.warning("Events were not kept: %d, %s", len(lines), error)
