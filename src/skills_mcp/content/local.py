"""Content in a plain folder: one that the operator named, or one that was found."""

import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from skills_mcp.content.source import Accept, Attempt, Checkout, Demand
from skills_mcp.errors import SyncError


class _Folder:
    """What every folder has in common: no past, and nothing that runs."""

    mode: Literal["local"] = "local"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.name = str(directory)

    doing = ""
    is_final = False

    def published(self) -> Checkout | None:
        """Return None: a folder keeps nothing older, and `sync` is as quick."""
        return None

    def attempt(self) -> Attempt:
        """Return nothing: looking is no attempt."""
        return Attempt()

    def next_sync_at(self, interval_seconds: float | None) -> float:  # noqa: ARG002 - the protocol's
        """Return infinity: a folder is read when somebody asks (001 §9.3)."""
        return math.inf

    def has_news(self) -> bool:
        """Return False: nobody publishes a folder."""
        return False

    def go_back(self) -> Checkout:
        """Refuse: a folder has no past."""
        raise SyncError(
            f"{self.name} is a folder, which has no earlier commit. Change its files, "
            "or serve it from a Git repository"
        )

    def follow(self) -> None:
        """Refuse: a folder is always served as it is."""
        raise SyncError(f"{self.name} is a folder: nothing is held")

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:  # noqa: ARG002 - the protocol's
        """Return 0: a folder does not remember what it was."""
        return 0

    def find_changes(self, before: str | None, after: Checkout) -> None:
        """Return None: only the files themselves can tell."""

    def close(self) -> None:
        """Do nothing: nothing is running."""

    def _look(self) -> Checkout:
        os.scandir(self._directory).close()
        return Checkout(self._directory, None, datetime.now(UTC))


class LocalFolder(_Folder):
    """A folder that is served as it is (001 §3.1, `SKILLS_DIR`).

    Args:
        directory: An absolute path; it may be a link.
        setting: Where the operator has named it.
    """

    def __init__(self, directory: Path, setting: str = "SKILLS_DIR") -> None:
        super().__init__(directory)
        self._setting = setting

    def sync(self, demand: Demand, accept: Accept) -> Checkout:  # noqa: ARG002 - the protocol's
        """Look at the folder again.

        Raises:
            SyncError: It is not there.
        """
        try:
            return self._look()
        except OSError as error:
            raise SyncError(
                f"the folder {self.name} cannot be read: {error.strerror}. "
                f"Create it, or set {self._setting} to the folder that holds the "
                "skills."
            ) from error


class DiscoveredFolder(_Folder):
    """A folder that nobody has named, so it may as well not be there (002 §5.1)."""

    def sync(self, demand: Demand, accept: Accept) -> Checkout | None:  # noqa: ARG002 - the protocol's
        """Look whether the folder is there by now.

        Raises:
            SyncError: It is there and cannot be read.
        """
        try:
            return self._look()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SyncError(
                f"the folder {self.name} cannot be read: {error.strerror}. "
                "Check its permissions, or set discover to false."
            ) from error
