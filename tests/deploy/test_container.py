"""The image: what its file says, and a server as it runs in it.

No test builds it, because its base cannot be fetched everywhere.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from skills_mcp.config import Http
from tests.deploy.files import DEPLOY, known_variables, parse_command
from tests.http_server import following
from tests.support import PROJECT, SKILLS_CONTENT, Upstream

FILE = DEPLOY / "Containerfile"
HOME = "/var/lib/skills-mcp"

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)


def instructions() -> list[tuple[str, str]]:
    """Return each instruction with what follows it, in one line."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", "", text)
    return [
        (line.split()[0], line.partition(" ")[2]) for line in joined.splitlines() if line.strip()
    ]


def the(name: str) -> str:
    """Return what follows the last instruction of a name."""
    return [rest for each, rest in instructions() if each == name][-1]


def environment() -> dict[str, str]:
    """Return what the image sets."""
    return dict(pair.split("=", 1) for pair in the("ENV").split())


def test_both_stages_begin_with_one_python_that_is_named() -> None:
    [python] = re.findall(r"BASE=\S+/python:(3\.\d+)-slim-\w+$", the("ARG"))
    stages = [rest for each, rest in instructions() if each == "FROM"]
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))

    assert stages == ["${BASE} AS build", "${BASE}"]
    assert f"Programming Language :: Python :: {python}" in (project["project"]["classifiers"])


def test_the_extras_that_are_installed_exist() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    [installed] = [rest for each, rest in instructions() if "pip install" in rest]
    [extras] = re.findall(r"'\.\[(.+)\]'", installed)

    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])
    assert "--constraint constraints.txt" in installed


def test_only_what_is_copied_gets_into_the_build() -> None:
    ignored = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        source
        for each, rest in instructions()
        if each == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }

    assert ignored[1] == "*"
    assert copied == allowed
    assert all((PROJECT / source).exists() for source in copied)


def test_it_runs_as_a_user_without_rights_at_the_ports_of_the_settings() -> None:
    http = Http()

    assert the("USER") == "10001:10001"
    assert "--uid 10001" in the("RUN")
    assert the("EXPOSE") == f"{http.port} {http.operations_port}"
    assert json.loads(the("VOLUME")) == [environment()["SKILLS_MCP_HOME"]] == [HOME]


def test_the_command_and_the_variables_exist() -> None:
    ours = {name for name in environment() if "SKILLS" in name}

    assert json.loads(the("ENTRYPOINT")) == ["skills-mcp"]
    assert parse_command(json.loads(the("CMD")))
    assert ours <= known_variables()


@needs_bubblewrap
def test_it_serves_on_a_read_only_root_and_is_healthy(tmp_path: Path, upstream: Upstream) -> None:
    home, temporary = tmp_path / "cache", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    shutil.copytree(SKILLS_CONTENT, upstream.work / "skills")
    commit = upstream.commit({})
    confined = (
        *("bwrap", "--die-with-parent", "--unshare-user", "--uid", "10001"),
        *("--gid", "10001", "--cap-drop", "ALL", "--ro-bind", "/", "/"),
        *("--dev", "/dev", "--proc", "/proc", "--unshare-pid"),
        *("--ro-bind", str(tmp_path), str(tmp_path)),  # it may be in /dev/shm
        *("--bind", str(home), str(home), "--tmpfs", str(temporary)),
    )
    if subprocess.run([*confined, "true"], check=False, capture_output=True).returncode:
        pytest.skip("bubblewrap may not make a sandbox here")
    own = {"SKILLS_MCP_HOME": str(home), "TMPDIR": str(temporary), "HOME": str(home)}
    loopback = {
        "SKILLS_MCP_HTTP_HOST": "127.0.0.1",
        "SKILLS_MCP_HTTP_OPERATIONS_HOST": "127.0.0.1",
        "SKILLS_MCP_HTTP_PORT": "0",
        "SKILLS_MCP_HTTP_OPERATIONS_PORT": "0",
        "SKILLS_REPO": upstream.url,
        "PATH": os.environ["PATH"],
    }
    program = (sys.executable, "-m", "skills_mcp", *json.loads(the("CMD")))

    with following((*confined, *program), {**environment(), **own, **loopback}) as it:
        it.wait_for_log(f"skills at {commit}")
        port = httpx.URL(it.operations_url).port
        healthy = subprocess.run(
            check_command(),
            env={**os.environ, "SKILLS_MCP_HTTP_OPERATIONS_PORT": str(port)},
            check=False,
        )

    assert healthy.returncode == 0


def test_it_is_not_healthy_where_nothing_answers() -> None:
    done = subprocess.run(
        check_command(),
        env={**os.environ, "SKILLS_MCP_HTTP_OPERATIONS_PORT": "1"},
        check=False,
        capture_output=True,
    )

    assert done.returncode == 1


def check_command() -> list[str]:
    """Return the health check of the image, with the Python of this test."""
    program, *arguments = json.loads(the("HEALTHCHECK").partition("CMD ")[2])
    assert program == "python3"
    return [sys.executable, *arguments]
