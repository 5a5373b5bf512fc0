"""Everything that is wrong with some paths, in the order of their files."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from skills_mcp.authoring.validation.entries import EntryChecker
from skills_mcp.authoring.validation.layout import describe_gap, find_gaps
from skills_mcp.authoring.validation.places import Focus, find_place
from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.authoring.validation.tree import Entry, Tree, load_tree
from skills_mcp.authoring.validation.verdict import Validation
from skills_mcp.skills.model import Problem

Report = Callable[[int, int], None]
"""Is told how many skills have been checked, and of how many."""


def _keep_quiet(done: int, total: int) -> None:
    """Say nothing: nobody waits."""


def validate(*paths: Path, report: Report = _keep_quiet) -> Validation:
    """Check content repositories, folders of skills, packages, or single files.

    Every path is judged with the tree around it, because that decides who finds a
    skill and what it inherits; a tree is read once, however many of the paths are in
    it. Nothing outside the trees is read, and nothing is written.

    Args:
        paths: They have to exist.
        report: Called before each skill.
    """
    places: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for place in map(find_place, paths):
        places[place.top, place.subfolder].append(place.focus)
    problems: set[Problem] = set()
    skills: set[Path] = set()
    for (top, subfolder), asked in places.items():
        tree = load_tree(top, subfolder)
        entries = _select(tree, asked)
        problems.update(_check_tree(tree, entries, Focus(asked), report))
        problems.update(_without_skills(entries, asked))
        skills.update(entry.file for entry in entries if entry.skill)
    ordered = sorted(problems, key=lambda p: (p.file, p.line, p.rule, p.reason))
    return Validation(tuple(ordered), len(skills))


def _select(tree: Tree, asked: Iterable[Path]) -> list[Entry]:
    """Return what lies in the paths, and what a path itself lies in."""
    focus = Focus(asked)
    entries = {entry.whole: entry for entry in tree.entries}
    selected = {place for place in entries if focus.covers(place)}
    for path in asked:
        owner = next((p for p in (path, *path.parents) if p in entries), None)
        selected |= {owner} if owner else set()
    return [entry for place, entry in entries.items() if place in selected]


def _check_tree(
    tree: Tree, entries: Sequence[Entry], focus: Focus, report: Report
) -> Iterator[Problem]:
    checker = EntryChecker(tree)
    found: list[Problem] = []
    for done, entry in enumerate(entries):
        report(done, len(entries))
        found += checker.check(entry)
    # What was only repaired is an error here, and said by the stricter reading.
    strict = {(problem.file, problem.rule) for problem in found}
    read = (p for p in tree.problems() if (p.file, p.rule) not in strict)
    for problem in (*found, *read):
        if focus.covers(Path(problem.file)):
            yield problem
    for folder in _gaps(tree):
        if focus.surrounds(folder):
            yield describe_gap().at(folder)


def _gaps(tree: Tree) -> Iterator[Path]:
    for home in tree.homes:
        rules = [
            entry
            for entry in tree.entries
            if entry.home == home.directory and not entry.is_package
        ]
        files = [entry.found.file for entry in rules]
        skills = [entry.found.file for entry in rules if entry.skill]
        for folder in find_gaps(files, skills):
            yield home.directory / folder


def _without_skills(
    entries: Iterable[Entry], asked: Iterable[Path]
) -> Iterator[Problem]:
    """Report folders in which somebody expected skills."""
    places = {entry.whole for entry in entries if not entry.is_notice}
    around = {above for place in places for above in (place, *place.parents)}
    for path in asked:
        if path.is_dir() and path not in around and places.isdisjoint(path.parents):
            hint = "name a folder that holds Markdown with a frontmatter, or SKILL.md"
            yield Finding("no-skills", "has no skills", hint).at(path)
