"""A real server among things that no caller may reach, and what shows that one did."""

import json
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import yaml

from soak.http.hostile_inputs import Doors
from soak.http.identity_provider import find_port
from soak.http.raw_http import RawRequest, compose, exchange, find_fault
from tests.features.web.visiting import begin, come_back
from tests.http import forge
from tests.http_server import HttpServer, following
from tests.issuer import Issuer, running_issuer
from tests.support import PATIENCE_SECONDS, PROJECT, wait_for, write, write_skill

CANARY = "canary-" + secrets.token_hex(16)
"""The content of each file that no caller may see."""

SHUTDOWN_SECONDS = 3
"""The setting of each server that is attacked: shorter than its default."""

FORBIDDEN_VARIABLE = "SOAK_FORBIDDEN"
"""Tells another process what no answer may hold, as `describe_forbidden` has it."""

_SCOPES = "skills:read skills:refresh skills:feedback skills:report"
_SCOPES_OF_PEOPLE = ["openid", "profile", "skills:report", "skills:upload"]
_FRAME = re.compile(r'File "(.*?)([\w.-]+/[\w.-]+\.py)", line \d+, in (\S+)')
_RAISED = re.compile(r"^(?:\s*\| ?)*((?:\w+\.)*\w*(?:Error|Exception|Refused)\b.*)$")
_SIGNS = ("Traceback (most recent call last)", "Exception in ASGI application")
_LOG_SECONDS = 2.0
_DAY_SECONDS = 86_400  # no token ends while the attack goes on
_MOST_SHOWN = 4_000
"""Characters of a request: a longer one is a bomb."""

_FORM_TOKEN = re.compile(r'name="form_token"\s+value="(\w+)"')


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The folders of a server, and those beside them."""

    top: Path

    @property
    def content(self) -> Path:
        """The skills, which no caller changes."""
        return self.top / "content"

    @property
    def added(self) -> Path:
        """The source that takes uploads."""
        return self.top / "added"

    @property
    def home(self) -> Path:
        """The home of the server."""
        return self.top / "home"

    @property
    def temporary(self) -> Path:
        """TMPDIR of the server."""
        return self.top / "tmp"

    @property
    def secrets(self) -> Path:
        """The files that settings name."""
        return self.top / "secrets"

    @property
    def alias(self) -> Path:
        """Another name of a folder beside the server, which requests may hold."""
        return self.top.with_name("alias")

    def make(self) -> None:
        """Write the content, the canaries, and the folders of the server."""
        fixtures = PROJECT / "fixtures"
        shutil.copytree(fixtures / "skills-content", self.content)
        packages = fixtures / "packages-content" / "skills"
        shutil.copytree(packages, self.content, dirs_exist_ok=True)
        write_skill(self.content, "secret/plan.md", body=CANARY)
        for folder in (self.added, self.home, self.temporary, self.top / "outside"):
            folder.mkdir()
        self.alias.symlink_to(self.top / "outside")
        for canary in (
            "canary",
            "beside/SKILL.md",
            "user/.ssh/id",
            "data/ssh/1/SKILL.md",
        ):
            write(self.top / canary, CANARY)
        write(self.secrets / "ingest", secrets.token_hex(32))
        write(self.secrets / "webhook", forge.SECRET)
        for file in self.secrets.iterdir():
            file.chmod(0o600)

    def read_outside(self) -> dict[str, tuple[int, int, int]]:
        """Return what lies outside of the folders that the server may change."""
        owned = {self.added, self.home, self.temporary}
        found, folders = {}, [self.top.parent]
        while folders:
            folder = folders.pop()
            for each in folder.iterdir():
                about = each.lstat()
                key = str(each.relative_to(self.top.parent))
                if each in owned:
                    continue
                if each.is_dir() and not each.is_symlink():
                    folders.append(each)
                    found[key] = (about.st_mode, 0, 0)
                else:
                    found[key] = (about.st_mode, about.st_size, about.st_mtime_ns)
        return found


@dataclass(slots=True)
class AttackedServer:
    """A server, what its callers know, and what they must not learn."""

    server: HttpServer
    surroundings: Surroundings
    port: int
    doors: Doors
    _outside: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _read_lines: int = 0
    _seen_lines: int = 0
    _forbidden: Mapping[str, bytes] = field(default_factory=dict)

    def begin(self) -> None:
        """Note how everything is before the first attack."""
        here = self.surroundings
        key = here.home / "web.key"
        self._forbidden = {
            "an absolute path": str(here.top).encode(),
            "a hidden file": CANARY.encode(),
            "the token of events": (here.secrets / "ingest").read_bytes(),
            **({"the key of cookies": key.read_bytes().strip()} if key.exists() else {}),
        }
        self._outside = here.read_outside()
        self._read_lines = len(self.server.lines)

    def try_request(self, request: RawRequest) -> str:
        """Send a request, and return what went wrong; empty if nothing did."""
        try:
            answer = exchange(("127.0.0.1", self.port), request, PATIENCE_SECONDS)
        except ConnectionRefusedError:
            return "it does not listen any more"
        has_failed = HTTPStatus.INTERNAL_SERVER_ERROR in answer.statuses
        changed = self.find_outside()  # whatever else is wrong: it is of this request
        raised = self._find_raised(has_failed=has_failed)
        return changed or raised or find_fault(answer, request.data, self._forbidden)

    def render(self, request: RawRequest) -> str:
        """Return a request as Python has it; names stand for long rights."""
        rights = {
            "a token": self.doors.authorizations,
            "a session": (self.doors.cookie,),
            "the token of events": (self.doors.ingest,),
            "its form token": (self.doors.form_token.encode(),),
        }
        data = request.data
        for name, values in rights.items():
            for number, value in enumerate(values):
                if value:
                    label = f"<{name}{f' {number}' if number else ''}>"
                    data = data.replace(value, label.encode())
        shown = repr(data)
        return f"{shown[:_MOST_SHOWN]}…" if len(shown) > _MOST_SHOWN else shown

    def describe_forbidden(self) -> str:
        """Return what no answer may hold, as JSON of hexadecimal digits."""
        return json.dumps({name: it.hex() for name, it in self._forbidden.items()})

    def find_outside(self) -> str:
        """Return which file was made, changed or deleted that is not the server's."""
        now = self.surroundings.read_outside()
        if now == self._outside:
            return ""
        changed = sorted(dict(now.items() ^ self._outside.items()))
        self._outside = now
        return f"changed outside: {', '.join(changed[:3])}"

    def find_logged(self) -> str:
        """Return the exception in the log that no request has been told of."""
        return self._find_raised(has_failed=False)

    def _find_raised(self, *, has_failed: bool) -> str:
        """Return the exception of the log since the last time, and where it began."""
        if has_failed:
            with suppress(AssertionError):  # it may be logged by a line alone
                wait_for(self._has_news, seconds=_LOG_SECONDS)
        if not self._has_news():
            return ""
        wait_for(self._is_settled)
        news = self.server.lines[self._read_lines :]
        self._read_lines += len(news)
        return f"raised {_describe(news)}"

    def _is_settled(self) -> bool:
        """Whether no line was added since the last time: a traceback has many."""
        before, self._seen_lines = self._seen_lines, len(self.server.lines)
        return before == self._seen_lines

    def _has_news(self) -> bool:
        news = self.server.lines[self._read_lines :]
        return any(sign in line for line in news for sign in _SIGNS)

    def answers_well(self) -> bool:
        """Whether a good request is answered as ever."""
        return bool(self.read_page("/api/skills?limit=1"))

    def read_page(self, target: str) -> bytes:
        """Return a page as the caller sees it who may do most; empty if none comes."""
        head = [(b"Host", self.doors.host), (b"Connection", b"close")]
        head += [(b"Authorization", each) for each in self.doors.authorizations[:1]]
        asked = RawRequest(compose(b"GET", target.encode(), head))
        try:
            answer = exchange(("127.0.0.1", self.port), asked, PATIENCE_SECONDS)
        except ConnectionRefusedError:
            return b""
        is_good = answer.statuses == (HTTPStatus.OK,)
        return answer.data.partition(b"\r\n\r\n")[2] if is_good else b""

    def read_megabytes(self) -> float:
        """Return the resident memory of the process."""
        asked = ["ps", "-o", "rss=", "-p", str(self.server.process.pid)]
        return int(subprocess.check_output(asked)) / 1024

    def end(self) -> float:
        """Ask it to end, and return in how many seconds it did, with which code."""
        started = time.monotonic()
        self.server.process.send_signal(signal.SIGTERM)
        code = self.server.wait()
        seconds = time.monotonic() - started
        return seconds if code == 0 else float("inf")

    def find_leftovers(self) -> list[str]:
        """Return what an ended server has left in TMPDIR, and half uploads."""
        here = self.surroundings
        half = [each for each in here.top.rglob("ready-*") if each.is_dir()]
        return [str(each.relative_to(here.top)) for each in (*here.temporary.iterdir(), *half)]


def _describe(lines: list[str]) -> str:
    """Return the exception that a log ends with, and the function of ours it is of."""
    frames = [found.groups() for line in lines if (found := _FRAME.search(line))]
    ours = [each for each in frames if "/skills_mcp/" in each[0]]
    raised = [found[1] for line in lines if (found := _RAISED.match(line.rstrip()))]
    _, file, function = (ours or frames or [("", "?", "?")])[-1]
    return f"{(raised or ['?'])[-1].partition(':')[0]} at {function} in {file}"


@dataclass(frozen=True, slots=True)
class Setup:
    """A way of the documentation to set a server up."""

    settings: Callable[[Surroundings, int], Mapping[str, Any]]
    has_sign_in: bool = False


def _settle_local(_: Surroundings, __: int) -> Mapping[str, Any]:
    """Return the settings of the guide's first step: this machine, and no sign-in."""
    return {"visibility": {"deny": ["secret/**"]}}


def _settle_signed_in(here: Surroundings, port: int) -> Mapping[str, Any]:
    """Return the settings of the guide: sign-in, grants, events and a webhook."""
    return {
        "http": {
            "base_url": f"http://127.0.0.1:{port}",
            "webhook_secret_file": str(here.secrets / "webhook"),
        },
        "web": {"client_id": "pages", "scopes": _SCOPES_OF_PEOPLE},
        "events": {"ingest_token_file": str(here.secrets / "ingest")},
        "access": [
            {"allow": ["*"], "deny": ["secret/**"]},
            {"when": {"groups": ["staff"]}, "allow": ["secret/**"]},
        ],
    }


SETUPS: Mapping[str, Setup] = {
    "local": Setup(_settle_local),
    "signed-in": Setup(_settle_signed_in, has_sign_in=True),
}
"""What is attacked, each with uploads into a folder and with events."""


@contextmanager
def attacked(folder: Path, setup: Setup) -> Iterator[AttackedServer]:
    """Start a server with canaries around it; it is ended with the block."""
    here, port = Surroundings(folder.resolve() / "stage"), find_port()
    here.top.mkdir(parents=True)
    here.make()
    with ExitStack() as running:
        issuer = running.enter_context(running_issuer()) if setup.has_sign_in else None
        settings = _merge(_settle_all(here, port, issuer), setup.settings(here, port))
        write(here.home / "config.yaml", yaml.safe_dump(settings))
        command = [sys.executable, "-m", "skills_mcp", "--transport", "http"]
        environment = {
            "SKILLS_MCP_HOME": str(here.home),
            "TMPDIR": str(here.temporary),
            "HOME": str(here.top / "user"),
        }
        server = running.enter_context(following(command, environment))
        server.wait_for_log("Serving MCP at")
        it = AttackedServer(server, here, port, _find_doors(here, port, issuer))
        wait_for(it.answers_well)
        it.begin()
        yield it


def _settle_all(here: Surroundings, port: int, issuer: Issuer | None) -> Mapping[str, Any]:
    auth = {"auth": {"issuer": issuer.url}} if issuer else {}
    return {
        "sources": [
            {"folder": str(here.content)},
            {"folder": str(here.added), "mount": "added"},
        ],
        "upload": {"mode": "folder", "source": "added"},
        "toolsets": ["core", "packages"],
        "http": {
            "port": port,
            "operations_port": 0,
            **auth,
            "shutdown_seconds": SHUTDOWN_SECONDS,
        },
    }


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which the second ones are added to the first."""
    both = {
        name: {**one[name], **other[name]}
        for name in one.keys() & other.keys()
        if isinstance(one[name], dict)
    }
    return {**one, **other, **both}


def _find_doors(here: Surroundings, port: int, issuer: Issuer | None) -> Doors:
    """Sign callers in, and return what all of them know."""
    url = f"http://127.0.0.1:{port}"
    tokens = [f"Bearer {each}".encode() for each in _issue(issuer, url)]
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as browser:
        if issuer:
            come_back(browser, issuer, begin(browser), exp_in=_DAY_SECONDS)
        page = browser.get("/add")
        cookies = [f"{name}={value}" for name, value in browser.cookies.items()]
        found = _FORM_TOKEN.search(page.text)
        session = _open_session(browser, tokens)
    served = [each.relative_to(here.content) for each in here.content.rglob("*.md")]
    return Doors(
        host=f"127.0.0.1:{port}".encode(),
        authorizations=tuple(tokens),
        cookie="; ".join(cookies).encode(),
        form_token=found[1] if found else "",
        ingest=b"Bearer " + (here.secrets / "ingest").read_bytes(),
        webhook_secret=forge.SECRET,
        sessions=(session,),
        outside=str(here.alias),
        paths=tuple(sorted({str(each.with_suffix("")) for each in served})),
    )


def _issue(issuer: Issuer | None, url: str) -> Iterator[str]:
    """Yield the tokens of callers who may do much, read alone, and nothing."""
    if issuer is None:
        return
    for scopes in (f"{_SCOPES} skills:upload skills:events", "skills:read", "openid"):
        yield issuer.token(aud=f"{url}/mcp", scope=scopes, exp_in=_DAY_SECONDS)


def _open_session(browser: httpx.Client, tokens: Sequence[bytes]) -> bytes:
    """Open a session of MCP as the caller who may do most."""
    head = {"Accept": "application/json, text/event-stream"}
    if tokens:
        head["Authorization"] = tokens[0].decode()
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "soak", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    reply = browser.post("/mcp", json=message, headers=head).raise_for_status()
    return reply.headers["mcp-session-id"].encode()
