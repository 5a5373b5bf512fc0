"""Show all skills, as list_skills does."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.commands.status import FAILED
from skills_mcp.cli.options import build_application, content_options, json_option, pager_option
from skills_mcp.cli.terminal import print_json, print_paged, render_problem, sync_and_load, tabulate
from skills_mcp.library import Snapshot, SourceState
from skills_mcp.skills.composition import derive_cost
from skills_mcp.skills.model import Problem
from skills_mcp.skills.tree_node import TreeNode, filter_tree, prune_tree, render_without_children
from skills_mcp.text.rendering import count_noun

_NO_SKILL = (
    "No skill was found: a skill is a Markdown file with frontmatter, or a folder with a SKILL.md. "
    "AGENTS.md, .cursor/rules and the like: `skills-mcp import FOLDER` brings these."
)


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp tree --skills-dir ./skills",
        "skills-mcp tree --depth 2 --tokens",
        "skills-mcp tree --search 'customs form'",
        "skills-mcp tree --problems --json",
    ),
)
@click.option(
    "--depth", metavar="N", type=click.IntRange(min=1), help="Show only this many levels."
)
@click.option(
    "--search",
    metavar="WORDS",
    default="",
    help="Show only skills that have all these words in their path, description or keywords.",
)
@click.option("--tokens", "with_tokens", is_flag=True, help="Show the tokens of each skill's text.")
@json_option
@click.option("--problems", "with_problems", is_flag=True, help="Show the problems of the content.")
@pager_option
@content_options()
def command(
    *,
    depth: int | None,
    search: str,
    with_tokens: bool,
    as_json: bool,
    with_problems: bool,
    is_paged: bool,
    **values: Any,
) -> None:
    library = build_application(**values).library
    snapshot = sync_and_load(library)
    tree = library.view().tree()
    if words := tuple(search.lower().split()):
        tree = filter_tree(tree, partial(_has_words, words=words))
    visible = prune_tree(tree, depth) if depth else tree
    problems = snapshot.problems if with_problems else None
    if as_json:
        print_json(_render(visible, problems))
        return
    summary = _summary(snapshot, library.view().states(), hint=problems is None)
    parts: list[RenderableType] = [
        _branch(visible, with_tokens=with_tokens),
        *_count(tree, search),
        summary,
    ]
    if problems:
        parts += ["", _problems(problems)]
    print_paged(parts, is_paged=is_paged)


def _has_words(node: TreeNode, words: Sequence[str]) -> bool:
    skill = node.skill
    texts = (skill.description, *skill.keywords) if skill else ()
    text = " ".join((node.path, *texts)).lower()
    return skill is not None and all(word in text for word in words)


def _count(tree: TreeNode, search: str) -> Iterator[str]:
    if search.strip():
        found = count_noun(tree.skill_count, "skill")
        yield escape(f"{found} with {search!r} in the path, description or keywords")


def _render(tree: TreeNode, problems: tuple[Problem, ...] | None) -> dict[str, Any]:
    """`tree` as in `list_skills`; `problems` unless they are None."""
    data: dict[str, Any] = {"tree": _render_node(tree)}
    if problems is not None:
        data["problems"] = [render_problem(problem) for problem in problems]
    return data


def _render_node(node: TreeNode) -> dict[str, Any]:
    below = _count_hidden(node)
    return {
        **render_without_children(node),
        **({"skillCount": below} if below else {}),
        **(derive_cost(node.every, node.skill).render() if node.skill else {}),
        "children": [_render_node(child) for child in node.children],
    }


def _count_hidden(node: TreeNode) -> int:
    """Count the skills hidden by `--depth`."""
    visible = 0 if node.skill is None else 1
    return 0 if node.children else node.skill_count - visible


def _branch(node: TreeNode, *, with_tokens: bool) -> Tree:
    branch = Tree(_label(node, with_tokens=with_tokens), guide_style="dim")
    for child in node.children:
        branch.children.append(_branch(child, with_tokens=with_tokens))
    return branch


def _label(node: TreeNode, *, with_tokens: bool) -> str:
    parts = [f"[bold]{escape(node.name)}[/]"]
    if skill := node.skill:
        if with_tokens:
            tokens = derive_cost(node.every, skill).tokens
            parts.append(f"[dim]{tokens.own:,} + {tokens.inherited:,} tokens[/]")
        parts.append(escape(skill.description))
        if skill.keywords:
            parts.append(f"[cyan]{escape(', '.join(skill.keywords))}[/]")
        counts = ((len(skill.assets), "asset"), (len(skill.scripts), "script"))
        parts += [count_noun(number, noun) for number, noun in counts if number]
    if below := _count_hidden(node):
        parts.append(f"[dim]{count_noun(below, 'skill')} below[/]")
    if node.other_places:
        parts.append(f"[dim]also at {escape(', '.join(node.other_places))}[/]")
    return "  ".join(parts)


def _summary(snapshot: Snapshot, states: Sequence[SourceState], *, hint: bool) -> str:
    served = count_noun(len(snapshot.index), "skill")
    found = count_noun(len(snapshot.problems), "problem")
    more = ": see --problems" if snapshot.problems and hint else ""
    where = f"from {count_noun(len(states), 'source')}"
    if len(states) == 1:
        where = f"at {states[0].commit or states[0].name}"
    hidden = snapshot.index.hidden_count
    notes = f", {hidden} hidden by visibility" if hidden else ""
    if copies := snapshot.index.copy_count:
        noun = "identical copy" if copies == 1 else "identical copies"
        notes += f", {copies} {noun}"
    lines = [f"{served} served {where}{notes}, {found}{more}"]
    if len(states) > 1:
        lines += map(_line, states)
    if not (snapshot.index or hidden):
        first = next(iter(snapshot.problems), None)
        lines.append(f"{first}." if first else _NO_SKILL)
    return escape("\n".join(lines))


def _line(state: SourceState) -> str:
    """One line: the location of a source, and its commit."""
    commit = f" at {state.commit}" if state.commit else ""
    failed = f", {FAILED}" if commit else ", not available"
    return f"  {state.mount or 'top'}: {state.name}{commit}{failed if state.error else ''}"


def _problems(problems: Sequence[Problem]) -> Table:
    columns = ("File", "Level", "What is wrong", "What to do")
    rows = [
        (
            problem.file,
            Text(problem.level, style="red" if problem.level == "error" else "yellow"),
            problem.reason,
            problem.hint,
        )
        for problem in problems
    ]
    return tabulate(columns, rows, title="Problems")
