"""What authors run before a merge: validate skills, test prompts, add packages."""

from collections.abc import Callable

OnProgress = Callable[[int, int], None]
"""Called with the number that is done, and the number that there is to do."""


def ignore_progress(done: int, total: int) -> None:
    """Show no progress."""
