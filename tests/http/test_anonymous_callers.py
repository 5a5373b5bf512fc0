"""What a caller without sign-in may do, with every way to let people and programs in.

The table of these pages is the one that operators read: it is tried cell by cell.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from skills_mcp.config import Config
from skills_mcp.errors import ConfigError
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.features.web.site import build_web
from skills_mcp.http.authentication import check_sign_in, derive_anonymous_scopes
from skills_mcp.http.events_endpoint import open_events_endpoint
from skills_mcp.http.http_server import create_application
from skills_mcp.http.metrics import Metrics
from skills_mcp.library.skill_library import SkillLibrary
from skills_mcp.server.app import create_server
from skills_mcp.server.measurements import ContentGauges
from skills_mcp.skills.access import (
    EVENTS,
    FEEDBACK,
    READ,
    REFRESH,
    REPORT,
    SCOPES,
    UPLOAD,
)
from tests.docs.pages import DOCS, section, tables
from tests.features.report.happenings import missed
from tests.http.listening import listening
from tests.http_server import served
from tests.issuer import running_issuer
from tests.support import open_library, write_skill

SKILLS = "/.well-known/agent-skills/index.json"

# Each says how it is asked, and which scopes an answer takes.
REQUESTS: Mapping[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "page": ("GET", "/", {}, (READ,)),
    "skill page": ("GET", "/skills/one", {}, (READ,)),
    "sources page": ("GET", "/sources", {}, (READ,)),
    "add page": ("GET", "/add", {}, (READ,)),
    "report page": ("GET", "/report", {}, (READ, REPORT)),
    "list": ("GET", "/api/skills", {}, (READ,)),
    "openapi": ("GET", "/api/openapi.json", {}, (READ,)),
    "report": ("GET", "/api/report", {}, (READ, REPORT)),
    "upload": ("POST", "/api/skills/upload-install", {}, (UPLOAD,)),
    "well-known": ("GET", SKILLS, {}, (READ,)),
    "events": ("POST", "/events", {"json": {"events": [missed("a")]}}, (EVENTS,)),
}
TOOLS = {
    "list_skills": (READ,),
    "refresh_skills": (READ, REFRESH),
    "report_usage": (READ, FEEDBACK),
}

AUTHORIZATIONS: Mapping[str, Iterable[str]] = {
    "none": (),
    "a word": ("x",),
    "basic": ("Basic YWRhOmFkYQ==",),
    "a made-up token": ("Bearer x",),
    "two": ("Bearer x", "Basic YWRhOmFkYQ=="),
}

PROXY = {"user": "X-Forwarded-User", "scopes": "X-Forwarded-Scopes"}
FROM_HERE = {"trusted_header": {**PROXY, "proxies": ["127.0.0.1"]}}
FROM_ELSEWHERE = {"trusted_header": {**PROXY, "proxies": ["10.0.0.5"]}}
PUBLIC = "https://skills.example.com"

ADA = {"X-Forwarded-User": "ada"}

OPEN_TO: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "this machine": ({}, SCOPES),
    "nothing": ({"anonymous": []}, ()),
    "readers": ({"base_url": PUBLIC, "anonymous": [READ]}, (READ,)),
    "tools": (
        {"allowed_hosts": ["skills.example.com"], "allow_anonymous": True},
        (READ, REFRESH, FEEDBACK),
    ),
    "senders": ({"trust_proxy_headers": True, "anonymous": [EVENTS]}, (EVENTS,)),
    "all": ({"base_url": PUBLIC, "anonymous": list(SCOPES)}, SCOPES),
}


def parse(**settings: Any) -> Config:
    return Config.model_validate_json(json.dumps(settings))


def open_served(folder: Path, **settings: Any) -> SkillLibrary:
    write_skill(folder / "content", "one.md")
    uploads = {"upload": {"mode": "folder"}, **settings}
    return open_library(folder / "content", settings=uploads)


@contextmanager
def served_here(folder: Path, **settings: Any) -> Iterator[httpx.Client]:
    """Serve at a port of this process, wired as the command wires it."""
    library = open_served(folder, **settings)
    condition = ContentGauges(skills=0, problems={}, sources=(), events_waiting=0)
    store = open_event_store("", folder)
    config = library.config
    app = create_application(
        create_server(library, is_shared=True),
        config,
        shutdown=anyio.Event(),
        web=build_web(library, store, folder / "web.key"),
        events=open_events_endpoint(store, config, Metrics(lambda: condition)),
    )
    with listening(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client
    store.close()


def ask(
    client: httpx.Client, name: str, given: Iterable[str] = (), **headers: str
) -> httpx.Response:
    """Send one of the requests, with any number of headers Authorization."""
    if name in TOOLS:
        return call(client, name, given)
    method, path, content, _ = REQUESTS[name]
    every = [*headers.items(), *(("Authorization", each) for each in given)]
    return client.request(method, path, headers=every, **content)


def call(client: httpx.Client, tool: str, given: Iterable[str] = ()) -> httpx.Response:
    """Call a tool; what it answers says nothing here."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}},
    }
    accept = ("Accept", "application/json, text/event-stream")
    version = ("Mcp-Protocol-Version", "2025-06-18")
    every = [accept, version, *(("Authorization", each) for each in given)]
    return client.post("/mcp", json=message, headers=every)


def is_let_in(answer: httpx.Response) -> bool:
    """Whether the guards have let a request through; its form may be wrong."""
    return answer.status_code not in {401, 403}


def expect(name: str, scopes: Iterable[str]) -> bool:
    needed = TOOLS[name] if name in TOOLS else REQUESTS[name][3]
    return set(needed) <= set(scopes)


@pytest.mark.parametrize("name", OPEN_TO)
def test_a_caller_without_sign_in_may_do_what_is_written_and_nothing_else(
    tmp_path: Path, name: str
) -> None:
    http, scopes = OPEN_TO[name]
    with served_here(tmp_path, http=http) as client:
        let_in = {each: is_let_in(ask(client, each)) for each in (*REQUESTS, *TOOLS)}

    assert let_in == {each: expect(each, scopes) for each in (*REQUESTS, *TOOLS)}


@pytest.mark.parametrize("name", ["this machine", "nothing", "readers"])
def test_an_authorization_header_gives_nothing_without_sign_in(tmp_path: Path, name: str) -> None:
    http, _ = OPEN_TO[name]
    with served_here(tmp_path, http=http) as client:
        for each in (*REQUESTS, *TOOLS):
            without = ask(client, each).status_code
            found = {ask(client, each, given).status_code for given in AUTHORIZATIONS.values()}
            assert found == {without}, each


@pytest.mark.parametrize("given", AUTHORIZATIONS.values(), ids=AUTHORIZATIONS)
def test_a_form_carries_the_token_of_its_page_whatever_else_is_sent(
    tmp_path: Path, given: Iterable[str]
) -> None:
    with served_here(tmp_path) as client:
        refused = [
            client.post(path, headers=authorize(given))
            for path in ("/add", "/add/take", "/add/restore")
        ]

    assert [each.status_code for each in refused] == [403] * 3
    assert all("This form was not sent" in each.text for each in refused)


@pytest.mark.parametrize("scopes", [(), (READ,), SCOPES])
def test_the_person_that_a_proxy_names_is_the_caller_whatever_else_is_sent(
    tmp_path: Path, scopes: tuple[str, ...]
) -> None:
    settings = {"http": {"anonymous": list(scopes)}, "web": FROM_HERE}
    with served_here(tmp_path, **settings) as client:
        for given in AUTHORIZATIONS.values():
            page = ask(client, "page", given, **ADA)
            listed = ask(client, "list", given, **ADA)
            report = ask(client, "report page", given, **ADA)
            told = ask(client, "report", given, **ADA, **{"X-Forwarded-Scopes": REPORT})
            form = client.post("/add", headers=[*ADA.items(), *authorize(given)])

            assert page.status_code == listed.status_code == 200
            assert "ada" in page.text
            assert report.status_code == 403
            assert is_let_in(told)
            assert (form.status_code, "This form was not sent" in form.text) == (
                403,
                True,
            )


def authorize(given: Iterable[str]) -> list[tuple[str, str]]:
    return [("Authorization", each) for each in given]


def test_a_charset_that_no_text_has_is_refused(tmp_path: Path) -> None:
    kind = "multipart/form-data; boundary=x; charset=undefined"
    part = 'Content-Disposition: form-data; name="a"; filename="\xff"'.encode("latin-1")
    body = b"--x\r\n" + part + b"\r\n\r\n\xff\r\n--x--\r\n"
    with served_here(tmp_path) as client:
        install = REQUESTS["upload"][1]
        sent = client.post(install, content=body, headers={"Content-Type": kind})

    assert (sent.status_code, sent.json()["error"]["message"]) == (
        400,
        "The form cannot be read: send UTF-8.",
    )


@pytest.mark.parametrize("web", [FROM_HERE, FROM_ELSEWHERE], ids=["here", "elsewhere"])
@pytest.mark.parametrize("scopes", [(), (READ,), SCOPES])
def test_whom_no_proxy_names_is_a_stranger(
    tmp_path: Path, scopes: tuple[str, ...], web: dict[str, Any]
) -> None:
    """Pages turn strangers away; programs get what anonymous callers may do."""
    claims = ADA if web is FROM_ELSEWHERE else {}
    settings = {"http": {"anonymous": list(scopes)}, "web": web}
    with served_here(tmp_path, **settings) as client:
        for given in AUTHORIZATIONS.values():
            for name in (*REQUESTS, *TOOLS):
                answer = ask(client, name, given, **claims)
                is_page = name.endswith("page")

                assert is_let_in(answer) == (not is_page and expect(name, scopes))
                if is_page:
                    assert "The proxy in front of this server" in answer.text


@pytest.mark.parametrize("web", [{}, {"client_id": "pages"}, FROM_HERE])
def test_with_an_identity_provider_no_caller_is_anonymous(
    tmp_path: Path, web: dict[str, Any]
) -> None:
    with running_issuer() as issuer:
        auth = {"issuer": issuer.url, "audience": "skills"}
        token = issuer.token(aud="skills", scope=" ".join(SCOPES))
        with served_here(tmp_path, http={"auth": auth}, web=web) as client:
            for name in (*REQUESTS, *TOOLS):
                for given in AUTHORIZATIONS.values():
                    answer = ask(client, name, given)
                    assert answer.status_code in {401, 303, 400}, (name, given)
                assert is_let_in(ask(client, name, [f"Bearer {token}"]))
            if web == FROM_HERE:
                basic = ask(client, "page", AUTHORIZATIONS["basic"], **ADA)
                forged = ask(client, "page", AUTHORIZATIONS["a made-up token"], **ADA)
                assert (basic.status_code, forged.status_code) == (200, 401)


def test_an_operator_is_told_what_to_set(tmp_path: Path) -> None:
    with served_here(tmp_path, http={"anonymous": []}) as client:
        listed, page, sent = (ask(client, each) for each in ("list", "page", "events"))

    error = listed.json()["error"]
    assert error["data"]["code"] == "INSUFFICIENT_SCOPE"
    assert "http.auth.issuer" in error["message"]
    assert "http.anonymous" in error["message"]
    assert "http.anonymous" in page.text
    assert sent.json()["error"]["data"]["code"] == "TOKEN_NEEDED"
    assert "events.ingest_token_file" in sent.json()["error"]["message"]


REACHED: Mapping[str, dict[str, Any]] = {
    "http.host is 0.0.0.0": {"http": {"host": "0.0.0.0"}},  # noqa: S104 - refused
    "http.host is ::": {"http": {"host": "::"}},
    "http.host is 10.0.0.7": {"http": {"host": "10.0.0.7"}},
    "http.host is localhost.example": {"http": {"host": "localhost.example"}},
    f"http.base_url is {PUBLIC}": {"http": {"base_url": PUBLIC}},
    "http.base_url is http://10.0.0.7:8000": {"http": {"base_url": "http://10.0.0.7:8000"}},
    "http.allowed_hosts has skills.example": {
        "http": {"allowed_hosts": ["localhost:8000", "skills.example"]}
    },
    "http.allowed_hosts has 127.0.0.1.example:80": {
        "http": {"allowed_hosts": ["127.0.0.1.example:80"]}
    },
    "http.trust_proxy_headers is true": {"http": {"trust_proxy_headers": True}},
    "web.trusted_header.user is X-Forwarded-User": {"web": FROM_HERE},
}


@pytest.mark.parametrize("reason", REACHED)
def test_a_server_that_others_reach_does_not_start_without_a_word_of_its_operator(
    reason: str,
) -> None:
    settings = REACHED[reason]
    http = settings.get("http", {})

    with pytest.raises(ConfigError) as refused:
        check_sign_in(parse(**settings))

    assert str(refused.value).startswith(reason)
    for setting in ("http.auth.issuer", "http.anonymous: [skills:read]", "[]"):
        assert setting in str(refused.value)
    check_sign_in(parse(**{**settings, "http": {**http, "anonymous": []}}))


@pytest.mark.parametrize(
    "http",
    [
        {},
        {"host": "localhost"},
        {"host": "::1"},
        {"host": "127.0.0.2"},
        {"base_url": "http://localhost:8000/skills"},
        {"base_url": "http://[::1]:8000"},
        {"allowed_hosts": ["localhost:8000", "[::1]:8000", "127.0.0.1"]},
    ],
)
def test_a_server_of_one_machine_trusts_its_callers(http: dict[str, Any]) -> None:
    assert derive_anonymous_scopes(parse(http=http)) == set(SCOPES)


@pytest.mark.parametrize(
    "http",
    [
        {"anonymous": [READ], "allow_anonymous": True},
        {"anonymous": [], "allow_anonymous": True},
        {"anonymous": [READ], "auth": {"issuer": "https://id.example"}},
        {"allow_anonymous": True, "auth": {"issuer": "https://id.example"}},
    ],
)
def test_settings_that_contradict_each_other_are_refused(http: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="leave"):
        check_sign_in(parse(http={"base_url": PUBLIC, **http}))


def test_the_old_setting_still_lets_callers_in_and_says_how_to_replace_it() -> None:
    http = {"allow_anonymous": True, "base_url": PUBLIC}

    with served({"http": http}) as server:
        said = server.wait_for_log("http.allow_anonymous is deprecated")
        server.wait_for_log("Serving 27 skills")
        listed = httpx.get(server.url.replace("/mcp", "/api/skills"))

    assert "http.anonymous: [skills:read, skills:refresh, skills:feedback]" in said
    assert listed.status_code == 200


SERVERS: Mapping[str, dict[str, Any]] = {
    "For its own machine, with nothing set": {},
    "`http.anonymous: []`": {"http": {"anonymous": []}},
    "`http.anonymous: [skills:read]`": {"http": {"anonymous": [READ]}},
    "`http.anonymous` with all scopes": {"http": {"anonymous": list(SCOPES)}},
    "`http.allow_anonymous: true`, which is deprecated": {"http": {"allow_anonymous": True}},
    "`web.trusted_header`, and `http.anonymous: []`": {
        "http": {"anonymous": []},
        "web": FROM_HERE,
    },
    "`web.trusted_header`, and `http.anonymous: [skills:read]`": {
        "http": {"anonymous": [READ]},
        "web": FROM_HERE,
    },
    "`http.auth.issuer`": {
        "http": {"auth": {"issuer": "http://127.0.0.1:1", "audience": "skills"}},
        "web": {"client_id": "pages"},
    },
}
COLUMNS = {
    "Pages": ("page", "skill page"),
    "`/mcp`, `/api` and the well-known index": ("list_skills", "list", "well-known"),
    "`refresh_skills`, `report_usage`": ("refresh_skills", "report_usage"),
    "The report": ("report page", "report"),
    "Add skills": ("upload",),
    "`POST /events`": ("events",),
}
TABLE = tables(section(DOCS / "explanation/security-over-http.md", "## Callers without sign-in"))[0]


def test_the_table_names_these_servers() -> None:
    assert [row["Server"] for row in TABLE] == [
        *SERVERS,
        "Reached by others, with nothing set",
    ]


@pytest.mark.parametrize("server", SERVERS)
def test_each_cell_of_the_table_is_what_happens(tmp_path: Path, server: str) -> None:
    [row] = [each for each in TABLE if each["Server"] == server]

    with served_here(tmp_path, **SERVERS[server]) as client:
        found = {
            column: {is_answered(ask(client, each)) for each in names}
            for column, names in COLUMNS.items()
        }

    assert found == {column: {row[column] == "yes"} for column in COLUMNS}


def is_answered(answer: httpx.Response) -> bool:
    """Whether a caller gets in, and is not sent to a sign-in."""
    return is_let_in(answer) and not answer.is_redirect
