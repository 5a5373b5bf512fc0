"""How often routing finds the right skill, in sets of skills and tasks.

`make accuracy` prints a line for each set of `benchmarks/tasks`, and their mean with
the interval that drawing the tasks anew gives; `ARGUMENTS="SET …"` names others. A set
is a folder with `queries.jsonl` (`query`, `expect`, `negated` for skills that the task
says not to use, and `kind` for what no skill serves: `same_field` or `other_field`), and
either `sources.json`, which says where its skills are from (see `task_sets`), or
`skills.jsonl` (`id`, `name`, `description`, `keywords`, `body`). Without
`queries.jsonl`, documents of its sources are the tasks. With `--meanings` a small model
is asked, too, over HTTP and as a server asks it; with `--peers` search libraries and
other routers are asked the same.
"""

import argparse
import json
import logging
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.meanings import opening_minilm
from benchmarks.minilm_server import find_absent
from benchmarks.peers import Peer, PeerRouter, find_installed
from benchmarks.task_sets import (
    QUERIES,
    SOURCES,
    TASKS,
    find_skills,
    place_expected,
    read_documents,
)
from skills_mcp.config import Matching
from skills_mcp.features.authoring.evaluation import RANK_CUTOFF, Outcome
from skills_mcp.features.authoring.prompts import Prompt
from skills_mcp.routing import inverted_index, lexicon, query, ranked_matcher
from skills_mcp.routing.decision import (
    Decision,
    NoMatch,
    decision_kind,
    estimate_probabilities,
    score_and_decide,
)
from skills_mcp.routing.inverted_index import SCORED_FIELDS, TextIndex
from skills_mcp.routing.matcher import Matcher, tie_break_ranks
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.snapshots.skill_snapshot import Embedder

Kind = str
SERVED: Kind = "served"
SAME_FIELD: Kind = "same_field"
OTHER_FIELD: Kind = "other_field"

FIGURES: Mapping[str, str] = {
    "at_1": "First",
    "at_5": "In five",
    "in_answer": "In the answer",
    "shown": "Shown",
    "single": "Single",
    "single_right": "Right of single",
    "kept": "Kept",
    "declined_same": "Declined, same field",
    "declined_other": "Declined, other field",
    "full_same": "Full rules, same field",
    "full_other": "Full rules, other field",
    "negated_first": "Negated first",
}
"""What is counted, in per cent but for `shown`, and how the table calls it."""

_MIN_SCORES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
_THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
_DRAWS = 400  # of the tasks of each set, for the interval
_TENTH = 10
_BAR = 30

_console = Console(width=180)


class RoutingSet(NamedTuple):
    """Skills, and tasks with the skills that should serve them."""

    name: str
    skills: tuple[Skill, ...]
    tasks: tuple[tuple[Kind, Prompt], ...]
    negated: Mapping[str, frozenset[str]] = MappingProxyType({})
    """By the text of a task the skills that it says not to use."""


class Tried(NamedTuple):
    """A task and what became of it."""

    kind: Kind
    outcome: Outcome
    negated: frozenset[str] = frozenset()
    """Skills that the task says not to use."""


MatcherOf = Callable[[RoutingSet], Matcher]
"""Makes the matcher that is measured."""


def load_set(folder: Path, at_hand: Path | None = None) -> RoutingSet:
    """Return the set in a folder; skills that are not there are fetched once.

    Args:
        folder: Has the tasks, and the skills or where they are from.
        at_hand: A folder with copies of sources, which are then not fetched.

    Raises:
        SystemExit: The folder has no set, or its skills cannot be fetched.
    """
    try:
        if (folder / SOURCES).exists():
            skills, paths = find_skills(folder, at_hand)
            has_rows = (folder / QUERIES).exists()
            rows = _load_lines(folder / QUERIES) if has_rows else read_documents(folder, paths)
            queries = list(place_expected(rows, paths))
        else:
            queries = list(_load_lines(folder / QUERIES))
            rows = _load_lines(folder / "skills.jsonl")
            skills = tuple(sorted(map(_parse_skill, rows), key=lambda each: each.path))
    except OSError as error:
        raise SystemExit(f"{folder} is no set: {error}") from error
    tasks = (
        (
            SERVED if row["expect"] else row.get("kind", OTHER_FIELD),
            Prompt(
                query=row["query"],
                expect=tuple(row["expect"]),
                origin=f"queries.jsonl:{line}",
            ),
        )
        for line, row in enumerate(queries, 1)
    )
    negated = {row["query"]: frozenset(row["negated"]) for row in queries if row.get("negated")}
    return RoutingSet(folder.name, skills, tuple(tasks), negated)


def _load_lines(file: Path) -> Iterator[Mapping[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _parse_skill(row: Mapping[str, Any]) -> Skill:
    path = str(row["id"])
    return Skill(
        path=SkillPath(path),
        file=f"{path}/SKILL.md",
        name=row["name"],
        description=row["description"] or "",
        keywords=tuple(map(str, row.get("keywords") or ())),
        body=row.get("body") or "",
        inherit=True,
        priority=0,
        assets=(),
        scripts=(),
        directory=None,
    )


def make_ranked(routing_set: RoutingSet) -> RankedMatcher:
    """Return the ranked matcher of a set; as served, but for the names."""
    skills = routing_set.skills
    return RankedMatcher(
        TextIndex.build(map(to_indexed_document, skills)),
        skills,
        tie_break_ranks=tie_break_ranks([skill.path for skill in skills]),
    )


def make_fused(embedder: Embedder, routing_set: RoutingSet) -> Matcher:
    """Return the same matcher, but one that compares meanings, too."""
    vectors = embedder.vectors_of(routing_set.skills)
    if not vectors.prepare():
        raise SystemExit(f"{routing_set.name}: there are no vectors of the skills")
    return vectors.fuse(make_ranked(routing_set))


def try_out(routing_set: RoutingSet, matcher: Matcher, matching: Matching) -> list[Tried]:
    """Route every task of a set."""
    found = []
    for kind, prompt in routing_set.tasks:
        decision: Decision = score_and_decide(matcher, prompt.query, matching)
        ranked = matcher.score(prompt.query, limit=RANK_CUTOFF)
        negated = routing_set.negated.get(prompt.query, frozenset())
        found.append(Tried(kind, Outcome(prompt, decision, ranked, 0.0), negated))
    return found


def ask_peer(routing_set: RoutingSet, peer: Peer) -> list[Tried]:
    """Have a peer route every task of a set."""
    with ExitStack() as opened:
        router = PeerRouter(peer, routing_set.skills, opened)
        found = []
        for kind, prompt in routing_set.tasks:
            decision, ranked = router.route(prompt.query)
            negated = routing_set.negated.get(prompt.query, frozenset())
            found.append(Tried(kind, Outcome(prompt, decision, ranked, 0.0), negated))
        return found


def count(tried: Sequence[Tried]) -> dict[str, float]:
    """Return the figures of one set; those without any task are left out."""
    served = [each.outcome for each in tried if each.kind == SERVED]
    single = [o for o in served if decision_kind(o.decision) == "single"]
    figures = {
        "at_1": _share(o.rank == 1 for o in served),
        "at_5": _share(o.rank is not None and o.rank <= 5 for o in served),  # noqa: PLR2004 - its name
        "in_answer": _share(o.is_listed for o in served),
        "shown": _mean(len(o.listed) for o in served),
        "single": _share(o in single for o in served),
        "single_right": _share(o.is_found for o in single),
        "kept": _share(not isinstance(o.decision, NoMatch) for o in served),
        "declined_same": _share(_declined(tried, SAME_FIELD)),
        "declined_other": _share(_declined(tried, OTHER_FIELD)),
        "full_same": _share(_served_whole(tried, SAME_FIELD)),
        "full_other": _share(_served_whole(tried, OTHER_FIELD)),
        "negated_first": _share(
            any(c.skill.path in each.negated for c in each.outcome.ranked[:1])
            for each in tried
            if each.negated
        ),
    }
    return {key: value for key, value in figures.items() if value is not None}


def _declined(tried: Iterable[Tried], kind: Kind) -> Iterator[bool]:
    return (isinstance(each.outcome.decision, NoMatch) for each in tried if each.kind == kind)


def _served_whole(tried: Iterable[Tried], kind: Kind) -> Iterator[bool]:
    """Whether the rules of one skill are the answer to a task that none serves."""
    decisions = (each.outcome.decision for each in tried if each.kind == kind)
    return (decision_kind(decision) == "single" for decision in decisions)


def _share(values: Iterable[bool]) -> float | None:
    mean = _mean(values)
    return None if mean is None else 100 * mean


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return sum(every) / len(every) if every else None


def average(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure over the sets that have it."""
    every = list(rows)
    found = {key: [row[key] for row in every if key in row] for key in FIGURES}
    return {key: statistics.fmean(values) for key, values in found.items() if values}


def draw_interval(
    results: Mapping[str, Sequence[Tried]],
) -> dict[str, tuple[float, float]]:
    """Return where 95 of 100 means lie if the tasks of each set are drawn anew."""
    chance = random.Random(11)  # noqa: S311 - the same interval in every run
    means = [
        average(count(chance.choices(tried, k=len(tried))) for tried in results.values())
        for _ in range(_DRAWS)
    ]
    found = {}
    for key in FIGURES:
        values = sorted(mean[key] for mean in means if key in mean)
        if values:
            ends = (int(len(values) * share) for share in (0.025, 0.975))
            low, high = (values[min(end, len(values) - 1)] for end in ends)
            found[key] = low, high
    return found


# --- each part alone --------------------------------------------------------------


@contextmanager
def _changed(owner: object, name: str, value: object) -> Iterator[None]:
    """Give a module another part for a while."""
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def _without_opening() -> np.ndarray[Any, Any]:
    weights = inverted_index.FIELD_WEIGHTS.copy()
    weights[SCORED_FIELDS.index("opening")] = 0
    return weights


PARTS: Mapping[str, Sequence[tuple[object, str, object]]] = {
    "thesaurus": [(lexicon, "build_thesaurus", lambda _: lexicon.Thesaurus(()))],
    "ordinary words": [(lexicon, "common_word_weight", lambda _: 1.0)],
    "technologies": [(lexicon, "is_technology_name", lambda _: False)],
    "typing errors": [(query, "_correct_typos", lambda *_: {})],
    "one word or two": [
        (query, "_join_compounds", lambda *_: ()),
        (query, "_split_compounds", lambda *_: {}),
    ],
    "words in mixed case": [(query, "lower_known_words", lambda piece, _: piece)],
    "other languages": [
        (query, "find_function_words", lambda _: frozenset()),
        (query, "is_unsegmented", lambda _: False),
    ],
    "negations": [(ranked_matcher, "find_negations", lambda _: ())],
    "refusals": [(ranked_matcher, "drop_exclusions", lambda description: description)],
    "opening": [(inverted_index, "FIELD_WEIGHTS", _without_opening())],
    "name": [(ranked_matcher, "NAME_WEIGHT", 0.0)],
    "nearness": [(ranked_matcher, "PROXIMITY_WEIGHT", 0.0)],
}
"""What can be left out, to see what it is worth: names of modules and their values."""


@contextmanager
def leaving_out(part: str) -> Iterator[None]:
    """Route without one of `PARTS`."""
    with ExitStack() as changes:
        for owner, name, value in PARTS[part]:
            changes.enter_context(_changed(owner, name, value))
        yield


# --- what is printed --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measuring:
    """Sets and how they are routed."""

    sets: Sequence[RoutingSet]
    make: MatcherOf

    def run(self, matching: Matching) -> dict[str, list[Tried]]:
        """Return what became of every task, by set."""
        return {each.name: try_out(each, self.make(each), matching) for each in self.sets}

    def run_all(self, rules: Iterable[Matching]) -> Iterator[dict[str, list[Tried]]]:
        """Iterate over the same for several settings, with one matcher per set."""
        matchers = [(each, self.make(each)) for each in self.sets]
        for matching in rules:
            yield {each.name: try_out(each, matcher, matching) for each, matcher in matchers}


def print_sets(results: Mapping[str, Sequence[Tried]]) -> None:
    """Print a row per set, their mean, and its interval."""
    table = _table("Set", "Tasks")
    for name, tried in results.items():
        table.add_row(name, str(len(tried)), *_show(count(tried)))
    whole = sum(map(len, results.values()))
    mean = average(map(count, results.values()))
    table.add_section()
    table.add_row("Mean of the sets", str(whole), *_show(mean))
    ends = draw_interval(results)
    low, high = ({key: end[at] for key, end in ends.items()} for at in (0, 1))
    table.add_row("95 in 100, from", "", *_show(low))
    table.add_row("to", "", *_show(high))
    _console.print(table)


def print_peers(sets: Sequence[RoutingSet], ours: Mapping[str, Sequence[Tried]]) -> None:
    """Print the means of each peer, with their intervals, below ours."""
    peers, absent = find_installed()
    table = _table("Router")
    rows = {"skills-mcp": ours} | {
        peer.name: {each.name: ask_peer(each, peer) for each in sets} for peer in peers
    }
    for name, results in rows.items():
        mean, ends = _average_of(results), draw_interval(results)
        shown = zip(_show(mean), FIGURES, strict=True)
        cells = (f"{text}\n{_show_ends(ends.get(key))}" for text, key in shown)
        table.add_row(name, *cells, end_section=True)
    _console.print(table)
    if absent:
        _console.print(f"Not installed: {', '.join(absent)}")


def _show_ends(ends: tuple[float, float] | None) -> str:
    return "–".join(f"{end:.3g}" for end in ends) if ends else ""  # noqa: RUF001 - from to


def print_parts(measuring: Measuring) -> None:
    """Print the means with everything, and without each part alone."""
    table = _table("Without")
    rules = Matching()
    table.add_row("–", *_show(_average_of(measuring.run(rules))))  # noqa: RUF001 - a dash stands for nothing
    for part in PARTS:
        with leaving_out(part):
            table.add_row(part, *_show(_average_of(measuring.run(rules))))
    _console.print(table)


def print_curves(measuring: Measuring) -> None:
    """Print what other values of the two settings do."""
    curves: Sequence[tuple[str, Sequence[float]]] = (
        ("min_score", _MIN_SCORES),
        ("ambiguity_threshold", _THRESHOLDS),
    )
    for setting, values in curves:
        table = _table(setting)
        rules = (Matching.model_validate({setting: value}) for value in values)
        for value, results in zip(values, measuring.run_all(rules), strict=True):
            table.add_row(f"{value:g}", *_show(_average_of(results)))
        _console.print(table)


def print_reliability(results: Mapping[str, Sequence[Tried]]) -> None:
    """Print how often skills are right, by their score and by their chance.

    Scores are those of the best skills of served tasks; chances those of all that are
    compared, of all tasks.
    """
    scores: dict[int, list[bool]] = {}
    chances: dict[int, list[bool]] = {}
    for each in (tried for every in results.values() for tried in every):
        expected = set(each.outcome.prompt.expect)
        ranked = each.outcome.ranked
        rights = [candidate.skill.path in expected for candidate in ranked]
        if each.kind == SERVED and ranked:
            scores.setdefault(_tenth(float(ranked[0].score)), []).append(rights[0])
        likely = estimate_probabilities([candidate.exact_score for candidate in ranked])
        for chance, is_right in zip(likely, rights, strict=True):
            chances.setdefault(_tenth(chance), []).append(is_right)
    for title, found in (("Score of the best", scores), ("Chance", chances)):
        table = Table("From", "Cases", "Right, per cent", "", title=title)
        for tenth in sorted(found):
            right = _share(found[tenth]) or 0.0
            bar = "■" * round(right * _BAR / 100)
            cases = f"{len(found[tenth]):,}"
            table.add_row(f"{tenth / _TENTH:.1f}", cases, f"{right:.0f}", bar)
        _console.print(table)


def print_misses(results: Mapping[str, Sequence[Tried]], most: int) -> None:
    """Print tasks whose right skill is not in the answer, some of each set in turn."""
    rows = [
        [(name, each.outcome) for each in tried if _is_missed(each)]
        for name, tried in results.items()
    ]
    places = range(max(map(len, rows), default=0))
    every = (row[at] for at in places for row in rows if at < len(row))
    for _, (name, outcome) in zip(range(most), every, strict=False):
        best = [f"{c.skill.path} {float(c.score):.2f}" for c in outcome.ranked[:3]]
        _console.print(
            f"{name}: {outcome.prompt.query[:200]!r}\n"
            f"  wanted {', '.join(outcome.prompt.expect)} (place {outcome.rank}); "
            f"{decision_kind(outcome.decision)} of {', '.join(best)}",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )


def _is_missed(tried: Tried) -> bool:
    return tried.kind == SERVED and not tried.outcome.is_listed


def _tenth(value: float) -> int:
    return min(int(value * _TENTH), _TENTH - 1)


def _average_of(results: Mapping[str, Sequence[Tried]]) -> dict[str, float]:
    return average(map(count, results.values()))


def _table(*columns: str) -> Table:
    table = Table(*columns)
    for title in FIGURES.values():
        table.add_column(title, justify="right")
    return table


def _show(figures: Mapping[str, float]) -> Iterator[str]:
    for key in FIGURES:
        digits = 2 if key == "shown" else 1
        yield f"{figures[key]:.{digits}f}" if key in figures else ""


def main() -> None:
    """Measure the sets that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", type=Path, metavar="SET")
    parser.add_argument(
        "--at-hand",
        type=Path,
        metavar="FOLDER",
        help="with copies of sources, named as in sources.json; they are not fetched",
    )
    parser.add_argument("--meanings", action="store_true", help="ask MiniLM, too")
    parser.add_argument("--peers", action="store_true", help="ask other routers, too")
    parser.add_argument("--parts", action="store_true", help="leave each part out once")
    parser.add_argument("--curves", action="store_true", help="try other settings")
    parser.add_argument("--reliability", action="store_true", help="score against fact")
    parser.add_argument("--misses", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    # What is wrong with the skills of others is not said here.
    logging.disable(logging.WARNING)
    with ExitStack() as open_models:
        make: MatcherOf = make_ranked
        if chosen.meanings:
            if absent := find_absent():
                raise SystemExit(f"MiniLM needs {', '.join(absent)}: not installed")
            make = partial(make_fused, open_models.enter_context(opening_minilm()))
        folders = chosen.sets or sorted(filter(Path.is_dir, TASKS.iterdir()))
        sets = [load_set(each, chosen.at_hand) for each in folders]
        _print(chosen, Measuring(sets, make))


def _print(chosen: argparse.Namespace, measuring: Measuring) -> None:
    results = measuring.run(Matching())
    print_sets(results)
    if chosen.peers:
        print_peers(measuring.sets, results)
    if chosen.parts:
        print_parts(measuring)
    if chosen.curves:
        print_curves(measuring)
    if chosen.reliability:
        print_reliability(results)
    print_misses(results, chosen.misses)
    if chosen.json:
        figures = {name: count(tried) for name, tried in results.items()}
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
