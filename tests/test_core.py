"""The core needs no feature: each may be deleted, and none can be imported.

A feature may need another one, and is deleted with it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.clients import ask
from tests.house import SOURCE, readers
from tests.http_server import following
from tests.support import PROJECT, run_python, write, write_skill

FEATURES = sorted(
    folder.name for folder in (SOURCE / "features").iterdir() if (folder / "__init__.py").is_file()
)

# What is imported from here is the program, but for features.
WITHOUT_FEATURES = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] == ["skills_mcp", "features"]:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocked())

from skills_mcp.__main__ import main

main()
"""

ALL_HOOKS = """
import sys
from skills_mcp.hooks import load_hooks

found = [*load_hooks("open_part"), *load_hooks("open_embedder"), *load_hooks("audit")]
servers = ("mcp", "starlette", "skills_mcp.server", "skills_mcp.http", "skills_mcp.library")
print(len(found), *(name for name in servers if name in sys.modules))
"""

TESTS_OF_THE_CORE = (
    "tests/e2e/test_stdio.py",
    "tests/library/test_skill_library.py",
    "tests/server/test_core_tools.py",
)
"""Of these the tests that are marked run again without each feature."""


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """One skill with an asset and a script."""
    folder = tmp_path / "content"
    declared = [{"file": "scripts/hello.sh", "execution": "server"}]
    assets = [{"file": "assets/form.txt"}]
    write_skill(folder, "forms.md", keywords=["forms"], assets=assets, scripts=declared)
    write(folder / "forms/assets/form.txt", "Name:")
    write(folder / "forms/scripts/hello.sh", "echo hello")
    return folder


async def call_six_tools(client: Client, *, is_shared: bool = False) -> None:
    """Call each tool, and compare what proves that it has worked."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    forms = {"skill_path": "forms"}

    match = await ask(client, "get_skill", context="fill in forms")
    listed = await ask(client, "list_skills")
    asset = await ask(client, "get_asset", **forms, file="assets/form.txt")
    feedback = await ask(client, "report_usage", **forms, useful=True)
    refreshed = await ask(client, "refresh_skills")

    assert len(tools) == 5 if is_shared else 6
    assert match["skill_path"] == "forms"
    assert [child["path"] for child in listed["tree"]["children"]] == ["forms"]
    assert asset["content"] == "Name:"
    assert feedback["recorded"] is True
    assert refreshed["success"] is True
    if not is_shared:
        run = await ask(client, "run_script", **forms, file="scripts/hello.sh", args={})
        assert run["stdout"] == "hello\n"


@pytest.mark.usefixtures("started_anew")
def test_the_hooks_of_features_load_no_server() -> None:
    assert run_python(ALL_HOOKS) == "7"


@pytest.mark.usefixtures("started_anew")
async def test_the_six_tools_need_no_feature_over_stdio(content: Path, home: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", WITHOUT_FEATURES, "--skills-dir", str(content)],
        env={**os.environ, "HOME": str(home)},
    )

    async with Client(stdio_client(server)) as client:
        await call_six_tools(client)


@pytest.mark.usefixtures("started_anew")
async def test_the_six_tools_need_no_feature_over_http(content: Path, home: Path) -> None:
    write(home / ".skills-mcp/config.yaml", "http: {port: 0}")
    command = [sys.executable, "-c", WITHOUT_FEATURES, "--transport", "http"]

    with following([*command, "--skills-dir", str(content)], {}) as server:
        async with Client(server.url) as client:
            await call_six_tools(client, is_shared=True)


@pytest.mark.usefixtures("started_anew")
def test_the_commands_of_the_core_need_no_feature(content: Path) -> None:
    program = [sys.executable, "-c", WITHOUT_FEATURES]

    helped = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    shown = subprocess.run(
        [*program, "ask", "fill in forms", "--skills-dir", str(content)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "serve" in helped.stdout
    assert "forms" in shown.stdout


@pytest.mark.parametrize("feature", FEATURES)
def test_the_core_passes_its_tests_without(feature: str, tmp_path: Path) -> None:
    deleted = {feature, *_find_dependents(feature)}
    with copied_without(deleted, tmp_path) as environment:
        helped = _run(environment, "-m", "skills_mcp", "--help")
        assert helped.returncode == 0, helped.stderr
        selected = [*TESTS_OF_THE_CORE, "-m", "core", "-q", "-n", "0", "-p", "no:cacheprovider"]
        # What a plugin would rewrite, a fork has imported, see tests/forks.py.
        selected += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        tested = _run(environment, "-m", "pytest", *selected, f"--basetemp={tmp_path / 'tests'}")

    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
    offered = set(re.findall(r"^  ([a-z][a-z-]*)  ", helped.stdout, re.MULTILINE))
    assert "serve" in offered
    assert offered.isdisjoint(command for name in deleted for command in _commands(name))


def _find_dependents(feature: str) -> set[str]:
    """Find the features that import this one, or another one that does."""
    imported: dict[str, set[str]] = defaultdict(set)
    for read, by in readers().items():
        for reader in by:
            if read.startswith("features/") and reader.startswith("features/"):
                imported[read.split("/")[1]].add(reader.split("/")[1])
    found = {feature}
    while more := {reader for name in found for reader in imported[name]} - found:
        found |= more
    return found - {feature, "__init__.py"}


def _commands(feature: str) -> set[str]:
    files = (SOURCE / "features" / feature / "commands").glob("[!_]*.py")
    return {file.stem.replace("_", "-") for file in files}


@contextmanager
def copied_without(features: set[str], folder: Path) -> Iterator[Mapping[str, str]]:
    """Copy the source but for some features, and yield an environment that imports it."""
    copy = folder / "src" / "skills_mcp"
    shutil.copytree(SOURCE, copy)
    for feature in features:
        shutil.rmtree(copy / "features" / feature)
    environment = {**os.environ, "PYTHONPATH": str(copy.parent)}
    found = _run(environment, "-c", "import skills_mcp; print(skills_mcp.__path__[0])")
    assert found.stdout == f"{copy}\n"
    yield environment


def _run(environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
