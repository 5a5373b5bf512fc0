"""What the pages say while the database of events cannot be used."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from skills_mcp.config import Http
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.features.web.site import create_site
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.library import SkillLibrary
from skills_mcp.skills.access import OPERATOR
from tests.features.web.test_rest import let_in
from tests.support import SKILLS_CONTENT, open_library, wait_for, write

USER, NAME = "ada-of-the-database", "secret-events"

BROKEN = ["refuses", "hangs", "folder", "corrupt", "unreadable"]


@contextmanager
def broken_database(kind: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a database that cannot be used, and what no page may say."""
    if kind in {"refuses", "hangs"}:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            if kind == "refuses":
                listener.close()
            url = f"postgresql+psycopg://{USER}@127.0.0.1:{port}/{NAME}"
            yield url, [USER, NAME, "127.0.0.1", str(port)]
        return
    file = folder / NAME
    if kind == "folder":
        file.mkdir()
    else:
        write(file, "this is no database, and never was one\n" * 100)
    if kind == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        file.chmod(0)
    yield f"sqlite:///{file}", [NAME, str(folder)]


@pytest.fixture
def library() -> SkillLibrary:
    return open_library(SKILLS_CONTENT)


@pytest.mark.parametrize("kind", BROKEN)
def test_without_the_database_pages_are_shown_or_come_later(
    kind: str, library: SkillLibrary, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broken_database(kind, tmp_path) as (url, hidden):
        store = open_event_store(url, tmp_path)
        site = let_in(create_site(library, store), OPERATOR)
        app = BodyBufferMiddleware(site, http=Http())  # it adds `Retry-After`
        client = TestClient(app, raise_server_exceptions=False)

        with caplog.at_level(logging.WARNING):
            wait_for(lambda: "not known just now" in client.get("/catalogue").text)
            answers = {
                path: client.get(path)
                for path in ("/report", "/api/report", "/sources", "/problems", "/")
            }
            answers["skill"] = client.get("/skills/ui/react/auth")
            answers["used"] = client.get("/api/skills", params={"used": "yes"})
        store.close()

    later = {"/report", "/api/report"}
    assert {path: each.status_code for path, each in answers.items()} == {
        path: 503 if path in later else 200 for path in answers
    }
    for path in later:
        assert int(answers[path].headers["Retry-After"]) > 0
    assert answers["/api/report"].json()["error"]["code"] == "EVENTS_UNAVAILABLE"
    assert "The events cannot be read" in answers["/report"].text
    assert "Other servers are not shown" in answers["/sources"].text
    assert "It cannot be counted just now" in answers["skill"].text
    told = "".join(each.text for each in answers.values())
    assert [each for each in hidden if each in told] == []
    assert any(NAME in line for line in caplog.messages)


def test_one_request_waits_for_a_database_that_hangs_and_the_next_does_not(
    tmp_path: Path, library: SkillLibrary
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        port = listener.getsockname()[1]
        url = f"postgresql+psycopg://{USER}@127.0.0.1:{port}/{NAME}"
        store = open_event_store(url, tmp_path)
        client = TestClient(let_in(create_site(library, store), OPERATOR))

        answers = [client.get("/api/report").status_code for _ in range(5)]
        connections = count_connections(listener)
        store.close()

    assert answers == [503] * 5
    assert connections == 1


def count_connections(listener: socket.socket) -> int:
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1
