"""Snapshot: the skills, settings and problems of one state, and its differences to another.

Callers with the same visible skills share a view of it. Views share all large data, and
many callers see the same, so a few are cached.
"""

import hashlib
import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from skills_mcp.config import Config, Settings, Visibility, read_layer
from skills_mcp.content.source import Content, ContentPart, Loss, Mode, Progress, SourceState
from skills_mcp.errors import (
    ConfigError,
    LimitExceededError,
    MissingFileError,
    SkillsError,
    UnreadableContentError,
)
from skills_mcp.files.opening import open_inside
from skills_mcp.processes.memory import gc_paused
from skills_mcp.routing.matcher import Algorithm, Mask, Matcher, MatchingPart, MixedMatcher
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.composition import Composition, compose_skill
from skills_mcp.skills.model import Problem, Skill, SkillPath, escape_unprintable
from skills_mcp.skills.skill_discovery import OnRead
from skills_mcp.skills.skill_index import (
    SkillFilter,
    SkillIndex,
    SkillRow,
    compute_filter_mask,
    find_unused_rules,
)
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.skills.source_layout import FolderTree, find_layout

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    from skills_mcp.routing.keyword_matcher import KeywordMatcher
    from skills_mcp.routing.matcher import VisibleSkills
    from skills_mcp.snapshots.indexes import Indexes, IndexState
    from skills_mcp.snapshots.loaded_skills import LoadedSkills
    from skills_mcp.snapshots.skill_records import SkillTable


class SkillVectors(Protocol):
    """Vectors of the skills of one snapshot."""

    def fuse(self, matcher: Matcher, seen: "VisibleSkills | None" = None) -> Matcher:
        """A matcher that fuses lexical scores with those of the vectors."""
        ...

    def prepare(self) -> bool:
        """Fetch missing vectors; whether all are complete.  Blocking."""
        ...

    def close(self) -> None:
        """Stop fetching."""
        ...


class Embedder(Protocol):
    """Opens the vectors of skills."""

    def vectors_of(self, skills: Sequence[Skill]) -> SkillVectors:
        """Open the vectors of skills in path order; `prepare` fetches them."""
        ...

    def close(self) -> None:
        """Close the connections to the provider."""
        ...


MAX_GRANT_VIEWS = 64
"""Views of grants: more than an organisation has, and few enough for memory."""

MAX_SCOPE_VIEWS = 16
"""Views of callers' scopes, in use at once; they evict no view of grants."""

MAX_COMPOSITIONS = 64
"""Composed texts of all views together: popular skills are served often, and a text may
have a megabyte."""

_MAX_ACCESSES_PER_VIEW = 8  # for each view: callers with other grants may see the same

_View = TypeVar("_View")


class ViewCache(Generic[_View]):
    """Least-recently-used cache of one snapshot's views.  Thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._building = Lock()
        self._digests: OrderedDict[Access, bytes] = OrderedDict()
        self._views: OrderedDict[bytes, _View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def get(self, access: Access) -> _View | None:
        """Look up the view of a caller; None if it is not built."""
        with self._lock:
            digest = _get_recent(self._digests, access)
            return None if digest is None else _get_recent(self._views, digest)

    def find(
        self,
        access: Access,
        derive_standing: Callable[[], bytes],
        build: Callable[[bytes], _View],
    ) -> _View:
        """Look up or build a view, shared by callers with the same visible skills."""
        known = self.get(access)
        if known is not None:
            return known
        with self._building:  # threads share the interpreter: two would be no faster
            known = self.get(access)
            return self._add(access, derive_standing(), build) if known is None else known

    def _add(self, access: Access, standing: bytes, build: Callable[[bytes], _View]) -> _View:
        digest = hashlib.sha256(standing).digest()
        with self._lock:
            view = _get_recent(self._views, digest)
        view = view or build(standing)
        with self._lock:
            _put_recent(self._digests, access, digest, self._capacity * _MAX_ACCESSES_PER_VIEW)
            _put_recent(self._views, digest, view, self._capacity)
        return view


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _get_recent(cache: "OrderedDict[_Key, _Value]", key: _Key) -> "_Value | None":
    if key in cache:
        cache.move_to_end(key)
    return cache.get(key)


def _put_recent(
    cache: "OrderedDict[_Key, _Value]", key: _Key, value: _Value, capacity: int
) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > capacity:
        cache.popitem(last=False)


@dataclass(frozen=True, slots=True)
class OfferedSkills:
    """The offered skills of one snapshot."""

    table: "SkillTable"
    numbers: Sequence[int]

    def by_path(self) -> dict[SkillPath, int]:
        listed = self.table.listed
        return {listed[number].path: number for number in self.numbers}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChanges:
    """Differences between two snapshots, each list in path order."""

    added: tuple[SkillPath, ...] = ()
    changed: tuple[SkillPath, ...] = ()
    """Skills with different text, frontmatter or files of their own."""
    removed: tuple[SkillPath, ...] = ()
    broken: tuple[str, ...] = ()
    loss: Loss | None = None


def derive_changes(before: OfferedSkills | None, after: OfferedSkills | None) -> SkillChanges:
    """Compare two sets of offered skills; None for no content."""
    old = before.by_path() if before else {}
    new = after.by_path() if after else {}
    changed = _find_changed(before, after) if before and after else iter(())
    return SkillChanges(
        added=tuple(path for path in new if path not in old),
        changed=tuple(changed),
        removed=tuple(path for path in old if path not in new),
    )


# Below it, an author tidies up.
_MIN_LOSS = 3
_MIN_LOST_SHARE = 0.1

_LOSS_SECONDS = 7 * 86_400.0  # a team that was on holiday still sees it
_MAX_EXAMPLES = 5


def derive_loss(
    before: Collection[str],
    after: Collection[str],
    now: float,
    known: Loss | None = None,
) -> Loss | None:
    """Find a loss between two sets of offered skills; else `known`, while it lasts.

    A skill that has moved, with its name, is not lost.
    """
    removed = _find_removed(before, after)
    if _is_loss(len(removed), len(before)):
        return Loss(len(removed), len(before), now, tuple(removed[:_MAX_EXAMPLES]))
    if known is None or not 0 <= now - known.happened_at < _LOSS_SECONDS:
        return None
    return known if _is_loss(known.served - len(after), known.served) else None


def _find_removed(before: Collection[str], after: Collection[str]) -> list[str]:
    old, new = frozenset(before), frozenset(after)
    moved = Counter(_last_segment(path) for path in new - old)
    removed = []
    for path in before:
        if path in new:
            continue
        name = _last_segment(path)
        if moved[name]:
            moved[name] -= 1
        else:
            removed.append(path)
    return removed


def _last_segment(path: str) -> str:
    return path.rpartition("/")[2]


def _is_loss(removed: int, served: int) -> bool:
    return removed >= _MIN_LOSS and removed > _MIN_LOST_SHARE * served


def exceeds_removal(loss: Loss | None, limit: float | None) -> bool:
    """Whether a loss exceeds `sync.max_removed`: a share below 1, else a number."""
    if loss is None or limit is None:
        return False
    return loss.removed > (limit if limit >= 1 else limit * loss.served)


def is_listing_changed(before: OfferedSkills | None, after: OfferedSkills) -> bool:
    """Whether a list of skills with their descriptions would look different."""
    if before is None:
        return len(after.numbers) > 0
    old, new = before.by_path(), after.by_path()
    if list(old) != list(new):
        return True
    return any(
        _read_label(before.table, old[path]) != _read_label(after.table, new[path])
        for path in _find_changed(before, after)
    )


def _find_changed(before: OfferedSkills, after: OfferedSkills) -> Iterator[SkillPath]:
    if before.table is after.table:
        return
    old, old_keys, keys = before.by_path(), before.table.keys, after.table.keys
    for path, number in after.by_path().items():
        was = old.get(path)
        if was is not None and old_keys[was] != keys[number]:
            yield path


def _read_label(table: "SkillTable", number: int) -> tuple[str, str]:
    text = table.text_of(number)
    return text.name, text.description


_NO_CHANGES = SkillChanges()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """Result of a refresh; `commit` and `synced_at` are the first repository's."""

    mode: Mode
    commit: str | None
    files_changed: int
    skills_reindexed: int
    synced_at: datetime | None
    error: SkillsError | None
    sources: tuple[SourceState, ...] = ()
    changes: SkillChanges = _NO_CHANGES
    """All changes since the request, also those fetched by another process."""


logger = logging.getLogger(__name__)

_CONFIG = "config.yaml"

_RANKED_PACKAGE = "Ranking %s by all words: it is a package"
_RANKED_RULES = "Ranking %s by all words: it declares no keywords"

# The synonyms are read with the first task; no caller shall wait for them.
_FIRST_TASK = "write a skill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Skills, settings and problems of one state.  Immutable."""

    content: Content
    index: SkillIndex
    indexes: "Indexes"
    config: Config
    algorithm: Algorithm
    problems: tuple[Problem, ...]
    vectors: SkillVectors | None = None
    """Embeddings of the skills, if a provider is configured."""
    views: ViewCache["Snapshot"] = field(
        default_factory=lambda: ViewCache(MAX_GRANT_VIEWS), init=False, repr=False
    )
    narrowed: ViewCache["Snapshot"] = field(
        default_factory=lambda: ViewCache(MAX_SCOPE_VIEWS), init=False, repr=False
    )
    standing: bytes = b""
    """Visibility per row of a view; empty for the snapshot itself."""
    composed: dict[tuple[bytes, SkillPath], Composition] = field(default_factory=dict, repr=False)
    """Composed texts by view and skill, shared by all views."""

    @property
    def matcher(self) -> Matcher:
        """Matcher of `get_skill`.  Blocking, the first time."""
        if self.algorithm == "keyword":
            return self._succeed(self.indexes.keyword())
        ranked = self._fuse(self.indexes.ranked())
        if self.algorithm != "mixed":
            return self._succeed(ranked)
        mixed = self.indexes.mix(ranked)
        return MixedMatcher(*map(self._succeed_part, (mixed.declared, mixed.others)))

    @property
    def ranked(self) -> Matcher:
        """Matcher of `search_skills`.  Blocking, the first time."""
        return self._succeed(self._fuse(self.indexes.searched()))

    def seen_by(self, access: Access) -> "Snapshot":
        """Derive a caller's view, as if there were no other skills; cached."""
        if self._sees_all(access):
            return self
        if access.is_scoped:
            derive = partial(self._derive_scoped, access)
            return self.narrowed.find(access, derive, self._derive_view)
        hides_drafts = not (access.is_granted or self.config.visibility.drafts)
        derive = partial(self.index.derive_caller_standing, access.sees, hides_drafts=hides_drafts)
        return self.views.find(access, derive, self._derive_view)

    def _sees_all(self, access: Access) -> bool:
        """Whether a caller sees the whole index; it has drafts if a grant gives some."""
        has_drafts_of_grants = _offers_drafts(self.config) and not self.config.visibility.drafts
        return access == EVERYTHING and not has_drafts_of_grants

    def is_prepared_for(self, access: Access) -> bool:
        if self._sees_all(access):
            return self.indexes.is_built
        views = self.narrowed if access.is_scoped else self.views
        view = views.get(access)
        return view is not None and view.indexes.is_built

    def _derive_scoped(self, access: Access) -> bytes:
        visible = self.seen_by(access.unscoped).index
        return visible.derive_request_standing(access.compile_scope())

    def _derive_view(self, standing: bytes) -> "Snapshot":
        from skills_mcp.snapshots.indexes import SeenIndexes

        index = self.index.seen(standing)
        indexes = SeenIndexes(self.indexes, self.index, index)
        return Snapshot(
            content=self.content,
            index=index,
            indexes=indexes,
            config=self.config,
            algorithm=_choose_algorithm(indexes, self.config),
            problems=(),  # they name files that the caller may not know of
            vectors=self.vectors,
            standing=standing,
            composed=self.composed,
        )

    def narrow(self, scoping: SkillFilter) -> Mask:
        """Mask of the skills within a scope; None for all.

        Raises:
            SkillNotFoundError: No skill is there; the message lists the existing ones.
        """
        return self.indexes.expand(compute_filter_mask(self.index, scoping))

    def compose(self, skill: Skill) -> Composition:
        """Compose the text of a skill for a reply; cached for the ones asked for lately."""
        key = (self.standing, skill.path)
        if known := self.composed.get(key):
            return known
        if len(self.composed) >= MAX_COMPOSITIONS:
            self.composed.clear()
        limit = self.config.responses.max_characters
        composed = compose_skill(self.index, skill, max_characters=limit)
        return self.composed.setdefault(key, composed)

    @property
    def shown_mounts(self) -> frozenset[str] | None:
        """Path prefixes of the sources with visible skills; None for all."""
        if self.indexes.shown_homes is None:
            return None
        homes = self.indexes.shown_homes
        found = (self.content.find_part(home.directory, home.prefix) for home in homes)
        return frozenset(part.mount.at for part in found if part is not None)

    @property
    def offered(self) -> OfferedSkills:
        return OfferedSkills(self.state.collection.table, self.index.offered.numbers)

    @property
    def state(self) -> "IndexState":
        return self.indexes.state()

    def _fuse(self, lexical: Matcher) -> Matcher:
        if self.vectors is None:
            return lexical
        return self.vectors.fuse(lexical, self.indexes.seen)

    def _succeed_part(self, part: MatchingPart) -> MatchingPart:
        return part._replace(matcher=self._succeed(part.matcher, part.numbers))

    def _succeed(self, matcher: Matcher, part: Mask = None) -> Matcher:
        if not self.index.successors:
            return matcher
        from skills_mcp.routing.successor_matcher import SuccessorMatcher

        return SuccessorMatcher(
            matcher, self.index.successors, self.index.require, self.indexes.number_of, part
        )

    @gc_paused()
    def prepare(self) -> "Snapshot":
        """Build everything needed for replies ahead of the first one.  Blocking."""
        matchers: list[Matcher] = []
        if self.algorithm != "ranked":
            matchers.append(self.indexes.keyword())
        if self.algorithm != "keyword":
            matchers.append(self.indexes.ranked())
        if "packages" in self.config.toolsets:
            matchers.append(self.indexes.searched())
        for matcher in matchers:
            matcher.score(_FIRST_TASK, limit=1)
        self.indexes.forget_known()
        return self

    def reuses_all_of(self, state: "IndexState") -> bool:
        """Whether everything needed for replies was taken over from this state."""
        needs_texts = self.algorithm != "keyword" or "packages" in self.config.toolsets
        is_complete = state.texts is not None or not needs_texts
        return is_complete and self.indexes.are_reused_from(state)

    def serves_the_same_as(self, other: "Snapshot") -> bool:
        """Whether skills, settings and problems are those of another snapshot."""
        is_same = self.config == other.config and self.problems == other.problems
        return is_same and self.reuses_all_of(other.state)


@gc_paused()
def take_snapshot(  # noqa: PLR0913 - most have a default
    content: Content,
    settings: Settings,
    known: "IndexState | None" = None,
    *,
    inspected: "Sequence[LoadedSkills]" = (),
    served: Snapshot | None = None,
    progress: Progress | None = None,
    on_read: OnRead | None = None,
) -> Snapshot:
    """Read all content.  Blocking; a failure becomes a `Problem`.

    Args:
        content: The files of every source.
        settings: The operator's, to be merged with the content's own.
        known: An earlier state; its records are not read again.
        inspected: Commits read before their publication.
        served: A snapshot of the same commits, reused unless their files were edited.
        progress: Receives the progress.
        on_read: Receives the files and packages, and their Markdown.

    Raises:
        LimitExceededError: There is no skill, because a source exceeds a limit.
    """
    # Late: the first answer may not wait for NumPy.
    from skills_mcp.snapshots.loaded_skills import read_sources

    config, problems = _configure(content, settings)
    collections = (*inspected, *([known.collection] if known else []))
    reusable = () if served else (c for c in collections if c.matches_content(content))
    collection = next(iter(reusable), None) or read_sources(
        content, config.limits, config.visibility, collections, progress, on_read=on_read
    )
    if served and collection is served.state.collection and config == served.config:
        return served
    _require_within_limits(content, collection)
    table = collection.table
    index, indexes = _build_indexes(collection, config, known, progress)
    algorithm = _choose_algorithm(indexes, config)
    problems += collection.problems
    if algorithm != "ranked":
        problems += _report_unmatchable(indexes.keyword(), index, content)
    problems += _report_unused_rules(table.listed, config.visibility)
    return Snapshot(
        content=content,
        index=index,
        indexes=indexes,
        config=config,
        algorithm=algorithm,
        problems=tuple(problems),
    )


def _build_indexes(
    collection: "LoadedSkills",
    config: Config,
    known: "IndexState | None",
    progress: Progress | None = None,
) -> "tuple[SkillIndex, Indexes]":
    from skills_mcp.snapshots.indexes import Indexes

    index = index_skills(collection, config)
    return index, Indexes(collection, index, known, progress, config.routing.synonyms)


def _offers_drafts(config: Config) -> bool:
    """Whether some caller may see drafts."""
    return config.visibility.drafts or any(grant.drafts for grant in config.access or ())


def inspect_commit(
    content: Content,
    settings: Settings,
    known: "IndexState | None",
    progress: Progress | None = None,
) -> "LoadedSkills":
    """Read a commit before its publication.  Blocking.

    Raises:
        UnreadableContentError: It has skills, and none can be read.
        LimitExceededError: It exceeds a limit.
    """
    from skills_mcp.snapshots.loaded_skills import read_sources

    config = load_config(content, settings)
    collections = [known.collection] if known else []
    collection = read_sources(content, config.limits, config.visibility, collections, progress)
    _require_within_limits(content, collection)
    broken = [problem for problem in collection.problems if problem.level == "error"]
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


def list_offered(
    collection: "LoadedSkills", content: Content, settings: Settings
) -> list[SkillPath]:
    """Paths of the skills that content would offer, without any index of words."""
    index = index_skills(collection, load_config(content, settings))
    return [*OfferedSkills(collection.table, index.offered.numbers).by_path()]


def index_skills(collection: "LoadedSkills", config: Config) -> SkillIndex:
    table = collection.table
    rules = config.visibility.model_copy(update={"drafts": _offers_drafts(config)})
    return SkillIndex(table, rules, rows=table.listed, copies=collection.copies)


def _require_within_limits(content: Content, collection: "LoadedSkills") -> None:
    """Refuse empty content caused by a limit: it looks like no skills."""
    if len(collection.table):
        return
    for problem in collection.problems:
        if problem.rule == "limit":
            name = content.parts[0].mount.source.name
            reason = problem.reason.removeprefix("is not served: ")
            raise LimitExceededError(f"{name}: {reason}. {problem.hint}.")


def load_config(content: Content, settings: Settings) -> Config:
    """Load the settings in force for content, without reading a skill.  Blocking."""
    return _configure(content, settings)[0]


def find_new_errors(before: Snapshot | None, after: Snapshot) -> tuple[str, ...]:
    """List the errors of a snapshot without those of its predecessor."""
    known = set(before.problems) if before else set()
    new_problems = (problem for problem in after.problems if problem not in known)
    return tuple(str(problem) for problem in new_problems if problem.level == "error")


def log_changes(snapshot: Snapshot, before: Snapshot | None) -> None:
    where = ", ".join(
        part.checkout.revision or os.fspath(part.checkout.directory)
        for part in snapshot.content.parts
    )
    logger.info("Serving %d skills at %s", len(snapshot.index), where)
    matching = snapshot.config.matching
    if snapshot.algorithm == "mixed" and matching.algorithm == "auto":
        files = snapshot.indexes.find_undeclared()
        for file in islice(files, 1):
            is_package = is_skill_md(file.rpartition("/")[2])
            line = _RANKED_PACKAGE if is_package else _RANKED_RULES
            logger.info(line, file)
    if not len(snapshot.index):
        logger.warning("There is no skill: every task will have no match")
    known = set(before.problems) if before else set()
    for problem in snapshot.problems:
        if problem not in known:
            logger.warning("%s", problem)


def _choose_algorithm(indexes: "Indexes", config: Config) -> Algorithm:
    """Choose the keyword algorithm for the skills that declare keywords."""
    algorithm = config.matching.algorithm
    if algorithm != "auto":
        return algorithm
    declared = indexes.declared
    if declared.all():
        return "keyword"
    return "mixed" if declared.any() else "ranked"


def _report_unused_rules(skills: Sequence[SkillRow], rules: Visibility) -> Iterator[Problem]:
    """Report visibility settings without any matching skill: they may be misspelt."""
    for named in find_unused_rules(skills, rules):
        hint = "write a path or a name as `tree` shows it; pdf/* is all below pdf"
        reason = f"is without effect: no skill fits {named}"
        yield Problem("visibility", reason, hint, "warning", rule="visibility")


def _report_unmatchable(
    matcher: "KeywordMatcher", index: SkillIndex, content: Content
) -> Iterator[Problem]:
    for number, keyword in matcher.find_unmatchable():
        reason = f"has the keyword {keyword!r}, which no task can match"
        hint = "use a word of letters that is no stop word"
        skill = index.offered[number]
        part = content.find_part(skill.location or Path(), skill.path, skill.scope)
        mount = part.mount.at if part else ""
        yield Problem(skill.file, reason, hint, "warning", rule="keyword-unmatchable", mount=mount)


def _configure(content: Content, settings: Settings) -> tuple[Config, list[Problem]]:
    config = operator = settings.resolve()
    problems: list[Problem] = []
    for part in content.parts:
        folder = _config_folder(part)
        if folder and part.mount.at:
            path = f"{part.mount.at}/{_CONFIG}"
            reason = "is ignored: only a source at the top may bring settings"
            hint = "put the settings into your own file"
            at = part.mount.at
            problems.append(Problem(path, reason, hint, "warning", rule="config", mount=at))
        elif folder:
            is_own = part.mount.source.mode == "local"
            trusted = is_own or operator.trust_content_config
            config, findings = _merge_config(folder, settings, trusted=trusted)
            problems += findings
    return config, problems


def _config_folder(part: ContentPart) -> Path | None:
    """Find the folder of a `config.yaml`: the first skill root or the top."""
    top = part.checkout.directory
    selection = part.mount.selection
    known = part.checkout.surveyed.get(selection)
    homes = known.homes if known else find_layout(FolderTree(top), selection).homes
    folders = (*(top / home.folder for home in homes[:1]), top)
    return next((p for p in folders if os.path.lexists(p / _CONFIG)), None)


def _merge_config(
    folder: Path, settings: Settings, *, trusted: bool
) -> tuple[Config, list[Problem]]:
    try:
        with open_inside(folder, (_CONFIG,)) as handle:
            layer = read_layer(_CONFIG, handle)
    except (ConfigError, MissingFileError) as error:
        return settings.resolve(), [_config_problem(str(error))]
    config, findings = settings.resolve_with(layer, trusted=trusted)
    return config, list(map(_config_problem, findings))


def _config_problem(finding: str) -> Problem:
    # A key may hold what steers a terminal, and this is printed on one.
    reason = escape_unprintable(finding.removeprefix(f"{_CONFIG}: "))
    hint = "see docs/reference/configuration.md"
    return Problem(_CONFIG, reason, hint, "warning", rule="config")
