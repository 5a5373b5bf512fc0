"""The composition fits its schema, its proxy, and the program that it runs."""

import re
import subprocess
import sys
from typing import Any

import pytest

from tests.deploy.files import (
    DEPLOY,
    known_variables,
    load_all,
    load_config,
    parse_command,
)
from tests.support import PROJECT

FOLDER = DEPLOY / "compose"
FILE = FOLDER / "compose.yaml"
[COMPOSE] = load_all(FILE)
PROXY = COMPOSE["services"]["proxy"]
REPLICAS: dict[str, dict[str, Any]] = {
    name: service
    for name, service in COMPOSE["services"].items()
    if name.startswith("skills")
}
CONFIG = load_config(FOLDER / "config.yaml")

every_replica = pytest.mark.parametrize(
    "replica", REPLICAS.values(), ids=list(REPLICAS)
)


def test_it_fits_the_schema_of_compose() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema"),
            *("--builtin-schema", "vendor.compose-spec", str(FILE)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


@every_replica
def test_a_replica_may_do_nothing_but_serve(replica: dict[str, Any]) -> None:
    assert replica["read_only"] is True
    assert replica["cap_drop"] == ["ALL"]
    assert replica["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in replica


@every_replica
def test_the_command_and_the_variables_exist(replica: dict[str, Any]) -> None:
    [settings] = replica["configs"]
    parsed = parse_command(replica["command"])

    assert str(parsed["config_file"]) == settings["target"]
    assert set(replica["environment"]) <= known_variables()
    assert replica["environment"]["SKILLS_MCP_TOKEN_FILE"] == "/run/secrets/token"  # noqa: S105 - its place
    assert replica["expose"] == [
        str(CONFIG.http.port),
        str(CONFIG.http.operations_port),
    ]


@every_replica
def test_a_replica_has_the_time_to_end(replica: dict[str, Any]) -> None:
    given = int(replica["stop_grace_period"].removesuffix("s"))

    assert CONFIG.http.drain_seconds + CONFIG.http.shutdown_seconds + 10 <= given


def test_all_files_that_are_named_exist_but_secrets() -> None:
    files = [each["file"] for each in COMPOSE["configs"].values()]
    secrets = [each["file"] for each in COMPOSE["secrets"].values()]

    assert all((FOLDER / file).is_file() for file in files)
    assert all(file.startswith("./secrets/") for file in secrets)
    ignored = (PROJECT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "/deploy/compose/secrets/" in ignored


@pytest.mark.parametrize("file", ["haproxy.cfg", "nginx.conf"])
def test_a_proxy_names_the_replicas_and_their_ports(file: str) -> None:
    text = (FOLDER / file).read_text(encoding="utf-8")

    assert set(re.findall(r"server\s+(?:\S+\s+)?(skills-\d):(\d+)", text)) == {
        (name, str(CONFIG.http.port)) for name in REPLICAS
    }


def test_the_proxy_asks_the_operations_port_and_listens_where_it_is_published() -> None:
    text = (FOLDER / "haproxy.cfg").read_text(encoding="utf-8")
    [published] = PROXY["ports"]

    assert re.findall(r"check port (\d+)", text) == [str(CONFIG.http.operations_port)]
    assert re.findall(r"bind :(\d+)", text) == [published.rpartition(":")[2]]
    assert re.findall(r"/run/secrets/(\S+)", text) == PROXY["secrets"]
