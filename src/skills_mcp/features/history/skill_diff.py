"""Difference of two states for agents: composed texts, and the skills of tasks.

Rule: a rule that many skills inherit is one change, with the number of the skills that it
reaches. Drafts count as absent: no agent gets them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import AnswerChange, diff_outcomes, evaluate_snapshot
from skills_mcp.features.authoring.prompts import Prompt, collect_evals, collect_examples
from skills_mcp.library import Snapshot
from skills_mcp.skills.composition import Composition
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import INDEX, ROOT

_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChange:
    """A changed text of a skill, or of rules that others inherit or require."""

    path: str
    lines: tuple[str, ...]
    """Unified diff of its own text; empty if only other parts were added or left out."""
    reached: int
    """Number of other skills with this text in theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDiff:
    added: tuple[Skill, ...]
    removed: tuple[Skill, ...]
    changed: tuple[TextChange, ...]
    changed_texts: int
    """Number of skills in both states whose composed text differs."""
    tasks: int
    """Number of tasks that were routed in both states."""
    answers: tuple[AnswerChange, ...]


def diff_snapshots(
    before: Snapshot, after: Snapshot, on_progress: OnProgress = ignore_progress
) -> SkillDiff:
    """Compare two states of the same content.  Blocking."""
    old, new = _compose_all(before), _compose_all(after)
    differing = [path for path in new if path in old and old[path].guidance != new[path].guidance]
    prompts = _collect_prompts(before, after)
    outcomes = [evaluate_snapshot(prompts, state, on_progress) for state in (before, after)]
    return SkillDiff(
        added=tuple(new[path].parts[-1] for path in new if path not in old),
        removed=tuple(old[path].parts[-1] for path in old if path not in new),
        changed=tuple(_find_changed(old, new, differing)),
        changed_texts=sum(1 for path in differing if not _is_rule(path)),
        tasks=len(prompts),
        answers=tuple(diff_outcomes(*outcomes)),
    )


def _compose_all(snapshot: Snapshot) -> Mapping[str, Composition]:
    shows_drafts = snapshot.config.visibility.drafts
    skills = map(snapshot.index.require, (row.path for row in snapshot.index.listed))
    shown = (skill for skill in skills if shows_drafts or not skill.lifecycle.is_draft)
    return {skill.path: snapshot.compose(skill) for skill in shown}


def _is_rule(path: str) -> bool:
    """Whether this is a text for others to inherit, and no skill."""
    return path.rpartition("/")[2] in {INDEX, ROOT}


def _own_text(composition: Composition) -> str:
    return "\n\n".join(filter(None, (composition.notice, composition.parts[-1].body)))


def _find_changed(
    old: Mapping[str, Composition], new: Mapping[str, Composition], differing: list[str]
) -> Iterator[TextChange]:
    parts = {p: _list_parts(old[p]) | _list_parts(new[p]) for p in differing if not _is_rule(p)}
    own = {path for path in differing if _own_text(old[path]) != _own_text(new[path])}
    moved = set(old.keys() ^ new.keys())
    for path in differing:
        reached = sum(1 for other, found in parts.items() if path in found and other != path)
        if path in own:
            lines = _diff_lines(_own_text(old[path]), _own_text(new[path]))
            yield TextChange(path=path, lines=lines, reached=reached)
        elif not _is_rule(path) and not parts[path] & (own | moved):
            yield TextChange(path=path, lines=(), reached=0)


def _list_parts(composition: Composition) -> set[str]:
    return {str(part.path) for part in composition.parts}


def _diff_lines(old: str, new: str) -> tuple[str, ...]:
    lines = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=_CONTEXT_LINES)
    return tuple(lines)[2:]  # without the names of files


def _collect_prompts(before: Snapshot, after: Snapshot) -> tuple[Prompt, ...]:
    """Example tasks of both states; expectations of the later one win."""
    found: dict[str, Prompt] = {}
    for state in (after, before):
        for prompt in (*collect_examples(state.index), *collect_evals(state.index)[0]):
            found.setdefault(prompt.query, prompt)
    return tuple(found.values())
