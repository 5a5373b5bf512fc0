"""One state of the content, ready to answer from: what a refresh replaces."""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from skills_mcp.config import Config, Settings, Visibility, read_layer
from skills_mcp.content.source import Content, Part
from skills_mcp.errors import ConfigError, MissingFileError
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.routing.matcher import Matcher
from skills_mcp.safe_path import open_inside
from skills_mcp.skills.assets import is_unchanged
from skills_mcp.skills.discovery import Home, find_homes, load_skills
from skills_mcp.skills.index import INDEX, SkillIndex
from skills_mcp.skills.model import Problem, Skill, SkillPath
from skills_mcp.skills.package import is_main
from skills_mcp.skills.problems import printable
from skills_mcp.skills.visibility import find_unused, is_denied

logger = logging.getLogger(__name__)

_CONFIG = "config.yaml"


class Deferred:
    """A matcher that is made when somebody first asks for it, and only once."""

    def __init__(self, make: Callable[[], Matcher]) -> None:
        self._make = make
        self._made: Matcher | None = None
        self._lock = Lock()

    def get(self) -> Matcher:
        """Return the matcher.  Blocking, the first time."""
        with self._lock:
            self._made = self._made or self._make()
            return self._made


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The skills, settings and problems of one state.  Never changes."""

    content: Content
    index: SkillIndex
    matcher: Matcher
    """What `get_skill` routes with (DESIGN §3.16)."""
    ranked: Deferred
    """What `search_skills` ranks with, whatever `get_skill` uses."""
    config: Config
    problems: tuple[Problem, ...]
    taken_at: datetime

    def is_still(self, content: Content) -> bool:
        """Whether reading `content` would give the same again."""
        if _revisions(content) != _revisions(self.content) or not _revisions(content):
            return False
        is_whole = not any(problem.is_passing for problem in self.problems)
        return is_whole and all(map(is_unchanged, self.index))


def take_snapshot(content: Content, settings: Settings) -> Snapshot:
    """Read all content (001 §4.6).  Blocking; what is wrong becomes a `Problem`.

    Args:
        content: The files of every source.
        settings: The operator's, which the content's own are merged into.
    """
    config, problems = _configure(content, settings)
    skills: dict[SkillPath, Skill] = {}
    for part in content.parts:
        homes = find_homes(part.checkout.directory, part.mount.subfolder)
        if not _has_subfolder(part):
            problems.append(_without_subfolder(part))
            continue
        for home in homes:
            loaded = load_skills(
                home.directory,
                prefix=_prefix(part, home),
                scope=part.mount.scope,
                limits=config.limits,
                packages_only=home.packages_only,
            )
            problems += loaded.problems
            problems += _add(skills, loaded.skills, config.visibility)
        problems += [*_beside(part), *_left_out(part)]
    index = SkillIndex(skills.values(), config.visibility)
    matcher = _choose_matcher(index, config)
    if isinstance(matcher, KeywordMatcher):
        problems += _unmatchable(matcher)
    problems += _unused(skills.values(), config.visibility)
    return Snapshot(
        content=content,
        index=index,
        matcher=matcher,
        ranked=Deferred(lambda: matcher if _is_ranked(matcher) else _rank(index)),
        config=config,
        problems=tuple(problems),
        taken_at=datetime.now(UTC),
    )


def log_news(snapshot: Snapshot, before: Snapshot | None) -> None:
    """Say what is served, and each problem once."""
    where = ", ".join(
        part.checkout.revision or os.fspath(part.checkout.directory)
        for part in snapshot.content.parts
    )
    logger.info("Serving %d skills at %s", len(snapshot.index), where)
    if _is_ranked(snapshot.matcher) and snapshot.config.matching.algorithm == "auto":
        # One of them decides for all, and it need not be the organisation's.
        first = next(skill.file for skill in snapshot.index if not skill.keywords)
        logger.info("Routing by all words: %s declares no keywords", first)
    if not len(snapshot.index):
        logger.warning("There is no skill: every task will have no match")
    known = set(before.problems) if before else set()
    for problem in snapshot.problems:
        if problem not in known:
            logger.warning("%s", problem)


def _revisions(content: Content) -> list[str] | None:
    """Return every commit, or None if a folder could be different by now."""
    revisions = [part.checkout.revision for part in content.parts]
    known = [revision for revision in revisions if revision is not None]
    return known if len(known) == len(revisions) else None


def _prefix(part: Part, home: Home) -> str:
    at = part.mount.at.strip("/")
    return f"{at}/{home.prefix}" if at else home.prefix


def _add(
    known: dict[SkillPath, Skill], skills: Iterable[Skill], rules: Visibility
) -> Iterator[Problem]:
    """Add skills whose paths are free; the operator's order decides, never a walk's."""
    for skill in skills:
        first = known.setdefault(skill.path, skill)
        if is_denied(first, rules):
            known[skill.path] = skill  # what is never served takes nobody's place
        elif first is not skill and first.location != skill.location:
            reason = f"is not served: {first.file} has the same path"
            hint = "rename one of them, or mount the sources at different places"
            yield Problem(skill.file, reason, hint, rule="same-path")


def _choose_matcher(index: SkillIndex, config: Config) -> Matcher:
    """Choose the keyword algorithm only where every skill takes part in it."""
    algorithm = config.matching.algorithm
    if algorithm == "auto":
        is_declared = all(skill.keywords for skill in index)
        algorithm = "keyword" if is_declared else "ranked"
    return KeywordMatcher(index) if algorithm == "keyword" else _rank(index)


def _rank(index: SkillIndex) -> Matcher:
    from skills_mcp.routing.ranked import RankedMatcher  # late: the first answer first

    return RankedMatcher(index)


def _is_ranked(matcher: Matcher) -> bool:
    return not isinstance(matcher, KeywordMatcher)


def _has_subfolder(part: Part) -> bool:
    wanted = part.mount.subfolder
    # A folder that cannot be looked into is reported by whoever lists it.
    return not wanted or os.path.lexists(part.checkout.directory / wanted)


def _without_subfolder(part: Part) -> Problem:
    reason = f"is not there in {part.mount.source.name}"
    hint = "correct the subfolder of this source in your settings"
    return Problem(part.mount.subfolder, reason, hint, rule="subfolder")


def _unused(skills: Collection[Skill], rules: Visibility) -> Iterator[Problem]:
    """Report what the operator has named, and nobody has: a slip may hide a lot."""
    for named in find_unused(skills, rules):
        hint = "write a path or a name as `tree` shows it; pdf/* is all below pdf"
        reason = f"is without effect: no skill fits {named}"
        yield Problem("visibility", reason, hint, "warning", rule="visibility")


def _unmatchable(matcher: KeywordMatcher) -> Iterator[Problem]:
    for skill, keyword in matcher.find_unmatchable():
        reason = f"has the keyword {keyword!r}, which no task can match"
        hint = "use a word of letters that is no stop word"
        yield Problem(skill.file, reason, hint, "warning", rule="keyword-unmatchable")


def _beside(part: Part) -> Iterator[Problem]:
    """Report what is not served because the skills are in `skills/`."""
    top = part.checkout.directory
    homes = [home.directory for home in find_homes(top, part.mount.subfolder)]
    if part.mount.subfolder or top in homes:
        return
    for file in sorted(top.glob("[!.]*/*.md")):
        is_skill = file.name == f"{INDEX}.md" or is_main(file.name)
        if is_skill and file.parent not in homes:
            place = homes[0].name
            reason = f"is not served: the skills are in {place}/"
            hint = f"move it into {place}/, or add a _root.md beside {place}/"
            shown = printable(f"{file.parent.name}/{file.name}")
            yield Problem(shown, reason, hint, rule="beside-skills")


def _left_out(part: Part) -> Iterator[Problem]:
    """Report files of a commit that are never written to a disk."""
    top = part.checkout.directory
    for home in find_homes(top, part.mount.subfolder):
        inside = home.directory.relative_to(top).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        for name in part.checkout.left_out:
            if name.startswith(prefix):
                shown = printable(name.removeprefix(prefix))
                reason = (
                    "is a link, a submodule, or has a name that is not safe everywhere"
                )
                hint = "put a file with a plain name in its place"
                yield Problem(_prefix(part, home) + shown, reason, hint, rule="link")


def _configure(content: Content, settings: Settings) -> tuple[Config, list[Problem]]:
    """Merge the `config.yaml` of the source at the top, if it has one."""
    config = operator = settings.resolve()
    problems: list[Problem] = []
    for part in content.parts:
        folder = _config_folder(part)
        if folder and part.mount.at:
            shown = f"{part.mount.at}/{_CONFIG}"
            reason = "is ignored: only a source at the top may bring settings"
            hint = "put the settings into your own file"
            problems.append(Problem(shown, reason, hint, "warning", rule="config"))
        elif folder:
            is_own = part.mount.source.mode == "local"
            trusted = is_own or operator.trust_content_config
            config, findings = _merge(folder, settings, trusted=trusted)
            problems += findings
    return config, problems


def _config_folder(part: Part) -> Path | None:
    """Return where a `config.yaml` lies: beside the skills or at the top."""
    top = part.checkout.directory
    homes = find_homes(top, part.mount.subfolder)
    places = (homes[0].directory, top)
    return next((p for p in places if os.path.lexists(p / _CONFIG)), None)


def _merge(
    folder: Path, settings: Settings, *, trusted: bool
) -> tuple[Config, list[Problem]]:
    try:
        with open_inside(folder, (_CONFIG,)) as handle:
            layer = read_layer(_CONFIG, handle)
    except (ConfigError, MissingFileError) as error:
        return settings.resolve(), [_problem(str(error))]
    config, findings = settings.resolve_with(layer, trusted=trusted)
    return config, list(map(_problem, findings))


def _problem(finding: str) -> Problem:
    reason = finding.removeprefix(f"{_CONFIG}: ")
    hint = "see docs/reference/configuration.md"
    return Problem(_CONFIG, reason, hint, "warning", rule="config")
