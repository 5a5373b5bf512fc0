"""How long replies are where there is very much: never longer than the limit."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, TextContent

from tests.clients import TOOLS, connected
from tests.packages import write_package
from tests.support import open_library, write, write_skill

LIMIT = 10_000
MANY = 300
LONG = "word " * 150
FOLDERS = {"scripts": ".py", "references": ".md", "templates": ".txt"}

SETTINGS = {
    "toolsets": ["core", "packages"],
    "commands": {"enabled": True},
    "responses": {"max_characters": LIMIT},
    "matching": {"max_results": 100},
    "search": {"limit": 50},
}

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_skill", {"context": "sort parcels by weight"}),
    ("get_skill", {"context": "sort parcels by weight", "explain": True}),
    ("get_skill", {"context": "big package", "skill_path": "big"}),
    ("get_skill", {"context": "zebra", "skill_path": "rules/one"}),
    ("get_skill", {"context": "nothing of this kind at all"}),
    ("get_skill", {"context": "sort", "skill_path": "sort"}),
    ("get_skill", {"context": "sort", "within": "nowhere"}),
    ("get_skill", {f"unknown-{n}" * 99: n for n in range(99)}),
    ("list_skills", {}),
    ("list_skills", {"depth": 1}),
    ("list_skills", {"depth": 100}),
    ("list_skills", {"path": "twins"}),
    ("get_asset", {"skill_path": "big", "file": "no-such-file"}),
    ("get_asset", {"skill_path": "rules/one", "file": "no-such-file"}),
    ("run_script", {"skill_path": "big", "file": "no-such-file", "args": {}}),
    ("report_usage", {"skill_path": "x" * 9_999, "useful": True}),
    ("refresh_skills", {}),
    ("search_skills", {"query": "sort parcels by weight", "limit": 50}),
    ("search_skills", {"query": "twin", "within": "nowhere"}),
    ("load_skill", {"skill_name": "big"}),
    ("load_skill", {"skill_name": "twin"}),
    ("load_skill", {"skill_name": "copy"}),
    ("load_skill", {"skill_name": "rules/one"}),
    ("read_skill_file", {"skill_name": "big", "file_path": "no-such-file"}),
    ("read_skill_file", {"skill_name": "big", "file_path": "scripts"}),
    ("find_skill_files", {"skill_name": "big"}),
    ("load_skill_examples", {"skill_name": "big", "query": "x", "top_k": 10}),
    ("run_skill_command", {"skill_name": "big", "command": "no-such-program"}),
    ("run_skill_entry", {"skill_name": "twin"}),
)
"""One call for each reply that has a list, or an error that names what there is."""


def write_much(root: Path) -> None:
    """Write hundreds of skills, and a package with a thousand files."""
    for number in range(MANY):
        above = f"teams/team-{number % 7}/group-{number % 31}"
        about = f"Sort parcels by weight {number}. {LONG}"
        folder = f"{above}/sort-{number:04}"
        write_package(root, folder, description=about, alwaysApply=True)
        write_package(root, f"copies/{'c' * 99}{number:04}/copy")
        write_package(root, f"twins/{'t' * 99}{number:04}/twin", description=about)
    files = {
        f"{folder}/{'long-' * 20}{number:04}{suffix}": "x"
        for folder, suffix in FOLDERS.items()
        for number in range(MANY)
    }
    examples = {f"examples/{n}.md": f"# Example {n}\n{LONG * 9}" for n in range(30)}
    write_package(root, "big", {**files, **examples}, description="Weigh")
    for file in ("_index", "one"):
        names = [f"assets/{file}-{number}.txt" for number in range(60)]
        declared = [{"file": name, "description": LONG} for name in names]
        write_skill(root, f"rules/{file}.md", keywords=["zebra"], assets=declared)
        for name in names:
            write(root / "rules" / file / name)


def read(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_no_reply_is_longer_than_the_limit(tmp_path: Path) -> None:
    write_much(tmp_path)
    library = open_library(tmp_path, settings=SETTINGS)
    replies: dict[str, str] = {}

    async with connected(library, "auto") as client:
        for name, arguments in CALLS:
            if name == "refresh_skills":
                for number in range(MANY):
                    write_skill(tmp_path, f"news/{'n' * 99}{number}.md")
                    write(tmp_path / f"teams/team-0/broken-{number}.md", "---\nkeywords: [")
            shown = f"{name} {json.dumps(arguments)[:60]}"
            replies[shown] = read(await client.call_tool(name, arguments))
        page = await client.list_resources()

    assert {name for name, _ in CALLS} == {spec.name for spec in TOOLS}
    assert {n: len(text) for n, text in replies.items() if len(text) > LIMIT} == {}
    assert len(page.model_dump_json(by_alias=True)) < LIMIT * 1.1
    assert cut_lists(replies.values()) >= {
        *("files", "scriptFiles", "skills", "assets", "inherited_assets"),
        *("candidates", "core_skills", "added", "broken", "also_at"),
    }


def cut_lists(replies: Iterable[str]) -> set[str]:
    """Return the names of the lists that are shorter than their counts say."""
    cut = set()
    for text in replies:
        data = json.loads(text)
        for each in (data, data.get("file_inventory", {})):
            for key in each.keys() & {f"{name}_count" for name in each}:
                if len(each[name := key.removesuffix("_count")]) < each[key]:
                    cut.add(name)
    return cut
