"""List the commits that changed what agents get of a skill.

PATH is a path or a name, as tree shows it. Rules that it inherits and skills that it
requires count, too.
"""

from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import build_application, content_options, json_option, pager_option
from skills_mcp.cli.terminal import print_json, print_paged, sync_and_load
from skills_mcp.errors import SyncError
from skills_mcp.features.history.source_history import (
    SkillChange,
    SkillHistory,
    read_history,
    read_source_logs,
)
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import count_noun


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp log ui/react/auth --repo .",
        "skills-mcp log ui/react/auth --patch",
    ),
)
@click.argument("name", metavar="PATH")
@click.option("--patch", "has_patch", is_flag=True, help="Show the changed lines, too.")
@json_option
@pager_option
@content_options()
def command(*, name: str, has_patch: bool, as_json: bool, is_paged: bool, **values: Any) -> None:
    library = build_application(is_recorded=False, **values).library
    snapshot = sync_and_load(library)
    view = library.view()
    path = view.preview(name).skill.path
    history = read_history(view, path, read_source_logs(snapshot))
    if history.reason:
        raise SyncError(f"{path}: {history.reason}")
    if as_json:
        print_json(_render_json(path, history, has_patch=has_patch))
        return
    lines = _render(path, history, has_patch=has_patch)
    print_paged([Text("\n".join(lines))], is_paged=is_paged)


def _render_json(path: str, history: SkillHistory, *, has_patch: bool) -> dict[str, Any]:
    return {
        "skill_path": path,
        "owner": history.owner or None,
        "searched_commits": history.searched_commits,
        "is_complete": history.is_complete,
        "commits": [_render_change(each, has_patch=has_patch) for each in history.changes],
    }


def _render_change(change: SkillChange, *, has_patch: bool) -> dict[str, Any]:
    past, review = change.past, change.review
    data = {
        "commit": past.commit,
        "at": past.at.isoformat(),
        "author": past.author,
        "subject": past.subject,
        "url": change.url or None,
        "changed": list(change.parts),
        "signer": change.signer or None,
        "pull_request": review.number if review else None,
        "pull_request_url": change.review_url or None,
        "merged_by": (review.merged_by or None) if review else None,
    }
    return data | {"patch": list(past.lines)} if has_patch else data


def _render(path: str, history: SkillHistory, *, has_patch: bool) -> Iterator[str]:
    last = "" if history.is_complete else "last "
    searched = f"{last}{count_noun(history.searched_commits, 'commit')}"
    yield f"{len(history.changes)} of the {searched} changed what agents get of {path}."
    if history.owner:
        yield f"Owner: {history.owner}"
    for change in history.changes:
        past = change.past
        yield ""
        yield f"{past.commit[:12]}  {past.at.date()}  {past.author}"
        yield f"    {past.subject}"
        yield from (f"    {line}" for line in _list_facts(change))
        if has_patch:
            yield from ("", *(f"    {line}" for line in past.lines))


def _list_facts(change: SkillChange) -> Iterator[str]:
    if review := change.review:
        merged = f", merged by {review.merged_by}" if review.merged_by else ""
        yield f"pull request {review.number}{merged}"
    if change.signer:
        yield f"signed by {change.signer}"
    if change.parts:
        yield f"changed: {', '.join(map(escape_unprintable, change.parts))}"
