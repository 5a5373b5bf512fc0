"""Every use case of skills-mcp, free of any protocol: the one door to the skills.

Rule: tools, commands and programs ask here and nowhere behind. An operation takes the
current snapshot once, and a refresh replaces it in one assignment, so no answer mixes
two commits.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from skills_mcp.config import Config
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.progress import Progress
from skills_mcp.content.push import Push
from skills_mcp.content.source import ContentSource, Mount, SourceState
from skills_mcp.errors import (
    ConfigError,
    InvalidArgumentsError,
    SkillDisabledError,
    SyncError,
    UndeclaredFileError,
)
from skills_mcp.events.privacy import Text
from skills_mcp.events.tracker import Observer, Tracker
from skills_mcp.files.paths import find_name, parse_relative
from skills_mcp.library.answers import (
    FoundFiles,
    LoadedSkill,
    Match,
    RanScript,
    ReadFile,
    ServedExamples,
    ServedFile,
    derive_digest,
    derive_place,
    guide,
    load_answer,
)
from skills_mcp.library.listing import Listing, compose_listing
from skills_mcp.routing.decision import (
    Ambiguous,
    NoMatch,
    choose,
    find_candidate,
    is_listed,
    is_near,
)
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.search import SearchResult, search
from skills_mcp.routing.tokens import tokenize
from skills_mcp.skills.access import EVERYTHING, Access
from skills_mcp.skills.assets import (
    FileContent,
    FilePart,
    Lines,
    find_files,
    read_beginning,
    read_file,
    read_lines,
)
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import files_in_chain, find_in_chain
from skills_mcp.skills.model import Asset, Level, Scope, Skill, SkillPath
from skills_mcp.skills.scoping import EVERYWHERE, Scoping
from skills_mcp.skills.tree import TreeNode, find_node
from skills_mcp.snapshots.changes import Refreshed, SkillChanges, derive_changes
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.snapshot import Snapshot
from skills_mcp.text.rendering import name_some

if TYPE_CHECKING:  # imported when they are used, after the first answer
    from skills_mcp.library.browsing import BrowsedPage, BrowseRequest, Shelf
    from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
    from skills_mcp.library.content_problems import FoundProblems
    from skills_mcp.library.edited_copy import EditedCopy
    from skills_mcp.library.preview import SkillPreview
    from skills_mcp.library.published_skills import PublishedNames, PublishedSkills
    from skills_mcp.library.runs import Runs
    from skills_mcp.library.skill_folder import SkillFolder
    from skills_mcp.library.skill_history import SkillHistory
    from skills_mcp.library.skill_target import (
        SkillReview,
        SkillSuggestion,
        SkillTarget,
    )
    from skills_mcp.library.source_check import SourceCheck
    from skills_mcp.routing.explanation import Explanation
    from skills_mcp.scripts.policy import CommandRequest, EntryRequest, ScriptRequest
    from skills_mcp.scripts.sandbox import Choice
    from skills_mcp.skills.examples import Example
    from skills_mcp.skills.visibility import Listed

logger = logging.getLogger(__name__)

MAX_LISTED_FILES = 200
"""As many files as one answer lists; a narrower pattern finds the others."""

MAX_EXAMPLES = 10
"""As many examples as one answer has."""

# In an error, where file names only help to find the right one.
_MAX_NAMED_ASSETS = 50
_MAX_NAMED_FILES = 20


class SkillLibrary:
    """The skills of all sources, and everything that can be done with them.

    A program builds one with `skills_mcp.build`, calls `sync` (or runs `run` in the
    background), and asks. `close` ends what was started.
    """

    def __init__(
        self,
        *,
        mounts: Mounts,
        current: CurrentSnapshot,
        tracker: Tracker,
        open_runs: "Callable[[], Runs]",
    ) -> None:
        self._mounts = mounts
        self._current = current
        self._tracker = tracker
        self._open_runs = open_runs
        self._runs: list[Runs] = []  # one, which those who see less share
        self._access = EVERYTHING
        # Of each set of skills that is in use; those who see less share it, too.
        self._shelves: WeakKeyDictionary[SkillIndex, Shelf] = WeakKeyDictionary()
        self._names: WeakKeyDictionary[SkillIndex, PublishedNames] = WeakKeyDictionary()

    def seen_by(self, access: Access) -> "SkillLibrary":
        """Return the same library as one caller sees it: with no other skills.

        It is cheap, and its answers follow the refreshes of this one. To
        each method, a skill that the caller may not see is one that does not exist.
        """
        if access == self._access:
            return self
        other = copy(self)
        other._access = access  # noqa: SLF001 - it is one of us
        return other

    def narrow(self, allow: Sequence[str], deny: Sequence[str]) -> "SkillLibrary":
        """Return the same library as if there were no other skills than these.

        Args:
            allow: Patterns of paths or names; none to allow all.
            deny: Patterns of those not to show.
        """
        return self.seen_by(self._access.narrow(tuple(allow), tuple(deny)))

    @property
    def unscoped(self) -> "SkillLibrary":
        """The same library without the scope of a request."""
        return self.seen_by(self._access.unscoped)

    # What is served now

    @property
    def snapshot(self) -> Snapshot:
        """What is served now, as one value that never changes.

        Raises:
            ContentUnavailableError: Nothing has been loaded yet.
        """
        return self._current.snapshot.seen_by(self._access)

    @property
    def is_prepared(self) -> bool:
        """Whether this caller's answers need not wait until they can be routed."""
        if not self.is_ready:
            return True  # what is waited for first is the content
        return self._current.snapshot.is_prepared_for(self._access)

    def prepare(self) -> None:
        """Make what this caller's answers need; soon done, but not on an event loop."""
        self.snapshot.prepare()

    @property
    def listing_key(self) -> bytes:
        """A digest of what a list of the skills shows: paths, names, descriptions.

        A caller has to be told of a change (`watch`) if this has become another one.
        Blocking, the first time after a refresh.
        """
        return self.snapshot.indexes.listing_key if self.is_ready else b""

    @property
    def revision(self) -> str:
        """A digest of all that is served to this caller; empty without content.

        It is another one as soon as a skill has come, gone or changed.
        """
        return self.snapshot.indexes.content_key.hex() if self.is_ready else ""

    @property
    def skills(self) -> Sequence[Skill]:
        """The skills that are offered, in path order; each is read when it is taken."""
        return self.snapshot.index.offered

    @property
    def config(self) -> Config:
        """The configuration in force: the operator's, until there is content."""
        return self._current.config

    @property
    def is_ready(self) -> bool:
        """Whether there is content to answer from."""
        return self._current.is_ready

    @property
    def may_block(self) -> bool:
        """Whether routing may take long: it asks a network, or has a view to make."""
        return self._current.waits_for_network or self._access != EVERYTHING

    @property
    def source_name(self) -> str:
        """The folder or repository, fit for a log; the first of several."""
        return self._mounts.name

    def states(self) -> tuple[SourceState, ...]:
        """Return what is served of each source, and how new it is.  Blocking."""
        return self._current.states(self._access)

    def find_problems(
        self, *, mount: str | None = None, level: Level | None = None, most: int = 500
    ) -> "FoundProblems":
        """Return the problems of the content; none to a caller who sees a part of it.

        They name files, which such a caller may not know of.  Blocking.

        Args:
            mount: Only those of the source that stands there; empty for the top.
            level: Only those of this level.
            most: How many are shown.
        """
        from skills_mcp.library.content_problems import list_problems

        mounted = [(each.mount, each.name) for each in self.states()]
        is_told = self._access.is_unlimited and self.is_ready
        problems = self._current.snapshot.problems if is_told else ()
        return list_problems(problems, mounted, mount=mount, level=level, most=most)

    @property
    def sees_everything(self) -> bool:
        """Whether no skill can be hidden from this caller."""
        return self._access.is_unlimited

    def stored_states(self) -> tuple[SourceState, ...]:
        """Return the same of what is on the disk, without loading it.  Blocking.

        The network is not used.
        """
        return self._current.stored_states()

    def check_sources(self) -> "tuple[SourceCheck, ...]":
        """Ask each source whether it can be read; nothing is fetched.  Blocking."""
        from skills_mcp.library.source_check import check_source

        is_offline = self.config.sync.offline
        mounts = self._mounts.mounts
        return tuple(check_source(each, is_offline=is_offline) for each in mounts)

    @contextmanager
    def edited_copy(self) -> "Iterator[EditedCopy]":
        """Copy what is served, to see what changes of it would do.  Blocking."""
        from skills_mcp.library.edited_copy import EditedCopy

        with TemporaryDirectory(prefix="skills-mcp-") as folder:
            take = self._current.take_unserved
            yield EditedCopy(self.snapshot, Path(folder), take)

    # How new content comes

    def sync(self) -> SyncError | None:
        """Bring the newest content of every source here, and serve it.  Blocking.

        For programs that do this once; a server has `run`.

        Returns:
            What some of the sources could not do. They are served as they were.

        Raises:
            SyncError: There is no content at all, or the only source has failed.
        """
        return self._current.sync().error

    def sync_or_keep(self) -> SyncError | None:
        """Sync; where that fails, serve what an earlier sync has left.  Blocking.

        Returns:
            What failed. `is_ready` says whether there is anything to serve.
        """
        try:
            return self.sync()
        except SyncError as error:
            if kept := self._mounts.open():
                self._current.load(kept)
            return error

    def load_kept(self) -> None:
        """Serve what an earlier sync has left, without the network.  Blocking.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        if kept := self._mounts.open():
            self._current.load(kept)

    def roll_back(self, mount: str, to: str = "") -> SourceState:
        """Go back to an earlier commit, and hold it until `resume`.  Blocking.

        Args:
            mount: Where the source stands; empty for the top.
            to: The commit, or its first digits if its files are on this machine;
                empty for the commit before.

        Returns:
            The commit that every server on this machine serves now.

        Raises:
            SyncError: There is no such repository, or no such commit.
        """
        source = self._find_source(mount)
        if not isinstance(source, RemoteBranch):
            raise SyncError(
                f"{source.name} is a folder, which has no earlier commit. Change its "
                "files, or serve it from a Git repository"
            )
        source.go_back(to, self._current.inspect)
        return self._read_state(mount)

    def require_target(self, mount: str) -> None:
        """Refuse settings by which no skill can be added.

        Raises:
            ConfigError: No source stands there, or `upload.mode` does not fit it.
        """
        from skills_mcp.library.skill_target import require_takes_skills

        require_takes_skills(self._find_mount(mount), self.config.upload.mode)

    def find_target(self, mount: str) -> "SkillTarget":
        """Return where skills go that are added to a source.  Blocking.

        Raises:
            ConfigError: No source stands there.
            SyncError: It is a repository, and nothing of it was fetched yet.
        """
        from skills_mcp.library.skill_target import find_skill_target

        return find_skill_target(self._find_mount(mount))

    def propose_skill(
        self, target: "SkillTarget", suggestion: "SkillSuggestion"
    ) -> "SkillReview":
        """Push a package to a branch of its own for review.  Blocking.

        Args:
            target: Where it goes, in a repository.
            suggestion: What is pushed.

        Raises:
            SyncError: The repository cannot be reached, or refuses it; the message
                says what to do.
        """
        from skills_mcp.content.git.proposal import FolderChange
        from skills_mcp.library.skill_target import SkillReview

        if target.repository is None:
            raise ValueError(f"{target.folder} belongs to no repository")
        change = FolderChange(
            suggestion.folder,
            f"{target.place}/{suggestion.folder.name}".lstrip("/"),
            suggestion.branch,
            suggestion.message,
            suggestion.keep,
            suggestion.timeout_seconds,
        )
        proposal = target.repository.propose(change)
        return SkillReview.of(proposal, target.repository, self.config.web.forges)

    def _find_mount(self, at: str) -> Mount:
        for each in self._mounts.mounts:
            if each.at == at:
                return each
        known = ", ".join(repr(each.at) for each in self._mounts.mounts)
        raise ConfigError(
            f"upload.source: no source stands at {at!r}. Write one of: {known}"
        )

    def sees(self, skill: "Listed") -> bool:
        """Whether this caller would see a skill at its path, and sees what is there.

        The operator's `visibility` does not count: it hides from every caller.
        """
        standing = self._current.snapshot.index.get(skill.path)
        if standing and standing.path == skill.path and not self._access.sees(standing):
            return False  # an identical copy at another path is none of its business
        return self._access.sees(skill)

    def resume(self, mount: str) -> SourceState:
        """End what `roll_back` has begun: follow the repository again.  Blocking.

        Raises:
            SyncError: There is no such repository, or it is not held.
        """
        source = self._find_source(mount)
        if not isinstance(source, RemoteBranch):
            raise SyncError(f"{source.name} is a folder: nothing is held")
        source.follow()
        return self._read_state(mount)

    @property
    def sync_step(self) -> str:
        """What a sync is doing, such as `Reading skills 12,400 of 20,000`; or empty.

        A caller who does not see everything is told no number.
        """
        if self._access == EVERYTHING:
            return self._mounts.doing
        return "Fetching the newest skills" if self._mounts.doing else ""

    @property
    def progress(self) -> Progress:
        """How far reading and indexing have got; another thread changes it."""
        return self._mounts.progress

    async def refresh(self) -> Refreshed:
        """Bring the newest content here; `run` must be running.

        A failure is a result, too, and no exception.
        """
        refreshed = await self._current.refresh(self._access)
        self._tracker.track(
            "refresh",
            mode=refreshed.mode,
            success=refreshed.error is None,
            commit_hash=refreshed.commit,
            files_changed=refreshed.files_changed,
            skills_reindexed=refreshed.skills_reindexed,
        )
        return refreshed

    def may_move(self, push: Push) -> bool:
        """Whether `refresh` could bring something new after this push."""
        return self._mounts.may_move(push)

    async def run(self) -> None:
        """Keep the content fresh until cancelled; it begins when `wake` is called."""
        await self._current.run()

    def wake(self) -> None:
        """Let the background work of `run` begin."""
        self._current.wake()

    async def wait_until_ready(self, timeout_seconds: float) -> None:
        """Return as soon as there is content to answer from.

        Raises:
            ContentUnavailableError: There is none in time, or the sync failed.
        """
        await self._current.wait_until_ready(timeout_seconds)

    async def wait_for_stored(self, timeout_seconds: float) -> None:
        """Return when what is on this machine is served, or there is nothing on it.

        It waits for no network; `is_ready` says whether there is content then.
        """
        await self._current.wait_for_stored(timeout_seconds)

    def wait_for_vectors(self) -> None:
        """Return when embeddings are complete or have failed.  Blocking, for long."""
        self._current.wait_for_vectors()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when other skills are served, on the thread that loads them."""
        self._current.watch(callback)

    def watch_changes(
        self, callback: Callable[[SkillChanges], None]
    ) -> Callable[[], None]:
        """Call back with what has changed for this caller, on the thread that loads it.

        Nothing is told of the first content.

        Returns:
            What ends it.
        """

        def compare(before: Snapshot, after: Snapshot) -> None:
            was, now = before.seen_by(self._access), after.seen_by(self._access)
            changes = derive_changes(was.offered, now.offered)
            if changes != SkillChanges():
                callback(changes)

        return self._current.observe(compare)

    def observe(self, observer: Observer) -> None:
        """Tell an observer of each event of analytics; see `Tracker.observe`."""
        self._tracker.observe(observer)

    def close(self) -> None:
        """End everything that was started: scripts and a running sync."""
        for runs in self._runs:
            runs.close()
        self._current.close()

    # The skill for a task, with all that it inherits

    def route(
        self,
        context: str,
        skill_path: str | None = None,
        known_digest: str | None = None,
        *,
        scoping: Scoping = EVERYWHERE,
    ) -> Match | Ambiguous | NoMatch:
        """Find the skill for a task, or take the one that the caller picked.

        Args:
            context: The task.
            skill_path: The caller's pick, if there was one.
            known_digest: What an earlier answer said; if it is still the same, this
                one says so, and a reply can leave the text out.
            scoping: Which skills to choose from.

        Raises:
            SkillNotFoundError: There is no skill at `skill_path`, or none to choose
                from.
        """
        return self._route(self.snapshot, context, skill_path, known_digest, scoping)

    def route_explained(
        self,
        context: str,
        skill_path: str | None = None,
        known_digest: str | None = None,
        *,
        scoping: Scoping = EVERYWHERE,
    ) -> "tuple[Match | Ambiguous | NoMatch, Explanation]":
        """Find the skill for a task, and explain the answer from the same snapshot.

        Arguments and errors are those of `route`.
        """
        snapshot = self.snapshot
        answer = self._route(snapshot, context, skill_path, known_digest, scoping)
        return answer, _explain(snapshot, context, skill_path, scoping)

    def explain(
        self,
        context: str,
        skill_path: str | None = None,
        *,
        scoping: Scoping = EVERYWHERE,
    ) -> "Explanation":
        """Explain which skill a task matches, and why another skill does not.

        Arguments and errors are those of `route`. The skill at `skill_path` is
        explained, too, even if its score is far behind.
        """
        return _explain(self.snapshot, context, skill_path, scoping)

    def find_skills(self, context: str) -> Sequence[Skill]:
        """Return the skill for a task, or those that are too close to call.

        None if none serves it. It is no event: nothing is given to an agent.
        """
        snapshot = self.snapshot
        matching = snapshot.config.matching
        within = snapshot.narrow(EVERYWHERE)
        match choose(snapshot.matcher, context, matching, within=within):
            case Candidate() as best:
                return [best.skill]
            case Ambiguous(candidates):
                return [each.skill for each in candidates]
            case NoMatch():
                return []

    def tree(self, path: str | None = None) -> TreeNode:
        """Return all skills, or those below a folder.

        Raises:
            SkillNotFoundError: There is nothing at `path`.
        """
        snapshot = self.snapshot
        node = find_node(snapshot.indexes.tree, path or "")
        if node is None:
            raise snapshot.index.not_found(path or "")
        return node

    def list_skills(
        self,
        path: str | None = None,
        *,
        depth: int | None = None,
        cursor: str | None = None,
        max_characters: int | None = None,
    ) -> Listing:
        """Return as much of the tree as fits into a reply.

        Args:
            path: Only what is below this folder.
            depth: How many levels; without it, as many as fit.
            cursor: The `next_cursor` of the part before.
            max_characters: The most characters as JSON; without it,
                `responses.max_characters`.

        Raises:
            SkillNotFoundError: There is nothing at `path`.
            InvalidArgumentsError: The cursor is unknown, or that of another listing.
        """
        snapshot = self.snapshot
        limit = self.config.responses.max_characters
        listing = compose_listing(
            snapshot.indexes.tree,
            path=path or "",
            depth=depth,
            cursor=cursor,
            max_characters=limit if max_characters is None else max_characters,
        )
        if listing is None:
            raise snapshot.index.not_found(path or "")
        return listing

    def core_skills(self) -> tuple[SkillPath, ...]:
        """Return the paths of the skills that say `alwaysApply`, in path order."""
        return tuple(row.path for row in self.snapshot.index.listed if row.always_apply)

    def read_asset(self, skill_path: str, file: str) -> ServedFile:
        """Read a declared file of a skill or of its ancestors.  Blocking.

        Raises:
            SkillNotFoundError: There is no such skill.
            FileError: The file cannot be handed out; the subclass says why.
        """
        snapshot = self.snapshot
        skill = snapshot.index.require(skill_path)
        parse_relative(file)
        located = find_in_chain(snapshot.index, skill, file)
        if located is None:
            known = files_in_chain(snapshot.index, skill)
            raise UndeclaredFileError(
                f"{skill.path} has no file {file!r}. It has: "
                f"{name_some(known, _MAX_NAMED_ASSETS) or 'none at all'}."
            )
        limit = snapshot.config.assets.max_size_bytes
        listed = located.entry.file  # as the disk spells it
        kind = located.entry.type if isinstance(located.entry, Asset) else "script"
        served = ServedFile(
            skill_path=skill.path,
            file=listed,
            type=kind,
            content=read_file(located.owner, listed, max_bytes=limit),
            resolved_from=located.source,
            provenance=derive_place(snapshot.content, located.owner, listed),
        )
        self._tracker.track(
            "asset_served",
            skill_path=skill.path,
            file=served.file,
            asset_type=kind,
            is_inherited=located.source is not None,
            size_bytes=len(served.content.data),
            content_commit=served.provenance.commit,
        )
        return served

    def report(self, skill_path: str, *, useful: bool, comment: str | None) -> None:
        """Record whether a skill helped.

        The path need not exist: a skill that has been removed was read, too.

        Raises:
            SkillDisabledError: The operator does not offer the skill.
        """
        snapshot = self.snapshot if self.is_ready else None
        if snapshot:
            _refuse_hidden(snapshot, skill_path)
        path, commit = _find_read(snapshot, skill_path)
        # Hosts keep the log, so it has no words of an agent. Those belong to the
        # event, which the operator controls.
        named = "an unknown skill" if isinstance(path, Text) else path
        logger.info("Feedback for %s: %s", named, "useful" if useful else "not useful")
        self._tracker.track(
            "skill_feedback",
            skill_path=path,
            useful=useful,
            comment=comment,
            content_commit=commit,
        )

    # Skills by their names, and their files

    def search(
        self, query: str, *, limit: int | None = None, scoping: Scoping = EVERYWHERE
    ) -> SearchResult:
        """Return the skills that fit a query best.

        Raises:
            InvalidArgumentsError: The query is empty.
            SkillNotFoundError: There is none where to search.
        """
        if not query.strip():
            raise InvalidArgumentsError(
                "query: is empty. Describe the task, or a name."
            )
        snapshot = self.snapshot
        rules = snapshot.config.search
        found = search(
            query,
            snapshot.indexes.skills,
            snapshot.indexes.names,
            snapshot.ranked,
            limit=limit or rules.limit,
            threshold=rules.threshold,
            within=snapshot.narrow(scoping),
        )
        if not found.hits:
            commit = snapshot.content.commit
            # A search lists all that shares a word with it, so that nothing is near.
            self._miss(query, NoMatch(), commit)
        return found

    def browse(self, request: "BrowseRequest") -> "BrowsedPage":
        """Return a page of the skills that a person asks for.  Blocking.

        It is no event: nothing is given to an agent, and no task has missed.

        Raises:
            InvalidArgumentsError: The cursor is that of another request, or of another
                state of the skills.
        """
        from skills_mcp.library.browsing import Shelf, browse

        snapshot = self.snapshot
        shelf = self._shelves.get(snapshot.index)
        if shelf is None:
            shelf = self._shelves[snapshot.index] = Shelf(snapshot)
        return browse(snapshot, shelf, request)

    def preview(self, name: str) -> "SkillPreview":
        """Return a skill as a person looks at it.  Blocking.

        It is no event: nothing is given to an agent.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        from skills_mcp.library.preview import compose_preview

        snapshot = self.snapshot
        return compose_preview(snapshot, snapshot.index.resolve(name))

    def read_history(self, name: str) -> "SkillHistory":
        """Return the commits that changed a skill or a rule above it.  Blocking.

        It is no event. The first call after a new commit asks the remote.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        from skills_mcp.library.skill_history import read_history

        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        return read_history(snapshot, skill, sees_everything=self.sees_everything)

    def read_raw(self, name: str) -> str:
        """Return the Markdown file of a skill as its author wrote it.  Blocking.

        It is no event.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            FileError: The file is gone or too large; the subclass says which.
        """
        from skills_mcp.library.preview import read_raw

        snapshot = self.snapshot
        limit = snapshot.config.assets.max_size_bytes
        return read_raw(snapshot.index.resolve(name), max_bytes=limit)

    def preview_file(self, name: str, file: str) -> FileContent:
        """Return the whole of a file of a skill, for a person.  Blocking.

        It is no event. The largest file is the one that `get_asset` returns.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            FileError: The file cannot be handed out; the subclass says why.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        owner, _, found = _find_owner(snapshot, skill, file)
        limit = snapshot.config.assets.max_size_bytes
        return read_file(owner, found, max_bytes=limit)

    def load_skill(self, name: str, *, known_digest: str | None = None) -> LoadedSkill:
        """Return a skill by its path or name.

        Args:
            name: A path, or a name that only one skill has.
            known_digest: What an earlier load said; if nothing has changed since,
                the answer is a reminder without the text.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        loaded = load_answer(snapshot.content, snapshot.index, skill, known_digest)
        return self._track_load(loaded)

    def load_main(self, path: str) -> LoadedSkill:
        """Return the `SKILL.md` of a skill as it is published.  Blocking.

        It is the same event as `load_skill`.

        Raises:
            SkillDisabledError: The operator does not offer it.
            SkillNotFoundError: There is no such skill.
        """
        snapshot = self.snapshot
        skill = snapshot.index.require(path)
        loaded = load_answer(snapshot.content, snapshot.index, skill, None)
        main = self._publish(snapshot).compose(skill)
        return self._track_load(replace(loaded, instructions=main.text))

    def publish(self) -> "PublishedSkills":
        """Return the skills of one state as folders with unique names.  Blocking.

        It is no event: nothing is given to an agent.
        """
        return self._publish(self.snapshot)

    def open_folder(self, name: str) -> "SkillFolder":
        """Return a skill's text and files, for a list or a search.

        It is no event: nothing is given to an agent.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        from skills_mcp.library.skill_folder import open_folder

        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.assets.max_size_bytes
        return open_folder(snapshot.index, skill, max_bytes=limit)

    def find_files(
        self, name: str, *, pattern: str = "**/*", contains: str = ""
    ) -> FoundFiles:
        """Return the files of a skill that fit.  Blocking.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.assets.max_size_bytes
        found = find_files(
            skill, pattern=pattern, contains=contains, max_file_bytes=limit
        )
        files = tuple(islice(found, MAX_LISTED_FILES + 1))
        return FoundFiles(
            skill,
            files[:MAX_LISTED_FILES],
            truncated=len(files) > MAX_LISTED_FILES,
            digest=derive_digest(snapshot.index, skill),
            provenance=derive_place(snapshot.content, skill),
        )

    def load_examples(
        self, name: str, query: str, top_k: int, *, max_characters: int | None = None
    ) -> ServedExamples:
        """Return the examples of a skill that fit a query best.  Blocking.

        A file that cannot be read costs the caller none of the others.

        Args:
            name: A path, or a name that only one skill has.
            query: The task; where nothing fits it, the first examples are returned.
            top_k: How many, 1 to `MAX_EXAMPLES`; what is beyond counts as the nearest.
            max_characters: Of the reply; without it, `responses.max_characters`.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        from skills_mcp.skills.examples import (
            LoadedExamples,
            choose_examples,
            cut_examples,
            derive_examples,
            read_examples,
        )

        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.files.max_bytes
        read, notes = read_examples(skill, max_bytes=limit, max_files=MAX_LISTED_FILES)
        examples = (*read, *derive_examples(skill.examples))
        most = max(1, min(top_k, MAX_EXAMPLES))
        chosen = choose_examples(examples, query, tokenize, most=most)
        most_characters = max_characters or snapshot.config.responses.max_characters
        room = most_characters * 3 // 4  # titles need some
        shown = tuple(cut_examples(chosen, max_bytes=min(limit, room)))
        place = derive_place(snapshot.content, skill)
        for each in shown:
            self._track_example(skill, each.example, place.commit)
        loaded = LoadedExamples(skill, shown, len(examples), notes)
        return ServedExamples(loaded, place)

    def read_file(
        self,
        name: str,
        file: str,
        lines: Lines | None = None,
        *,
        max_bytes: int | None = None,
    ) -> ReadFile:
        """Return a file of a skill, or of a skill that it inherits from.  Blocking.

        Args:
            name: A path, or a name that only one skill has.
            file: As the skill lists it.
            lines: Only these; without them, the beginning.
            max_bytes: The most to return, where it is less than `files.max_bytes`.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            FileError: The file cannot be handed out; the subclass says why.
            InvalidArgumentsError: The file has no such lines.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        owner, source, file = _find_owner(snapshot, skill, file)
        config = snapshot.config
        limit = min(config.files.max_bytes, max_bytes or config.files.max_bytes)
        part = _read_part(owner, file, lines, limit, config.assets.max_size_bytes)
        place = derive_place(snapshot.content, owner, file)
        self._tracker.track(
            "asset_served",
            skill_path=skill.path,
            file=file,
            asset_type="file",
            is_inherited=source is not None,
            size_bytes=len(part.content.data),
            content_commit=place.commit,
        )
        return ReadFile(
            skill=skill,
            file=file,
            part=part,
            next_line=part.next_line(
                max_file_bytes=snapshot.config.assets.max_size_bytes
            ),
            is_line_cut=part.is_line_cut,
            resolved_from=source,
            provenance=place,
        )

    def compose_catalog(
        self,
        style: "CatalogStyle" = "skills_context",
        *,
        scope: Scope | None = None,
        max_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> "SkillCatalog":
        """Choose the skills to list in a system prompt; its `text` is the list.

        Args:
            style: The form of the list.
            scope: Only these skills.
            max_entries: The most skills; without it, `catalog.max_entries`.
            max_bytes: The most bytes of the text; without it, `catalog.max_bytes`.
        """
        from skills_mcp.library.catalog import RENDERERS, build_catalog

        limits = self.config.catalog
        return build_catalog(
            self.snapshot.index,
            render=RENDERERS[style],
            scope=scope,
            max_entries=max_entries or limits.max_entries,
            max_bytes=max_bytes or limits.max_bytes,
        )

    # What may be run

    async def run_script(self, request: "ScriptRequest") -> RanScript:
        """Run a script that a skill declares, if the rules allow it.

        Raises:
            SkillsError: The script may not run, or cannot; the subclass says why.
        """
        return await self._require_runs().run_script(self.snapshot, request)

    async def run_command(self, request: "CommandRequest | EntryRequest") -> RanScript:
        """Run a program, or a skill's entry, in a private copy of the skill's folder.

        Raises:
            SkillsError: The command may not run, or cannot; the subclass says why.
        """
        return await self._require_runs().run_command(self.snapshot, request)

    def choose_sandbox(self) -> "Choice | None":
        """Return the sandbox that scripts would get; None if scripts are off."""
        return self._require_runs().choose_sandbox(self.config.scripts)

    def _require_runs(self) -> "Runs":
        """Return what runs scripts, which is opened for the first of them."""
        if not self._runs:
            self._runs.append(self._open_runs())
        return self._runs[0]

    def _find_source(self, mount: str) -> ContentSource:
        for each in self._mounts.mounts:
            if each.at == mount:
                return each.source
        raise SyncError(f"no source stands at {mount!r}")

    def _read_state(self, mount: str) -> SourceState:
        return next(each for each in self.stored_states() if each.mount == mount)

    def _route(
        self,
        snapshot: Snapshot,
        context: str,
        skill_path: str | None,
        known_digest: str | None,
        scoping: Scoping,
    ) -> Match | Ambiguous | NoMatch:
        if skill_path is not None:
            return self._pick(snapshot, context, skill_path, known_digest, scoping)
        within = snapshot.narrow(scoping)
        matching = snapshot.config.matching
        commit = snapshot.content.commit
        match choose(snapshot.matcher, context, matching, within=within):
            case NoMatch() as decision:
                self._miss(context, decision, commit)
                return decision
            case Ambiguous(candidates) as decision:
                self._tracker.track(
                    "ambiguous",
                    context=context,
                    candidates=[each.skill.path for each in candidates],
                    matched_keywords=[each.matched_keywords for each in candidates],
                    content_commit=commit,
                )
                return decision
            case Candidate() as best:
                match = guide(snapshot.content, snapshot.index, best, known_digest)
                return self._serve(context, match, was_ambiguous=False)

    def _pick(
        self,
        snapshot: Snapshot,
        context: str,
        skill_path: str,
        known_digest: str | None,
        scoping: Scoping,
    ) -> Match:
        """Serve a skill that the caller chose, with its own score, even a low one."""
        skill = snapshot.index.require(skill_path)
        alone = snapshot.narrow(Scoping(below=skill.path))
        own = find_candidate(snapshot.matcher, context, skill, alone)
        within = snapshot.narrow(scoping)  # as when it was asked first
        matching = snapshot.config.matching
        decision = choose(snapshot.matcher, context, matching, within=within)
        match = guide(snapshot.content, snapshot.index, own, known_digest)
        return self._serve(
            context,
            match,
            was_ambiguous=is_listed(skill, decision),
            was_picked=True,
            was_near=is_near(skill, decision),
        )

    def _miss(self, context: str, decision: NoMatch, commit: str | None) -> None:
        found: dict[str, Any] = {"near": [each.skill.path for each in decision.near]}
        if decision.near:
            found["near_score"] = float(decision.near[0].score)
        self._tracker.track("no_match", context=context, content_commit=commit, **found)

    def _serve(
        self,
        context: str,
        match: Match,
        *,
        was_ambiguous: bool,
        was_picked: bool = False,
        was_near: bool = False,
    ) -> Match:
        self._tracker.track(
            "skill_served",
            context=context,
            skill_path=match.skill.path,
            score=float(match.score),
            matched_keywords=match.matched_keywords,
            was_ambiguous=was_ambiguous,
            unchanged=match.is_known,
            content_commit=match.provenance.commit,
            **({"was_picked": True} if was_picked else {}),
            **({"was_near": True} if was_near else {}),
        )
        return match

    def _track_load(self, loaded: LoadedSkill) -> LoadedSkill:
        self._tracker.track(
            "skill_served",
            context="",
            skill_path=loaded.skill.path,
            score=1.0,
            matched_keywords=(),
            was_ambiguous=False,
            unchanged=loaded.is_known,
            was_picked=True,
            content_commit=loaded.provenance.commit,
        )
        return loaded

    def _publish(self, snapshot: Snapshot) -> "PublishedSkills":
        from skills_mcp.library.published_skills import PublishedNames, PublishedSkills

        known = self._names.get(snapshot.index)
        if known is None:
            known = self._names[snapshot.index] = PublishedNames(snapshot.index)
        return PublishedSkills(snapshot, known)

    def _track_example(
        self, skill: Skill, example: "Example", commit: str | None
    ) -> None:
        if example.file is None:
            return  # a task of the frontmatter is no file
        self._tracker.track(
            "asset_served",
            skill_path=skill.path,
            file=example.file,
            asset_type="example",
            is_inherited=False,
            size_bytes=len(example.text.encode()),
            content_commit=commit,
        )


def _explain(
    snapshot: Snapshot, context: str, skill_path: str | None, scoping: Scoping
) -> "Explanation":
    from skills_mcp.routing.explanation import explain

    asked = snapshot.index.require(skill_path) if skill_path else None
    return explain(
        snapshot.matcher,
        context,
        snapshot.config.matching,
        skill=asked,
        within=snapshot.narrow(scoping),
    )


def _find_read(snapshot: Snapshot | None, skill_path: str) -> tuple[str, str | None]:
    """Return the skill and its commit; `skill_path` may be any text."""
    skill = snapshot.index.get(skill_path) if snapshot else None
    if snapshot is None or skill is None:
        return Text(skill_path), None
    return skill.path, derive_place(snapshot.content, skill).commit


def _refuse_hidden(snapshot: Snapshot, skill_path: str) -> None:
    if snapshot.index.get(skill_path) is None:
        error = snapshot.index.not_found(skill_path)
        if isinstance(error, SkillDisabledError):
            raise error


def _read_part(
    owner: Skill, file: str, lines: Lines | None, limit: int, longest: int
) -> FilePart:
    if lines is None:
        return read_beginning(owner, file, max_bytes=limit)
    return read_lines(owner, file, lines, max_bytes=limit, max_file_bytes=longest)


def _find_owner(
    snapshot: Snapshot, skill: Skill, file: str
) -> tuple[Skill, SkillPath | None, str]:
    """Find the skill that owns a file, its own files first, and the file's name."""
    parse_relative(file)
    if own := find_name(skill.files, file):
        return skill, None, own
    located = find_in_chain(snapshot.index, skill, file)
    if located is not None:
        return located.owner, located.source, located.entry.file
    inside = [each for each in skill.files if each.startswith(f"{file}/")]
    listed = name_some(inside or list(skill.files), _MAX_NAMED_FILES)
    raise UndeclaredFileError(
        f"{skill.path} has no file {file!r}. "
        f"{'That folder' if inside else 'It'} has: {listed or 'none at all'}. "
        "find_skill_files lists all of them."
    )
