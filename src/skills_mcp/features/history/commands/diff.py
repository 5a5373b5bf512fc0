"""Show what changes for agents between two commits, as Markdown.

COMMITS are two branches, tags or commits with .. between them; one may be left out, and
is the commit that is served.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any

import click

from skills_mcp.bootstrap import Options, build, opened_baseline
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import code_span, print_json, progress_bar, sync_and_load
from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.commands.test import tabulate_answers
from skills_mcp.features.authoring.evaluation import AnswerChange, diff_outcomes, evaluate_snapshot
from skills_mcp.features.authoring.prompts import Prompt, collect_evals, collect_examples
from skills_mcp.library import RemoteBranch, Snapshot
from skills_mcp.skills.composition import Composition
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import INDEX, ROOT
from skills_mcp.text.rendering import count_noun

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
    """Compare two states of the same content.  Blocking.

    A rule that many skills inherit is one change, with the number of the skills that it
    reaches. Drafts count as absent: no agent gets them.
    """
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


_TILDES = re.compile("~+")

_ABBREVIATED = re.compile(r"[0-9a-f]{7,39}")


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp diff v1.. --skills-dir .",
        "skills-mcp diff 1a2b3c4..5d6e7f8 --patch --repo https://github.com/acme/skills.git",
        "skills-mcp diff ..next",
    ),
)
@click.argument("commits", metavar="COMMITS")
@click.option("--patch", "has_patch", is_flag=True, help="Show the changed lines, too.")
@json_option
@content_options()
def command(*, commits: str, has_patch: bool, as_json: bool, **values: Any) -> None:
    old, new = _parse_range(commits)
    options, environment = read_options(**values)
    if not (options.skills_dir or options.repo):
        raise click.UsageError("diff needs --skills-dir or --repo.")
    with ExitStack() as stack, progress_bar("Trying") as on_progress:
        before, after = (_open(stack, options, environment, name) for name in (old, new))
        diff = diff_snapshots(before, after, on_progress)
    if as_json:
        print_json(_render_json(diff, has_patch=has_patch))
        return
    for line in _render(diff, old, new, has_patch=has_patch):
        click.echo(line)


def _parse_range(commits: str) -> tuple[str, str]:
    old, dots, new = commits.partition("..")
    if not dots or not (old or new) or new.startswith("."):
        raise click.UsageError(
            f"COMMITS is {commits!r}. Write two commits with .. between them, such as v1..v2; "
            "one of them may be left out."
        )
    return old, new


def _open(
    stack: ExitStack, options: Options, environment: Mapping[str, str], name: str
) -> Snapshot:
    if not name:
        return sync_and_load(build(options, environment).library)
    if not options.skills_dir and _ABBREVIATED.fullmatch(name):
        name = _resolve(options, environment, name)
    return stack.enter_context(opened_baseline(options, environment, name)).view().snapshot


def _resolve(options: Options, environment: Mapping[str, str], name: str) -> str:
    """The full id of a commit; a branch or a tag may have such a name, too."""
    followed = sync_and_load(build(replace(options, pin=""), environment).library)
    part = followed.content.parts[0]
    source, limit = part.mount.source, followed.config.web.history
    if isinstance(source, RemoteBranch) and part.checkout.revision and limit:
        return source.history.resolve(part.checkout.revision, name, limit)
    return name


def _render_json(diff: SkillDiff, *, has_patch: bool) -> dict[str, Any]:
    return {
        "added": [_render_skill(skill) for skill in diff.added],
        "removed": [_render_skill(skill) for skill in diff.removed],
        "changed": [_render_change(each, has_patch=has_patch) for each in diff.changed],
        "changed_texts": diff.changed_texts,
        "tasks": diff.tasks,
        "answers": [
            {"query": each.query, "before": list(each.before), "after": list(each.after)}
            for each in diff.answers
        ],
    }


def _render_skill(skill: Skill) -> dict[str, str]:
    return {"skill_path": skill.path, "description": skill.description}


def _render_change(change: TextChange, *, has_patch: bool) -> dict[str, Any]:
    data = {"skill_path": change.path, "reached": change.reached}
    return data | {"patch": list(change.lines)} if has_patch else data


def _render(diff: SkillDiff, old: str, new: str, *, has_patch: bool) -> Iterator[str]:
    names = (code_span(name) if name else "the served commit" for name in (old, new))
    yield f"## Skills from {' to '.join(names)}"
    yield ""
    if not (diff.added or diff.removed or diff.changed or diff.answers):
        yield f"Nothing changes for agents; {count_noun(diff.tasks, 'task')} get the same skills."
        return
    yield from _list_skills("Added", diff.added)
    yield from _list_skills("Removed", diff.removed)
    if diff.changed:
        yield f"### Changed texts ({count_noun(diff.changed_texts, 'skill')})"
        yield ""
        yield from (line for each in diff.changed for line in _list_change(each, has_patch))
        yield ""
    if not diff.tasks:
        yield "No skill has an example task, so no answer was compared."
        return
    yield f"### {count_noun(len(diff.answers), 'task')} of {diff.tasks:,} with another skill"
    if diff.answers:
        yield ""
        yield from tabulate_answers(diff.answers, "Before", "After")


def _list_skills(title: str, skills: tuple[Skill, ...]) -> Iterator[str]:
    if skills:
        yield f"### {title} ({len(skills)})"
        yield ""
        for skill in skills:
            about = f": {code_span(skill.description)}" if skill.description else ""
            yield f"- {code_span(skill.path)}{about}"
        yield ""


def _list_change(change: TextChange, has_patch: bool) -> Iterator[str]:  # noqa: FBT001
    counts = "".join(f" {sign}{_count(change, sign)}" for sign in "+-") if change.lines else ""
    lines = f":{counts} lines" if counts else ": other parts"
    reached = f", in {count_noun(change.reached, 'more skill')}" if change.reached else ""
    yield f"- {code_span(change.path)}{lines}{reached}"
    if has_patch and change.lines:
        longest = max(map(len, _TILDES.findall("\n".join(change.lines))), default=0)
        fence = "~" * max(3, longest + 1)
        yield from (f"  {line}" for line in (f"{fence}diff", *change.lines, fence))


def _count(change: TextChange, sign: str) -> int:
    return sum(line.startswith(sign) for line in change.lines)
