"""The pages on this machine, from the command to the address."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cli.test_serve_http import WITHOUT_EXTRA
from tests.features.report.happenings import missed
from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT, wait_for, write

OPEN = ("-m", "skills_mcp", "open", "--skills-dir", str(SKILLS_CONTENT))


@contextmanager
def opened(
    home: Path, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Open the pages, and return their address."""
    hidden = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
    process = subprocess.Popen(
        [sys.executable, *OPEN, *options],
        env={
            **os.environ,
            "SKILLS_MCP_HOME": str(home),
            **hidden,
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        said = process.stdout.readline()
        address = r"(http://127\.0\.0\.1:\d+/)"
        told = rf"The pages are at {address} .*\n"
        if "--json" in options:
            told = rf'{{"url": "{address}"}}\n'
        found = re.fullmatch(told, said)
        assert found, said
        yield found[1], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_says_where_the_pages_are_and_ctrl_c_ends_them(tmp_path: Path) -> None:
    with opened(tmp_path, "--no-browser") as (url, process):
        page = httpx.get(url)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=PATIENCE_SECONDS)

    assert page.status_code == 200
    assert code == 0


def test_programs_get_the_address(tmp_path: Path) -> None:
    with opened(tmp_path, "--no-browser", "--json") as (url, _):
        page = httpx.get(url)

    assert page.status_code == 200


def test_the_report_is_of_this_machine_without_a_database(tmp_path: Path) -> None:
    with opened(tmp_path, "--no-browser") as (url, _):
        home, empty = httpx.get(url).text, httpx.get(f"{url}report").text
        missed_now = missed("a haiku") | {"timestamp": datetime.now(UTC).isoformat()}
        write(tmp_path / "archive" / "events.jsonl", json.dumps(missed_now))
        report = httpx.get(f"{url}report").text

    assert f"{tmp_path}/config.yaml" in empty
    assert "enabled: true" in empty
    assert "analytics are off on this machine" in home
    assert url not in empty  # the port is another one the next time
    assert "a haiku" in report
    assert not list(tmp_path.rglob("events.db"))


def test_settings_of_a_server_for_others_do_not_count_here(tmp_path: Path) -> None:
    theirs = {
        "http": {
            "host": "0.0.0.0",  # noqa: S104 - it must not be taken
            "port": 80,
            "base_url": "https://skills.example.com",
            "auth": {"issuer": "https://id.example.com", "audience": "skills"},
            "webhook_secret_file": "/does/not/exist",
            "allowed_hosts": ["skills.example.com"],
            "allowed_origins": ["https://skills.example.com"],
            "trust_proxy_headers": True,
            "anonymous": [],
        },
        "web": {
            "enabled": False,
            "client_id": "pages",
            "trusted_header": {"user": "X-User", "proxies": ["127.0.0.1"]},
        },
        "access": [{"when": {"groups": ["payments"]}, "allow": ["**"]}],
    }
    write(tmp_path / "config.yaml", yaml.safe_dump(theirs))

    with opened(tmp_path) as (url, _):
        page = httpx.get(url)
        named = httpx.get(url, headers={"Host": "skills.example.com"})
        other = httpx.get(url, headers={"Origin": "https://skills.example.com"})

    assert page.status_code == 200
    assert (named.status_code, other.status_code) == (421, 403)


def test_a_browser_is_opened_where_there_is_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    browser = write(tmp_path / "browser", f"#!/bin/sh\necho $1 > {log}.new; mv {log}.new {log}\n")
    browser.chmod(0o755)

    with opened(tmp_path, environment={"BROWSER": f"{browser} %s"}) as (url, _):
        wait_for(log.exists)

    assert log.read_text() == f"{url}\n"


@pytest.mark.parametrize("option", ["--no-browser"])
def test_no_browser_is_opened_against_the_will(tmp_path: Path, option: str) -> None:
    log = tmp_path / "log"
    browser = write(tmp_path / "browser", f"#!/bin/sh\ntouch {log}\n")
    browser.chmod(0o755)

    with opened(tmp_path, option, environment={"BROWSER": f"{browser} %s"}) as (url, _):
        httpx.get(url)

    assert not log.exists()


@pytest.mark.usefixtures("started_anew")
def test_without_the_extra_it_says_what_to_install() -> None:
    script = WITHOUT_EXTRA.replace('"--transport", "http"', '"open"')

    ended = subprocess.run(
        [sys.executable, "-c", script, str(SKILLS_CONTENT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert ended.returncode == 3
    assert "skills-mcp: open needs prometheus_client" in ended.stderr
    assert " install " in ended.stderr
