"""Checks of a served skill: keywords, length, entry and files."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from skills_mcp.features.authoring.validation.markdown import Markdown
from skills_mcp.features.authoring.validation.relations import RelationChecker
from skills_mcp.features.authoring.validation.rules import (
    RuleFinding,
    enumerate_shortly,
)
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import answered_candidates, score_and_decide
from skills_mcp.routing.tokens import fold
from skills_mcp.skills.index import INDEX, ROOT, SkillIndex, derive_parent_path
from skills_mcp.skills.inheritance import compose
from skills_mcp.skills.model import Skill
from skills_mcp.skills.package import has_program_suffix
from skills_mcp.text.rendering import abbreviate_value

MAX_SKILLS = 3000
"""Limit of the quadratic check: each skill is routed against all others."""

MAX_COMPOSED = 100_000
"""Characters: about 25,000 tokens, the cost of one answer."""

_MAX_JOINED = 3
_MAX_LISTED = 1000
_MARKDOWN_SUFFIX = ".md"
_BUILD_ARTEFACTS = frozenset({"__pycache__", "node_modules"})
_KEYWORDS = ("keywords", "tags", "triggers", "metadata")


class ServedSkillChecker:
    """Checks served skills; files in `reported` are not reported again."""

    def __init__(self, snapshot: Snapshot, reported: Collection[Path]) -> None:
        self._snapshot = snapshot
        self._reported = reported
        self._keywords = _SharedKeywords(snapshot.index)
        self._relations = RelationChecker(snapshot.index)

    def check(self, skill: Skill, markdown: Markdown) -> Iterator[RuleFinding]:
        index = self._snapshot.index
        yield from self._keywords.check(skill, markdown.line(*_KEYWORDS))
        if len(index) <= MAX_SKILLS:
            line = markdown.line("keywords", "description")
            yield from _check_findable(self._snapshot, skill, line)
        yield from self._relations.check(markdown)
        yield from _check_length(index, skill)
        yield from _check_entry(skill, markdown.line("entry", "metadata"))
        if skill.inventory is None:
            line = markdown.line("assets", "scripts")
            yield from _check_undeclared(skill, line, self._reported)


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
        reason = f"shares keywords with its siblings: {_join(shared)}"
        hint = "keep each keyword only in the skill that says most about it"
        yield RuleFinding("keyword-shared", reason, hint, line)

    def _shared(self, skill: Skill) -> Iterator[str]:
        parent = derive_parent_path(skill.path)
        for keyword in skill.keywords:
            declaring = self._declared.get((parent, fold(keyword)), [])
            others = [other.path for other in declaring if other is not skill]
            if others:
                yield f"{keyword!r} ({_join(others)})"


def _check_findable(snapshot: Snapshot, skill: Skill, line: int) -> Iterator[RuleFinding]:
    """Route the tasks a skill should win if it can win any.

    Rules for entire folders are exempt: agents get them with the skills below.
    """
    if skill.path == ROOT or skill.path.rsplit("/", 1)[-1] == INDEX:
        return
    winners: dict[str, None] = {}
    for task in _own_tasks(skill):
        decision = score_and_decide(snapshot.matcher, task, snapshot.config.matching)
        paths = [answer.skill.path for answer in answered_candidates(decision)]
        if skill.path in paths:
            return
        winners |= dict.fromkeys(paths[:1])
    reason = "is found by no task, not even by its own name, description or keywords"
    if winners:
        reason += f", which find {_join(tuple(winners))}"
    is_keyword = snapshot.algorithm == "keyword"
    how = "give it keywords" if is_keyword else "describe it in words"
    hint = f"{how} that the other skills do not have"
    yield RuleFinding("never-found", reason, hint, line)


def _own_tasks(skill: Skill) -> Iterable[str]:
    return filter(None, (skill.name, skill.description, " ".join(skill.keywords)))


def _join(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - _MAX_JOINED} more" if len(parts) > _MAX_JOINED else ""
    return ", ".join(parts[:_MAX_JOINED]) + more


def _check_length(index: SkillIndex, skill: Skill) -> Iterator[RuleFinding]:
    length = len(compose(index, skill))
    if length > MAX_COMPOSED:
        chain = index.lineage(skill) if skill.inherit else (skill,)
        longest = max(chain, key=lambda member: len(member.body))
        reason = f"is {length:,} characters long with the rules that it inherits"
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
    found = [
        file
        for file in _list_files(skill.directory)
        if file not in declared and skill.directory / file not in reported
    ]
    if found:
        reason = f"has undeclared files in its folder: {enumerate_shortly(found)}"
        hint = "list them under assets or scripts so that agents can ask for them, "
        hint += "or delete them"
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
    is_notice = name.endswith(_MARKDOWN_SUFFIX) and name.removesuffix(_MARKDOWN_SUFFIX).isupper()
    return not (name.startswith(".") or name in _BUILD_ARTEFACTS or is_notice)
