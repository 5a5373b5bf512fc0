"""Every finding about some paths, in the order of files and lines."""

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
    EVERY_RULE,
    RuleChoice,
    UnknownRuleError,
)
from skills_mcp.features.authoring.validation.rules import RuleFinding
from skills_mcp.features.authoring.validation.served_skill import ServedSkillChecker
from skills_mcp.features.authoring.validation.skill_tree import (
    AuthoredSkill,
    Focus,
    SkillTree,
    find_target,
    is_repository,
    load_tree,
)
from skills_mcp.features.authoring.validation.strict_reading import parse_strictly
from skills_mcp.features.authoring.validation.unsafe_text import check_body, check_text
from skills_mcp.skills.index import INDEX
from skills_mcp.skills.model import Problem
from skills_mcp.skills.package import classify
from skills_mcp.skills.walk import Package

_MARKDOWN = ".md"
_SETTINGS = "config.yaml"


@dataclass(frozen=True, slots=True)
class Validation:
    """All findings, and the number of skills that were checked."""

    problems: tuple[Problem, ...]
    """In the order of files and lines; `file` is an absolute path."""
    skill_count: int
    """How many of the skills in the paths are served."""
    focus: Focus
    """The files and folders that were checked."""
    baselines: tuple[Path, ...] = ()
    """The files of known findings that the settings of the content name."""

    @property
    def error_count(self) -> int:
        """How many findings break the standard or keep a file from being served."""
        return sum(problem.level == "error" for problem in self.problems)

    @property
    def warning_count(self) -> int:
        """How many findings are advice."""
        return len(self.problems) - self.error_count


def validate(
    *paths: Path,
    choice: RuleChoice = EVERY_RULE,
    on_progress: OnProgress = ignore_progress,
    on_file: Callable[[], None] = lambda: None,
) -> Validation:
    """Check content repositories, folders of skills, packages, or single files.

    Every path is checked with the tree around it, because the tree decides which tasks
    find a skill and what it inherits. A tree is read once, however many of the paths
    are in it. Nothing outside the trees is read, and nothing is written.

    Args:
        paths: They have to exist.
        choice: The rules that count, on top of what the content's settings say.
        on_progress: Called before each skill.
        on_file: Called before each file of a skill; what it raises ends the work.

    Raises:
        ConfigError: The settings of the content name a rule that does not exist.
    """
    targets: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for target in map(find_target, paths):
        targets[target.top, target.subfolder].append(target.focus)
    problems: set[Problem] = set()
    served: set[Path] = set()
    baselines: dict[Path, None] = {}
    for (top, subfolder), asked in targets.items():
        tree = load_tree(top, subfolder)
        chosen = _choose(tree, choice)
        skills = _select(tree, asked)
        checker = _SkillChecker(tree, on_file)
        found = [*_check_tree(checker, tree, skills, Focus(asked), on_progress)]
        found += _find_folders_without_skills(skills, asked)
        problems.update(problem for problem in found if chosen.takes(problem.rule))
        served.update(skill.file for skill in skills if skill.served)
        named = tree.snapshot.config.validation.baseline
        baselines |= {_find_settings(tree).parent / named: None} if named else {}
    ordered = sorted(problems, key=lambda p: (p.file, p.line, p.rule, p.reason))
    focus = Focus(path for asked in targets.values() for path in asked)
    return Validation(tuple(ordered), len(served), focus, tuple(baselines))


def _choose(tree: SkillTree, choice: RuleChoice) -> RuleChoice:
    """Return the rules that count for a tree: the settings say it, and the author."""
    settings = tree.snapshot.config.validation
    try:
        return choice.within(settings.select, settings.ignore)
    except UnknownRuleError as error:
        where = f"{_find_settings(tree)}: validation"
        raise ConfigError(f"{where}: {error}") from error


def _find_settings(tree: SkillTree) -> Path:
    """Return the settings of the content: beside the skills, or at the top."""
    folders = (*(home.directory for home in tree.homes[:1]), tree.top)
    places = [folder / _SETTINGS for folder in folders]
    return next((place for place in places if place.is_file()), places[-1])


def _select(tree: SkillTree, asked: Iterable[Path]) -> list[AuthoredSkill]:
    """Return the skills in the paths, and those that a path is a part of."""
    focus = Focus(asked)
    skills = {skill.path: skill for skill in tree.skills}
    selected = {path for path in skills if focus.covers(path)}
    for path in asked:
        owner = next((p for p in (path, *path.parents) if p in skills), None)
        selected |= {owner} if owner else set()
    return [skill for path, skill in skills.items() if path in selected]


def _check_tree(
    checker: "_SkillChecker",
    tree: SkillTree,
    skills: Sequence[AuthoredSkill],
    focus: Focus,
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
    for folder in _find_gaps(tree):
        if focus.surrounds(folder):
            yield _describe_gap().at(folder)


class _SkillChecker:
    """Checks the skills of one tree, one by one."""

    def __init__(self, tree: SkillTree, on_file: Callable[[], None]) -> None:
        self._on_file = on_file
        reported = {Path(problem.file) for problem in tree.problems()}
        self._served = ServedSkillChecker(tree.snapshot, reported)

    def check(self, skill: AuthoredSkill) -> Iterator[Problem]:
        """Read a skill's Markdown files, and yield what is wrong."""
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
            yield from (each for each in strict if each.rule not in reported)
        yield from found
        yield from check_body(markdown.body, markdown.first_line)
        yield from check_links(markdown, _link_context(skill))
        if skill.served is not None:
            yield from self._served.check(skill.served, markdown)


def _folder_name(skill: AuthoredSkill) -> str | None:
    return None if is_repository(skill.path) else skill.path.name


def _check_other(skill: AuthoredSkill, file: str) -> Iterator[RuleFinding]:
    """Check a text that agents read after the main one."""
    text = read_text(skill.resources, file)
    if text is None:
        return
    yield from check_text(text)
    if file.endswith(_MARKDOWN) and _is_reference(file):
        markdown = parse_markdown(text.encode())
        folder = PurePosixPath(file).parent.as_posix()
        yield from check_links(markdown, _link_context(skill, folder))


def _other_files(skill: AuthoredSkill) -> Iterator[str]:
    """Iterate over the files that agents can ask for."""
    files: Iterable[str] = skill.served.files if skill.served else ()
    main = ""
    if isinstance(skill.found, Package):
        files, main = skill.found.files, skill.found.main
    yield from (file for file in files if file != main)


def _is_reference(file: str) -> bool:
    """Whether its links are for the skill; those of a template are for its copy."""
    is_template = "template" in PurePosixPath(file).name.casefold()
    return classify(file) == "reference" and not is_template


def _link_context(skill: AuthoredSkill, below: str = ".") -> LinkContext:
    """Return where the links of a file begin, and where they may lead.

    In a package they begin at its folder, as the standard has it, or at that of the
    file, as every editor has it. A rule file may link to the whole tree, and the files
    that it declares lie in a folder of its own.
    """
    found = skill.found
    if isinstance(found, Package):
        bases = (f"{found.folder or '.'}/{below}", found.folder or ".")
        return LinkContext(skill.home, found.folder, bases, found.files)
    place = PurePosixPath(found.file)
    bases = (place.parent.as_posix(), place.with_suffix("").as_posix())
    return LinkContext(skill.home, "", bases)


def _find_gaps(tree: SkillTree) -> Iterator[Path]:
    for home in tree.homes:
        rules = [
            skill
            for skill in tree.skills
            if skill.home == home.directory and not skill.is_package
        ]
        files = [skill.found.file for skill in rules]
        served = [skill.found.file for skill in rules if skill.served]
        for folder in _folders_without_index(files, served):
            yield home.directory / folder


def _folders_without_index(
    files: Collection[str], served: Iterable[str]
) -> Iterator[str]:
    """Iterate over folders with skills and without an index of their own.

    That is a gap only where the folders above or beside it have one.

    Args:
        files: Every rule file, relative to where the skills begin.
        served: Those of them that are served as skills.
    """
    name = f"{INDEX}{_MARKDOWN}"
    indexed = {PurePosixPath(f).parent for f in files if PurePosixPath(f).name == name}
    indexed.discard(PurePosixPath())  # nothing inherits from an index at the top
    beside = {folder.parent for folder in indexed}
    for folder in sorted({PurePosixPath(file).parent for file in served}):
        is_above = not indexed.isdisjoint(folder.parents)
        is_known = folder in indexed or folder == PurePosixPath()
        if not is_known and (is_above or folder.parent in beside):
            yield str(folder)


def _describe_gap() -> RuleFinding:
    reason = f"has skills but no {INDEX}{_MARKDOWN}, unlike the folders around it"
    hint = f"add {INDEX}{_MARKDOWN} with the rules for all skills in it"
    return RuleFinding("missing-index", reason, hint)


def _find_folders_without_skills(
    skills: Iterable[AuthoredSkill], asked: Iterable[Path]
) -> Iterator[Problem]:
    """Report folders that were named and hold no skill."""
    places = {skill.path for skill in skills if not skill.is_notice}
    around = {above for place in places for above in (place, *place.parents)}
    for path in asked:
        if path.is_dir() and path not in around and places.isdisjoint(path.parents):
            hint = "name a folder that holds Markdown with a frontmatter, or SKILL.md"
            yield RuleFinding("no-skills", "has no skills", hint).at(path)
