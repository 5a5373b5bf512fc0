"""The skills of all sources: views for reading, and operations on the sources.

Rule: tools, commands and programs use these two classes only. A view has one snapshot,
so no answer mixes two commits; a refresh replaces the snapshot in one assignment.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from skills_mcp import errors
from skills_mcp.config import Config
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Push
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.refresher import Refresher
from skills_mcp.content.source import Content, ContentSource, SourceState
from skills_mcp.events.privacy import UserText
from skills_mcp.events.tracker import Tracker
from skills_mcp.files.paths import find_composed_name, parse_relative
from skills_mcp.files.user_folders import find_project_folder
from skills_mcp.library.answers import (
    FoundFiles,
    LoadedSkill,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    ServedExamples,
    ServedFile,
    build_loaded_skill,
    build_match,
    count_served_tokens,
    derive_file_provenance,
    read_plugin_files,
)
from skills_mcp.library.listing import Listing, compose_listing
from skills_mcp.library.source_health import (
    SourceCheck,
    check_source,
    find_not_served,
    redact_state,
)
from skills_mcp.routing.decision import (
    Ambiguous,
    Decision,
    NoMatch,
    answered_candidates,
    is_ambiguous_candidate,
    is_near_miss,
    is_within_margin,
    score_and_decide,
    score_picked_skill,
)
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.search import SearchResult, search_skills
from skills_mcp.routing.tokenizer import tokenize
from skills_mcp.scripts.policy import CommandRequest, EntryRequest, ScriptRequest
from skills_mcp.skills.access import EVERYTHING, Access, Principal
from skills_mcp.skills.composition import Composition, join_compositions
from skills_mcp.skills.inheritance import LocatedEntry, files_in_lineage, find_in_lineage
from skills_mcp.skills.model import Asset, Problem, Scope, Skill, SkillPath
from skills_mcp.skills.plugin_files import quote_plugin_file
from skills_mcp.skills.skill_files import (
    FileContent,
    LineRange,
    find_skill_files,
    read_head,
    read_line_range,
    read_skill_file,
    resolve_host_path,
)
from skills_mcp.skills.skill_index import NO_FILTER, SkillFilter, SkillRow
from skills_mcp.skills.skill_parser import SKILL_MD, has_program_suffix
from skills_mcp.skills.tree_node import TreeNode, find_node
from skills_mcp.snapshots.current import CurrentSnapshot
from skills_mcp.snapshots.skill_snapshot import (
    Refreshed,
    SkillChanges,
    Snapshot,
    derive_changes,
    derive_loss,
    find_new_errors,
)
from skills_mcp.text.rendering import join_names

if TYPE_CHECKING:  # not imported for the first answer
    from skills_mcp.library.catalog import CatalogStyle, SkillCatalog
    from skills_mcp.library.project import Comparison, Project
    from skills_mcp.library.runs import Runs
    from skills_mcp.library.skill_folder import SkillFolder, SkillPreview
    from skills_mcp.library.source_edits import WorkingCopy
    from skills_mcp.routing.answer_explanation import Explanation

logger = logging.getLogger(__name__)

FIRST_CONTENT_SECONDS = 55.0
"""A clone of a large repository over a slow line takes about this long.

Hosts wait at least as long for a tool, and the message says what to do.
"""

NO_SKILLS_YET = (
    "There are no skills yet. Call again in a moment, or ask the operator: their log has "
    "the reason."
)
"""For callers with grants: the reason may name what is hidden from them."""

MAX_LISTED_FILES = 200
"""Limit of files in one answer; a narrower pattern finds the others."""

DEFAULT_LINES = 200  # 003
"""Of a file, where only the first one is named."""

DEFAULT_EXAMPLES = 3  # 003
MAX_EXAMPLES = 10

MAX_SERVED_PATHS = 20
"""Skills that one session is reminded of: more have no room in a reminder."""

_MAX_COMPARED = 100
"""Skills that are compared with a project: to read what each inherits takes time."""

# In an error, where file names only help to find the right one.
_MAX_NAMED_ASSETS = 50
_MAX_NAMED_FILES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryView:
    """The visible skills of one caller and one snapshot; others do not exist."""

    library: "SkillLibrary"
    access: Access
    served: Snapshot | None
    """The snapshot, with the skills that the caller may not see; None without content."""
    project: "Project | None" = None
    """The project that the caller works on, where it can be seen."""

    def renew(self) -> "LibraryView":
        """The same caller's view of the newest snapshot."""
        return self.library.view(self.access, self.project)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot, limited to the caller's access.

        Raises:
            ContentUnavailableError: Nothing has been loaded yet.
        """
        return self._require_served().seen_by(self.access)

    def _require_served(self) -> Snapshot:
        if self.served is None:
            raise errors.ContentUnavailableError("No skills have been loaded yet.")
        return self.served

    @property
    def config(self) -> Config:
        """Configuration in force: the operator's, until there is content."""
        return self.served.config if self.served else self.library.config

    @property
    def revision(self) -> str:
        """Digest of all content visible to the caller; empty without content."""
        return self.snapshot.indexes.content_key.hex() if self.served else ""

    @property
    def sync_step(self) -> str:
        """Progress of a sync, without numbers for a limited caller; or empty."""
        doing = self.library.mounts.doing
        return "Fetching the newest skills" if doing and self.access != EVERYTHING else doing

    def states(self) -> tuple[SourceState, ...]:
        """Commit, age and last error of each source visible to the caller.  Blocking."""
        states = self.library.derive_states(self.served)
        if self.access == EVERYTHING:
            return states
        mounts = (self.snapshot.shown_mounts if self.served else None) or ()
        return tuple(redact_state(state) for state in states if state.mount in mounts)

    def list_problems(self) -> tuple[Problem, ...]:
        """Problems of the files that this caller may know of; none for a limited one."""
        if self.served is None or not self.access.is_unlimited:
            return ()
        hidden = [*self._find_hidden_drafts()]
        table_files = self.served.offered.table.files() if hidden else ()
        files = {table_files[number] for number in hidden}
        return tuple(problem for problem in self.served.problems if problem.file not in files)

    @property
    def sees_everything(self) -> bool:
        """Whether no skill is hidden from this caller, neither by grants nor as a draft."""
        return self.access.is_unlimited and next(self._find_hidden_drafts(), None) is None

    def _find_hidden_drafts(self) -> Iterator[int]:
        drafts = self.served.index.draft_rows if self.served else {}
        return (number for number, row in drafts.items() if not self.access.sees(row))

    def sees(self, skill: SkillRow) -> bool:
        """Whether this caller may see a skill and the one served at its path.

        The operator's `visibility` does not count: it hides from every caller.
        """
        standing = self._require_served().index.get(skill.path)
        if standing and standing.path == skill.path and not self.access.sees(standing):
            return False  # an identical copy at another path is none of its business
        return self.access.sees(skill)

    # The skill for a task, with all that it inherits

    def route(
        self,
        context: str,
        skill_path: str | None = None,
        known_digest: str | None = None,
        *,
        scoping: SkillFilter = NO_FILTER,
    ) -> Match | Ambiguous | NoMatch:
        """Find the skill for a task, or serve the caller's pick, by path or unique name.

        With an unchanged `known_digest`, `is_known` is set and a reply can omit the
        text.

        Raises:
            AmbiguousNameError: Several skills have this name.
            SkillNotFoundError: There is no skill at `skill_path`, or no candidate.
        """
        snapshot = self.snapshot
        if skill_path is not None:
            return self._route_pick(snapshot, context, skill_path, known_digest, scoping)
        commit = snapshot.content.commit
        match self._decide(snapshot, context, scoping)[0]:
            case NoMatch() as decision:
                self._track_miss(context, decision, commit)
                return decision
            case Ambiguous(candidates) as decision:
                self.library.tracker.track(
                    "ambiguous",
                    context=context,
                    candidates=[candidate.skill.path for candidate in candidates],
                    matched_keywords=[candidate.matched_keywords for candidate in candidates],
                    content_commit=commit,
                )
                return decision
            case Candidate() as best:
                composed = snapshot.compose(best.skill)
                if best.also:
                    composed = join_compositions(composed, snapshot.compose(best.also.skill))
                composed = self._compare_project(composed)
                match = build_match(snapshot.content, composed, best, known_digest)
                self._track_skill(match, context)
                if best.also:  # a task with two intents counts as two
                    self._track_skill(replace(match, skill=best.also.skill), context)
                return match

    def decide(self, context: str) -> Decision:
        """Decide as `route` does, without a text and an event."""
        snapshot = self.snapshot
        decision = self._decide(snapshot, context, NO_FILTER)[0]
        if not isinstance(decision, Candidate):
            return decision
        return replace(decision, applies=self._find_misfit(snapshot, decision.skill.path))

    def _decide(
        self, snapshot: Snapshot, context: str, scoping: SkillFilter
    ) -> tuple[Decision, SkillFilter]:
        """Decide; of skills that are too close to call, those that fit the project win.

        Returns:
            The decision, and the filter with which it was made.
        """
        matching = snapshot.config.matching
        decide = partial(score_and_decide, snapshot.matcher, context)
        decision = decide(matching, within=snapshot.narrow(scoping))
        project = self.project
        if project is None or not isinstance(decision, Ambiguous):
            return decision, scoping

        read_once = cache(project.read_files)

        def compare(found: Iterable[Candidate]) -> "dict[SkillPath, list[Comparison]]":
            parts = ((c.skill.path, snapshot.index.contributors(c.skill)) for c in found)
            return {path: project.compare(skills, read_once) for path, skills in parts}

        compared = compare(decision.candidates)
        if not any(compared.values()):
            return decision, scoping
        # Of skills with declared keywords, more may be as close than are listed.
        wide = matching.model_copy(update={"max_results": _MAX_COMPARED})
        best, *others = answered_candidates(decide(wide, within=snapshot.narrow(scoping)))
        compared |= compare(each for each in others if is_within_margin(best, each, matching))
        misfits = {path for path, each in compared.items() if not all(c.fits for c in each)}
        if misfits and any(compared[path] for path in compared.keys() - misfits):
            scoping = replace(scoping, without=frozenset(misfits))
            decision = decide(matching, within=snapshot.narrow(scoping))
        if isinstance(decision, Ambiguous):
            found = decision.candidates
            named = (replace(c, applies=self._find_misfit(snapshot, c.skill.path)) for c in found)
            decision = replace(decision, candidates=tuple(named))
        return decision, scoping

    def _find_misfit(self, snapshot: Snapshot, path: SkillPath) -> str:
        """Mismatch of the project and the versions that a skill and its ancestors apply to."""
        skills = snapshot.index.contributors(snapshot.index.require(path))
        return self.project.describe_misfits(skills) if self.project else ""

    def _compose(self, snapshot: Snapshot, skill: Skill) -> Composition:
        return self._compare_project(snapshot.compose(skill))

    def _compare_project(self, composed: Composition) -> Composition:
        """Begin the text with a line about a project of other versions."""
        line = self.project.describe_misfits(composed.parts) if self.project else ""
        return composed.with_misfit(line)

    def explain(
        self,
        context: str,
        skill_path: str | None = None,
        *,
        scoping: SkillFilter = NO_FILTER,
    ) -> "Explanation":
        """Explain the routing; the skill of `skill_path`, a path or a name, is always included.

        Raises:
            AmbiguousNameError: Several skills have this name.
            SkillNotFoundError: There is no such skill, or no candidate.
        """
        from skills_mcp.routing.answer_explanation import explain_decision  # late: start-up

        snapshot = self.snapshot
        skill = snapshot.index.resolve(skill_path) if skill_path else None
        if self.project:
            _, scoping = self._decide(snapshot, context, scoping)
        explanation = explain_decision(
            snapshot.matcher,
            context,
            snapshot.config.matching,
            skill=None if skill and skill.path in scoping.without else skill,
            within=snapshot.narrow(scoping),
        )
        left_out = sorted(scoping.without)
        notes = (f"{path} is left out: {self._find_misfit(snapshot, path)}" for path in left_out)
        return replace(explanation, notes=(*notes, *explanation.notes))

    def tree(self, path: str | None = None) -> TreeNode:
        """Tree of all skills, or of a folder.

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
        """Page of the tree; see `compose_listing`.

        Raises:
            SkillNotFoundError: There is nothing at `path`.
            InvalidArgumentsError: The cursor is unknown, or of another listing.
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
        return tuple(row.path for row in self.snapshot.index.listed if row.always_apply)

    def read_asset(self, skill_path: str, file: str) -> ServedFile:
        """Read a declared file of a skill or an ancestor.  Blocking.

        Raises:
            SkillNotFoundError: There is no such skill.
            FileError: The file cannot be read; see the subclass.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(skill_path)
        source = None
        if named := _find_plugin_file(snapshot, skill, file):
            owner, inside = named
            kind = "script" if has_program_suffix(inside) else "reference"
        else:
            located = _locate_declared(snapshot, skill, file)
            owner, source = located.owner, located.source
            inside = located.entry.file  # as the disk spells it
            kind = located.entry.type if isinstance(located.entry, Asset) else "script"
        limit = snapshot.config.assets.max_size_bytes
        served = ServedFile(
            skill_path=skill.path,
            file=quote_plugin_file(inside) if named else inside,
            type=kind,
            content=read_skill_file(owner, inside, max_bytes=limit),
            resolved_from=source,
            provenance=derive_file_provenance(snapshot.content, owner, inside),
        )
        about = {"asset_type": kind, "is_inherited": source is not None}
        size_bytes = len(served.content.data)
        self._track_file(skill, served.file, served.provenance, **about, size_bytes=size_bytes)
        return served

    def report(self, skill_path: str, *, useful: bool, comment: str | None) -> None:
        """Record feedback on a skill, also on a removed one: it may have been read.

        Raises:
            AmbiguousNameError: Several skills have this name.
            SkillDisabledError: The operator hides the skill.
        """
        path, commit = _find_reported(self.snapshot if self.served else None, skill_path)
        # Hosts keep the log, so it has no words of an agent. Those belong to the
        # event, which the operator controls.
        named = "an unknown skill" if isinstance(path, UserText) else path
        logger.info("Feedback for %s: %s", named, "useful" if useful else "not useful")
        self.library.tracker.track(
            "skill_feedback",
            skill_path=path,
            useful=useful,
            comment=comment,
            content_commit=commit,
        )

    def search(
        self, query: str, *, limit: int | None = None, scoping: SkillFilter = NO_FILTER
    ) -> SearchResult:
        """Search skills, best first.

        Raises:
            InvalidArgumentsError: The query is empty.
            SkillNotFoundError: There is no skill in the scope.
        """
        if not query.strip():
            raise errors.InvalidArgumentsError("query: is empty. Describe the task, or a name.")
        snapshot = self.snapshot
        rules = snapshot.config.search
        found = search_skills(
            query,
            snapshot.indexes.skills,
            snapshot.indexes.names,
            snapshot.ranked,
            limit=limit or rules.limit,
            threshold=rules.threshold,
            within=snapshot.narrow(scoping),
        )
        if not found.hits:
            self._track_miss(query, NoMatch(), snapshot.content.commit)
        return found

    def preview(self, name: str) -> "SkillPreview":
        """Preview of a skill for people; no event.  Blocking.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        from skills_mcp.library.skill_folder import compose_preview

        snapshot = self.snapshot
        try:
            return compose_preview(snapshot, snapshot.index.resolve(name))
        except errors.SkillNotFoundError as error:
            raise self._find_cause(name) or error from None

    def _find_cause(self, name: str) -> errors.SkillNotFoundError | None:
        """The problem by which a skill is not served, for those who see all problems."""
        problems = self.list_problems()
        files = {f"{name}.md", f"{name}/{SKILL_MD}"}
        broken = (p for p in problems if p.level == "error" and p.file in files)
        for found in broken:
            hint = found.hint[:1].upper() + found.hint[1:]
            return errors.SkillNotFoundError(
                f"{found.file}:{found.line} {found.reason}, so it is not served. {hint}."
            )
        return None

    def read_raw(self, name: str) -> str:
        """Markdown file of a skill as written; no event.  Blocking.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
            FileError: The file is gone or too large; see the subclass.
        """
        from skills_mcp.library.skill_folder import read_markdown

        snapshot = self.snapshot
        limit = snapshot.config.assets.max_size_bytes
        return read_markdown(snapshot.index.resolve(name), max_bytes=limit)

    def preview_file(self, name: str, file: str) -> FileContent:
        """Whole file of a skill, for people; no event.  Blocking.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
            FileError: The file cannot be read; see the subclass.
        """
        snapshot = self.snapshot
        owner, _, found = _find_owner(snapshot, snapshot.index.resolve(name), file)
        limit = snapshot.config.assets.max_size_bytes
        return read_skill_file(owner, found, max_bytes=limit)

    def load_skill(
        self, name: str, *, known_digest: str | None = None, as_file: bool = False
    ) -> LoadedSkill:
        """Load a skill by path or unambiguous name.

        `as_file` gives the published `SKILL.md` as instructions; this blocks.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        composed = self._compose(snapshot, skill)
        loaded = build_loaded_skill(snapshot.content, snapshot.index, composed, known_digest)
        if as_file:
            from skills_mcp.library.skill_folder import publish_skills

            text = publish_skills(snapshot).compose(skill).text
            loaded = replace(loaded, instructions=text)
        self._track_skill(loaded, was_picked=True)
        return loaded

    def open_folder(self, name: str) -> "SkillFolder":
        """Text and files of a skill, for listing or searching; no event.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        from skills_mcp.library.skill_folder import open_skill_folder

        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.assets.max_size_bytes
        return open_skill_folder(snapshot.index, skill, max_bytes=limit)

    def find_files(self, name: str, *, pattern: str = "**/*", contains: str = "") -> FoundFiles:
        """Files of a skill by pattern and content.  Blocking.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.assets.max_size_bytes
        found = find_skill_files(skill, pattern=pattern, contains=contains, max_file_bytes=limit)
        files = tuple(islice(found, MAX_LISTED_FILES + 1))
        composed = self._compose(snapshot, skill)
        return FoundFiles(
            skill,
            files[:MAX_LISTED_FILES],
            truncated=len(files) > MAX_LISTED_FILES,
            digest=composed.digest,
            provenance=derive_file_provenance(snapshot.content, skill),
        )

    def load_examples(
        self, name: str, query: str, top_k: int, *, max_characters: int | None = None
    ) -> ServedExamples:
        """Best-fitting examples of a skill; unreadable files are skipped.  Blocking.

        `top_k` is clamped to 1 … `MAX_EXAMPLES`. Without a fit, the first examples.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
        """
        from skills_mcp.skills.skill_examples import (
            LoadedExamples,
            examples_from_tasks,
            rank_examples,
            read_examples,
            truncate_examples,
        )

        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.files.max_bytes
        read, notes = read_examples(skill, max_bytes=limit, max_files=MAX_LISTED_FILES)
        examples = (*read, *examples_from_tasks(skill.examples))
        count = max(1, min(top_k, MAX_EXAMPLES))
        chosen = rank_examples(examples, query, tokenize, limit=count)
        character_limit = max_characters or snapshot.config.responses.max_characters
        budget = character_limit * 3 // 4  # titles need some
        served = tuple(truncate_examples(chosen, max_bytes=min(limit, budget)))
        provenance = derive_file_provenance(snapshot.content, skill)
        for example in (fitting.example for fitting in served):
            if example.file is not None:  # a task of the frontmatter is no file
                about = {"asset_type": "example", "is_inherited": False}
                size_bytes = len(example.text.encode())
                self._track_file(skill, example.file, provenance, **about, size_bytes=size_bytes)
        loaded = LoadedExamples(skill, served, len(examples), notes)
        return ServedExamples(loaded, provenance)

    def read_file(
        self,
        name: str,
        file: str,
        lines: LineRange | None = None,
        *,
        max_bytes: int | None = None,
    ) -> ReadFile:
        """Read a file of a skill or an ancestor, up to `files.max_bytes`.  Blocking.

        Raises:
            SkillsError: No, several or a hidden skill; see the subclass.
            FileError: The file cannot be read; see the subclass.
            InvalidArgumentsError: The file has no such lines.
        """
        snapshot = self.snapshot
        skill = snapshot.index.resolve(name)
        owner, source, file = _find_owner(snapshot, skill, file)
        config = snapshot.config
        limit = min(config.files.max_bytes, max_bytes or config.files.max_bytes)
        max_file_bytes = config.assets.max_size_bytes
        part = (
            read_line_range(owner, file, lines, max_bytes=limit, max_file_bytes=max_file_bytes)
            if lines
            else read_head(owner, file, max_bytes=limit)
        )
        provenance = derive_file_provenance(snapshot.content, owner, file)
        if owner.path == skill.path and owner.directory != skill.directory:
            file = quote_plugin_file(file)
        size_bytes = len(part.content.data)
        about = {"asset_type": "file", "is_inherited": source is not None}
        self._track_file(skill, file, provenance, **about, size_bytes=size_bytes)
        return ReadFile(
            skill=skill,
            file=file,
            part=part,
            next_line=part.next_line(max_file_bytes=max_file_bytes),
            is_line_cut=part.is_line_cut,
            resolved_from=source,
            provenance=provenance,
        )

    def compose_catalog(
        self,
        style: "CatalogStyle" = "skills_context",
        *,
        scope: Scope | None = None,
        max_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> "SkillCatalog":
        """Skills for a system prompt; limits default to `catalog`."""
        from skills_mcp.library.catalog import RENDERERS, select_for_prompt

        limits = self.config.catalog
        return select_for_prompt(
            self.snapshot.index,
            render=RENDERERS[style],
            scope=scope,
            max_entries=max_entries or limits.max_entries,
            max_bytes=max_bytes or limits.max_bytes,
        )

    async def run(self, request: ScriptRequest | CommandRequest | EntryRequest) -> RanScript:
        """Run a declared script, a program, or a skill's entry, subject to the policy.

        Raises:
            SkillsError: It is refused or fails to start; see the subclass.
        """
        runs = self.library.runs
        if isinstance(request, ScriptRequest):
            return await runs.run_script(self.snapshot, request)
        return await runs.run_command(self.snapshot, request)

    def _route_pick(
        self,
        snapshot: Snapshot,
        context: str,
        skill_path: str,
        known_digest: str | None,
        scoping: SkillFilter,
    ) -> Match:
        skill = snapshot.index.resolve(skill_path)
        own = Candidate(skill, Fraction(0), ())  # of a draft that no task finds
        if snapshot.index.find(skill.path) is not None:
            alone = snapshot.narrow(SkillFilter(below=skill.path))
            own = score_picked_skill(snapshot.matcher, context, skill, alone)
        decision, _ = self._decide(snapshot, context, scoping)  # as when it was asked first
        match = build_match(snapshot.content, self._compose(snapshot, skill), own, known_digest)
        self._track_skill(
            match,
            context,
            was_ambiguous=is_ambiguous_candidate(skill, decision),
            was_picked=True,
            was_near=is_near_miss(skill, decision),
        )
        return match

    def _track_miss(self, context: str, decision: NoMatch, commit: str | None) -> None:
        found: dict[str, Any] = {"near": [candidate.skill.path for candidate in decision.near]}
        if decision.near:
            found["near_score"] = decision.near[0].score
        self.library.tracker.track("no_match", context=context, content_commit=commit, **found)

    def _track_skill(self, served: Match | LoadedSkill, context: str = "", **facts: bool) -> None:
        """Track a served skill; of `facts`, only true ones, and `was_ambiguous`."""
        found = served if isinstance(served, Match) else None
        self.library.remember_served(served.skill.path)
        self.library.tracker.track(
            "skill_served",
            context=context,
            skill_path=served.skill.path,
            score=found.score if found else 1.0,
            matched_keywords=found.matched_keywords if found else (),
            was_ambiguous=facts.pop("was_ambiguous", False),
            unchanged=served.is_known,
            tokens=count_served_tokens(served),
            content_commit=served.provenance.commit,
            **{name: True for name, holds in facts.items() if holds},
        )

    def _track_file(self, skill: Skill, file: str, provenance: Provenance, **about: object) -> None:
        commit = provenance.commit
        self.library.tracker.track(
            "asset_served", skill_path=skill.path, file=file, content_commit=commit, **about
        )


class SkillLibrary:
    """The skills of all sources: `refresher` keeps `current` fresh from `mounts`."""

    def __init__(
        self,
        *,
        mounts: Mounts,
        current: CurrentSnapshot,
        tracker: Tracker,
        open_runs: "Callable[..., Runs]",
        refresher: Refresher | None = None,
    ) -> None:
        self.early: SkillLibrary | None = None
        """The same sources at the version of a rollout to groups."""
        self.mounts = mounts
        self.current = current
        self.tracker = tracker
        self.refresher = refresher or Refresher(
            mounts,
            current.load,
            current.inspect,
            lambda: mounts.interval_minutes(self.config.refresh),
            is_loaded=lambda: self.is_ready,
        )
        self._open_runs = open_runs
        self._served: dict[SkillPath, None] = {}
        self._serving = Lock()
        self.project: Project | None = None
        """The project at hand, of a server for one client alone."""

    def view(self, access: Access = EVERYTHING, project: "Project | None" = None) -> LibraryView:
        """View of the newest snapshot for a caller; cheap."""
        return LibraryView(
            library=self,
            access=access,
            served=self.current.latest,
            project=project or self.project,
        )

    def serving(self, principal: Principal) -> "SkillLibrary":
        """The library for a caller: that of a rollout, as soon as it has content."""
        early = self.early
        return early if early and early.is_ready and principal.is_early else self

    def may_move(self, push: Push) -> bool:
        """Whether a push could have changed any source."""
        early = self.early
        return self.mounts.may_move(push) or bool(early and early.mounts.may_move(push))

    @property
    def config(self) -> Config:
        """Configuration in force: the operator's, until there is content."""
        return self.current.config

    @property
    def is_ready(self) -> bool:
        return self.current.latest is not None

    @property
    def served_paths(self) -> tuple[SkillPath, ...]:
        """Skills whose text was served here, the last one last."""
        return tuple(self._served)

    def remember_served(self, path: SkillPath) -> None:
        with self._serving:  # calls are answered on several threads
            self._served.pop(path, None)
            self._served[path] = None
            if len(self._served) > MAX_SERVED_PATHS:
                del self._served[next(iter(self._served))]

    def forget_served(self) -> None:
        with self._serving:
            self._served.clear()

    @cached_property
    def runs(self) -> "Runs":
        return self._open_runs()

    def for_window(self, environment: Mapping[str, str], folder: Path | None) -> "SkillLibrary":
        """The same skills, with runs of their own for another process.

        Args:
            environment: What scripts may see.
            folder: The working directory of that process; None if it is gone.
        """
        library = SkillLibrary(
            mounts=self.mounts,
            current=self.current,
            tracker=self.tracker,
            open_runs=partial(self._open_runs, environment, folder),
            refresher=self.refresher,
        )
        library.open_project(environment, folder)
        return library

    def open_project(self, environment: Mapping[str, str], folder: Path | None) -> None:
        """Compare skills with a client's project; nothing is read before it is needed.

        Args:
            environment: Of the client; a host may name its project there.
            folder: Its working directory; None if it is gone.
        """
        from skills_mcp.library.project import open_project  # late: start-up

        if folder:
            self.project = open_project(Path(find_project_folder(environment, str(folder))))

    def close_runs(self) -> None:
        """End the scripts that were started here."""
        if "runs" in self.__dict__:
            self.runs.close()

    # How the sources are

    def derive_states(self, served: Snapshot | None) -> tuple[SourceState, ...]:
        """Commit, age and last error of each source.  Blocking."""
        content = served.content if served else None
        left_out = served.state.collection.not_served if served else {}
        counts = [left_out[number] for number, _ in enumerate(content.parts if content else ())]
        own = self._derive_states(content, served.config if served else self.config, counts)
        early = self.early
        others = early.derive_states(early.current.latest) if early else ()
        return own + tuple(state for state in others if state.rollout)

    def stored_states(self) -> tuple[SourceState, ...]:
        """Status of the stored commits, without loading or network.  Blocking."""
        content = self.mounts.open()
        config = self.current.load_config(content)
        limits = config.limits
        parts = content.parts if content else ()
        return self._derive_states(content, config, [find_not_served(p, limits) for p in parts])

    def _derive_states(
        self, content: Content | None, config: Config, not_served: Sequence[int]
    ) -> tuple[SourceState, ...]:
        minutes = self.mounts.interval_minutes(config.refresh)
        states = self.mounts.states(content, minutes * 60 if minutes else None)
        parts = content.parts if content else ()
        found = zip(parts, not_served, strict=True)
        counts = {p.mount.at: count for p, count in found if not p.mount.only}
        # A pinned commit has the mount of its main source.
        losses = {(m.at, m.only): self.current.find_loss(m.source) for m in self.mounts.mounts}
        return tuple(
            replace(
                state,
                not_served=0 if state.pins else counts.get(state.mount, 0),
                loss=state.loss or losses.get((state.mount, state.pins)),
            )
            for state in states
        )

    def check_sources(self) -> tuple[SourceCheck, ...]:
        """Ask all sources concurrently.  Blocking."""
        mounts = self.mounts.mounts
        check = partial(check_source, is_offline=self.config.sync.offline)
        with ThreadPoolExecutor(max(len(mounts), 1), "skills-mcp-check") as executor:
            return tuple(executor.map(check, mounts))

    # How new content comes

    def sync(self, *, allows_removal: bool = False) -> errors.SyncError | None:
        """Fetch and serve the newest content of every source.  Blocking.

        Failed sources keep their previous state; their error is returned.
        `allows_removal` overrules `sync.max_removed`.

        Raises:
            SyncError: There is no content at all, or the only source has failed.
        """
        return self.current.sync(allows_removal=allows_removal).error

    def sync_or_load_stored(self, *, allows_removal: bool = False) -> errors.SyncError | None:
        """Sync; on failure serve the stored content; the failure, if any.  Blocking."""
        try:
            return self.sync(allows_removal=allows_removal)
        except errors.SyncError as error:
            self.load_stored()
            return error

    def load_stored(self) -> None:
        """Serve the stored content, without the network.  Blocking.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        if stored := self.mounts.open():
            self.current.load(stored)

    async def refresh(self, access: Access = EVERYTHING) -> Refreshed:
        """Fetch and serve the newest content; a failure is a result.  Needs the refresher.

        A restricted caller gets the number of changed skills instead of files.
        """
        # As the first act of a process, too, it says what has changed since the last.
        await self.refresher.wait_for_published()
        before = self.view(access)
        error: errors.SkillsError | None = None
        early = self.early if access == EVERYTHING else None
        for library in filter(None, (self, early)):
            try:
                await library.refresher.refresh()
            except errors.SkillsError as failure:
                error = error or failure
        refreshed = await anyio.to_thread.run_sync(self._compare, before, error)
        self.tracker.track(
            "refresh",
            mode=refreshed.mode,
            success=refreshed.error is None,
            commit_hash=refreshed.commit,
            files_changed=refreshed.files_changed,
            skills_reindexed=refreshed.skills_reindexed,
        )
        return refreshed

    def _compare(self, before: LibraryView, error: errors.SkillsError | None) -> Refreshed:
        after = self.view(before.access)
        states, sees_everything = after.states(), after.access == EVERYTHING
        changes, files = SkillChanges(), 0
        if after.served and after.served is not before.served:
            was = before.snapshot.offered if before.served else None
            changes = derive_changes(was, after.snapshot.offered)
            served, now = was.by_path() if was else (), after.snapshot.offered.by_path()
            changes = replace(changes, loss=derive_loss(served, now, time.time()))
            files = len((*changes.added, *changes.changed, *changes.removed))
            if sees_everything:
                old = before.served.content if before.served else None
                files = self.mounts.count_changes(old, after.served.content)
                changes = replace(changes, broken=find_new_errors(before.served, after.served))
        if isinstance(error, errors.SyncError) and not sees_everything:
            # It may be of a source that this caller may not know of.
            absence = None if after.served else errors.ContentUnavailableError(NO_SKILLS_YET)
            error = next((state.error for state in states if state.error), absence)
        repositories = [state for state in states if state.mode == "git"]
        first = next(iter([*repositories, *states]), None)
        return Refreshed(
            mode="git" if repositories else "local",
            commit=first.commit if first else None,
            files_changed=files,
            skills_reindexed=len(after.snapshot.index) if after.served else 0,
            synced_at=first.synced_at if first else None,
            error=error,
            sources=states,
            changes=changes,
        )

    def watch_changes(
        self, callback: Callable[[SkillChanges], None], access: Access = EVERYTHING
    ) -> Callable[[], None]:
        """Call back with changes visible to a caller, on the loading thread.

        The first content is not reported. The result unsubscribes.
        """

        def compare(before: Snapshot, after: Snapshot) -> None:
            was, now = before.seen_by(access), after.seen_by(access)
            changes = derive_changes(was.offered, now.offered)
            if changes != SkillChanges():
                callback(changes)

        return self.current.observe(compare)

    def roll_back(self, mount: str, to: str = "") -> SourceState:
        """Roll back to an earlier commit and hold it until `resume`.  Blocking.

        `to` may be abbreviated for a stored commit; empty for the previous one. It
        applies to every server on this machine.

        Raises:
            SyncError: There is no such repository, or no such commit.
        """
        source = self._find_source(mount)
        if not isinstance(source, RemoteBranch):
            raise errors.SyncError(
                f"{source.name} is a folder, which has no earlier commit. Change its "
                "files, or serve it from a Git repository"
            )
        source.roll_back(to, partial(self.current.inspect, allows_removal=True))
        return self._read_state(mount)

    def resume(self, mount: str) -> SourceState:
        """Undo `roll_back`: follow the repository again.  Blocking.

        Raises:
            SyncError: There is no such repository, or it is not held.
        """
        source = self._find_source(mount)
        if not isinstance(source, RemoteBranch):
            raise errors.SyncError(f"{source.name} is a folder: nothing is held")
        source.resume()
        return self._read_state(mount)

    def _find_source(self, mount: str) -> ContentSource:
        found = self.mounts.find(mount)
        if found is None:
            raise errors.SyncError(f"no source stands at {mount!r}")
        return found.source

    def _read_state(self, mount: str) -> SourceState:
        return next(state for state in self.stored_states() if state.mount == mount)

    @contextmanager
    def edited_copy(self, access: Access = EVERYTHING) -> "Iterator[WorkingCopy]":
        """Working copy of the skills that a caller sees."""
        from skills_mcp.library.source_edits import WorkingCopy  # late: start-up

        with TemporaryDirectory(prefix="skills-mcp-") as folder:
            view, take = self.view(access), self.current.take_unserved
            is_limited = not view.sees_everything
            yield WorkingCopy(view.snapshot, Path(folder), take, is_limited=is_limited)

    def close(self) -> None:
        if self.early:
            self.early.close()
        self.close_runs()
        self.mounts.close()
        self.current.close()


def _find_reported(snapshot: Snapshot | None, skill_path: str) -> tuple[str, str | None]:
    try:
        skill = snapshot.index.resolve(skill_path) if snapshot else None
    except errors.SkillNotFoundError:
        skill = None
    if snapshot and skill:
        return skill.path, derive_file_provenance(snapshot.content, skill).commit
    return UserText(skill_path), None


def _find_plugin_file(snapshot: Snapshot, skill: Skill, file: str) -> tuple[Skill, str] | None:
    """Find a file of its plugin that a skill names: its owner for reading, and its name there."""
    is_so_called = file.startswith(("$", "../"))
    plugin = read_plugin_files(snapshot.content, snapshot.index, skill) if is_so_called else None
    found = plugin.find(file) if plugin else None
    return (plugin.owner, found) if plugin and found else None


def _locate_declared(snapshot: Snapshot, skill: Skill, file: str) -> LocatedEntry:
    file = resolve_host_path(skill, file)
    parse_relative(file)
    if located := find_in_lineage(snapshot.index, skill, file):
        return located
    known = files_in_lineage(snapshot.index, skill)
    raise errors.UndeclaredFileError(
        f"{skill.path} has no file {file!r}. It has: "
        f"{join_names(known, _MAX_NAMED_ASSETS) or 'none'}."
    )


def _find_owner(snapshot: Snapshot, skill: Skill, file: str) -> tuple[Skill, SkillPath | None, str]:
    if named := _find_plugin_file(snapshot, skill, file):
        return named[0], None, named[1]
    file = resolve_host_path(skill, file)
    parse_relative(file)
    if own := find_composed_name(skill.files, file):
        return skill, None, own
    located = find_in_lineage(snapshot.index, skill, file)
    if located is not None:
        return located.owner, located.source, located.entry.file
    inside = [path for path in skill.files if path.startswith(f"{file}/")]
    listed = join_names(inside or list(skill.files), _MAX_NAMED_FILES)
    raise errors.UndeclaredFileError(
        f"{skill.path} has no file {file!r}. "
        f"{'That folder' if inside else 'It'} has: {listed or 'none'}. {errors.FILES_STEP}"
    )
