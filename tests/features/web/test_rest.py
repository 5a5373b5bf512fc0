import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openapi_spec_validator import validate
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.received_event import parse_received
from skills_mcp.features.web.rest import rest_routes
from skills_mcp.features.web.site import create_site
from skills_mcp.features.web.upload_page import upload_routes
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import (
    EVERYTHING,
    OPERATOR,
    PRINCIPAL_KEY,
    READ,
    Access,
    Principal,
)
from tests.features.report.happenings import missed, served
from tests.support import open_library, skill_text, wait_for, write, write_skill

ROUTE = re.compile(r"\{(\w+):path\}")


def let_in(app: ASGIApp, caller: Access | Principal) -> ASGIApp:
    """Return the pages as one caller gets them, or one without sign-in."""
    principal = caller if isinstance(caller, Principal) else replace(OPERATOR, access=caller)

    async def bound(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PRINCIPAL_KEY] = principal
        await app(scope, receive, send)

    return bound


def ask_site(
    library: SkillLibrary, path: str, access: Access = EVERYTHING, /, **query: str
) -> httpx.Response:
    """Send one request to the pages over a library."""
    import anyio

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(
            let_in(create_site(library), access), raise_app_exceptions=False
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get(path, params=query or None)

    return anyio.run(ask)


def ask_in_turn(
    library: SkillLibrary, *asked: tuple[str, Access], tag: str = ""
) -> list[httpx.Response]:
    """Send requests to one site."""
    import anyio

    site, headers = create_site(library), {"If-None-Match": tag} if tag else {}

    async def ask(path: str, access: Access) -> httpx.Response:
        transport = httpx.ASGITransport(let_in(site, access))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as it:
            return await it.get(path, headers=headers)

    async def ask_all() -> list[httpx.Response]:
        return [await ask(*each) for each in asked]

    return anyio.run(ask_all)


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    content = tmp_path / "content"
    write_skill(content, "_root.md", body="Be kind.")
    for number in range(30):
        write_skill(content, f"area-{number % 3}/skill-{number:02}.md")
    write(content / "pdf/SKILL.md", "---\nname: pdf\ndescription: PDF forms\n---\nFill.")
    write(content / "pdf/scripts/fill.py", "print(1)\n")
    write(content / "pdf/page.html", "<script>alert(1)</script>")
    write(content / "pdf/picture.svg", "<svg onload='alert(1)'/>")
    write(content / "pdf/files/files/deep.md", "deep")
    write(content / "pdf/dot.png", b"\x89PNG\r\n\x1a\n\x00")
    write_skill(content, "secret/hidden.md")
    return open_library(content)


def list_all(library: SkillLibrary, **query: str) -> list[str]:
    """Return the paths of all pages."""
    paths: list[str] = []
    asked = dict(query)
    while True:
        reply = ask_site(library, "/api/skills", EVERYTHING, **asked).json()
        paths += [each["path"] for each in reply["skills"]]
        if reply["next"] is None:
            return paths
        asked["cursor"] = reply["next"]


def test_the_document_is_valid_and_has_every_route(library: SkillLibrary) -> None:
    document = ask_site(library, "/api/openapi.json").json()

    validate(document)
    every = [*rest_routes(), *upload_routes()]
    routes = {ROUTE.sub(r"{\1}", each.path) for each in every}
    assert routes - {"/api/openapi.json"} == set(document["paths"])


def test_a_reply_has_what_the_document_says(library: SkillLibrary) -> None:
    from jsonschema import Draft202012Validator

    document = ask_site(library, "/api/openapi.json").json()
    for path, kind in (
        ("/api/skills", "SkillListReply"),
        ("/api/skills/pdf/preview", "PreviewReply"),
        ("/api/skills/none/preview", "RefusalReply"),
    ):
        schema = {
            "$ref": f"#/components/schemas/{kind}",
            "components": document["components"],
        }
        reply = ask_site(library, path).json()
        Draft202012Validator(schema).validate(reply)
        assert set(reply) == set(document["components"]["schemas"][kind]["properties"])


def test_the_pages_of_a_list_hold_each_skill_once(library: SkillLibrary) -> None:
    everything = [skill.path for skill in library.view().snapshot.index.offered]

    assert list_all(library, limit="7") == everything
    assert sorted(list_all(library, q="example", limit="7")) == sorted(
        set(list_all(library, q="example"))
    )


def test_facets_say_what_choosing_them_leaves(library: SkillLibrary) -> None:
    reply = ask_site(library, "/api/skills", area="area-1").json()
    formats = {each["value"]: each["count"] for each in reply["facets"]["format"]}
    areas = {each["value"]: each["count"] for each in reply["facets"]["area"]}

    assert formats == {"rule": 10}
    assert areas["area-0"] == areas["area-1"] == reply["total"] == 10


def test_a_preview_names_where_each_part_comes_from(library: SkillLibrary) -> None:
    reply = ask_site(library, "/api/skills/area-0/skill-00/preview").json()

    assert [each["file"] for each in reply["chain"]] == [
        "_root.md",
        "area-0/skill-00.md",
    ]
    assert all(each["content"] in reply["content"] for each in reply["chain"])
    assert reply["content"] == library.view().load_skill("area-0/skill-00").instructions


def test_a_package_has_its_inventory(library: SkillLibrary) -> None:
    reply = ask_site(library, "/api/skills/pdf/preview").json()

    assert reply["fileInventory"]["hasSkillMd"]
    assert reply["fileInventory"]["hasScripts"]
    assert reply["fileInventory"]["scriptFiles"] == ["scripts/fill.py"]
    assert reply["isActive"]
    assert reply["currentVersion"] == reply["digest"]


@pytest.mark.parametrize(
    "file, kind, shown",
    [
        ("scripts/fill.py", "text/plain; charset=utf-8", "inline"),
        ("page.html", "text/plain; charset=utf-8", "attachment"),
        ("picture.svg", "application/octet-stream", "attachment"),
        ("files/files/deep.md", "text/plain; charset=utf-8", "inline"),
        ("dot.png", "image/png", "inline"),
    ],
)
def test_no_file_runs_in_a_browser(library: SkillLibrary, file: str, kind: str, shown: str) -> None:
    reply = ask_site(library, f"/api/skills/pdf/files/{file}")

    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == kind
    assert reply.headers["Content-Disposition"].startswith(shown)
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path, status, code",
    [
        ("/api/skills/none/preview", 404, "SKILL_NOT_FOUND"),
        ("/api/skills/none/files/x", 404, "SKILL_NOT_FOUND"),
        ("/api/skills/pdf/files/none.md", 404, "FILE_NOT_FOUND"),
        ("/api/skills/pdf/files/..%2F..%2Fetc%2Fpasswd", 400, "INVALID_PATH"),
        ("/api/skills?limit=0", 400, "INVALID_ARGUMENTS"),
        ("/api/skills?limit=101", 400, "INVALID_ARGUMENTS"),
        ("/api/skills?cursor=x", 400, "INVALID_ARGUMENTS"),
        ("/api/skills?colour=red", 400, "INVALID_ARGUMENTS"),
        ("/api/none", 404, "NOT_FOUND"),
    ],
)
def test_a_refusal_has_the_code_of_the_tools(
    library: SkillLibrary, path: str, status: int, code: str
) -> None:
    reply = ask_site(library, path)

    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


def test_what_a_caller_may_not_see_does_not_exist(library: SkillLibrary) -> None:
    access = EVERYTHING.narrow((), ("secret/*",))

    listed = ask_site(library, "/api/skills", access, area="secret").json()
    hidden = ask_site(library, "/api/skills/secret/hidden/preview", access)
    none = ask_site(library, "/api/skills/secret/nothing/preview", access)

    assert listed["skills"] == []
    assert hidden.status_code == none.status_code == 404
    assert (
        hidden.json()["error"]["message"].replace("hidden", "nothing")
        == (none.json()["error"]["message"])
    )


def test_a_cursor_goes_on_after_a_refresh_or_is_refused(tmp_path: Path) -> None:
    for number in range(20):
        write_skill(tmp_path, f"skill-{number:02}.md")
    library = open_library(tmp_path)
    listed = ask_site(library, "/api/skills", limit="10").json()
    found = ask_site(library, "/api/skills", limit="10", q="example").json()

    (tmp_path / "skill-03.md").unlink()
    library.sync()
    after = ask_site(library, "/api/skills", limit="10", cursor=listed["next"]).json()
    refused = ask_site(library, "/api/skills", limit="10", q="example", cursor=found["next"])

    assert [each["path"] for each in after["skills"]] == [
        f"skill-{number}" for number in range(10, 20)
    ]
    assert refused.json()["error"]["code"] == "INVALID_ARGUMENTS"
    assert "have changed" in refused.json()["error"]["message"]


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_request_makes_it_fail(library: SkillLibrary, path: str, word: str) -> None:
    asked: list[tuple[str, dict[str, str]]] = [
        ("/api/skills", {"q": word, "cursor": path, "limit": "3"}),
        ("/api/skills", {"q": word, "area": path}),
    ]
    for where, query in asked:
        assert ask_site(library, where, EVERYTHING, **query).status_code in {200, 400}


def test_looking_is_no_use_of_a_skill(
    library: SkillLibrary,
) -> None:
    seen: list[object] = []
    library.tracker.observe(lambda *event: seen.append(event))

    ask_site(library, "/api/skills", q="no such thing at all")
    ask_site(library, "/api/skills/pdf/preview")
    ask_site(library, "/api/skills/pdf/files/scripts/fill.py")

    assert seen == []
    library.view().load_skill("pdf")
    assert len(seen) == 1


def test_a_skill_text_is_served_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "x.md", skill_text(body="<b>&amp;</b>"))

    reply = ask_site(open_library(tmp_path), "/api/skills/x/preview").json()

    assert reply["content"] == "<b>&amp;</b>"


def test_the_owner_is_whom_the_author_names(tmp_path: Path) -> None:
    write_skill(tmp_path, "web/login.md", owner="Team Web")
    write(
        tmp_path / "pdf/SKILL.md",
        "---\nname: pdf\ndescription: PDF forms\nmetadata:\n  author: Ada\n---\nFill.",
    )
    write_skill(tmp_path, "api/errors.md")
    library = open_library(tmp_path)

    reply = ask_site(library, "/api/skills").json()
    hers = ask_site(library, "/api/skills", EVERYTHING, owner="Team Web").json()

    owners = {each["value"]: each["count"] for each in reply["facets"]["owner"]}
    assert owners == {".": 1, "Ada": 1, "Team Web": 1}
    assert [each["path"] for each in hers["skills"]] == ["web/login"]
    assert hers["skills"][0]["origin"] == "org"
    assert ask_site(library, "/api/skills/pdf/preview").json()["owner"] == "Ada"


def test_a_deprecated_skill_has_a_badge_and_leads_to_its_successor(tmp_path: Path) -> None:
    write_skill(tmp_path, "data/kafka.md", replaced_by="data/streams", deprecated="Off in May.")
    write_skill(tmp_path, "data/streams.md", keywords=["streams"])
    write_skill(tmp_path, "data/queues.md", keywords=["queues"], status="draft")
    library = open_library(tmp_path)

    listed = ask_site(library, "/api/skills").json()["skills"]
    page = ask_site(library, "/skills/data/kafka").text
    catalogue = ask_site(library, "/catalogue").text

    assert {skill["path"]: skill["status"] for skill in listed} == {
        "data/kafka": "deprecated",
        "data/streams": "active",
    }
    assert 'Use <a href="/skills/data/streams">data/streams</a> instead: Off in May.' in page
    assert all('<span class="tag warn">deprecated</span>' in shown for shown in (page, catalogue))


def test_a_skill_says_for_which_versions_it_is_and_when_it_is_read_again(tmp_path: Path) -> None:
    applies_to = [{"package": "npm:react", "versions": ">=18,<19"}, {"package": "vite"}]
    write_skill(tmp_path, "hooks.md", applies_to=applies_to, review_by="2027-01-31")
    write_skill(tmp_path, "plain.md")
    library = open_library(tmp_path)

    own = ask_site(library, "/skills/hooks").text
    plain = ask_site(library, "/skills/plain").text

    assert "written for react &gt;=18,&lt;19, vite" in own
    assert "2027-01-31" in own
    assert "written for" not in plain
    assert "read again" not in plain


def test_a_list_says_what_each_skill_costs_with_its_inherited_rules(tmp_path: Path) -> None:
    write_skill(tmp_path, "ui/_index.md", body="Of all. " * 500)
    write_skill(tmp_path, "ui/login.md", keywords=["login"], body="Short.")
    library = open_library(tmp_path)

    *_, listed = ask_site(library, "/api/skills").json()["skills"]
    catalogue = ask_site(library, "/catalogue").text

    assert listed["tokens"] > 1000
    assert f"{listed['tokens']:,} tokens" in catalogue


def test_the_report_of_programs_is_that_of_the_page(library: SkillLibrary, tmp_path: Path) -> None:
    from jsonschema import Draft202012Validator

    store = open_event_store(f"sqlite:///{tmp_path / 'events.db'}", tmp_path)
    moment = {"timestamp": datetime.now(UTC).isoformat()}
    happened = (served("pdf", group="web"), missed("a haiku", near=["pdf"]))
    store.store([parse_received(each | moment) for each in happened])
    with TestClient(let_in(create_site(library, store), EVERYTHING)) as client:
        document = client.get("/api/openapi.json").json()
        reply = client.get("/api/report", params={"days": 7, "area": "pdf"}).json()
        refused = [
            client.get("/api/report", params=each).json()["error"]
            for each in ({"days": "0"}, {"day": "7"}, {"around": "beef"})
        ]
    narrow = let_in(create_site(library, store), Access(((("pdf",), ()),)))
    with TestClient(narrow) as client:
        narrowed = client.get("/api/report").json()
    store.close()

    schema = {"$ref": "#/components/schemas/ReportReply", **document}
    Draft202012Validator(schema).validate(reply)
    assert {each["name"] for each in reply["groups"]} == {"", "web"}
    assert [each["task"] for each in reply["gaps"]] == ["a haiku"]
    assert {each["code"] for each in refused} == {"INVALID_ARGUMENTS"}
    assert [each["task"] for each in narrowed["gaps"]] == ["a haiku"]
    assert narrowed["groups"] is None
    assert ask_site(library, "/api/report").status_code == 404


def test_the_report_is_for_those_with_its_scope(library: SkillLibrary, tmp_path: Path) -> None:
    store = open_event_store(f"sqlite:///{tmp_path / 'events.db'}", tmp_path)
    reader = Principal("ada", "https://login", frozenset({READ}), EVERYTHING)
    with TestClient(let_in(create_site(library, store), reader)) as client:
        page, reply = client.get("/report"), client.get("/api/report")
        catalogue = client.get("/catalogue").text
    store.close()

    assert (page.status_code, reply.status_code) == (403, 403)
    assert "skills:report" in page.text
    assert reply.json()["error"]["code"] == "INSUFFICIENT_SCOPE"
    assert ">Report<" not in catalogue


def test_used_is_what_agents_got_as_soon_as_it_is_counted(
    library: SkillLibrary, tmp_path: Path
) -> None:
    store = open_event_store(f"sqlite:///{tmp_path / 'events.db'}", tmp_path)
    moment = datetime.now(UTC).isoformat()
    store.store([parse_received({**served("pdf"), "timestamp": moment})])
    with TestClient(let_in(create_site(library, store), EVERYTHING)) as client:
        wait_for(lambda: "used" in client.get("/api/skills").json()["facets"])

        used = client.get("/api/skills", params={"used": "yes"}).json()
        page = client.get("/catalogue").text
    store.close()

    assert [each["path"] for each in used["skills"]] == ["pdf"]
    counts = {each["value"]: each["count"] for each in used["facets"]["used"]}
    assert counts == {"yes": 1, "no": len(library.view().snapshot.index.offered) - 1}
    assert "By agents" in page
    assert "used" not in ask_site(library, "/api/skills").json()["facets"]


def test_a_client_that_has_a_reply_gets_it_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "auth.md", assets=[{"file": "a.txt"}])
    write(tmp_path / "auth/a.txt", "text")
    library = open_library(tmp_path)
    paths = ("/api/skills", "/api/skills/auth/preview", "/api/skills/auth/files/a.txt")

    for path in (*paths, "/api/openapi.json"):
        [first] = ask_in_turn(library, (path, EVERYTHING))
        [again] = ask_in_turn(library, (path, EVERYTHING), tag=first.headers["ETag"])
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
