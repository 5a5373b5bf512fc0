"""Content in a plain folder: the operator's own, and theirs to change."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from skills_mcp.content.source import Checkout
from skills_mcp.errors import SyncError


class LocalFolder:
    """A folder that is served as it is (001 §3.1, `SKILLS_DIR`)."""

    mode: Literal["local"] = "local"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.name = str(directory)

    def published(self) -> Checkout | None:
        """Return None: a folder keeps nothing older, and `sync` is as quick."""
        return None

    def sync(self) -> Checkout:
        """Look at the folder again.

        Raises:
            SyncError: It is not there.
        """
        try:
            os.scandir(self._directory).close()
        except OSError as error:
            raise SyncError(
                f"the folder {self._directory} cannot be read: {error.strerror}. "
                "Create it, or set SKILLS_DIR to the folder that holds the skills."
            ) from error
        return Checkout(self._directory, None, datetime.now(UTC))

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:  # noqa: ARG002 - the protocol's
        """Return 0: a folder does not remember what it was."""
        return 0

    def close(self) -> None:
        """Do nothing: nothing is running."""
