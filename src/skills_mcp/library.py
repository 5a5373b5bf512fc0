"""Every use case of skills-mcp, free of any protocol.

A request reads as one sentence: the library takes the current snapshot once,
routes or looks up in it, and tells the tracker what it handed out. A refresh
replaces the snapshot in one assignment, so no answer mixes two commits.
"""

import logging
import time
from collections.abc import Mapping

import anyio
import anyio.to_thread

from skills_mcp.analytics.tracker import Tracker
from skills_mcp.answers import Guidance, RanScript, Refreshed, ServedFile, guide
from skills_mcp.config import Config
from skills_mcp.content.source import Content
from skills_mcp.errors import SkillDisabledError, UndeclaredFileError
from skills_mcp.package_library import PackageLibrary
from skills_mcp.provenance import derive_place
from skills_mcp.routing.choosing import choose, find_candidate
from skills_mcp.routing.decision import (
    Ambiguous,
    Match,
    NoMatch,
    is_listed,
)
from skills_mcp.routing.explanation import Explanation, explain
from skills_mcp.safe_path import parse_relative
from skills_mcp.scripts.permission import Permitted, ScriptRequest, permit
from skills_mcp.scripts.runner import ScriptResult, ScriptRunner
from skills_mcp.shelf import Shelf
from skills_mcp.skills.assets import read_file
from skills_mcp.skills.inheritance import files_in_chain, find_in_chain, find_script
from skills_mcp.skills.model import Asset
from skills_mcp.skills.scoping import EVERYWHERE, Scoping, narrow
from skills_mcp.skills.tree import TreeNode, build_tree, find_node
from skills_mcp.snapshot import Snapshot

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
        environment: Mapping[str, str],
    ) -> None:
        self.shelf = shelf
        """What is served now, and how it is replaced."""
        self._tracker = tracker
        self._runner = runner
        self._environment = environment
        self.packages = PackageLibrary(shelf, tracker, runner, environment)

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
        self._runner.close()
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
            return self._pick(snapshot, context, skill_path, known_digest)
        within = narrow(snapshot.index, scoping)
        matching = snapshot.config.matching
        match choose(snapshot.matcher, context, matching, within=within):
            case NoMatch() as decision:
                self._tracker.track("no_match", context=context)
                return decision
            case Ambiguous() as decision:
                paths = [candidate.skill.path for candidate in decision.candidates]
                self._tracker.track("ambiguous", context=context, candidates=paths)
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
        kind = located.entry.type if isinstance(located.entry, Asset) else "script"
        served = ServedFile(
            skill_path=skill.path,
            file=file,
            type=kind,
            content=read_file(located.owner, file, max_bytes=limit),
            resolved_from=located.source,
            provenance=derive_place(snapshot.content, located.owner, file),
        )
        self._tracker.track(
            "asset_served",
            skill_path=skill.path,
            file=file,
            asset_type=kind,
            is_inherited=located.source is not None,
            size_bytes=len(served.content.data),
        )
        return served

    async def run_script(self, request: ScriptRequest) -> RanScript:
        """Run a declared script, if every rule allows it (001 §8.4).

        Raises:
            SkillsError: Everything that `permit` raises, and `RunnerNotFoundError`.
        """
        snapshot = self.snapshot
        rules = snapshot.config.scripts
        permitted = await anyio.to_thread.run_sync(
            permit, request, snapshot.index, rules, self._environment
        )
        started = time.monotonic()
        try:
            result = await self._runner.run(permitted.command)
        except anyio.get_cancelled_exc_class():
            # It ran, so it is tracked, too (001 §12.2).
            self._track_run(permitted, request, None, time.monotonic() - started)
            raise
        self._track_run(permitted, request, result, result.duration_seconds)
        located = find_script(snapshot.index, permitted.skill, request.file)
        owner = located.owner if located else permitted.skill
        place = derive_place(snapshot.content, owner, request.file)
        return RanScript(result, place)

    def report(self, skill_path: str, *, useful: bool, comment: str | None) -> None:
        """Record what a caller thought of a skill (001 §8.5).

        The path need not exist: a skill that has been removed was read, too.

        Raises:
            SkillDisabledError: The operator does not offer the skill.
        """
        if self.is_ready:
            _refuse_hidden(self.snapshot, skill_path)
        verdict = "useful" if useful else "not useful"
        logger.info("Feedback for %s: %s (%s)", skill_path, verdict, comment or "-")
        self._tracker.track(
            "skill_feedback", skill_path=skill_path, useful=useful, comment=comment
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
    ) -> Guidance:
        """Serve a skill that the caller chose; it keeps its score, however low."""
        skill = snapshot.index.require(skill_path)
        alone = narrow(snapshot.index, Scoping(below=skill.path))
        own = find_candidate(snapshot.matcher, context, skill, alone)
        decision = choose(snapshot.matcher, context, snapshot.config.matching)
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
        )
        return guidance

    def _track_run(
        self,
        permitted: Permitted,
        request: ScriptRequest,
        result: ScriptResult | None,
        duration_seconds: float,
    ) -> None:
        self._tracker.track(
            "script_executed",
            skill_path=permitted.skill.path,
            file=permitted.script.file,
            execution_mode=permitted.script.execution,
            success=result is not None and result.success,
            exit_code=result.exit_code if result is not None else None,
            duration_ms=round(duration_seconds * 1000),
            args_provided=sorted(request.args),
        )


def _refuse_hidden(snapshot: Snapshot, skill_path: str) -> None:
    if snapshot.index.get(skill_path) is None:
        error = snapshot.index.not_found(skill_path)
        if isinstance(error, SkillDisabledError):
            raise error
