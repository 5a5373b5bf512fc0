"""Stale skills: unread for long, or about files, packages or commands that are gone.

Rule 1: of a project, only what its Git history knows counts, so that an example in a text
is no finding.

Rule 2: no network unless asked for, and then only addresses of the project's own organisation.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from skills_mcp.errors import ConfigError, SkillsError
from skills_mcp.features.authoring.code_owners import CodeOwners, read_code_owners
from skills_mcp.features.authoring.markdown import parse_markdown
from skills_mcp.features.authoring.rules import RuleFinding, enumerate_shortly
from skills_mcp.features.authoring.validation import AuthoredSkill, SkillTree
from skills_mcp.library import WorkTree
from skills_mcp.library.project import MAX_MANIFEST_BYTES, Project, find_format, parse_package_file
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.skill_index import derive_parent_path

if TYPE_CHECKING:
    from skills_mcp.library import ListedCommit


_MAX_PAST_COMMITS = 5_000
_MAX_MANIFESTS = 30
_MAX_VERSIONS = 40
"""Of one manifest, the newest: each is read from Git by itself."""

_MAKEFILE_TARGET = re.compile(r"^([A-Za-z][\w.-]*)(?:\s+[\w.-]+)*\s*:(?!=)", re.MULTILINE)
_SCRIPT_RUNNERS = ("npm run", "pnpm run", "yarn run", "yarn", "pnpm", "bun run")
_BARE_SCRIPTS = {"test": "npm test", "start": "npm start"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPast:
    """Names that a project once had and has no longer."""

    top: Path
    files: frozenset[str] = frozenset()
    """Paths from the top of the project."""
    packages: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    origin: tuple[str, str] = ("", "")
    """Host of its remote, and the path of the repository there."""
    reason: str = field(default="", compare=False)
    """Why nothing is known; empty if it is."""

    @property
    def organisation(self) -> str:
        """Owner of the repository, at its host."""
        return self.origin[1].rpartition("/")[0]


def read_project_past(folder: Path) -> ProjectPast:
    """Read the history of a project.  Blocking, without the network."""
    work_tree = WorkTree.find(folder)
    if work_tree is None:
        return ProjectPast(top=folder, reason=f"{folder} is in no work tree of Git")
    try:
        log = work_tree.read_log(_MAX_PAST_COMMITS)
    except SkillsError as error:
        return ProjectPast(top=work_tree.top, reason=str(error))
    known: dict[str, list[str]] = {}
    for commit in log.commits:
        for file in commit.files:
            known.setdefault(file, []).append(commit.commit)
    past = _PastNames(work_tree, folder)
    return ProjectPast(
        top=work_tree.top,
        files=frozenset(file for file in known if not (work_tree.top / file).exists()),
        packages=frozenset(past.find_lost(known, _find_packages) - past.list_packages()),
        commands=frozenset(past.find_lost(known, _find_commands)),
        origin=parse_origin(work_tree.read_origin()),
        reason="" if log.commits else "its history is not here; clone it with more than one commit",
    )


def parse_origin(address: str) -> tuple[str, str]:
    """Parse the host and the path of a remote.

    >>> parse_origin("git@github.com:acme/shop.git"), parse_origin("https://a:b@x.org/acme/shop")
    (('github.com', 'acme/shop'), ('x.org', 'acme/shop'))
    """
    if "://" not in address and ":" in address:
        host, _, path = address.partition(":")
        address = f"ssh://{host}/{path}"
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return "", ""
    return host, parts.path.strip("/").removesuffix(".git") if host else ""


_Find = Callable[[str, str], Iterable[str]]
"""Names in a file, by its name and text."""


@dataclass(frozen=True, slots=True)
class _PastNames:
    work_tree: WorkTree
    folder: Path

    def find_lost(self, known: dict[str, list[str]], find: _Find) -> set[str]:
        """Find the names in earlier versions of files that no file has now."""
        manifests = [file for file in known if _is_manifest(Path(file).name)][:_MAX_MANIFESTS]
        once, now = set[str](), set[str]()
        for file in manifests:
            name = Path(file).name
            for commit in known[file][:_MAX_VERSIONS]:
                once.update(find(name, self.work_tree.read_file(commit, file) or ""))
            now.update(find(name, _read_text(self.work_tree.top / file)))
        return once - now

    def list_packages(self) -> set[str]:
        files = Project(self.folder).read_files()
        return {name for file in files for name in file.versions}


def _is_manifest(name: str) -> bool:
    known = find_format(name)
    is_written = known is not None and known.max_bytes == MAX_MANIFEST_BYTES
    return is_written or name == "Makefile"


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_MANIFEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _find_packages(name: str, text: str) -> Iterator[str]:
    if find_format(name) and (parsed := parse_package_file(name, text.encode())):
        yield from parsed.versions


def _find_commands(name: str, text: str) -> Iterator[str]:
    if name == "Makefile":
        yield from (f"make {target}" for target in _MAKEFILE_TARGET.findall(text))
    if name != "package.json":
        return
    try:
        scripts = json.loads(text).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return
    for script in scripts if isinstance(scripts, dict) else ():
        yield from (f"{runner} {script}" for runner in _SCRIPT_RUNNERS)
        if script in _BARE_SCRIPTS:
            yield _BARE_SCRIPTS[script]


DEFAULT_MONTHS = 12
_DAYS_OF_MONTHS = 365 / 12
_MAX_COMMITS = 10_000
_MAX_URLS = 100  # of one run
_REQUEST_SECONDS = 10.0
_GONE = frozenset({404, 410})

_CODE = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1|`[^`\n]+`")
_TOKEN = re.compile(r"[\w@.][\w@./:-]*[\w]")
_PATH = re.compile(r"(?<![\w@./:-])(?:\./)?[\w@.-]+(?:/[\w@.-]+)*/[\w@.-]*\w")
_URL = re.compile(r"https://[^\s<>()\[\]{}\"'`|]+")
_IN_REPOSITORY = re.compile(r"/(?:-/)?(?:blob|tree|raw|src|edit)/(?:branch/)?[^/]+/(.+)")
_TO_DO = "say what holds now, or delete the passage"


@dataclass(frozen=True, slots=True)
class StaleOptions:
    months: int = DEFAULT_MONTHS
    """Without a change, after which a skill has to be read again."""
    project: Path | None = None
    """The project that the skills are for."""
    is_online: bool = False
    usage: Mapping[str, date] | None = None
    """Last use of each skill, by its path on a server; None if nothing is known of it."""
    today: date = field(default_factory=lambda: datetime.now(UTC).date())


def load_usage(file: Path) -> Mapping[str, date]:
    """Load the last use of each skill from a report in JSON.

    Raises:
        ConfigError: It is no such report.
    """
    try:
        skills = json.loads(file.read_bytes())["skills"]
        return {str(each["skill"]): date.fromisoformat(each["last_seen"]) for each in skills}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            f"--usage: {file} is no report. Write it with skills-mcp report --json"
        ) from error


def find_stale(
    options: StaleOptions, tree: SkillTree, skills: Collection[AuthoredSkill]
) -> Iterator[Problem]:
    """Find stale skills, each with its owner and last author.  Blocking.

    Raises:
        ConfigError: The project has no history.
    """
    past = read_project_past(options.project) if options.project else None
    if past and past.reason:
        raise ConfigError(f"--project: {past.reason}. Only its history tells what is gone")
    checker = StaleChecker(options, tree, past)
    for skill in skills:
        if skill.served and not skill.served.lifecycle.is_deprecated:
            for finding in checker.check(skill, skill.served):
                yield finding.at(skill.file)


class StaleChecker:
    def __init__(self, options: StaleOptions, tree: SkillTree, past: ProjectPast | None) -> None:
        self._options = options
        self._tree = tree
        self._past = past
        self._requests = 0

    def check(self, authored: AuthoredSkill, skill: Skill) -> Iterator[RuleFinding]:
        newest = self._history.find_newest(authored)
        owner = skill.owner or self._history.find_owner(authored)
        by = f", last changed by {newest.author} on {newest.at.date()}" if newest else ""
        suffix = f" (owner: {owner or 'none'}{by})"
        for found in self._check(authored, skill, newest):
            yield found._replace(reason=f"{found.reason}{suffix}")

    def _check(
        self, authored: AuthoredSkill, skill: Skill, newest: "ListedCommit | None"
    ) -> Iterator[RuleFinding]:
        markdown = parse_markdown(authored.text or b"")
        review_by = skill.lifecycle.review_by
        today, months = self._options.today, self._options.months
        if review_by and date.fromisoformat(review_by) < today:
            if not self._is_inherited(skill):
                line = markdown.line("review_by", "metadata")
                reason = f"was to be read again by {review_by}"
                hint = "read it, correct it, and set review_by to a later date"
                yield RuleFinding("review-overdue", reason, hint, line)
        elif newest and not review_by and self._is_over(newest.at.date(), skill):
            how = "changed" if self._options.usage is None else "changed or been used"
            reason = f"has not {how} for more than {months} months"
            hint = "read it again, and say with review_by when to do so next"
            yield RuleFinding("unchanged", reason, hint)
        if self._past:
            yield from self._check_text(self._past, skill, markdown.text)

    def _is_over(self, changed: date, skill: Skill) -> bool:
        """Whether its last change and its last use, if that is known, are long ago."""
        usage = (self._options.usage or {}).items()
        ends = (skill.path, f"/{skill.path}")  # a server may serve it below a mount
        used = (day for path, day in usage if path == ends[0] or path.endswith(ends[1]))
        latest = max((changed, *used))
        age = timedelta(days=round(self._options.months * _DAYS_OF_MONTHS))
        return latest + age < self._options.today

    def _is_inherited(self, skill: Skill) -> bool:
        """Whether the rules of a folder above have the same date, which says it once."""
        above = derive_parent_path(skill.path)
        parent = self._tree.snapshot.index.get(above) if above else None
        return parent is not None and parent.lifecycle.review_by == skill.lifecycle.review_by

    def _check_text(self, past: ProjectPast, skill: Skill, text: str) -> Iterator[RuleFinding]:
        code = [(_count_line(text, found), found[0]) for found in _CODE.finditer(text)]
        words = [(line, word) for line, block in code for word in _TOKEN.findall(block)]
        paths = [(_count_line(text, found), found[0]) for found in _PATH.finditer(text)]
        named = dict.fromkeys((*words, *paths))
        files = [each for each in named if each[1].removeprefix("./") in past.files]
        packages = [each for each in words if {each[1], each[1].lower()} & past.packages]
        packages += [
            (1, each.package) for each in skill.applies_to if each.package in past.packages
        ]
        commands = [
            (line, command)
            for line, block in code
            for command in past.commands
            if command in block and re.search(rf"(?<![\w-]){re.escape(command)}(?![\w:.-])", block)
        ]
        urls = [(line, url) for line, url in _list_urls(text) if self._is_gone(past, url)]
        for rule, noun, found in (
            ("gone-file", "file", files),
            ("gone-package", "package", packages),
            ("gone-command", "command", commands),
            ("gone-url", "page", urls),
        ):
            if found:
                names = enumerate_shortly(dict.fromkeys(name for _, name in found))
                reason = f"names a {noun} that no longer exists: {names}"
                yield RuleFinding(rule, reason, _TO_DO, min(line for line, _ in found))

    def _is_gone(self, past: ProjectPast, url: str) -> bool:
        """Whether a page of the own organisation is gone; others are no concern of this check."""
        host, repository = past.origin
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        path = unquote(parts.path).strip("/")
        if not host or parts.hostname != host or not past.organisation:
            return False
        if path.startswith(f"{repository}/"):
            found = _IN_REPOSITORY.fullmatch(path.removeprefix(repository))
            if found:
                return not (past.top / found[1]).exists()
        is_own = path.startswith(f"{past.organisation}/")
        if not (is_own and self._options.is_online and self._requests < _MAX_URLS):
            return False
        self._requests += 1
        return _ask(url) in _GONE

    @cached_property
    def _history(self) -> "_ContentHistory":
        return _ContentHistory.read(self._tree.top)


@dataclass(frozen=True, slots=True)
class _ContentHistory:
    top: Path
    newest: "Mapping[str, ListedCommit]"
    """The last commit of each file and folder, by its path from the top."""
    owners: CodeOwners

    @classmethod
    def read(cls, folder: Path) -> "_ContentHistory":
        work_tree = WorkTree.find(folder)
        if work_tree is None:
            return cls(folder, {}, CodeOwners())
        newest: dict[str, ListedCommit] = {}
        try:
            commits = work_tree.read_log(_MAX_COMMITS).commits
        except SkillsError:
            commits = ()  # there is none yet
        for commit in commits:
            for file in commit.files:
                for name in (file, *(each.as_posix() for each in Path(file).parents)):
                    newest.setdefault(name, commit)
        return cls(work_tree.top, newest, _read_owners(work_tree.top))

    def find_newest(self, skill: AuthoredSkill) -> "ListedCommit | None":
        return self.newest.get(self._locate(skill.path))

    def find_owner(self, skill: AuthoredSkill) -> str:
        return self.owners.find(self._locate(skill.file))

    def _locate(self, path: Path) -> str:
        resolved = path.resolve()
        return (
            resolved.relative_to(self.top).as_posix() if resolved.is_relative_to(self.top) else ""
        )


def _read_owners(top: Path) -> CodeOwners:
    try:
        return read_code_owners(top)
    except ImportError:  # pathspec, of the extra `http`
        return CodeOwners()


def _count_line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1


def _list_urls(text: str) -> Iterable[tuple[int, str]]:
    return [(_count_line(text, found), found[0].rstrip(".,;:!?")) for found in _URL.finditer(text)]


def _ask(url: str) -> int:
    """Ask for a page without a redirect; 0 without an answer, which says nothing."""
    import httpx

    try:
        return httpx.head(url, timeout=_REQUEST_SECONDS, follow_redirects=False).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return 0
