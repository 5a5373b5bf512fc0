"""The composition fits its schema, its proxy, and the program that it runs."""

import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from soak.http.replicas import haproxy, nginx, replicas
from soak.scenario import Unavailable
from tests.deploy.files import (
    DEPLOY,
    known_variables,
    load_all,
    load_config,
    parse_command,
)
from tests.docs.pages import DOCS, codes
from tests.features.authoring.intake.archives import write_zip
from tests.packages import package_text
from tests.support import PROJECT, SKILLS_CONTENT, Upstream, write

FOLDER = DEPLOY / "compose"
FILE = FOLDER / "compose.yaml"
[COMPOSE] = load_all(FILE)
PROXY = COMPOSE["services"]["proxy"]
REPLICAS: dict[str, dict[str, Any]] = {
    name: service for name, service in COMPOSE["services"].items() if name.startswith("skills")
}
CONFIG = load_config(FOLDER / "config.yaml")

every_replica = pytest.mark.parametrize("replica", REPLICAS.values(), ids=list(REPLICAS))


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
    assert set(replica["environment"]) - {"PGPASSWORD"} <= known_variables()
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


METADATA = "/.well-known/oauth-protected-resource"
CARDS = ("/mcp/server-card", "/.well-known/ai-catalog.json")
OUTSIDE = {"/mcp", "/events", METADATA, *CARDS, "/hooks/git"}

# What a server answers at these paths, and other spellings of what is passed.
INSIDE = (
    *("/", "/skills/ui", "/api/skills", "/api/report", "/report", "/add", "/try"),
    *("/events/x", "/sign-in", "/sign-out", "/static/style.css", "/nothing"),
    *("/.well-known/agent-skills/index.json", "/.well-known/other"),
    *("/readyz", "/metrics", "/mcp/", "/mcp/x", "/hooks/git/x", "/MCP"),
    *("/mcp/../report", "/mcp/..%2freport", "/mcp%00", "/mcp;/report"),
    *(f"{METADATA}x", f"{METADATA}/../../report", f"{METADATA}/other"),
)
# One proxy passes them on as the path that they stand for, the other refuses them.
SPELLINGS = ("/skills/ui/../../mcp", "//mcp", "/%6dcp", "/report/../mcp", "/./mcp")


def ask(port: int, method: str, path: str) -> int:
    """Return the status of a request whose path is sent as it is."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_guide_names_the_paths_that_are_passed() -> None:
    guide = (DOCS / "how-to/serve-over-http.md").read_text(encoding="utf-8")
    [line] = [each for each in guide.splitlines() if "nothing else;" in each]

    assert set(codes(line)) == OUTSIDE


@pytest.mark.parametrize("proxy", [haproxy, nginx])
def test_a_proxy_passes_the_paths_of_the_guide_and_no_other(tmp_path: Path, proxy: Any) -> None:
    secret = write(tmp_path / "secret", "0123456789abcdef")
    secret.chmod(0o600)
    auth = {"issuer": "http://127.0.0.1:1/nothing-listens-here", "audience": "x"}
    settings = {"http": {"auth": auth, "webhook_secret_file": str(secret)}}
    options = ("--skills-dir", str(SKILLS_CONTENT))
    work = tmp_path / "work"
    work.mkdir()
    try:
        with (
            replicas(work, 1, is_shared=True, settings=settings, options=options) as each,
            proxy(work, each) as port,
        ):
            direct = {path: ask(each[0].port, "GET", path) for path in INSIDE}
            inside = {path: ask(port, "GET", path) for path in INSIDE}
            spelled = {path: ask(port, "POST", path) for path in SPELLINGS}
            outside = {
                path: (ask(port, "POST", path), ask(port, "GET", path))
                for path in (*OUTSIDE, f"{METADATA}/mcp")
            }
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert 401 in direct.values()  # so 404 is the answer of the proxy
    assert {path for path, status in inside.items() if status not in {400, 404}} == set()
    assert set(spelled.values()) <= {400, 401, 404}  # that of /mcp, or of the proxy
    assert outside == {
        "/mcp": (401, 401),
        "/events": (401, 401),
        METADATA: (405, 200),
        f"{METADATA}/mcp": (405, 200),
        **dict.fromkeys(CARDS, (405, 200)),
        "/hooks/git": (403, 405),
    }


HIDDEN = re.compile(r'type="hidden" name="([^"]+)" value="([^"]*)"')


def upload(port: int, archive: Path) -> str:
    """Return the page that a person gets after both clicks, each on a new connection."""
    headers = {"Connection": "close", "Origin": f"http://127.0.0.1:{port}"}
    file = {"file": (archive.name, archive.read_bytes())}
    with httpx.Client(base_url=headers["Origin"], headers=headers, timeout=30) as client:
        form = dict(HIDDEN.findall(client.get("/add").text))
        shown = dict(HIDDEN.findall(client.post("/add", data=form, files=file).text))
        return client.post("/add/take", data=shown).text


def test_uploads_arrive_whichever_replica_is_asked(tmp_path: Path, upstream: Upstream) -> None:
    upstream.commit({"skills/old/SKILL.md": package_text(name="old")})
    key = write(tmp_path / "key", "ab" * 32)
    key.chmod(0o600)
    settings = {
        "http": {"anonymous": ["skills:read", "skills:upload"]},
        "upload": {"mode": "branch"},
        "web": {"cookie_key_file": str(key)},
        "events": {"database": f"sqlite:///{tmp_path / 'events.db'}"},
    }
    (tmp_path / "work").mkdir()
    names = [f"{proxy}-{number}" for proxy in ("haproxy", "nginx") for number in range(3)]
    try:
        with (
            replicas(
                tmp_path / "work",
                3,
                is_shared=False,
                settings=settings,
                options=("--repo", upstream.url),
            ) as each,
            haproxy(tmp_path / "work", each, has_pages=True) as first,
            nginx(tmp_path / "work", each, has_pages=True) as second,
        ):
            ports = {"haproxy": first, "nginx": second}
            shown = {
                name: upload(
                    ports[name.partition("-")[0]],
                    write_zip(
                        tmp_path / f"{name}.zip", {f"{name}/SKILL.md": package_text(name=name)}
                    ),
                )
                for name in names
            }
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert [name for name, page in shown.items() if f"skills-mcp/{name}-" not in page] == []
