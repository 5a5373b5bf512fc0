"""Every use case of skills-mcp, free of any protocol.

A request reads as one sentence: the library takes the current snapshot once,
routes or looks up in it, and tells the tracker what it handed out. A refresh
replaces the snapshot in one assignment, so no answer mixes two commits.
"""

import logging

from skills_mcp.analytics.privacy import Text
from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Config
from skills_mcp.content.source import Content
from skills_mcp.errors import SkillDisabledError, UndeclaredFileError
from skills_mcp.files.safe_path import parse_relative
from skills_mcp.library.answers import Guidance, ServedFile, guide
from skills_mcp.library.package_library import PackageLibrary
from skills_mcp.library.provenance import derive_place
from skills_mcp.library.runs import Runs
from skills_mcp.routing.choosing import choose, find_candidate
from skills_mcp.routing.decision import (
    Ambiguous,
    Match,
    NoMatch,
    is_listed,
)
from skills_mcp.routing.explanation import Explanation, explain
from skills_mcp.scripts.audit import AuditFile
from skills_mcp.scripts.runner import ScriptRunner
from skills_mcp.scripts.surroundings import Surroundings
from skills_mcp.skills.assets import read_file
from skills_mcp.skills.inheritance import files_in_chain, find_in_chain
from skills_mcp.skills.model import Asset
from skills_mcp.skills.scoping import EVERYWHERE, Scoping, narrow
from skills_mcp.skills.tree import TreeNode, build_tree, find_node
from skills_mcp.snapshots.refreshed import Refreshed
from skills_mcp.snapshots.shelf import Shelf
from skills_mcp.snapshots.snapshot import Snapshot

logger = logging.getLogger(__name__)

_MAX_NAMED_FILES = 50  # in an error, where they only help to find the right one


class SkillLibrary:
    """The skills of all sources, and all that can be asked of them."""

    def __init__(
        self,
        *,
        shelf: Shelf,
        tracker: Tracker,
        runner: ScriptRunner,
        audit: AuditFile,
        surroundings: Surroundings,
    ) -> None:
        self.shelf = shelf
        """What is served now, and how it is replaced."""
        self._tracker = tracker
        self.packages = PackageLibrary(shelf, tracker)
        """The same skills, by their names."""
        self.runs = Runs(shelf, tracker, runner, audit, surroundings)
        """What may be run of them."""

    @property
    def config(self) -> Config:
        """The configuration in force: the operator's, until there is content."""
        return self.shelf.config

    @property
    def snapshot(self) -> Snapshot:
        """What is served now.

        Raises:
            ContentUnavailableError: Nothing has been loaded yet.
        """
        return self.shelf.snapshot

    @property
    def is_ready(self) -> bool:
        """Whether there is content to answer from."""
        return self.shelf.is_ready

    async def run(self) -> None:
        """Keep the content fresh until cancelled."""
        await self.shelf.run()

    def load(self, content: Content) -> None:
        """Make content what is served (001 §4.6).  Blocking; see `Shelf.load`."""
        self.shelf.load(content)

    def close(self) -> None:
        """End everything that was started: scripts and a running sync."""
        self.runs.close()
        self.shelf.close()

    def route(
        self,
        context: str,
        skill_path: str | None = None,
        known_digest: str | None = None,
        *,
        scoping: Scoping = EVERYWHERE,
    ) -> Guidance | Ambiguous | NoMatch:
        """Find the skill for a task, or take the one that the caller picked (001 §8.1).

        Args:
            context: The task.
            skill_path: The caller's pick, if there was one.
            known_digest: What an earlier answer said; if it is still the same, this
                one says so, and a reply can leave the text out (002 §6.3).
            scoping: Which skills to choose from.

        Raises:
            SkillNotFoundError: There is no skill at `skill_path`, or none to choose
                from.
        """
        snapshot = self.snapshot
        if skill_path is not None:
            return self._pick(snapshot, context, skill_path, known_digest, scoping)
        within = narrow(snapshot.index, scoping)
        matching = snapshot.config.matching
        commit = snapshot.content.commit
        match choose(snapshot.matcher, context, matching, within=within):
            case NoMatch() as decision:
                self._tracker.track("no_match", context=context, content_commit=commit)
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
            case Match(best):
                guidance = guide(snapshot.content, snapshot.index, best, known_digest)
                return self._serve(context, guidance, was_ambiguous=False)

    def explain(
        self,
        context: str,
        skill_path: str | None = None,
        *,
        scoping: Scoping = EVERYWHERE,
    ) -> Explanation:
        """Say why a task gets its answer, and why a skill is not it.

        Args and errors are those of `route`; the skill at `skill_path` is looked into,
        however far behind it is.
        """
        snapshot = self.snapshot
        asked = snapshot.index.require(skill_path) if skill_path else None
        return explain(
            snapshot.matcher,
            context,
            snapshot.config.matching,
            skill=asked,
            within=narrow(snapshot.index, scoping),
        )

    def tree(self, path: str | None = None) -> TreeNode:
        """Return all skills, or those below a folder (001 §8.2).

        Raises:
            SkillNotFoundError: There is nothing at `path`.
        """
        index = self.snapshot.index
        node = find_node(build_tree(index), path or "")
        if node is None:
            raise index.not_found(path or "")
        return node

    def read_asset(self, skill_path: str, file: str) -> ServedFile:
        """Read a declared file of a skill or of its ancestors (001 §8.3).  Blocking.

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
                f"{', '.join(known[:_MAX_NAMED_FILES]) or 'none at all'}."
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
        """Record what a caller thought of a skill (001 §8.5).

        The path need not exist: a skill that has been removed was read, too.

        Raises:
            SkillDisabledError: The operator does not offer the skill.
        """
        snapshot = self.snapshot if self.is_ready else None
        if snapshot:
            _refuse_hidden(snapshot, skill_path)
        path, commit = _find_read(snapshot, skill_path)
        # Hosts keep the log, so no words of an agent: those belong to the event, of
        # which the operator decides.
        named = "an unknown skill" if isinstance(path, Text) else path
        logger.info("Feedback for %s: %s", named, "useful" if useful else "not useful")
        self._tracker.track(
            "skill_feedback",
            skill_path=path,
            useful=useful,
            comment=comment,
            content_commit=commit,
        )

    async def refresh(self) -> Refreshed:
        """Bring the newest content here; failure is a result, too (001 §8.6)."""
        refreshed = await self.shelf.refresh()
        self._tracker.track(
            "refresh",
            mode=refreshed.mode,
            success=refreshed.error is None,
            commit_hash=refreshed.commit,
            files_changed=refreshed.files_changed,
            skills_reindexed=refreshed.skills_reindexed,
        )
        return refreshed

    def _pick(
        self,
        snapshot: Snapshot,
        context: str,
        skill_path: str,
        known_digest: str | None,
        scoping: Scoping,
    ) -> Guidance:
        """Serve a skill that the caller chose; it keeps its score, however low."""
        skill = snapshot.index.require(skill_path)
        alone = narrow(snapshot.index, Scoping(below=skill.path))
        own = find_candidate(snapshot.matcher, context, skill, alone)
        within = narrow(snapshot.index, scoping)  # as when it was asked first
        matching = snapshot.config.matching
        decision = choose(snapshot.matcher, context, matching, within=within)
        guidance = guide(snapshot.content, snapshot.index, own, known_digest)
        return self._serve(context, guidance, was_ambiguous=is_listed(skill, decision))

    def _serve(
        self, context: str, guidance: Guidance, *, was_ambiguous: bool
    ) -> Guidance:
        self._tracker.track(
            "skill_served",
            context=context,
            skill_path=guidance.skill.path,
            score=float(guidance.score),
            matched_keywords=guidance.matched_keywords,
            was_ambiguous=was_ambiguous,
            unchanged=guidance.is_known,
            content_commit=guidance.provenance.commit,
        )
        return guidance


def _find_read(snapshot: Snapshot | None, skill_path: str) -> tuple[str, str | None]:
    """Return which skill was read, and of which commit; any text is possible."""
    skill = snapshot.index.get(skill_path) if snapshot else None
    if snapshot is None or skill is None:
        return Text(skill_path), None
    return skill.path, derive_place(snapshot.content, skill).commit


def _refuse_hidden(snapshot: Snapshot, skill_path: str) -> None:
    if snapshot.index.get(skill_path) is None:
        error = snapshot.index.not_found(skill_path)
        if isinstance(error, SkillDisabledError):
            raise error
