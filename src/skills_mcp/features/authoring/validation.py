"""Validation of skills, before they are served."""

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from skills_mcp.config import Settings
from skills_mcp.content.source import Checkout, Content, ContentPart, LocalFolder, Mount
from skills_mcp.errors import AmbiguousNameError, ConfigError, SkillsError
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.cases import (
    EVALS,
    CaseFinding,
    find_evals_folder,
    load_cases,
)
from skills_mcp.features.authoring.instruction_files import plan_import
from skills_mcp.features.authoring.markdown import (
    LinkContext,
    Markdown,
    check_body,
    check_links,
    check_text,
    parse_markdown,
    read_text,
)
from skills_mcp.features.authoring.package_standard import (
    MAX_DESCRIPTION,
    check_package,
    parse_strictly,
)
from skills_mcp.features.authoring.rules import (
    ALL_RULES,
    MOVED,
    OVERLAP,
    Answers,
    RuleFinding,
    RuleSelection,
    UnknownRuleError,
    describe_moved,
    enumerate_shortly,
    join_shortly,
)
from skills_mcp.features.authoring.skill_overlap import describe_overlap, find_overlaps
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import Decision, answered_candidates, score_and_decide
from skills_mcp.routing.matcher import declares_keywords
from skills_mcp.routing.tokenizer import fold
from skills_mcp.skills.composition import compose_skill, find_required, resolve_word, resolve_words
from skills_mcp.skills.document import get_mapping, get_text
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_discovery import Package, RuleFile
from skills_mcp.skills.skill_index import INDEX, NO_FILTER, ROOT, SkillIndex, derive_parent_path
from skills_mcp.skills.skill_parser import classify_file, has_program_suffix, is_skill_md
from skills_mcp.skills.source_layout import (
    TOP_SUBFOLDER,
    FolderTree,
    Selection,
    SkillRoot,
    find_layout,
)
from skills_mcp.snapshots.skill_snapshot import take_snapshot
from skills_mcp.text.rendering import abbreviate_value, count_noun
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings
from skills_mcp.text.tokens import count_tokens

_HOME = "skills"
_GIT = ".git"
_RULES_FOR_ALL = "_root.md"
_SETTINGS = "config.yaml"
_ROOT_MARKERS = (_GIT, _SETTINGS, _RULES_FOR_ALL)
_RULES_RELATIVE_TO_SOURCE = frozenset(
    {"outside-homes", "outside-markdown", "outside-unread", "installed-folder"}
    | {"copilot-instructions", "cursor-rules"}
    | {"plugin-not-picked", "plugin-unknown", "manifest"}
)
"""Rules with file paths relative to the root of the source."""
_LINKS = ("link", ".")


@dataclass(frozen=True, slots=True)
class ValidationTarget:
    """A path to check, with its content root."""

    top: Path
    focus: Path
    """The root, or a file or folder below it; for a package, its folder."""

    @property
    def subfolder(self) -> str:
        return TOP_SUBFOLDER if _is_called_home(self.top) else ""


class PathFilter:
    """Filter for reported files and folders."""

    def __init__(self, paths: Iterable[Path]) -> None:
        paths = tuple(paths)
        self._named = {*paths, *(path.with_suffix("") for path in paths if path.suffix == ".md")}
        self._folders = {path.parent for path in paths}

    def covers(self, path: Path) -> bool:
        return not self._named.isdisjoint((path, *path.parents))

    def names(self, path: Path) -> bool:
        return path in self._named

    def covers_children_of(self, folder: Path) -> bool:
        """Whether to report findings about `folder` itself or its direct files."""
        return folder in self._folders or self.covers(folder)


@dataclass(frozen=True, slots=True)
class AuthoredSkill:
    """A file or folder meant as a skill, served or not."""

    home: Path
    found: RuleFile | Package
    served: Skill | None
    text: bytes | None = field(repr=False)
    """The Markdown file, as it was read; None if that failed."""

    @property
    def file(self) -> Path:
        return self.home / self.found.file

    @property
    def is_notice(self) -> bool:
        """Whether it is a text for people, such as `README.md`."""
        return self.served is None and self.file.stem.isupper() and not self.is_package

    @property
    def is_package(self) -> bool:
        return isinstance(self.found, Package)

    @property
    def path(self) -> Path:
        """The folder of a package, else the rule file."""
        return self.resources if self.is_package else self.file

    @property
    def resources(self) -> Path:
        return self.file.parent if self.is_package else self.file.with_suffix("")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTree:
    top: Path
    snapshot: Snapshot
    homes: tuple[SkillRoot, ...]
    skills: tuple[AuthoredSkill, ...]

    def problems(self, focus: PathFilter | None = None) -> Iterator[Problem]:
        """Iterate over the server's findings, with paths on disk.

        One problem stands for all ordinary Markdown; a file named in `focus` has its
        own.
        """
        for problem in self.snapshot.problems:
            yield replace(problem, file=str(self._locate(problem)))
        for finding in self.snapshot.state.collection.findings if focus else ():
            file = self._locate(finding.problem)
            if focus and focus.names(file):
                yield replace(finding.problem, file=str(file))

    def _locate(self, problem: Problem) -> Path:
        """Resolve the path of a problem, relative to one of the skill roots."""
        at_top = self.top / problem.file
        if problem.rule in _RULES_RELATIVE_TO_SOURCE or (problem.rule, problem.file) == _LINKS:
            return at_top
        candidates = [
            home.directory / problem.file.removeprefix(home.file_prefix)
            for home in reversed(self.homes)  # the first one's prefix is empty
            if problem.file.startswith(home.file_prefix)
        ]
        # A name that was escaped to be shown does not exist on the disk.
        return next(filter(os.path.lexists, (*candidates, at_top)), candidates[-1])


def load_tree(top: Path, subfolder: str = "") -> SkillTree:
    """Load the content of a folder, with its own `config.yaml`.

    Operator settings and environment are ignored, so results are equal on all machines.
    """
    selection = Selection(subfolder)
    mount = Mount(source=LocalFolder(top, "the path"), selection=selection)
    checkout = Checkout(top, None, datetime.now(UTC))
    read: list[tuple[SkillRoot, RuleFile | Package, bytes | None]] = []
    snapshot = take_snapshot(
        Content((ContentPart(mount, checkout),)),
        Settings(),
        on_read=lambda *found: read.append(found),
    )
    homes = tuple(r.at(top, "", "org") for r in find_layout(FolderTree(top), selection).homes)
    index = snapshot.index
    served = {skill.location: skill for skill in (*index, *index.drafts)}
    skills = (
        AuthoredSkill(home.directory, found, served.get(home.directory / found.file), text)
        for home, found, text in read
    )
    return SkillTree(top=top, snapshot=snapshot, homes=homes, skills=tuple(skills))


def find_validation_target(path: Path) -> ValidationTarget:
    """Find the content root of `path`.  Searches the parent folders.

    The root is the nearest folder called `skills` or holding a `_root.md`, else the
    enclosing package, or the folder itself.  A repository that happens to be cloned into
    a folder called `skills` is no such folder.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    is_package = is_skill_md(path.name) and not path.is_dir()
    focus = path.parent if is_package else path
    folder = focus if focus.is_dir() else focus.parent
    top = folder if _is_top(folder) else _find_enclosing_root(folder)
    return ValidationTarget(_include_settings_folder(top), focus)


def is_repository(folder: Path) -> bool:
    """Whether this is a repository root; its name is each user's choice."""
    return (folder / _GIT).exists() or (folder / _HOME).is_dir()


def _is_top(folder: Path) -> bool:
    if _is_home(folder) or (folder / _GIT).exists():
        return True
    has_settings = (folder / _SETTINGS).is_file() and not folder.with_suffix(".md").is_file()
    return (is_repository(folder) or has_settings) and not _is_package(folder)


def _find_enclosing_root(folder: Path) -> Path:
    package = folder
    for above in folder.parents:
        if _is_home(above):
            return above
        if package == folder and _is_package(above):
            package = above
        if (above / _GIT).exists():
            break
    return folder if _is_package(folder) else package


def _include_settings_folder(top: Path) -> Path:
    above = top.parent
    has_more = any((above / name).exists() for name in _ROOT_MARKERS)
    return above if _is_called_home(top) and has_more else top


def _is_home(folder: Path) -> bool:
    return _is_called_home(folder) or (folder / _RULES_FOR_ALL).is_file()


def _is_called_home(folder: Path) -> bool:
    inner = folder / _HOME
    is_cloned = (folder / _GIT).exists() or (inner.is_dir() and not _is_package(inner))
    return folder.name == _HOME and not is_cloned


def _is_package(folder: Path) -> bool:
    try:
        return any(is_skill_md(path.name) and not path.is_dir() for path in folder.iterdir())
    except OSError:
        return False


_REQUIRES = "requires"
_RELATED = "related"
_REPLACED_BY = "replaced_by"
_OWNER = "owner"
_METADATA = "metadata"
_KEYS = (_REQUIRES, _RELATED, _REPLACED_BY, _OWNER)
_A_SKILL = "write a path or a name that skills-mcp tree shows"


class RelationChecker:
    """Checks relations to other skills of an index."""

    def __init__(self, index: SkillIndex) -> None:
        self._index = index
        named = (name for skill in index for name in (skill.path, skill.name))
        self._names = {fold(name): name for name in named}

    def check(self, skill: Skill, markdown: Markdown) -> Iterator[RuleFinding]:
        """Yield relations that cannot be served, and an owner of another type than text."""
        fields = _parse_relations(markdown.frontmatter)
        both = {**get_mapping(fields, _METADATA), **fields}
        yield from self._check_required(skill, markdown.line(_REQUIRES, _METADATA))
        yield from self._check_related(skill.related, markdown.line(_RELATED, _METADATA))
        if get_text(both, _REPLACED_BY):
            yield from self._check_successor(skill, markdown.line(_REPLACED_BY, _METADATA))
        if any(isinstance(each.get(_OWNER), list | dict) for each in (fields, both)):
            reason = "has an owner that is not a text, so it has none"
            hint = "name one team or person: owner: team-web"
            yield RuleFinding("owner-type", reason, hint, markdown.line(_OWNER))

    def _check_required(self, skill: Skill, line: int) -> Iterator[RuleFinding]:
        words = skill.requires
        if not words:
            return
        is_relation = resolve_words(self._index, words) or any(self._find_nearest(words))
        for obstacle in find_required(self._index, skill)[1]:
            is_own = skill.path in {obstacle.holder, obstacle.named}
            if is_own and obstacle.reason != "missing":
                hint = "take one of the relations away"
                yield RuleFinding(_REQUIRES, str(obstacle), hint, line)
        unknown = [word for word in words if not self._is_known(word)]
        if is_relation and unknown:
            reason = f"{_REQUIRES} names {enumerate_shortly(unknown)}, which is not one skill here"
            yield RuleFinding(_REQUIRES, reason, self._suggest(unknown), line)

    def _check_related(self, words: tuple[str, ...], line: int) -> Iterator[RuleFinding]:
        unknown = [word for word in words if not self._is_known(word)]
        is_relation = resolve_words(self._index, words) or any(self._find_nearest(unknown))
        if unknown and is_relation:
            reason = f"{_RELATED} names {enumerate_shortly(unknown)}, which is no skill here"
            yield RuleFinding("relation-unknown", reason, self._suggest(unknown), line)

    def _check_successor(self, skill: Skill, line: int) -> Iterator[RuleFinding]:
        named = skill.lifecycle.replaced_by
        if not named or skill.path in self._index.successors:
            return
        if not self._is_known(named):
            reason = f"is replaced by {abbreviate_value(named)}, which is no skill here"
            yield RuleFinding("replaced-by", reason, self._suggest([named]), line)
            return
        reason = f"is replaced by {named}, whose own successors end with a draft, or never"
        hint = "name a skill that is not a draft, and leads not back to this one"
        yield RuleFinding("replaced-by", reason, hint, line)

    def _is_known(self, word: str) -> bool:
        return isinstance(resolve_word(self._index, word), Skill)

    def _suggest(self, words: Sequence[str]) -> str:
        for word in words:
            try:
                self._index.resolve(word)
            except AmbiguousNameError as error:
                return str(error)
            except SkillsError:
                continue
        nearest = next(self._find_nearest(words), None)
        return f"did you mean {nearest}?" if nearest else _A_SKILL

    def _find_nearest(self, words: Sequence[str]) -> Iterator[str]:
        for word in words:
            for name in get_close_matches(fold(word), self._names, n=1, cutoff=0.8):
                yield self._names[name]


def _parse_relations(block: str) -> Mapping[str, Any]:
    if not any(key in block for key in _KEYS):
        return {}  # as nearly every skill
    try:
        fields = parse_yaml_strings(block).value
    except YamlError:
        return {}
    return fields if isinstance(fields, dict) else {}


MAX_SKILLS = 3000
"""Limit of the quadratic check: each skill is routed against all others."""

MAX_SHOWN = 1536
"""Characters that Claude Code lists of a description and `when_to_use` together."""

# Words of a description that say when it is for, and verbs by which it is itself a task.
_OCCASION = re.compile(
    r"\b(?:when(?:ever)?|if|use (?:it|this|for|to)|used? (?:for|to|by)|before|after|while|during"
    r"|trigger\w*|asks?|asked|tasks?)\b",
    re.IGNORECASE,
)
_TASK_VERB = re.compile(
    r"(?:add|analy[sz]e|announce|answer|audit|automate|build|check|collect|compare|configure"
    r"|convert|create|debug|deploy|design|diagnose|document|draft|explain|export|extract|fill|find"
    r"|fix|generate|implement|import|improve|inspect|install|investigate|make|measure|merge|migrate"
    r"|monitor|optimi[sz]e|organi[sz]e|plan|prepare|publish|query|read|record|refactor|release"
    r"|remove|render|repair|report|review|run|scan|schedule|search|send|set|sort|split|summari[sz]e"
    r"|take|test|trace|track|transform|translate|turn|update|upgrade|validate|verify|write)\b",
    re.IGNORECASE,
)
# Other languages have other words for both.
_ENGLISH = re.compile(r"\b(?:the|and|for|of|to|with|in)\b", re.IGNORECASE)
_WHEN_TO_USE = re.compile(r"^when_to_use:(.*(?:\n[ \t].*)*)", re.MULTILINE)

_MAX_LISTED = 1000
_MARKDOWN = ".md"
_BUILD_ARTEFACTS = frozenset({"__pycache__", "node_modules"})
_KEYWORDS = ("keywords", "tags", "triggers", "metadata")


class ServedSkillChecker:
    """Checks served skills; files in `reported` are not reported again."""

    def __init__(self, snapshot: Snapshot, reported: Collection[Path]) -> None:
        self._snapshot = snapshot
        self._reported = reported
        self._keywords = _SharedKeywords(snapshot.index)
        self._packages: dict[tuple[str, str], list[str]] = defaultdict(list)
        for skill in snapshot.index:
            if skill.inventory is not None:
                self._packages[skill.name, skill.description].append(skill.path)
        self._relations = RelationChecker(snapshot.index)

    def check(self, skill: Skill, markdown: Markdown) -> Iterator[RuleFinding]:
        index = self._snapshot.index
        yield from self._keywords.check(skill, markdown.line(*_KEYWORDS))
        yield from self._check_duplicate(skill, markdown.line("name", "description"))
        yield from _check_description(skill, markdown)
        if len(index) <= MAX_SKILLS and not skill.lifecycle.marked_status:
            line = markdown.line("keywords", "description")
            yield from _check_findable(self._snapshot, skill, line)
        yield from self._relations.check(skill, markdown)
        yield from _check_length(self._snapshot, skill)
        yield from _check_entry(skill, markdown.line("entry", "metadata"))
        if skill.inventory is None:
            line = markdown.line("assets", "scripts")
            yield from _check_undeclared(skill, line, self._reported)

    def _check_duplicate(self, skill: Skill, line: int) -> Iterator[RuleFinding]:
        same = self._packages.get((skill.name, skill.description), [])
        others = [path for path in same if path != skill.path]
        if others and skill.path in same:
            reason = f"has the name and the description of {join_shortly(others)}"
            hint = "say in each what it is for and what not, or delete one of them"
            yield RuleFinding("duplicate-package", reason, hint, line)


class _SharedKeywords:
    """Keywords declared by several skills of a folder.

    A keyword also declared by the folder's own rules is its topic, and may be shared.
    """

    def __init__(self, index: SkillIndex) -> None:
        self._declared: dict[tuple[str | None, str], list[Skill]] = defaultdict(list)
        for skill in index:
            parent = derive_parent_path(skill.path)
            about = index.get(parent) if parent else None
            known = set(map(fold, about.keywords)) if about else set()
            for word in {*map(fold, skill.keywords)} - known:
                self._declared[parent, word].append(skill)

    def check(self, skill: Skill, line: int) -> Iterator[RuleFinding]:
        shared = list(self._shared(skill))
        if not shared:
            return
        reason = f"shares keywords with its siblings: {join_shortly(shared)}"
        hint = "keep each keyword only in the skill that says most about it"
        yield RuleFinding("keyword-shared", reason, hint, line)

    def _shared(self, skill: Skill) -> Iterator[str]:
        parent = derive_parent_path(skill.path)
        for keyword in skill.keywords:
            declaring = self._declared.get((parent, fold(keyword)), [])
            others = [other.path for other in declaring if other.path != skill.path]
            if others:
                yield f"{keyword!r} ({join_shortly(others)})"


def _check_findable(snapshot: Snapshot, skill: Skill, line: int) -> Iterator[RuleFinding]:
    """Route the tasks a skill should win if it can win any.

    Rules for entire folders are exempt: agents get them with the skills below.
    """
    is_for_folder = skill.path == ROOT or skill.path.rsplit("/", 1)[-1] == INDEX
    if is_for_folder or skill.user_only:
        return
    winners: dict[str, None] = {}
    for task in filter(None, (skill.name, skill.description, " ".join(skill.keywords))):
        matching, within = snapshot.config.matching, snapshot.narrow(NO_FILTER)
        decision = score_and_decide(snapshot.matcher, task, matching, within=within)
        answers = answered_candidates(decision)
        paths = [answer.skill.path for answer in answers]
        if any(skill.path in (answer.skill.path, *answer.near_copies) for answer in answers):
            return
        winners |= dict.fromkeys(paths[:1])
    reason = "is found by no task, not even by its own name, description or keywords"
    if winners:
        reason += f", which find {join_shortly(tuple(winners))}"
    is_mixed = snapshot.algorithm == "mixed"
    is_declared = is_mixed and declares_keywords(skill.keywords, skill.file, skill.path)
    is_keyword = snapshot.algorithm == "keyword" or is_declared
    how = "give it keywords" if is_keyword else "describe it in words"
    hint = f"{how} that the other skills do not have"
    yield RuleFinding("never-found", reason, hint, line)


def _check_description(skill: Skill, markdown: Markdown) -> Iterator[RuleFinding]:
    line = markdown.line("description")
    found = _WHEN_TO_USE.search(markdown.frontmatter)
    occasion = found[1].strip() if found else ""
    length, limit = len(skill.description), MAX_DESCRIPTION
    if skill.inventory is not None:  # whose description alone is checked by the standard
        length, limit = length + len(occasion), MAX_SHOWN
    if length > limit:
        reason = f"has {length:,} characters that describe it, and hosts show {limit:,}"
        yield RuleFinding("description-shown", reason, "say first what it is for, shortly", line)
    if not (occasion or skill.keywords or skill.examples or _says_when(skill)):
        reason = "does not say what a task for it looks like"
        hint = 'end the description with "Use when …", in words of such tasks'
        yield RuleFinding("no-use-when", reason, hint, line)


def _says_when(skill: Skill) -> bool:
    """Whether a description names its tasks; other languages than English may do."""
    text = skill.description
    is_above_others = skill.path.rpartition("/")[2] in {INDEX, ROOT}
    says = _TASK_VERB.match(text) or _OCCASION.search(text)
    return bool(is_above_others or says or not _ENGLISH.search(text))


def _check_length(snapshot: Snapshot, skill: Skill) -> Iterator[RuleFinding]:
    composed = compose_skill(snapshot.index, skill)
    budget = snapshot.config.validation.max_tokens
    tokens = count_tokens(composed.guidance)
    if tokens > budget:
        longest = max(composed.parts, key=lambda member: len(member.body))
        reason = (
            f"has about {tokens:,} tokens with the rules that it inherits or requires, of "
            f"{budget:,} that validation.max_tokens allows"
        )
        hint = f"move parts of {longest.path} into files of its folder"
        yield RuleFinding("composed-length", reason, hint)


def _check_entry(skill: Skill, line: int) -> Iterator[RuleFinding]:
    if not skill.entry:
        return
    program, *words = skill.entry
    if not program or set(program) & set("/\\"):
        reason = f"has an entry that begins with {abbreviate_value(program)}, not with a program"
        hint = "begin it with the bare name of a program: entry: bash scripts/run.sh"
        yield RuleFinding("entry-program", reason, hint, line)
    files = (word for word in words if has_program_suffix(word) and word[0] != "-")
    missing = [file for file in files if str(PurePosixPath(file)) not in skill.files]
    if missing:
        names = enumerate_shortly(missing)
        reason = f"has an entry that names {names}, which the package does not have"
        hint = "write the path from the folder of the package: scripts/run.py"
        yield RuleFinding("entry-file", reason, hint, line)


def _check_undeclared(skill: Skill, line: int, reported: Collection[Path]) -> Iterator[RuleFinding]:
    """Check a rule file's folder for undeclared files.  Lists it."""
    if skill.directory is None:
        return
    declared = {entry.file for entry in skill.entries()}
    files = (file for file in _list_files(skill.directory) if file not in declared)
    others = (file for file in files if not file.startswith(f"{EVALS}/"))
    found = [file for file in others if skill.directory / file not in reported]
    if found:
        reason = f"has undeclared files in its folder: {enumerate_shortly(found)}"
        hint = "list them under assets or scripts so that agents can ask for them, or delete them"
        yield RuleFinding("undeclared-file", reason, hint, line)


def _list_files(directory: Path) -> list[str]:
    """List the files in a folder, without notices and build artefacts."""
    listed: list[str] = []
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if _is_content(name))
        inside = Path(folder).relative_to(directory)
        listed += [(inside / f).as_posix() for f in sorted(files) if _is_content(f)]
        if len(listed) > _MAX_LISTED:
            break
    return listed


def _is_content(name: str) -> bool:
    is_notice = name.endswith(_MARKDOWN) and name.removesuffix(_MARKDOWN).isupper()
    return not (name.startswith(".") or name in _BUILD_ARTEFACTS or is_notice)


@dataclass(frozen=True, slots=True)
class Validation:
    problems: tuple[Problem, ...]
    """Sorted by file and line; `file` is an absolute path."""
    served: frozenset[Path]
    """Files of the served skills."""
    focus: PathFilter
    baselines: tuple[Path, ...] = ()
    """Baseline files named in the content's settings."""
    trees: tuple[SkillTree, ...] = ()

    @property
    def skill_count(self) -> int:
        return len(self.served)

    @property
    def error_count(self) -> int:
        """Violations of the standard, and files not served."""
        return sum(problem.level == "error" for problem in self.problems)

    @property
    def warning_count(self) -> int:
        return len(self.problems) - self.error_count


TreeCheck = Callable[[SkillTree, Collection[AuthoredSkill]], Iterable[Problem] | None]
"""A check of another feature: the tree, and the skills of it that are checked."""


def validate_paths(
    *paths: Path,
    choice: RuleSelection = ALL_RULES,
    on_progress: OnProgress = ignore_progress,
    on_file: Callable[[], None] = lambda: None,
    has_overlaps: bool = False,
    checks: Iterable[TreeCheck] = (),
) -> Validation:
    """Validate repositories, folders of skills, packages, or single files.

    Each path is checked in its tree, as the tree decides routing and inheritance. A tree is
    read once for all its paths. Nothing outside is read; nothing is written. `on_file` is
    called before each file of a skill, and may raise to cancel. Overlaps are found only
    if asked for: each phrase of each description is routed. `checks` are those of other
    features.

    Raises:
        ConfigError: The settings of the content name an unknown rule.
    """
    targets: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for target in map(find_validation_target, paths):
        targets[target.top, target.subfolder].append(target.focus)
    problems: set[Problem] = set()
    served: set[Path] = set()
    baselines: dict[Path, None] = {}
    trees: list[SkillTree] = []
    for (top, subfolder), requested in targets.items():
        tree = load_tree(top, subfolder)
        trees.append(tree)
        chosen = _combine_rules(tree, choice)
        skills = _select_skills(tree, requested)
        checker = _SkillChecker(tree, on_file)
        found = [*_check_tree(checker, tree, skills, PathFilter(requested), on_progress)]
        found += _find_folders_without_skills(skills, requested)
        found += _report_overlaps(tree, skills, on_progress) if has_overlaps else ()
        all_checks = (*(audit.check for audit in load_audits()), *checks)
        found += [problem for check in all_checks for problem in check(tree, skills) or ()]
        reported = (problem for problem in found if chosen.reports(problem.rule))
        problems.update(_soften(problem, top) for problem in reported)
        served.update(skill.file for skill in skills if skill.served)
        named = tree.snapshot.config.validation.baseline
        baselines |= {_find_settings(tree).parent / named: None} if named else {}
    ordered = sorted(problems, key=lambda p: (p.file, p.line, p.rule, p.reason))
    focus = PathFilter(path for requested in targets.values() for path in requested)
    return Validation(tuple(ordered), frozenset(served), focus, tuple(baselines), tuple(trees))


def route_tasks(trees: Iterable[SkillTree]) -> dict[str, tuple[str, ...]]:
    """Route the example tasks of content: the paths of the answered skills by task."""
    return {
        task: tuple(sorted(str(candidate.skill.path) for candidate in answered_candidates(found)))
        for tree in trees
        for skill in tree.snapshot.index
        for task in skill.examples
        for found in [_route(tree.snapshot, task)]
    }


def _route(snapshot: Snapshot, task: str) -> Decision:
    return score_and_decide(snapshot.matcher, task, snapshot.config.matching)


def report_moved(
    trees: Iterable[SkillTree], known: Answers, choice: RuleSelection
) -> Iterator[Problem]:
    """Yield a finding for each example task with another answer than in a baseline."""
    checked = [t for t in trees if known and _combine_rules(t, choice).reports(MOVED)]
    answers = route_tasks(checked)
    for skill in chain.from_iterable(tree.skills for tree in checked):
        for task in skill.served.examples if skill.served else ():
            before = tuple(known.get(task, answers[task]))
            if before != answers[task]:
                line = parse_markdown(skill.text or b"").line("examples")
                described = describe_moved(task, before, answers[task])
                yield RuleFinding(MOVED, *described, line).at(skill.file)


def _soften(problem: Problem, top: Path) -> Problem:
    """Warn of a `SKILL.md` without frontmatter in a package: it is a file of that package."""
    if problem.rule != "no-frontmatter" or problem.level != "error":
        return problem
    folders = (above for above in Path(problem.file).parent.parents if above.is_relative_to(top))
    is_part = is_skill_md(Path(problem.file).name) and any(map(_is_package, folders))
    return replace(problem, level="warning") if is_part else problem


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
            reason = f"has skills but no {INDEX}{_MARKDOWN}, unlike the folders around it"
            hint = f"add {INDEX}{_MARKDOWN} with the rules for all skills in it"
            yield RuleFinding("missing-index", reason, hint).at(folder)


def _report_overlaps(
    tree: SkillTree, skills: Iterable[AuthoredSkill], on_progress: OnProgress
) -> Iterator[Problem]:
    """Yield a finding for each overlapping pair, at one of the checked skills."""
    checked = {skill.served.path: skill for skill in skills if skill.served}
    for overlap in find_overlaps(tree.snapshot, on_progress):
        for side in overlap.sides:
            if skill := checked.get(side.path):
                line = parse_markdown(skill.text or b"").line("description")
                finding = RuleFinding(OVERLAP, *describe_overlap(overlap, side.path), line)
                yield finding.at(skill.file)
                break


class _SkillChecker:
    def __init__(self, tree: SkillTree, on_file: Callable[[], None]) -> None:
        self._on_file = on_file
        reported = {Path(problem.file) for problem in tree.problems()}
        self._served = ServedSkillChecker(tree.snapshot, reported)

    def check(self, skill: AuthoredSkill) -> Iterator[Problem]:
        raw = skill.text
        is_unserved = skill.served is None and not skill.is_package
        if raw is None or is_unserved:
            return  # reported by the reader, or a text for people
        markdown = parse_markdown(raw)
        for finding in self._check_main(skill, raw, markdown):
            yield finding.at(skill.file)
        yield from _check_cases(skill.served)
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
            name = None if is_repository(skill.path) else skill.path.name
            strict = check_package(reading, skill.found.main, name)
            # The reader reports control characters without naming them.
            yield from (violation for violation in strict if violation.rule not in reported)
        yield from found
        yield from check_body(markdown.body, markdown.first_line)
        yield from check_links(markdown, _link_context(skill))
        if skill.served is not None:
            yield from self._served.check(skill.served, markdown)


def _check_cases(skill: Skill | None) -> Iterator[Problem]:
    """Check the evaluation cases of a skill.  Reads them."""
    folder = find_evals_folder(skill) if skill else None
    for found in load_cases(folder, ""):
        if folder and isinstance(found, CaseFinding):
            file, _, entry = found.origin.partition(", ")
            reason = f"{entry} {found.reason}" if entry else found.reason
            hint = "see the cases in Does my skill help?"
            yield RuleFinding("eval-case", reason, hint).at(folder / file)


def _check_other(skill: AuthoredSkill, file: str) -> Iterator[RuleFinding]:
    text = read_text(skill.resources, file)
    if text is None:
        return
    yield from check_text(text)
    if file.endswith(_MARKDOWN) and is_reference(file):
        markdown = parse_markdown(text.encode())
        folder = PurePosixPath(file).parent.as_posix()
        yield from check_links(markdown, _link_context(skill, folder))


def _other_files(skill: AuthoredSkill) -> Iterator[str]:
    files: Iterable[str] = skill.served.files if skill.served else ()
    main = ""
    if isinstance(skill.found, Package):
        files, main = skill.found.files, skill.found.main
    yield from (file for file in files if file != main)


def is_reference(file: str) -> bool:
    """Whether its links are the skill's; those of a template are for its copy."""
    is_template = "template" in PurePosixPath(file).name.casefold()
    return classify_file(file) == "reference" and not is_template


def _link_context(skill: AuthoredSkill, below: str = ".") -> LinkContext:
    """Bases and limits of a file's links.

    In a package they start at its folder (the standard) or the file's own (all editors); a
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


def _find_folders_without_skills(
    skills: Iterable[AuthoredSkill], requested: Iterable[Path]
) -> Iterator[Problem]:
    skill_paths = {skill.path for skill in skills if not skill.is_notice}
    around = {
        above for path_of_skill in skill_paths for above in (path_of_skill, *path_of_skill.parents)
    }
    for path in requested:
        if path.is_dir() and path not in around and skill_paths.isdisjoint(path.parents):
            yield _explain_no_skills(path)


def _explain_no_skills(folder: Path) -> Problem:
    plan = plan_import(folder)
    if plan.skills:
        reason = f"has no skills, but {count_noun(len(plan.skills), 'instruction file')} of agents"
        hint = f"import brings these: skills-mcp import {shlex.quote(str(folder))}"
    else:
        reason = "has no skills"
        hint = "name a folder that holds Markdown with a frontmatter, or SKILL.md"
    return RuleFinding("no-skills", reason, hint).at(folder)
