"""One greedy client over HTTP: ten others are answered all the same."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http_client import HttpClient, call
from soak.http.attacks import KINDS
from soak.scenario import Figure, Scale, Scenario
from tests.http_server import HttpServer, served
from tests.issuer import AUDIENCE, Issuer, running_issuer
from tests.support import PATIENCE_SECONDS

_TASK = {"context": "add a login form to the React application"}
_OTHERS = 10
_ANSWERED_SECONDS = 2.0
_SHARE = 0.99
_THINKING_SECONDS = 0.2
_CALLS_A_CONNECTION = 5
_OK = 200


def share(_: Path, scale: Scale) -> Iterator[Figure]:
    """Let one caller do its worst while ten others work."""
    calls = scale.count(full=500, quick=20)
    kinds = tuple(KINDS) if scale.is_full else ("calls", "idle", "sessions")
    with running_issuer() as issuer:
        for kind in kinds:
            with served(_settings(issuer)) as server:
                seen = _measure(server, issuer, kind, calls, scale)
                late = calls - seen["answered"]
                yield Figure.at_most(
                    54, f"late or refused beside {kind}", late, calls * (1 - _SHARE)
                )
                quiet = "Traceback" not in server.log
                yield Figure.every(54, f"quiet log after {kind}", int(quiet), 1)


def _settings(issuer: Issuer) -> dict[str, object]:
    return {"http": {"auth": {"issuer": issuer.url, "audience": AUDIENCE}}}


def _measure(
    server: HttpServer, issuer: Issuer, kind: str, calls: int, scale: Scale
) -> Counter[str]:
    tokens = [issuer.token(sub=f"user-{number}") for number in range(_OTHERS)]
    warm = scale.count(full=5, quick=1)
    with _attacked(kind, server.url, issuer.token(sub="greedy"), warm):
        work = _work(server.url, tokens, calls // _OTHERS)
        seen, seconds = asyncio.run(work)
    seen["answered"] = sum(each <= scale.bound(_ANSWERED_SECONDS) for each in seconds)
    return seen


@contextmanager
def _attacked(kind: str, url: str, token: str, warm_seconds: float) -> Iterator[None]:
    command = [sys.executable, "-m", "soak.http.attacks", kind, url, token, "3600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout  # noqa: S101 - it is piped
            process.stdout.readline()
            time.sleep(warm_seconds)
            yield
        finally:
            process.kill()


async def _work(url: str, tokens: Sequence[str], calls: int) -> tuple[Counter[str], list[float]]:
    seen: Counter[str] = Counter()
    seconds: list[float] = []
    await asyncio.gather(*(_call(url, each, calls, seen, seconds) for each in tokens))
    return seen, seconds


async def _call(url: str, token: str, calls: int, seen: Counter[str], seconds: list[float]) -> None:
    """Call a tool now and again, on a new connection from time to time."""
    client = HttpClient(url)
    sent = call(url, "get_skill", _TASK, {"Authorization": f"Bearer {token}"})
    for number in range(calls):
        if number % _CALLS_A_CONNECTION == 0:
            client.close()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reply = await client.ask(sent)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            seen[type(error).__name__] += 1
            client.close()
        else:
            if reply.status == _OK:
                seconds.append(time.perf_counter() - started)
            else:
                seen[f"status {reply.status}"] += 1
        await asyncio.sleep(_THINKING_SECONDS)
    client.close()


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("http-fairness", share),)
