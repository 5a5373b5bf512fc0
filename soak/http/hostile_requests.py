"""Hostile requests to a real server over HTTP: promise 59."""

import importlib.util
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import HypothesisException, HypothesisWarning

from soak.http.attacked_server import (
    FORBIDDEN_VARIABLE,
    SETUPS,
    SHUTDOWN_SECONDS,
    AttackedServer,
    attacked,
)
from soak.http.hostile_inputs import ATTACKS, Requests
from soak.http.raw_http import RawRequest
from soak.scenario import Figure, Scale, Scenario, Unavailable

_EXAMPLES = 150
"""Of one search: then another address has its turn."""

_MOST_NAMED = 5  # in the table; all are printed
_MOST_GROWTH_MEGABYTES = 250
"""Archives that wait for their senders' decision may have 64; the rest is the heap."""

# The server closes connections within its setting, and ends its threads after that.
_END_SECONDS = SHUTDOWN_SECONDS + 7


class _FaultError(Exception):
    """A request has shown a fault."""


@dataclass(slots=True)
class Campaign:
    """The search for requests that show a fault, and the smallest one of each."""

    target: AttackedServer
    until: float
    """When it ends, in seconds of the monotonic clock."""
    tried: int = 0
    found: dict[str, RawRequest] = field(default_factory=dict)

    def run(self, number: int) -> None:
        """Attack one address after the other, until the time is over.

        Args:
            number: The seed of the first search.
        """
        while time.monotonic() < self.until:
            for attack in ATTACKS.values():
                self._search(attack(self.target.doors), number)
                number += 1
            if not self.target.answers_well():
                self.found["a good request is not answered any more"] = RawRequest(b"")
                return

    def _search(self, requests: Requests, number: int) -> None:
        """Look for one fault that is not known, and shrink its request."""
        known = frozenset(self.found)

        @seed(number)
        @settings(
            max_examples=_EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
        )
        @given(requests)
        def attempt(request: RawRequest) -> None:
            if time.monotonic() > self.until:
                return
            self.tried += 1
            fault = self.target.try_request(request)
            if fault and fault not in known:
                self._note(fault, request)
                raise _FaultError(fault)

        # It is noted, also if the same request does not show it a second time.
        with suppress(_FaultError, HypothesisException), warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)  # of long texts
            attempt()

    def _note(self, fault: str, request: RawRequest) -> None:
        before = self.found.get(fault)
        if before is None or len(request.data) < len(before.data):
            self.found[fault] = request


def attack(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Send drawn requests to each address, as each kind of caller."""
    for name, setup in SETUPS.items():
        with attacked(folder / name, setup) as target:
            before = target.read_megabytes()
            until = time.monotonic() + scale.attack_seconds / 2 / len(SETUPS)
            campaign = Campaign(target, until)
            campaign.run(scale.seed)
            _print(name, campaign, scale.seed)
            yield _count(f"{name}: faults", sorted(campaign.found), campaign.tried)
            yield from _end(name, target, before)


def _print(name: str, campaign: Campaign, number: int) -> None:
    for fault, request in sorted(campaign.found.items()):
        shown = campaign.target.render(request)
        print(f"{name}, seed {number}: {fault}\n    {shown}", file=sys.stderr)


def _count(what: str, faults: Sequence[str], tried: int) -> Figure:
    named = f" ({'; '.join(faults[:_MOST_NAMED])})" if faults else ""
    return Figure.none(59, f"{what}{named}", len(faults), tried)


def _end(name: str, target: AttackedServer, before: float) -> Iterator[Figure]:
    """Judge what is left when all is over."""
    grown = round(target.read_megabytes() - before)
    what = f"{name}: megabytes of growth"
    yield Figure.at_most(59, what, grown, _MOST_GROWTH_MEGABYTES)
    seconds = round(target.end(), 1)
    yield Figure.at_most(59, f"{name}: seconds to the end", seconds, _END_SECONDS)
    left = target.find_leftovers()
    named = f" ({', '.join(sorted(left)[:3])})" if left else ""
    yield Figure.at_most(59, f"{name}: folders left{named}", len(left), 0)


def attack_described(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Send what our own OpenAPI document permits and forbids, by schemathesis."""
    if importlib.util.find_spec("schemathesis") is None:
        raise Unavailable("schemathesis is not installed; make soak installs it")
    for name, setup in SETUPS.items():
        with attacked(folder / name, setup) as target:
            before = target.read_megabytes()
            callers = (*target.doors.authorizations, b"")
            (folder / "openapi.json").write_bytes(target.read_page("/api/openapi.json"))
            seconds = scale.attack_seconds / 2 / len(SETUPS) / len(callers)
            failed = []
            for number, authorization in enumerate(callers):
                if _run_schemathesis(target, authorization, folder, scale, seconds):
                    failed.append(f"as caller {number}")
            told = (target.find_logged(), target.find_outside())
            faults = [*failed, *filter(None, told)]
            yield _count(f"{name}, described: faults", faults, len(callers))
            yield from _end(f"{name}, described", target, before)


def _run_schemathesis(
    target: AttackedServer,
    authorization: bytes,
    folder: Path,
    scale: Scale,
    seconds: float,
) -> bool:
    """Run it as one caller; print what it says and return whether it found a fault."""
    token = ["--header", f"Authorization: {authorization.decode()}"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            *("openapi.json", "--url", f"http://127.0.0.1:{target.port}"),
            *(token if authorization else ()),
            *("--checks", "answered_well", "--seed", str(scale.seed)),
            *("--max-time", str(max(1, round(seconds)))),
            *("--continue-on-failure", "--warnings", "off", "--generation-database"),
            *("none", "--no-color", "--mode", "all"),
        ],
        check=False,
        capture_output=True,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "soak.http.described_answers",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            FORBIDDEN_VARIABLE: target.describe_forbidden(),
        },
        cwd=folder,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-20_000:], done.stderr[-5_000:], file=sys.stderr)
    return done.returncode != 0


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("hostile-requests", attack),
    ("hostile-rest", attack_described),
)
