"""Tools for authors: validation, routing tests, new and uploaded packages."""

from collections.abc import Callable

OnProgress = Callable[[int, int], None]


def ignore_progress(done: int, total: int) -> None: ...
