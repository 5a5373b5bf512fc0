"""One state of the content, ready to answer from: what a refresh replaces."""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from skills_mcp.config import Config, Settings, Visibility, read_layer
from skills_mcp.content.progress import Progress
from skills_mcp.content.source import Content, Part
from skills_mcp.errors import (
    ConfigError,
    LimitExceededError,
    MissingFileError,
    UnreadableContentError,
)
from skills_mcp.files.opening import open_inside
from skills_mcp.processes.memory import garbage_collector_paused
from skills_mcp.routing.matcher import Mask, Matcher
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import Home, find_layout
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Problem, printable
from skills_mcp.skills.package import is_main
from skills_mcp.skills.scoping import Scoping, narrow
from skills_mcp.skills.visibility import Listed, find_unused
from skills_mcp.snapshots.changes import OfferedSkills
from skills_mcp.snapshots.views import MOST_GRANTED, MOST_NARROWED, Views

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.routing.keywords import KeywordMatcher
    from skills_mcp.snapshots.collection import Collection
    from skills_mcp.snapshots.embedding import SkillVectors
    from skills_mcp.snapshots.indexes import Indexes, IndexState
    from skills_mcp.snapshots.skill_table import SkillTable

logger = logging.getLogger(__name__)

_CONFIG = "config.yaml"

_RANKED_PACKAGE = "Routing by all words: %s is a package"
_RANKED_RULES = "Routing by all words: %s declares no keywords"

# The synonyms are read with the first task; no caller shall wait for them.
_FIRST_TASK = "write a skill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The skills, settings and problems of one state.  Never changes."""

    content: Content
    index: SkillIndex
    indexes: "Indexes"
    config: Config
    algorithm: Literal["keyword", "ranked"]
    """The algorithm that `get_skill` routes with."""
    problems: tuple[Problem, ...]
    vectors: "SkillVectors | None" = None
    """The embeddings of the skills, if the operator has set a provider."""
    views: Views["Snapshot"] = field(
        default_factory=lambda: Views(MOST_GRANTED), init=False, repr=False
    )
    narrowed: Views["Snapshot"] = field(
        default_factory=lambda: Views(MOST_NARROWED), init=False, repr=False
    )

    @property
    def matcher(self) -> Matcher:
        """The matcher of `get_skill`.  Blocking, the first time."""
        if self.algorithm == "keyword":
            return self.indexes.keyword()
        return self._fuse(self.indexes.ranked())

    @property
    def ranked(self) -> Matcher:
        """The matcher of `search_skills`.  Blocking, the first time."""
        return self._fuse(self.indexes.searched())

    def seen_by(self, access: Access) -> "Snapshot":
        """Return this state as a caller sees it: as if there were no other skills.

        It shares all that is large. The view of a caller is made once, unless many
        others were asked for since.
        """
        if access == EVERYTHING:
            return self
        if access.is_scoped:
            derive = partial(self._derive_asked, access)
            return self.narrowed.find(access, derive, self._see)
        derive = partial(self.index.derive_shown, access.sees)
        return self.views.find(access, derive, self._see)

    def is_prepared_for(self, access: Access) -> bool:
        """Whether `get_skill` need not wait until the view of a caller is made."""
        if access == EVERYTHING:
            return self.indexes.is_built
        views = self.narrowed if access.is_scoped else self.views
        view = views.get(access)
        return view is not None and view.indexes.is_built

    def _derive_asked(self, access: Access) -> bytes:
        shown = self.seen_by(access.unscoped).index
        return shown.derive_asked(access.compile_scope())

    def _see(self, standing: bytes) -> "Snapshot":
        from skills_mcp.snapshots.indexes import SeenIndexes

        table = self.state.collection.table
        index = self.index.seen(standing)
        return Snapshot(
            content=self.content,
            index=index,
            indexes=SeenIndexes(self.indexes, self.index, index),
            config=self.config,
            algorithm=_choose_algorithm(index, self.config, table),
            problems=(),  # they name files that the caller may not know of
            vectors=self.vectors,
        )

    def narrow(self, scoping: Scoping) -> Mask:
        """Return which skills the matchers may find; None for all.

        Raises:
            SkillNotFoundError: No skill is there; the message says what there is.
        """
        return self.indexes.expand(narrow(self.index, scoping))

    @property
    def shown_mounts(self) -> frozenset[str] | None:
        """Where the sources stand of which the caller sees a skill; None for all."""
        if self.indexes.shown_homes is None:
            return None
        found = (_find_mount(self.content, home) for home in self.indexes.shown_homes)
        return frozenset(mount for mount in found if mount is not None)

    @property
    def offered(self) -> OfferedSkills:
        """The skills that are offered, to be compared with another state."""
        return OfferedSkills(self.state.collection.table, self.index.offered.numbers)

    @property
    def state(self) -> "IndexState":
        """What the next snapshot can be taken from."""
        return self.indexes.state()

    def _fuse(self, lexical: Matcher) -> Matcher:
        if self.vectors is None:
            return lexical
        return self.vectors.fuse(lexical, self.indexes.seen)

    @garbage_collector_paused()
    def prepare(self) -> None:
        """Build what replies need, before the first of them waits for it.  Blocking."""
        matchers: list[Matcher] = [
            self.indexes.keyword()
            if self.algorithm == "keyword"
            else self.indexes.ranked()
        ]
        if "packages" in self.config.toolsets:
            matchers.append(self.indexes.searched())
        for matcher in matchers:
            matcher.score(_FIRST_TASK, most=1)
        self.indexes.forget_known()

    def reuses_all_of(self, state: "IndexState") -> bool:
        """Whether all that replies need was taken over from this state."""
        needs_texts = self.algorithm == "ranked" or "packages" in self.config.toolsets
        is_complete = state.texts is not None or not needs_texts
        return is_complete and self.indexes.are_those_of(state)

    def is_same(self, collection: "Collection", config: Config) -> bool:
        """Whether a snapshot of this collection with these settings would be equal."""
        return collection is self.state.collection and config == self.config

    def on_arrays_of(self, state: "IndexState") -> "Snapshot":
        """Return this snapshot on the arrays that the index cache has mapped.

        Args:
            state: The state of this snapshot, as the index cache has written it.
        """
        from skills_mcp.snapshots.indexes import Indexes

        table = state.collection.table
        index = SkillIndex(
            table,
            self.config.visibility,
            rows=table.listed,
            copies=state.collection.copies,
        )
        indexes = Indexes(
            state.collection, index, state, synonyms=self.config.routing.synonyms
        )
        return replace(self, index=index, indexes=indexes)


@garbage_collector_paused()
def take_snapshot(  # noqa: PLR0913 - most have a default
    content: Content,
    settings: Settings,
    known: "IndexState | None" = None,
    *,
    inspected: "Sequence[Collection]" = (),
    served: Snapshot | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Read all content.  Blocking; what is wrong becomes a `Problem`.

    Args:
        content: The files of every source.
        settings: The operator's, which the content's own are merged into.
        known: An earlier state; what it has read is not read again.
        inspected: Commits that were read before they were published.
        served: A snapshot of the same commits. They are walked all the same, because
            their files may have been edited in place; if none was, it is returned.
        progress: Is told how far this has got.

    Raises:
        LimitExceededError: There is no skill, because a source has more than it may.
    """
    # Late: the first answer may not wait for NumPy.
    from skills_mcp.snapshots.collection import collect
    from skills_mcp.snapshots.indexes import Indexes

    config, problems = _configure(content, settings)
    collections = (*inspected, *([known.collection] if known else []))
    whole = () if served else (c for c in collections if c.is_of(content))
    collection = next(iter(whole), None) or collect(
        content, config.limits, config.visibility, collections, progress
    )
    if served and served.is_same(collection, config):
        return served
    _require_within_limits(content, collection)
    table = collection.table
    index = SkillIndex(
        table, config.visibility, rows=table.listed, copies=collection.copies
    )
    synonyms = config.routing.synonyms
    indexes = Indexes(collection, index, known, progress, synonyms)
    algorithm = _choose_algorithm(index, config, table)
    problems += collection.problems
    if algorithm == "keyword":
        problems += _unmatchable(indexes.keyword(), index)
    problems += _unused(table.listed, config.visibility)
    return Snapshot(
        content=content,
        index=index,
        indexes=indexes,
        config=config,
        algorithm=algorithm,
        problems=tuple(problems),
    )


def inspect_commit(
    content: Content,
    settings: Settings,
    known: "IndexState | None",
    progress: Progress | None = None,
) -> "Collection":
    """Read a commit before it is published.  Blocking.

    Args:
        content: The commit, at the places of its source.
        settings: The operator's.
        known: What is served; most of the commit is the same.
        progress: Is told how far this has got.

    Raises:
        UnreadableContentError: It has skills, and none of them can be read.
        LimitExceededError: It has more than it may have.
    """
    from skills_mcp.snapshots.collection import collect

    config = load_config(content, settings)
    collections = [known.collection] if known else []
    collection = collect(
        content, config.limits, config.visibility, collections, progress
    )
    _require_within_limits(content, collection)
    broken = [each for each in collection.problems if each.level == "error"]
    if broken and not len(collection.table):
        part, first = content.parts[0], broken[0]
        name, revision = part.mount.source.name, part.checkout.revision
        if first.rule == "subfolder":
            raise UnreadableContentError(
                f"{name}: {revision} has no folder {first.file}. Correct the subfolder "
                "of this source (SKILLS_SUBFOLDER, --subfolder)"
            )
        of = f"The first of {len(broken)} problems" if broken[1:] else "The problem"
        raise UnreadableContentError(
            f"{name}: no skill of {revision} can be read, so it is not published. "
            f"{of}: {first}. `skills-mcp validate` shows all of them in a clone"
        )
    return collection


def _require_within_limits(content: Content, collection: "Collection") -> None:
    """Refuse to serve nothing where a limit is the reason: it looks like no skills."""
    if len(collection.table):
        return
    for problem in collection.problems:
        if problem.rule == "limit":
            name = content.parts[0].mount.source.name
            reason = problem.reason.removeprefix("is not served: ")
            raise LimitExceededError(f"{name}: {reason}. {problem.hint}.")


def load_config(content: Content, settings: Settings) -> Config:
    """Return the settings that hold for content, without reading a skill.  Blocking."""
    return _configure(content, settings)[0]


def find_broken(before: Snapshot | None, after: Snapshot) -> tuple[str, ...]:
    """Return the errors of a state that the one before did not have."""
    known = set(before.problems) if before else set()
    news = (each for each in after.problems if each not in known)
    return tuple(str(each) for each in news if each.level == "error")


def log_news(snapshot: Snapshot, before: Snapshot | None) -> None:
    """Log the served commit and the number of skills, and each new problem."""
    where = ", ".join(
        part.checkout.revision or os.fspath(part.checkout.directory)
        for part in snapshot.content.parts
    )
    logger.info("Serving %d skills at %s", len(snapshot.index), where)
    matching = snapshot.config.matching
    if snapshot.algorithm == "ranked" and matching.algorithm == "auto":
        # One of them decides for all, and it need not be the organisation's.
        files = _find_ranked(snapshot.index, snapshot.state.collection.table)
        for file in islice(files, 1):
            line = _RANKED_PACKAGE if _is_package(file) else _RANKED_RULES
            logger.info(line, file)
    if not len(snapshot.index):
        logger.warning("There is no skill: every task will have no match")
    known = set(before.problems) if before else set()
    for problem in snapshot.problems:
        if problem not in known:
            logger.warning("%s", problem)


def _find_mount(content: Content, home: Home) -> str | None:
    """Return where the source stands whose folder this is; the innermost of several."""
    holding = (
        part.mount
        for part in sorted(content.parts, key=lambda each: len(each.mount.prefix))
        if home.directory.is_relative_to(part.checkout.directory)
        and home.prefix.startswith(part.mount.prefix)
    )
    mounts = [mount.at for mount in holding]
    return mounts[-1] if mounts else None


def _choose_algorithm(
    index: SkillIndex, config: Config, table: "SkillTable"
) -> Literal["keyword", "ranked"]:
    """Choose the keyword algorithm only where every skill is made for it."""
    algorithm = config.matching.algorithm
    if algorithm != "auto":
        return algorithm
    return "ranked" if any(_find_ranked(index, table)) else "keyword"


def _find_ranked(index: SkillIndex, table: "SkillTable") -> Iterator[str]:
    """Iterate over the files of offered skills that only all of their words can find.

    A package's tags and triggers are words among others: its author has not chosen
    them to be all that is compared.
    """
    keywords, files = table.column("keywords"), table.files()
    for number in index.offered.numbers:
        if _is_package(files[number]) or not keywords[number]:
            yield files[number]


def _is_package(file: str) -> bool:
    return is_main(file.rpartition("/")[2])


def _unused(skills: Sequence[Listed], rules: Visibility) -> Iterator[Problem]:
    """Report the visibility settings that no skill fits: they may be misspelt."""
    for named in find_unused(skills, rules):
        hint = "write a path or a name as `tree` shows it; pdf/* is all below pdf"
        reason = f"is without effect: no skill fits {named}"
        yield Problem("visibility", reason, hint, "warning", rule="visibility")


def _unmatchable(matcher: "KeywordMatcher", index: SkillIndex) -> Iterator[Problem]:
    for number, keyword in matcher.find_unmatchable():
        reason = f"has the keyword {keyword!r}, which no task can match"
        hint = "use a word of letters that is no stop word"
        file = index.offered[number].file
        yield Problem(file, reason, hint, "warning", rule="keyword-unmatchable")


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
    selection = part.mount.selection
    known = part.checkout.surveyed.get(selection)
    homes = known.homes if known else find_layout(FolderTree(top), selection).homes
    places = (*(top / home.folder for home in homes[:1]), top)
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
    # A key may hold what steers a terminal, and this is printed on one.
    reason = printable(finding.removeprefix(f"{_CONFIG}: "))
    hint = "see docs/reference/configuration.md"
    return Problem(_CONFIG, reason, hint, "warning", rule="config")
