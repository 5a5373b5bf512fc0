"""A merge, and how soon each of three replicas serves it: promise 56."""

import hmac
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from soak.http.replicas import PATIENCE_SECONDS, Caller, Replica, replicas
from soak.scenario import Figure, Scale, Scenario
from tests.support import Upstream, skill_text, wait_for

_SECRET = "a-secret-of-the-soak-test"  # noqa: S105 - it guards nothing

_PROMISED_SECONDS = 10.0


def merge_with_one_cache(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Tell one of three replicas about each merge; the others see it in the cache."""
    yield from _merge(folder, scale, is_shared=True)


def merge_with_caches(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Tell each of three replicas about each merge; none has the timer on."""
    yield from _merge(folder, scale, is_shared=False)


def _merge(folder: Path, scale: Scale, *, is_shared: bool) -> Iterator[Figure]:
    merges, count = scale.count(full=10, quick=1), scale.count(full=3, quick=2)
    upstream = Upstream.create(folder)
    upstream.commit({"first.md": skill_text(keywords=["first"])})
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(_SECRET)
    settings = {
        "http": {"stateless": True, "webhook_secret_file": str(secret)},
        "refresh": {"enabled": False},
    }
    options = ("--repo", upstream.url)
    slowest, commits = 0.0, set()
    with replicas(folder, count, is_shared=is_shared, settings=settings, options=options) as each:
        for number in range(merges):
            word = f"merged{number}"
            commit = upstream.commit({f"{word}.md": skill_text(keywords=[word])})
            began = time.monotonic()
            for told in each[:1] if is_shared else each:
                _tell(told, commit)
            commits |= set(_wait_for_merge(each, word))
            slowest = max(slowest, time.monotonic() - began)
    what = "one cache, one delivery" if is_shared else "a cache and a delivery each"
    allowed = scale.bound(_PROMISED_SECONDS)
    seconds = round(slowest, 1)
    yield Figure.at_most(56, f"seconds to all replicas, {what}", seconds, allowed)
    yield Figure.every(56, f"one commit on all, {what}", len(commits), merges)


def _tell(replica: Replica, commit: str) -> None:
    """Send what a forge sends."""
    body = commit.encode()
    signature = hmac.new(_SECRET.encode(), body, "sha256").hexdigest()
    connection = HTTPConnection("127.0.0.1", replica.port, timeout=PATIENCE_SECONDS)
    headers = {"X-Hub-Signature-256": f"sha256={signature}"}
    connection.request("POST", "/hooks/git", body, headers)
    status = connection.getresponse().status
    connection.close()
    if status != HTTPStatus.ACCEPTED:
        raise RuntimeError(f"the delivery was answered with {status}")


def _wait_for_merge(behind: Sequence[Replica], word: str) -> Iterator[str]:
    """Yield the commit of each replica as soon as it serves a skill."""
    with ExitStack() as stack:
        for each in behind:
            caller = Caller(each.port)
            stack.callback(caller.close)
            wait_for(lambda: caller.ask(word).get("skill_path") == word)  # noqa: B023
            yield caller.ask(word)["commit"]


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("merge-one-cache", merge_with_one_cache),
    ("merge-caches", merge_with_caches),
)
