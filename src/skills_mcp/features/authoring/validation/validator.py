"""Validation of skills before they are served: all findings, sorted by file and line.

A skill is checked as served, too: keywords, relations, length, entry and files. Of the
relations only the owner is served, so no other check finds a mistake there.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.errors import ConfigError
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.validation.markdown import (
    LinkContext,
    Markdown,
    check_links,
    parse_markdown,
    read_bytes,
    read_text,
)
from skills_mcp.features.authoring.validation.package_standard import check_package
from skills_mcp.features.authoring.validation.rule_choice import (
    ALL_RULES,
    RuleSelection,
    UnknownRuleError,
)
from skills_mcp.features.authoring.validation.rules import RuleFinding
from skills_mcp.features.authoring.validation.served_skill import ServedSkillChecker
from skills_mcp.features.authoring.validation.skill_tree import (
    AuthoredSkill,
    PathFilter,
    SkillTree,
    find_validation_target,
    is_repository,
    load_tree,
)
from skills_mcp.features.authoring.validation.strict_reading import parse_strictly
from skills_mcp.features.authoring.validation.unsafe_text import check_body, check_text
from skills_mcp.skills.index import INDEX
from skills_mcp.skills.model import Problem
from skills_mcp.skills.package import classify_file
from skills_mcp.skills.walk import Package

_MARKDOWN = ".md"
_SETTINGS = "config.yaml"


@dataclass(frozen=True, slots=True)
class Validation:
    problems: tuple[Problem, ...]
    """Sorted by file and line; `file` is an absolute path."""
    skill_count: int
    focus: PathFilter
    baselines: tuple[Path, ...] = ()
    """Baseline files named in the content's settings."""

    @property
    def error_count(self) -> int:
        """Violations of the standard, and files not served."""
        return sum(problem.level == "error" for problem in self.problems)

    @property
    def warning_count(self) -> int:
        return len(self.problems) - self.error_count


def validate_paths(
    *paths: Path,
    choice: RuleSelection = ALL_RULES,
    on_progress: OnProgress = ignore_progress,
    on_file: Callable[[], None] = lambda: None,
) -> Validation:
    """Validate repositories, folders of skills, packages, or single files.

    Each path is checked in its tree, as the tree decides routing and inheritance. A
    tree is
    read once for all its paths. Nothing outside is read; nothing is written. `on_file`
    is
    called before each file of a skill, and may raise to cancel.

    Raises:
        ConfigError: The settings of the content name an unknown rule.
    """
    targets: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for target in map(find_validation_target, paths):
        targets[target.top, target.subfolder].append(target.focus)
    problems: set[Problem] = set()
    served: set[Path] = set()
    baselines: dict[Path, None] = {}
    for (top, subfolder), requested in targets.items():
        tree = load_tree(top, subfolder)
        chosen = _combine_rules(tree, choice)
        skills = _select_skills(tree, requested)
        checker = _SkillChecker(tree, on_file)
        found = [*_check_tree(checker, tree, skills, PathFilter(requested), on_progress)]
        found += _find_folders_without_skills(skills, requested)
        problems.update(problem for problem in found if chosen.reports(problem.rule))
        served.update(skill.file for skill in skills if skill.served)
        named = tree.snapshot.config.validation.baseline
        baselines |= {_find_settings(tree).parent / named: None} if named else {}
    ordered = sorted(problems, key=lambda p: (p.file, p.line, p.rule, p.reason))
    focus = PathFilter(path for requested in targets.values() for path in requested)
    return Validation(tuple(ordered), len(served), focus, tuple(baselines))


def _combine_rules(tree: SkillTree, choice: RuleSelection) -> RuleSelection:
    settings = tree.snapshot.config.validation
    try:
        return choice.within(settings.select, settings.ignore)
    except UnknownRuleError as error:
        where = f"{_find_settings(tree)}: validation"
        raise ConfigError(f"{where}: {error}") from error


def _find_settings(tree: SkillTree) -> Path:
    """Path of the content's settings: in the first skill root, else at the top."""
    folders = (*(home.directory for home in tree.homes[:1]), tree.top)
    candidates = [folder / _SETTINGS for folder in folders]
    return next((candidate for candidate in candidates if candidate.is_file()), candidates[-1])


def _select_skills(tree: SkillTree, requested: Iterable[Path]) -> list[AuthoredSkill]:
    focus = PathFilter(requested)
    skills = {skill.path: skill for skill in tree.skills}
    selected = {path for path in skills if focus.covers(path)}
    for path in requested:
        owner = next((p for p in (path, *path.parents) if p in skills), None)
        selected |= {owner} if owner else set()
    return [skill for path, skill in skills.items() if path in selected]


def _check_tree(
    checker: "_SkillChecker",
    tree: SkillTree,
    skills: Sequence[AuthoredSkill],
    focus: PathFilter,
    on_progress: OnProgress,
) -> Iterator[Problem]:
    found: list[Problem] = []
    for done, skill in enumerate(skills):
        on_progress(done, len(skills))
        found += checker.check(skill)
    # What the server repairs is an error here, and reported by the stricter reading.
    strict = {(problem.file, problem.rule) for problem in found}
    read = (p for p in tree.problems(focus) if (p.file, p.rule) not in strict)
    for problem in (*found, *read):
        if focus.covers(Path(problem.file)):
            yield problem
    for folder in _find_missing_indexes(tree):
        if focus.covers_children_of(folder):
            yield _describe_missing_index().at(folder)


class _SkillChecker:
    def __init__(self, tree: SkillTree, on_file: Callable[[], None]) -> None:
        self._on_file = on_file
        reported = {Path(problem.file) for problem in tree.problems()}
        self._served = ServedSkillChecker(tree.snapshot, reported)

    def check(self, skill: AuthoredSkill) -> Iterator[Problem]:
        raw = read_bytes(skill.home, skill.found.file)
        is_unserved = skill.served is None and not skill.is_package
        if raw is None or is_unserved:
            return  # reported by the reader, or a text for people
        markdown = parse_markdown(raw)
        for finding in self._check_main(skill, raw, markdown):
            yield finding.at(skill.file)
        for file in _other_files(skill):
            self._on_file()
            for finding in _check_other(skill, file):
                yield finding.at(skill.resources / file)

    def _check_main(
        self, skill: AuthoredSkill, raw: bytes, markdown: Markdown
    ) -> Iterator[RuleFinding]:
        found = [*check_text(markdown.text)]
        reported = {finding.rule for finding in found}
        if isinstance(skill.found, Package):
            reading = parse_strictly(raw, markdown)
            strict = check_package(reading, skill.found.main, _folder_name(skill))
            # The reader reports control characters without naming them.
            yield from (violation for violation in strict if violation.rule not in reported)
        yield from found
        yield from check_body(markdown.body, markdown.first_line)
        yield from check_links(markdown, _link_context(skill))
        if skill.served is not None:
            yield from self._served.check(skill.served, markdown)


def _folder_name(skill: AuthoredSkill) -> str | None:
    return None if is_repository(skill.path) else skill.path.name


def _check_other(skill: AuthoredSkill, file: str) -> Iterator[RuleFinding]:
    text = read_text(skill.resources, file)
    if text is None:
        return
    yield from check_text(text)
    if file.endswith(_MARKDOWN) and _is_reference(file):
        markdown = parse_markdown(text.encode())
        folder = PurePosixPath(file).parent.as_posix()
        yield from check_links(markdown, _link_context(skill, folder))


def _other_files(skill: AuthoredSkill) -> Iterator[str]:
    files: Iterable[str] = skill.served.files if skill.served else ()
    main = ""
    if isinstance(skill.found, Package):
        files, main = skill.found.files, skill.found.main
    yield from (file for file in files if file != main)


def _is_reference(file: str) -> bool:
    """Whether its links are the skill's; those of a template are for its copy."""
    is_template = "template" in PurePosixPath(file).name.casefold()
    return classify_file(file) == "reference" and not is_template


def _link_context(skill: AuthoredSkill, below: str = ".") -> LinkContext:
    """Bases and limits of a file's links.

    In a package they start at its folder (the standard) or the file's own (all
    editors); a
    rule file may link to the entire tree.
    """
    found = skill.found
    if isinstance(found, Package):
        bases = (f"{found.folder or '.'}/{below}", found.folder or ".")
        return LinkContext(skill.home, found.folder, bases, found.files)
    path = PurePosixPath(found.file)
    bases = (path.parent.as_posix(), path.with_suffix("").as_posix())
    return LinkContext(skill.home, "", bases)


def _find_missing_indexes(tree: SkillTree) -> Iterator[Path]:
    for home in tree.homes:
        rules = [
            skill for skill in tree.skills if skill.home == home.directory and not skill.is_package
        ]
        files = [skill.found.file for skill in rules]
        served = [skill.found.file for skill in rules if skill.served]
        for folder in _folders_without_index(files, served):
            yield home.directory / folder


def _folders_without_index(files: Collection[str], served: Iterable[str]) -> Iterator[str]:
    """Find folders without an index, where a parent or sibling folder has one."""
    name = f"{INDEX}{_MARKDOWN}"
    indexed = {PurePosixPath(f).parent for f in files if PurePosixPath(f).name == name}
    indexed.discard(PurePosixPath())  # nothing inherits from an index at the top
    parents = {folder.parent for folder in indexed}
    for folder in sorted({PurePosixPath(file).parent for file in served}):
        is_above = not indexed.isdisjoint(folder.parents)
        is_known = folder in indexed or folder == PurePosixPath()
        if not is_known and (is_above or folder.parent in parents):
            yield str(folder)


def _describe_missing_index() -> RuleFinding:
    reason = f"has skills but no {INDEX}{_MARKDOWN}, unlike the folders around it"
    hint = f"add {INDEX}{_MARKDOWN} with the rules for all skills in it"
    return RuleFinding("missing-index", reason, hint)


def _find_folders_without_skills(
    skills: Iterable[AuthoredSkill], requested: Iterable[Path]
) -> Iterator[Problem]:
    skill_paths = {skill.path for skill in skills if not skill.is_notice}
    around = {
        above for path_of_skill in skill_paths for above in (path_of_skill, *path_of_skill.parents)
    }
    for path in requested:
        if path.is_dir() and path not in around and skill_paths.isdisjoint(path.parents):
            hint = "name a folder that holds Markdown with a frontmatter, or SKILL.md"
            yield RuleFinding("no-skills", "has no skills", hint).at(path)
