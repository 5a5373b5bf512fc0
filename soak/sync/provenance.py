"""Whether each reply has the committed bytes, as its digest says."""

import base64
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp_types import BlobResourceContents

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.server.resources import META_PREFIX
from skills_mcp.skills.inheritance import looks_like_header
from soak.scenario import Figure, Scale, Scenario
from tests.clients import ask, connected
from tests.packages import write_package
from tests.support import PROJECT, Upstream, open_library, sha256_of

_CONTENT = (
    PROJECT / "fixtures/skills-content",
    PROJECT / "fixtures/packages-content",
)
_TOOLS = (
    *("get_skill", "load_skill", "get_asset", "read_skill_file", "resources/read"),
    *("load_skill_examples", "run_script"),
)
_SETTINGS: Mapping[str, Any] = {
    "toolsets": ["core", "packages"],
    "files": {"max_bytes": 1000},  # so that some are read in parts
    "scripts": {"sandbox": "best_effort"},
}


def verify_everything(folder: Path, _: Scale) -> Iterator[Figure]:
    """Ask a server for all that it has, and Git for the same."""
    yield from verify(folder, _CONTENT)


def verify(folder: Path, contents: tuple[Path, ...]) -> Iterator[Figure]:
    """Commit some content, ask for all of it, and compare it with the commit."""
    upstream = Upstream.create(folder)
    for content in contents:
        shutil.copytree(content, upstream.work, dirs_exist_ok=True)
    examples = {"examples/a.md": "---\ntitle: A\n---\nUse form 7.\n"}
    write_package(upstream.work, "skills/forms", examples, examples=["apply"])
    notary = _Notary(upstream.work, upstream.commit({}))
    source = RemoteBranch(Remote(upstream.url, "main"), folder / "cache")
    library = open_library(source, settings=_SETTINGS)

    async def ask_all() -> None:
        async with connected(library, "auto") as client:
            await _ask_all(client, notary)

    anyio.run(ask_all)
    total = notary.replies.total()
    shown = ", ".join(f"{notary.replies[tool]} {tool}" for tool in _TOOLS)
    said = f"{total} replies ({shown}): "
    wrong = f" ({', '.join(notary.wrong)})" if notary.wrong else ""
    yield Figure.none(49, f"{said}not as committed{wrong}", len(notary.wrong), total)
    asked = [tool for tool in _TOOLS if notary.replies[tool]]
    yield Figure.every(49, "ways to ask that were tried", len(asked), len(_TOOLS))


@dataclass(slots=True)
class _Notary:
    """Compares replies with a commit, and remembers which do not hold."""

    repository: Path
    commit: str
    replies: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check_text(self, tool: str, reply: Mapping[str, Any], text: str) -> None:
        """Compare a text that was put together out of several files.

        What is published begins with frontmatter, which the digest holds, too.
        """
        whole = text
        if text.startswith("---\nname: "):
            text = text.partition("---\n\n")[2]
        file = reply.get("source_path") or reply["path"]
        sections = _split(text)
        files = {path: self._read_body(path) for path in self._find(sections, file)}
        is_right = list(files.values()) == [_flatten(body) for _, body in sections]
        self._note(tool, file, reply, whole.encode(), is_right=is_right)

    def check_file(self, tool: str, reply: Mapping[str, Any], data: bytes) -> None:
        """Compare a file, or a part that says where it begins."""
        whole = self._read(reply["path"])
        if reply.get("truncated") or reply.get("start_line", 1) > 1:
            skipped = b"".join(whole.splitlines(keepends=True)[: _first(reply)])
            whole = whole[len(skipped) :][: len(data)]
        self._note(tool, reply["path"], reply, data, is_right=whole == data)

    def check_example(self, reply: Mapping[str, Any], example: Mapping[str, Any]) -> None:
        """Compare a text without its frontmatter with the file that it is in."""
        folder = reply["path"].rpartition("/")[0]
        file = f"{folder}/{example['file']}" if example["file"] else reply["path"]
        said = {"commit": reply["commit"], "sha256": example["sha256"]}
        raw = example["text"].encode()
        is_right = " ".join(example["text"].split()) in " ".join(self._read(file).decode().split())
        self._note("load_skill_examples", file, said, raw, is_right=is_right)

    def check_digest(self, tool: str, reply: Mapping[str, Any]) -> None:
        """Compare what ran with the file."""
        raw = self._read(reply["path"])
        self._note(tool, reply["path"], reply, raw, is_right=True)

    def _note(
        self,
        tool: str,
        file: str,
        reply: Mapping[str, Any],
        data: bytes,
        *,
        is_right: bool,
    ) -> None:
        self.replies[tool] += 1
        is_signed = reply["sha256"] == sha256_of(data)
        if not (is_right and is_signed and reply["commit"] == self.commit):
            self.wrong.append(f"{tool} {file}")

    def _find(self, sections: list[tuple[str, str]], own: str) -> list[str]:
        """Return which file of the repository each section is from."""
        *above, _ = sections
        top = own.partition("/")[0] if own.startswith("skills/") else ""
        files = [header.partition(" (from ")[2][: -len(") ===")] for header, _ in above]
        return [*(f"{top}/{file}".removeprefix("/") for file in files), own]

    def _read_body(self, file: str) -> str:
        text = self._read(file).decode().replace("\r\n", "\n")
        return _flatten(text.split("\n---", 1)[1].partition("\n")[2])

    def _read(self, file: str) -> bytes:
        words = ["git", "show", f"{self.commit}:{file}"]
        done = subprocess.run(words, cwd=self.repository, check=True, capture_output=True)
        return done.stdout


def _split(text: str) -> list[tuple[str, str]]:
    """Return the sections of a composed text, each with its header, if it has one."""
    sections: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if looks_like_header(line):
            sections.append((line, []))
        elif sections:
            sections[-1][1].append(line)
        else:
            sections.append(("", [line]))
    return [(header, "\n".join(lines)) for header, lines in sections]


def _flatten(body: str) -> str:
    return body.strip("\n").rstrip()


def _first(reply: Mapping[str, Any]) -> int:
    return int(reply.get("start_line", 1)) - 1


async def _ask_all(client: Client, notary: _Notary) -> None:
    tree = await ask(client, "list_skills")
    for node in _walk(tree["tree"]):
        path = node["path"]
        found = await ask(client, "get_skill", context="x", skill_path=path)
        notary.check_text("get_skill", found, found["content"])
        loaded = await ask(client, "load_skill", skill_name=path)
        notary.check_text("load_skill", loaded, loaded["instructions"])
        meta, data = await _read_resource(client, f"skill://{path}/SKILL.md")
        notary.check_text("resources/read", meta, data.decode())
        examples = await ask(client, "load_skill_examples", skill_name=path, query="x")
        for example in examples["examples"]:
            notary.check_example(examples, example)
        for entry in (*found["assets"], *found["scripts"]):
            await _ask_for_file(client, notary, path, entry["file"])
        for script in found["scripts"]:
            is_python = script["file"].endswith(".py")  # which is here, unlike others
            if script["execution"] == "server" and is_python:
                await _run(client, notary, path, script)


async def _ask_for_file(client: Client, notary: _Notary, path: str, file: str) -> None:
    asset = await ask(client, "get_asset", skill_path=path, file=file)
    text = asset.get("content")
    encoded = asset.get("content_base64", "")
    data = base64.b64decode(encoded) if text is None else text.encode()
    notary.check_file("get_asset", asset, data)
    meta, data = await _read_resource(client, f"skill://{path}/{file}")
    notary.check_file("resources/read", meta, data)
    wanted: dict[str, Any] = {"skill_name": path, "file_path": file}
    line: int | None = 1
    while line:
        part = await ask(client, "read_skill_file", **wanted)
        is_text = part["encoding"] == "utf-8"
        raw = part["content"]
        data = raw.encode() if is_text else base64.b64decode(raw)
        notary.check_file("read_skill_file", part, data)
        line = part.get("next_line")
        wanted["start_line"] = line


async def _run(client: Client, notary: _Notary, path: str, script: Mapping[str, Any]) -> None:
    args = {each["name"]: "x" for each in script["args"]}
    file = script["file"]
    ran = await ask(client, "run_script", skill_path=path, file=file, args=args)
    notary.check_digest("run_script", ran)


async def _read_resource(client: Client, uri: str) -> tuple[Mapping[str, Any], bytes]:
    [read] = (await client.read_resource(uri)).contents
    meta = {k.removeprefix(META_PREFIX): v for k, v in (read.meta or {}).items()}
    if isinstance(read, BlobResourceContents):
        return meta, base64.b64decode(read.blob)
    return meta, read.text.encode()


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("description"):
        yield node
    for child in node["children"]:
        yield from _walk(child)


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("provenance", verify_everything),)
