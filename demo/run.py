"""The main job, end to end: a Git remote, the real server, the official MCP client.

Then a second server, on a folder of packages. Everything happens in a temporary
folder with a home of its own; nothing of yours is read or changed. Run it with
`make demo`.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import TextContent
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.tree import Tree

FIXTURES = Path(__file__).parent.parent / "fixtures"
CONTENT = FIXTURES / "skills-content"
PACKAGES = FIXTURES / "packages-content"
LINES_SHOWN = 6

NEW_SKILL = """\
---
description: Feature flags in the web app, from naming to removal
keywords: [feature-flag, toggle, experiment, flag]
---

# Feature flags

- Name a flag after the behaviour it turns on, not after the ticket.
- Every flag has an owner and a removal date in its definition.
"""


class Transcript:
    """The printed calls, their answers, and their durations."""

    def __init__(self, client: Client, console: Console, steps: Iterator[int]) -> None:
        self._client = client
        self._console = console
        self._steps = steps

    def heading(self, text: str) -> None:
        """Begin a step."""
        heading = f"{next(self._steps)}. {text}"
        self._console.print()
        self._console.print(Rule(heading, align="left", style="cyan"))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and print the call; return the JSON of the answer."""
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self._console.print(f"[bold]→ {tool}[/]({escape(shown)})", soft_wrap=True)
        started = time.perf_counter()
        result = await self._client.call_tool(tool, arguments)
        milliseconds = (time.perf_counter() - started) * 1000
        block = result.content[0]
        if not isinstance(block, TextContent):
            raise SystemExit(f"{tool} returned no text")
        if result.is_error:
            raise SystemExit(f"{tool} failed: {block.text}")
        self._console.print(f"[green]✓[/] [dim]{milliseconds:.1f} ms[/]")
        answer: dict[str, Any] = json.loads(block.text)
        return answer

    def say(self, text: str) -> None:
        """Print a line of the answer."""
        self._console.print(f"  {text}", soft_wrap=True)

    def show(self, tree: Tree) -> None:
        """Print a tree, each node on one line."""
        self._console.print(tree, no_wrap=True, overflow="ellipsis")

    def quote(self, text: str, lines: int = LINES_SHOWN) -> None:
        """Print the beginning of a text."""
        kept = [line for line in text.splitlines() if line.strip()]
        for line in kept[:lines]:
            self.say(f"[dim]│[/] {escape(line)}")
        if len(kept) > lines:
            self.say(f"[dim]│ … {len(kept) - lines} more lines[/]")


def main() -> None:
    """Make the remote, run all steps, and clean up."""
    if shutil.which("git") is None:
        raise SystemExit("The demo needs Git: install it, or add it to PATH.")
    with tempfile.TemporaryDirectory(prefix="skills-mcp-demo-") as folder:
        stage = Path(folder)
        publish(stage)
        anyio.run(play, stage, Console(highlight=False))


def publish(stage: Path) -> None:
    """Make a bare Git remote out of the sample content, and a clone to push from."""
    clone = stage / "clone"
    git("init", "-q", "--bare", "--initial-branch=main", str(stage / "skills.git"))
    shutil.copytree(CONTENT, clone)
    git("init", "-q", "--initial-branch=main", cwd=clone)
    git("remote", "add", "origin", str(stage / "skills.git"), cwd=clone)
    push(clone, "Our skills")


def push(clone: Path, message: str) -> None:
    """Commit everything and push it, as a merged pull request would."""
    git("add", "--all", cwd=clone)
    git("commit", "-q", "-m", message, cwd=clone)
    git("push", "-q", "origin", "HEAD", cwd=clone)


def git(*arguments: str, cwd: Path | None = None, **variables: str) -> None:
    """Run Git with a made-up identity, without the configuration of this machine."""
    identity = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
    }
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    unconfigured = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    environment = clean | identity | unconfigured | variables
    subprocess.run(["git", *arguments], cwd=cwd, env=environment, check=True)


async def play(stage: Path, console: Console) -> None:
    """Use every tool on the remote, then those for packages on a folder of them."""
    (stage / "home").mkdir()
    steps = count(1)
    remote = {"SKILLS_REPO": f"file://{stage / 'skills.git'}"}
    started = time.perf_counter()
    async with serving(stage, remote) as client:
        seconds = time.perf_counter() - started
        console.print("[bold]skills-mcp[/], the real server over stdio")
        console.print(f"Content: a Git remote made from {CONTENT.name}/")
        console.print(f"First answer after {seconds:.2f} s, before any sync")
        transcript = Transcript(client, console, steps)
        await browse(transcript)
        await route(transcript)
        await fetch(transcript)
        await run(transcript)
        await refresh(transcript, stage / "clone")
        await go_back(transcript, stage, remote["SKILLS_REPO"])
    toolsets = ("--toolsets", "core,packages")
    async with serving(stage, {"SKILLS_DIR": str(PACKAGES)}, *toolsets) as client:
        console.print()
        console.print(f"[bold]skills-mcp {' '.join(toolsets)}[/], a second server")
        console.print(f"Content: {PACKAGES.name}/, a folder of SKILL.md packages")
        await use_package(Transcript(client, console, steps))
    console.print()
    console.print("[bold green]Done.[/] The same skills, without an agent:")
    for content in (CONTENT, PACKAGES):
        shown = f"{FIXTURES.name}/{content.name}"
        console.print(f"  .venv/bin/skills-mcp tree --skills-dir {shown}")
    console.print("Your own skills: README.md, from Install on.")


def environment_in(stage: Path) -> dict[str, str]:
    """Return the environment of a program: a home of its own, and little else."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(stage / "home"),
        "USER": "ada",
        "SKILLS_MCP_LOG_LEVEL": "warning",
        "SKILLS_MCP_SHARE": "0",  # the stage is removed at the end, and no server outlives it
    }


@asynccontextmanager
async def serving(stage: Path, settings: Mapping[str, str], *options: str) -> AsyncIterator[Client]:
    """Start a server with a home of its own, and none of your variables."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "skills_mcp", *options],
        env={**environment_in(stage), **settings},
        cwd=str(stage),
    )
    async with Client(stdio_client(server)) as client:
        yield client


async def browse(transcript: Transcript) -> None:
    """Show the tree."""
    transcript.heading("What is there?")
    answer = await transcript.call("list_skills")
    transcript.show(branch(answer["tree"]))


def branch(node: Mapping[str, Any]) -> Tree:
    """Draw a node of `list_skills`."""
    counts = ((node["assetCount"], "asset"), (node["scriptCount"], "script"))
    files = "".join(f" [cyan]{plural(count, noun)}[/]" for count, noun in counts if count)
    summary = escape(node["description"])
    label = f"[bold]{escape(node['name'])}[/]{files}  [dim]{summary}[/]"
    tree = Tree(label, guide_style="dim")
    for child in node["children"]:
        tree.children.append(branch(child))
    return tree


def plural(count: int, noun: str) -> str:
    """Return `1 asset` or `2 assets`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


async def route(transcript: Transcript) -> None:
    """Ask for skills: one match, one that is ambiguous, one that has no skill."""
    transcript.heading("A task finds its skill, with every rule above it")
    task = "add auth to a react component"
    answer = await transcript.call("get_skill", context=task)
    say_match(transcript, answer)
    for line in answer["content"].splitlines():
        if line.startswith("=== "):
            transcript.say(f"[green]{escape(line)}[/]")
    transcript.quote(answer["content"].rpartition(" ===")[2])

    transcript.heading("Too close to call: the agent picks")
    answer = await transcript.call("get_skill", context="fix the auth")
    for candidate in answer["candidates"]:
        transcript.say(
            f"{candidate['score']:.2f}  [bold]{candidate['skill_path']}[/]  "
            f"[dim]{escape(candidate['description'])}[/]"
        )
    picked = answer["candidates"][0]["skill_path"]
    answer = await transcript.call("get_skill", context="fix the auth", skill_path=picked)
    say_match(transcript, answer)

    transcript.heading("Why this one, and what would change it")
    answer = await transcript.call("get_skill", context=task, within="ui", explain=True)
    explanation = answer["explanation"]
    transcript.say(f"{answer['skill_path']}, by the {explanation['algorithm']} algorithm")
    for word in explanation["words"]:
        held = plural(word["skills"], "skill")
        transcript.say(f"{word['word']}  {word['weight']:.2f} of the task, {held}")
    for note in explanation["notes"]:
        transcript.say(f"[dim]- {escape(note)}[/]")

    transcript.heading("No skill for this: the agent goes on without")
    answer = await transcript.call("get_skill", context="bake a chocolate cake")
    transcript.say(answer["message"])


def say_match(transcript: Transcript, answer: Mapping[str, Any]) -> None:
    """Show what a match offers."""
    words = ", ".join(answer["matched_keywords"])
    transcript.say(f"[bold]{answer['skill_path']}[/]  {answer['score']:.2f}  {words}")
    own = [*answer["assets"], *answer["scripts"]]
    inherited = [*answer["inherited_assets"], *answer["inherited_scripts"]]
    for file in own:
        transcript.say(f"{file['file']}  [dim]{escape(file['description'])}[/]")
    for file in inherited:
        transcript.say(f"{file['file']}  [cyan]from {file['from']}[/]")


async def fetch(transcript: Transcript) -> None:
    """Fetch a text, a picture and an inherited file."""
    transcript.heading("Templates instead of memory: a text asset")
    answer = await transcript.call(
        "get_asset", skill_path="ui/react/auth", file="assets/AuthProvider.tsx.template"
    )
    transcript.say(f"{answer['type']}, {answer['size_bytes']:,} bytes")
    transcript.quote(answer["content"])

    transcript.heading("A binary asset")
    answer = await transcript.call(
        "get_asset", skill_path="data/_index", file="assets/event-flow.png"
    )
    picture = base64.b64decode(answer["content_base64"])
    width, height = (int.from_bytes(picture[at : at + 4]) for at in (16, 20))
    transcript.say(
        f"{answer['mime_type']}, {answer['size_bytes']:,} bytes, {width} x {height} pixels"
    )

    transcript.heading("An inherited asset")
    answer = await transcript.call(
        "get_asset", skill_path="ui/react/auth", file="assets/design-tokens.json"
    )
    transcript.say(f"from [cyan]{answer['resolved_from']}[/]")
    transcript.quote(answer["content"], lines=4)


async def run(transcript: Transcript) -> None:
    """Run a script that the content declares, and give feedback."""
    transcript.heading("A checked script, run by the server")
    answer = await transcript.call(
        "run_script",
        skill_path="ui/react/auth",
        file="scripts/validate-auth-config.py",
        args={
            "client_id": "np-web-local",
            "redirect_uri": "http://localhost:5173/auth/callback",
        },
    )
    ended = f"exit code {answer['exit_code']}, {answer['duration_ms']} ms"
    transcript.say(f"{ended}, sandbox: {answer['sandbox']}")
    transcript.quote(answer["stdout"] + answer["stderr"])

    transcript.heading("Feedback for the authors")
    answer = await transcript.call(
        "report_usage", skill_path="ui/react/auth", useful=True, comment="Saved an hour"
    )
    transcript.say(answer["message"])


async def refresh(transcript: Transcript, clone: Path) -> None:
    """Merge a change upstream, and refresh."""
    transcript.heading("A pull request is merged; refresh_skills serves it")
    task = "hide the new page behind a feature-flag"
    before = await transcript.call("get_skill", context=task)
    transcript.say(before.get("message", ""))
    (clone / "skills" / "ui" / "feature-flags.md").write_text(NEW_SKILL)
    push(clone, "Add rules for feature flags")
    transcript.say("[dim]$ git push[/]")
    answer = await transcript.call("refresh_skills")
    transcript.say(
        f"commit {answer['commit_hash'][:12]}, "
        f"{plural(answer['files_changed'], 'file')} changed, "
        f"{plural(answer['skills_reindexed'], 'skill')} served"
    )
    transcript.say(f"added: {', '.join(answer['added'])}")
    after = await transcript.call("get_skill", context=task)
    say_match(transcript, after)


async def go_back(transcript: Transcript, stage: Path, remote: str) -> None:
    """Go back to the previous commit, then follow the repository again."""
    transcript.heading("The change was wrong: this machine goes back, at once")
    for options in ((), ("--resume",)):
        words = ("rollback", *options, "--repo", remote)
        transcript.say(f"[dim]$ skills-mcp {' '.join(words[:-2])}[/]")
        await anyio.run_process(
            [sys.executable, "-m", "skills_mcp", *words], env=environment_in(stage)
        )
        answer = await transcript.call("refresh_skills")
        [source] = answer["sources"]
        held = ", held there" if "held" in source else ""
        transcript.say(
            f"commit {answer['commit_hash'][:12]}{held}, "
            f"synced {plural(source['age_seconds'], 'second')} ago, "
            f"{plural(answer['skills_reindexed'], 'skill')} served"
        )


async def use_package(transcript: Transcript) -> None:
    """Find a package, load it, work with its files, and load it again."""
    name = await find(transcript)
    loaded = await load(transcript, name)
    await work(transcript, name, loaded["path"])

    transcript.heading("Asked for again: a reminder instead of the text")
    answer = await transcript.call("load_skill", skill_name=name, known_digest=loaded["digest"])
    transcript.say(answer["message"])


async def find(transcript: Transcript) -> str:
    """Search, and return the name of the best hit."""
    transcript.heading("Packages with a SKILL.md: search, then load")
    answer = await transcript.call("search_skills", query="prepare a customs form")
    for hit in answer["skills"]:
        transcript.say(
            f"{hit['score']:.2f}  [bold]{hit['name']}[/]  [dim]{escape(hit['description'])}[/]"
        )
    name: str = answer["skills"][0]["name"]
    return name


async def load(transcript: Transcript, name: str) -> dict[str, Any]:
    """Load a package, with what it inherits."""
    transcript.heading("The organisation's rules reach a package, too")
    loaded = await transcript.call("load_skill", skill_name=name)
    for file in loaded["files"]:
        transcript.say(file)
    for line in loaded["instructions"].splitlines():
        if line.startswith("=== "):
            transcript.say(f"[green]{escape(line)}[/]")
    transcript.quote(loaded["instructions"].rpartition(" ===")[2])
    return loaded


async def work(transcript: Transcript, name: str, folder: str) -> None:
    """Read a part of a reference, and run a script as an agent would."""
    transcript.heading("A reference, a few lines at a time")
    reference = "references/cn23-fields.md"
    part = await transcript.call(
        "read_skill_file", skill_name=name, file_path=reference, max_lines=5
    )
    transcript.say(
        f"lines {part['start_line']} to {part['end_line']} of {part['total_lines']}, "
        f"go on with start_line={part['next_line']}"
    )
    transcript.quote(part["content"])

    transcript.heading("Its script, in the agent's own shell")
    command = ("python3", "scripts/check_values.py", "templates/cn23-values.json")
    transcript.say(f"[dim]$ {' '.join(command)}[/]")
    transcript.quote(shell(*command, folder=folder))


def shell(program: str, *arguments: str, folder: str) -> str:
    """Run a program as an agent would, in the folder that `load_skill` names."""
    done = subprocess.run(
        [shutil.which(program) or sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
