"""The use cases of SkillHub (000 §3) over the same skills: search, load, read.

They see every skill, whatever its format: a name, or the path where names repeat.
"""

from itertools import islice

from skills_mcp.analytics.tracker import Tracker
from skills_mcp.config import Config
from skills_mcp.errors import InvalidArgumentsError, UndeclaredFileError
from skills_mcp.files.safe_path import find_name, parse_relative
from skills_mcp.library.answers import (
    FoundFiles,
    LoadedSkill,
    ReadFile,
    ServedExamples,
    derive_digest,
    load_answer,
)
from skills_mcp.library.provenance import derive_place
from skills_mcp.routing.search import Found, search
from skills_mcp.routing.tokens import tokenize
from skills_mcp.skills.examples import (
    Example,
    LoadedExamples,
    choose_examples,
    cut_examples,
    derive_examples,
    read_examples,
)
from skills_mcp.skills.inheritance import find_in_chain
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.reading import (
    FilePart,
    Lines,
    find_files,
    read_beginning,
    read_lines,
)
from skills_mcp.skills.scoping import EVERYWHERE, Scoping, narrow
from skills_mcp.snapshots.shelf import Shelf
from skills_mcp.snapshots.snapshot import Snapshot

MAX_LISTED_FILES = 200
"""As many as one answer lists (003); the rest is found by a narrower pattern."""

MAX_EXAMPLES = 10
"""As many as one answer has (003)."""

_MAX_NAMED_FILES = 20  # in an error, where they only help to find the right one


class PackageLibrary:
    """Search, load and read skills by their names."""

    def __init__(self, shelf: Shelf, tracker: Tracker) -> None:
        self._shelf = shelf
        self._tracker = tracker

    def search(
        self, query: str, *, limit: int | None = None, scoping: Scoping = EVERYWHERE
    ) -> Found:
        """Return the skills that fit a query best (000 §3.2, 002 §5.5).

        Raises:
            InvalidArgumentsError: The query is empty.
            SkillNotFoundError: There is none where to search.
        """
        if not query.strip():
            raise InvalidArgumentsError(
                "query: is empty. Describe the task, or a name."
            )
        snapshot = self._shelf.snapshot
        rules = snapshot.config.search
        found = search(
            query,
            snapshot.index.offered,
            snapshot.indexes.names,
            snapshot.ranked,
            limit=limit or rules.limit,
            threshold=rules.threshold,
            within=narrow(snapshot.index, scoping),
        )
        if not found.hits:
            commit = snapshot.content.commit
            self._tracker.track("no_match", context=query, content_commit=commit)
        return found

    def load(self, name: str, *, known_digest: str | None = None) -> LoadedSkill:
        """Return a skill by its path or name (000 §3.3, 002 §6.2).

        Args:
            name: A path, or a name that only one skill has.
            known_digest: What an earlier load said; if nothing has changed since,
                the answer is a reminder without the text (002 §6.3).

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        snapshot = self._shelf.snapshot
        skill = snapshot.index.resolve(name)
        loaded = load_answer(snapshot.content, snapshot.index, skill, known_digest)
        self._tracker.track(
            "skill_served",
            context="",
            skill_path=skill.path,
            score=1.0,
            matched_keywords=(),
            was_ambiguous=False,
            unchanged=loaded.is_known,
            content_commit=loaded.provenance.commit,
        )
        return loaded

    def find_files(
        self, name: str, *, pattern: str = "**/*", contains: str = ""
    ) -> FoundFiles:
        """Return the files of a skill that fit (003).  Blocking.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        snapshot = self._shelf.snapshot
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

    def load_examples(self, name: str, query: str, top_k: int) -> ServedExamples:
        """Return the examples of a skill that fit a query best (003).  Blocking.

        A file that cannot be read costs the caller none of the others.

        Args:
            name: A path, or a name that only one skill has.
            query: The task; where nothing fits it, the first examples are returned.
            top_k: How many, 1 to `MAX_EXAMPLES`; what is beyond counts as the nearest.

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
        """
        snapshot = self._shelf.snapshot
        skill = snapshot.index.resolve(name)
        limit = snapshot.config.files.max_bytes
        read, notes = read_examples(skill, max_bytes=limit, max_files=MAX_LISTED_FILES)
        examples = (*read, *derive_examples(skill.examples))
        most = max(1, min(top_k, MAX_EXAMPLES))
        chosen = choose_examples(examples, query, tokenize, most=most)
        shown = tuple(cut_examples(chosen, max_bytes=limit))
        place = derive_place(snapshot.content, skill)
        for each in shown:
            self._track_example(skill, each.example, place.commit)
        loaded = LoadedExamples(skill, shown, len(examples), notes)
        return ServedExamples(loaded, place)

    def read_file(self, name: str, file: str, lines: Lines | None = None) -> ReadFile:
        """Return a file of a skill, or of a skill that it inherits from.  Blocking.

        Args:
            name: A path, or a name that only one skill has.
            file: As the skill lists it.
            lines: Only these (003); without, the beginning (000 §3.4).

        Raises:
            SkillsError: No skill, several, or a hidden one; the subclass says which.
            FileError: The file cannot be handed out; the subclass says why.
            InvalidArgumentsError: The file has no such lines.
        """
        snapshot = self._shelf.snapshot
        skill = snapshot.index.resolve(name)
        owner, source, file = _find_owner(snapshot, skill, file)
        part = _read_part(owner, file, lines, snapshot.config)
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

    def _track_example(
        self, skill: Skill, example: Example, commit: str | None
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


def _read_part(
    owner: Skill, file: str, lines: Lines | None, config: Config
) -> FilePart:
    limit = config.files.max_bytes
    if lines is None:
        return read_beginning(owner, file, max_bytes=limit)
    longest = config.assets.max_size_bytes
    return read_lines(owner, file, lines, max_bytes=limit, max_file_bytes=longest)


def _find_owner(
    snapshot: Snapshot, skill: Skill, file: str
) -> tuple[Skill, SkillPath | None, str]:
    """Find whose file it is, the skill's own first, and what it is called there."""
    parse_relative(file)
    if own := find_name(skill.files, file):
        return skill, None, own
    located = find_in_chain(snapshot.index, skill, file)
    if located is not None:
        return located.owner, located.source, located.entry.file
    inside = [each for each in skill.files if each.startswith(f"{file}/")]
    listed = ", ".join((inside or list(skill.files))[:_MAX_NAMED_FILES])
    raise UndeclaredFileError(
        f"{skill.path} has no file {file!r}. "
        f"{'That folder' if inside else 'It'} has: {listed or 'none at all'}. "
        "find_skill_files lists all of them."
    )
