"""Timing a piece of work, in this process or in a new one."""

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def timed(work: Callable[[], R]) -> tuple[float, R]:
    """Return the seconds that a piece of work takes, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def cpu_timed(work: Callable[[], object]) -> float:
    """Return the seconds of CPU, children included, that a piece of work takes."""
    started = os.times()
    work()
    ended = os.times()
    return sum(ended[:4]) - sum(started[:4])


def in_new_process(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of a call in a new process, without caches."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *args, **kwargs).result()
