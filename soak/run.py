"""Every promise of the product, tried for an hour and a quarter.

`make soak` runs all scenarios, of which hostile requests take
30 minutes, and prints how far each went.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.report import describe_load, describe_machine
from soak import drift
from soak.events import (
    counting,
    deadends,
    discretion,
)
from soak.http import (
    crowds,
    fairness,
    hostile_requests,
    merging,
    real_clients,
    rolling_restart,
    scraping,
    sign_in,
)
from soak.input import (
    bombs,
    findings,
    fuzzing,
    links,
    paths,
    privileges,
    special_files,
)
from soak.report import Outcome, print_table, write_json, write_markdown
from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.scripts import (
    endings,
    escapes,
    fidelity,
    floods,
    process_trees,
)
from soak.sync import (
    crashing,
    damage,
    disk,
    history,
    hostile,
    killing,
    orphans,
    outages,
    provenance,
    random_damage,
    reading,
    refreshing,
    secrets,
    signing,
    staleness,
    startup,
)
from soak.windows import sharing

SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    *reading.SCENARIOS,
    *refreshing.SCENARIOS,
    *killing.SCENARIOS,
    *crashing.SCENARIOS,
    *damage.SCENARIOS,
    *random_damage.SCENARIOS,
    *orphans.SCENARIOS,
    *history.SCENARIOS,
    *disk.SCENARIOS,
    *outages.SCENARIOS,
    *startup.SCENARIOS,
    *hostile.SCENARIOS,
    *secrets.SCENARIOS,
    *signing.SCENARIOS,
    *process_trees.SCENARIOS,
    *endings.SCENARIOS,
    *floods.SCENARIOS,
    *paths.SCENARIOS,
    *links.SCENARIOS,
    *special_files.SCENARIOS,
    *bombs.SCENARIOS,
    *fuzzing.SCENARIOS,
    *escapes.SCENARIOS,
    *fidelity.SCENARIOS,
    *counting.SCENARIOS,
    *deadends.SCENARIOS,
    *discretion.SCENARIOS,
    *drift.SCENARIOS,
    *privileges.SCENARIOS,
    *provenance.SCENARIOS,
    *staleness.SCENARIOS,
    *findings.SCENARIOS,
    *sign_in.SCENARIOS,
    *crowds.SCENARIOS,
    *fairness.SCENARIOS,
    *scraping.SCENARIOS,
    *real_clients.SCENARIOS,
    *rolling_restart.SCENARIOS,
    *merging.SCENARIOS,
    *hostile_requests.SCENARIOS,
    *sharing.SCENARIOS,
)

# What would reach the product from the developer's own machine.
_FOREIGN = (
    "SKILLS_",
    "GIT_",
    "GITHUB_TOKEN",
    "REFRESH_",
    "ANALYTICS_",
    "EMBEDDING_",
    "DO_NOT_",
)

_console = Console(stderr=True)


def main() -> None:
    """Run scenarios, print and write the figures; return 1 if a promise is broken."""
    chosen = parse()
    logging.getLogger().addHandler(logging.NullHandler())  # what is broken on purpose
    busy, started = describe_load(), time.perf_counter()
    scale = derive_scale(chosen)
    wanted = [each for each in SCENARIOS if each[0] in (chosen.only or each[0])]
    outcomes = list(run(wanted, scale))
    seconds = time.perf_counter() - started
    about = {
        "machine": describe_machine(os.cpu_count()),
        "effort": f"{'Quick' if chosen.quick else 'Full'} run of {len(wanted)} "
        f"scenarios in {seconds / 60:.1f} minutes; {busy} before it.",
    }
    print_table(outcomes, about.values())
    if chosen.json:
        write_json(chosen.json, outcomes, about)
    for page in chosen.markdown:
        write_markdown(page, outcomes, about.values())
    sys.exit(not all(each.is_met for each in outcomes))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="as often as the tests do, in a minute"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[name for name, _ in SCENARIOS],
        metavar="NAME",
        help="run this scenario, may be repeated: %(choices)s",
    )
    parser.add_argument(
        "--attack-minutes",
        type=float,
        help="how long hostile requests are sent: 30, or 2 with --quick",
    )
    parser.add_argument("--seed", type=int, default=1, help="of these requests")
    parser.add_argument("--json", type=Path, help="a file for machines")
    parser.add_argument(
        "--markdown",
        type=Path,
        action="append",
        default=[],
        help="a page in which the table is replaced, may be repeated",
    )
    return parser.parse_args(arguments)


def derive_scale(chosen: argparse.Namespace) -> Scale:
    """Return the scale that the arguments ask for."""
    scale = replace(Scale.quick() if chosen.quick else Scale.full(), seed=chosen.seed)
    minutes = chosen.attack_minutes
    return replace(scale, attack_seconds=minutes * 60) if minutes else scale


def run(wanted: Sequence[tuple[str, Scenario]], scale: Scale) -> Iterator[Outcome]:
    """Run one scenario after the other, each in a new folder and home."""
    for number, (name, scenario) in enumerate(wanted, 1):
        with (
            tempfile.TemporaryDirectory(
                prefix="skills-mcp-soak-", ignore_cleanup_errors=True
            ) as folder,
            _console.status(f"{number} of {len(wanted)}: {name} …"),
            _sheltered(Path(folder, "home")),
        ):
            work = Path(folder, "work")
            work.mkdir()
            outcome = try_out(name, scenario, work, scale)
        verdict = "met" if outcome.is_met else "[bold red]missed[/]"
        verdict = "skipped" if outcome.skipped else verdict
        _console.print(f"{name}: {verdict} in {outcome.seconds:.0f} s")
        yield outcome


def try_out(name: str, scenario: Scenario, folder: Path, scale: Scale) -> Outcome:
    """Run one scenario; an exception becomes part of its report."""
    started = time.perf_counter()
    figures: list[Figure] = []
    skipped = crashed = ""
    try:
        figures.extend(scenario(folder, scale))
    except Unavailable as reason:
        skipped = str(reason)
    except Exception as error:  # noqa: BLE001 - the other scenarios go on
        traceback.print_exc()
        crashed = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    return Outcome(name, seconds, tuple(figures), skipped, crashed)


@contextmanager
def _sheltered(home: Path) -> Iterator[None]:
    """Hide the developer's own configuration from the product, until the block ends."""
    before = dict(os.environ)
    home.mkdir()
    for name in before:
        if name.startswith(_FOREIGN):
            del os.environ[name]
    os.environ |= {"HOME": str(home), "SKILLS_MCP_HOME": str(home / ".skills-mcp")}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


if __name__ == "__main__":
    main()
