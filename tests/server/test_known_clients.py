"""Replies to hosts that would cut a long text or show it badly."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent

from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.replies import KNOWN_CLIENTS
from tests.clients import connected
from tests.server.conftest import branch_of
from tests.support import PROJECT, SKILLS_CONTENT, Upstream, open_library, write

CHAIN_CHARACTERS = 60_000
CLIENTS = tuple(each.name for each in KNOWN_CLIENTS)


def _show_head_and_tail(text: str) -> str:
    """Gemini CLI: the first 8,000 and the last 32,000 characters."""
    return text if len(text) <= 40_000 else text[:8_000] + text[-32_000:]


def _show_start(text: str) -> str:
    """Copilot CLI: 20 KiB, or else the first 500 characters."""
    return text if len(text.encode()) <= 20 * 1024 else text[:500]


def _show_fitting(text: str) -> str:
    """OpenCode: the first 2,000 lines, or 50 KiB, and no part of a line."""
    kept, used = [], 0
    for line in text.split("\n")[:2_000]:
        used += len(line.encode()) + 1
        if used > 50 * 1024:
            break
        kept.append(line)
    return "\n".join(kept)


def _show_tokens(text: str) -> str:
    """Codex in code mode: 10,000 tokens of four bytes, of the escaped text."""
    escaped = json.dumps(text, ensure_ascii=False)
    return text if len(escaped.encode()) <= 40_000 else text[:20_000]


SHOWN: dict[str, Callable[[str], str]] = {
    "codex-mcp-client": _show_tokens,
    "gemini-cli-mcp-client": _show_head_and_tail,
    "opencode": _show_fitting,
    "copilot-cli": _show_start,
}
"""What the model of each host is shown, as it was measured."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    chain = {
        "_root": _write_rules("root", 15_000),
        "ui/_index": _write_rules("ui", 15_000),
        "ui/react": _write_rules("react", 30_000),
        "ui/code": "```text\n" + "a\n" * 9_000 + "```\n",
        "ui/日本": ("規則を守る。" * 8 + "\n\n") * 500,
    }
    for path, text in chain.items():
        header = f"---\ndescription: Rules of {path}\nkeywords: [{path}]\n---\n"
        write(folder / f"{path}.md", header + text)
    return folder


@pytest.fixture
def library(chain: Path) -> SkillLibrary:
    return open_library(chain)


@pytest.fixture(scope="module", params=["auto", "json", "markdown"])
def formatted(request: pytest.FixtureRequest, chain: Path) -> Iterator[SkillLibrary]:
    """A library whose replies have each form in turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLS_MCP_HOME", str(chain.with_name(request.param)))
        yield open_library(chain, settings={"responses": {"format": request.param}})


def _write_rules(name: str, characters: int) -> str:
    lines, size = [f"# Rules of {name}\n"], 0
    while size < characters:
        number = len(lines)
        rule = f'Call "{name}" with `{number}`. ' * 8  # fewer, longer blocks: read often
        lines.append(f"## {name} {number}\n\n- {rule.strip()}\n")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


@pytest.mark.parametrize("path", ["ui/react", "ui/code", "ui/日本"])
@pytest.mark.parametrize("name", CLIENTS)
async def test_all_of_a_long_chain_reaches_the_model_in_order(
    formatted: SkillLibrary, name: str, path: str
) -> None:
    whole = formatted.view().route("", path).content  # type: ignore[union-attr]

    async with connected(formatted, "auto", name=name) as client:
        shown = await _read_all(client, SHOWN[name], path)

    assert len(shown) > 1
    assert "".join(shown) == whole


async def _read_all(client: Client, show: Callable[[str], str], path: str) -> Sequence[str]:
    shown, part = [], 1
    while True:
        asked = {"context": "", "skill_path": path, "part": part}
        result = await client.call_tool("get_skill", asked)
        texts = [show("\n".join(_texts(result)))]
        head, _, rest = texts[0].partition("\n")
        data = json.loads(head)
        shown.append(data.get("content", rest))
        assert data["part"] == part
        assert data["parts"] > 1
        if "next_part" not in data:
            assert part == data["parts"]
            return shown
        part = data["next_part"]


def _texts(result: CallToolResult) -> list[str]:
    return [each.text for each in result.content if isinstance(each, TextContent)]


async def test_a_client_that_is_not_known_gets_one_json_object(
    library: SkillLibrary, era: str
) -> None:
    async with connected(library, era) as client:
        asked = {"context": "", "skill_path": "ui/react"}
        [text] = _texts(await client.call_tool("get_skill", asked))

    reply = json.loads(text)
    assert len(reply["content"]) > CHAIN_CHARACTERS
    assert not {"part", "parts", "next_part"} & reply.keys()


async def test_a_client_is_known_in_both_eras(library: SkillLibrary, era: str) -> None:
    async with connected(library, era, name="copilot-cli") as client:
        asked = {"context": "", "skill_path": "ui/react"}
        head, _ = _texts(await client.call_tool("get_skill", asked))

    assert json.loads(head)["next_part"] == 2


async def test_a_part_that_is_not_there_says_how_many_there_are(
    library: SkillLibrary,
) -> None:
    async with connected(library, "auto", name="opencode") as client:
        asked = {"context": "", "skill_path": "ui/react", "part": 99}
        result = await client.call_tool("get_skill", asked)

    assert result.is_error
    assert "part: this text has 2 parts" in _texts(result)[0]


def _serve_folder(_: Path, __: Upstream) -> SkillLibrary:
    return open_library(SKILLS_CONTENT)


def _serve_repository(folder: Path, upstream: Upstream) -> SkillLibrary:
    shutil.copytree(SKILLS_CONTENT, upstream.work, dirs_exist_ok=True)
    upstream.commit({})
    return open_library(branch_of(upstream, folder))


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("serve", [_serve_folder, _serve_repository])
async def test_a_normal_reply_costs_at_most_five_per_cent_more_than_its_text(
    tmp_path: Path,
    upstream: Upstream,
    name: str,
    serve: Callable[[Path, Upstream], SkillLibrary],
) -> None:
    library = serve(tmp_path, upstream)

    async with connected(library, "auto", name=name) as client:
        asked = {"context": "add login to the React app", "skill_path": "ui/react/auth"}
        head, text = _texts(await client.call_tool("get_skill", asked))

    assert len(head) + len(text) <= 1.05 * len(text)
    reply = json.loads(head)
    assert reply["run_script"] == [
        "scripts/validate-auth-config.py client_id redirect_uri [scopes]"
    ]
    assert reply["scripts"] == ["scripts/scaffold-auth.sh component_name"]
    assert "assets/pull-request.md" in reply["assets"]


async def test_what_has_no_long_text_fits_the_client_too(tmp_path: Path) -> None:
    for number in range(400):
        text = f"---\ndescription: {'about things ' * 12}\nkeywords: [k{number}]\n---\nx\n"
        write(tmp_path / f"area{number % 7}" / f"s{number}.md", text)
    long = "\n".join(f"line {number} of the template" for number in range(3_000))
    write(tmp_path / "big/SKILL.md", "---\nname: big\ndescription: Big.\n---\nx\n")
    write(tmp_path / "big/references/long.md", long)
    library = open_library(tmp_path, settings={"toolsets": ["core", "packages"]})
    calls: dict[str, dict[str, Any]] = {
        "list_skills": {},
        "search_skills": {"query": "things", "limit": 50},
        "read_skill_file": {"skill_name": "big", "file_path": "references/long.md"},
        "get_asset": {"skill_path": "big", "file": "references/long.md"},
    }

    async with connected(library, "auto", name="copilot-cli") as client:
        for tool, asked in calls.items():
            texts = _texts(await client.call_tool(tool, asked))
            assert _show_start("\n".join(texts)) == "\n".join(texts), tool


async def test_the_rest_of_an_asset_and_of_a_loaded_skill_comes_in_parts(
    tmp_path: Path,
) -> None:
    long = "\n".join(f"line {number} of the text" for number in range(1_500))
    write(tmp_path / "big/SKILL.md", f"---\nname: big\ndescription: B.\n---\n{long}\n")
    write(tmp_path / "big/references/long.md", long)
    library = open_library(tmp_path, settings={"toolsets": ["core", "packages"]})

    async with connected(library, "auto", name="copilot-cli") as client:
        for tool, asked in {
            "load_skill": {"skill_name": "big"},
            "get_asset": {"skill_path": "big", "file": "references/long.md"},
        }.items():
            found = ""
            for part in range(1, 4):
                reply = await client.call_tool(tool, {**asked, "part": part})
                found += _texts(reply)[1]
            assert found.strip().endswith(long), tool


def test_the_documentation_has_the_table() -> None:
    page = (PROJECT / "docs/reference/tools/index.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([\d,]+) bytes", page, re.MULTILINE)

    told = {name: int(size.replace(",", "")) for name, size in rows}
    assert told == {each.name: each.text_bytes for each in KNOWN_CLIENTS}
    assert told.keys() == SHOWN.keys()
