"""Show what changes for agents between two commits, as Markdown.

COMMITS are two branches, tags or commits with .. between them; one may be left out, and
is the commit that is served.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from skills_mcp.bootstrap import Options, build, opened_baseline
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import code_span, print_json, progress_bar, sync_and_load
from skills_mcp.features.authoring.commands.test import tabulate_answers
from skills_mcp.features.history.skill_diff import SkillDiff, TextChange, diff_snapshots
from skills_mcp.library import RemoteBranch, Snapshot
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import count_noun

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
