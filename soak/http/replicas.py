"""Replicas of a server over HTTP, and a proxy of `deploy/compose` in front of them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Self

import yaml

from soak.scenario import Unavailable
from tests.clients import MODERN
from tests.support import PROJECT, wait_for

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
PATIENCE_SECONDS = 60

_CONFIGURATION = PROJECT / "deploy" / "compose"


class Replica:
    """A server that can be restarted; it has the same ports each time.

    Args:
        number: From 1 on.
        home: Where its cache is; replicas may share one.
        folder: Where its settings and its log are.
        settings: As in `config.yaml`, without the ports.
        options: Of the command line.
    """

    def __init__(
        self,
        number: int,
        home: Path,
        folder: Path,
        settings: Mapping[str, Any],
        options: Sequence[str],
    ) -> None:
        self.port, self.operations_port = find_ports(2)
        self.number = number
        self.log = folder / f"replica-{number}.log"
        ports = {"port": self.port, "operations_port": self.operations_port}
        file = folder / f"replica-{number}.yaml"
        http = {**settings.get("http", {}), **ports}
        file.write_text(yaml.safe_dump({**settings, "http": http}))
        self._environment = {**os.environ, "SKILLS_MCP_HOME": str(home)}
        self._command = (
            *(sys.executable, "-m", "skills_mcp", "--transport", "http"),
            *("--config", str(file), *options),
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begin = 0

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self.launch()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return when a load balancer would send requests to it."""
        wait_for(self.is_ready, seconds=PATIENCE_SECONDS)

    def launch(self) -> None:
        """Start it, without waiting for it."""
        with self.log.open("ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def is_ready(self) -> bool:
        """Whether a load balancer would send requests to it."""
        if self._require_process().poll() is not None:
            raise RuntimeError(self.log.read_text())
        # Another server may have had its port until a moment ago.
        if str(self.operations_port).encode() not in self.log.read_bytes()[self._log_begin :]:
            return False
        try:
            status, _ = self._get("/readyz")
        except (OSError, HTTPException):
            return False
        return status == HTTPStatus.OK

    def wait_until_asked(self) -> None:
        """Return when the load balancer has noticed that it is ready."""
        wait_for(self._is_asked, seconds=PATIENCE_SECONDS)

    def _is_asked(self) -> bool:
        """Whether it was sent a message of MCP since it started."""
        _, metrics = self._get("/metrics")
        return any(
            line.startswith("http_server_request_duration_seconds_count")
            and 'http_route="/mcp"' in line
            for line in metrics.splitlines()
        )

    def _get(self, path: str) -> tuple[int, str]:
        """Return what its operations port answers: the status and the text.

        Raises:
            OSError: It does not listen.
            HTTPException: The answer is none of HTTP.
        """
        connection = HTTPConnection("127.0.0.1", self.operations_port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def stop(self) -> float:
        """Ask it to end; return how many seconds that took.

        Raises:
            RuntimeError: It has failed.
        """
        process, began = self._require_process(), time.monotonic()
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE_SECONDS):
            raise RuntimeError(self.log.read_text())
        return time.monotonic() - began

    def _require_process(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("it was never started")
        return self._process

    def kill(self) -> None:
        """End it now, if it runs."""
        if self._process:
            self._process.kill()
            self._process.wait()


@contextmanager
def replicas(
    folder: Path,
    count: int,
    *,
    is_shared: bool,
    settings: Mapping[str, Any],
    options: Sequence[str],
) -> Iterator[list[Replica]]:
    """Start servers, with one cache for all or one for each."""
    with ExitStack() as stack:
        made = []
        for number in range(1, count + 1):
            home = folder / ("home" if is_shared else f"home-{number}")
            made.append(Replica(number, home, folder, settings, options))
            stack.callback(made[-1].kill)
        for each in made:
            each.launch()
        for each in made:
            each.wait_until_ready()
        yield made


@contextmanager
def haproxy(folder: Path, behind: Sequence[Replica], *, has_pages: bool = False) -> Iterator[int]:
    """Run haproxy with the configuration that we ship; yield its port.

    With `has_pages`, every path is passed, in the way that the file says.

    Raises:
        Unavailable: It is not installed.
    """
    text = (_CONFIGURATION / "haproxy.cfg").read_text()
    [port] = find_ports(1)
    bind = next(line for line in text.splitlines() if "bind " in line)
    text = text.replace(bind, f"    bind 127.0.0.1:{port}")
    text = text.replace("maxconn 20000", "maxconn 1000")
    if has_pages:
        text = "\n".join(line for line in text.splitlines() if "is_outside" not in line) + "\n"
    for each in behind:
        name = f"skills-{each.number}"
        here = f"{name} 127.0.0.1:{each.port} port {each.operations_port}"
        text = text.replace(f"{name} {name}:8000", here)
    text = _without_others(text)
    file = folder / "haproxy.cfg"
    file.write_text(text)
    with _running(folder, ["haproxy", "-f", str(file)], port):
        yield port


@contextmanager
def nginx(folder: Path, behind: Sequence[Replica], *, has_pages: bool = False) -> Iterator[int]:
    """Run nginx with the configuration that we ship; yield its port.

    With `has_pages`, every path is passed, in the way that the file says.

    Raises:
        Unavailable: It is not installed.
    """
    text = (_CONFIGURATION / "nginx.conf").read_text()
    [port] = find_ports(1)
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    text = text.replace("/dev/stdout", str(folder / "nginx-access.log"))
    text = text.replace("worker_connections 20000", "worker_connections 500")
    if has_pages:
        text = text.replace("return 404;", "proxy_pass http://skills;")
    kept = [line for line in text.splitlines() if "ssl_certificate" not in line]
    text = "\n".join(kept)
    for each in behind:
        text = text.replace(f"skills-{each.number}:8000", f"127.0.0.1:{each.port}")
    text = _without_others(text)
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in places)
    text = text.replace("http {\n", f"http {{\n{temporary}", 1)
    file = folder / "nginx.conf"
    file.write_text(f"daemon off;\npid {folder}/nginx.pid;\n{text}")
    log = str(folder / "nginx-error.log")
    with _running(folder, ["nginx", "-e", log, "-c", str(file)], port):
        yield port


def _without_others(text: str) -> str:
    """Leave replicas out that were not started."""
    return "".join(line for line in text.splitlines(keepends=True) if ":8000" not in line)


@contextmanager
def _running(folder: Path, command: Sequence[str], port: int) -> Iterator[None]:
    program = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise Unavailable(f"{command[0]} is not installed")
    log = folder / f"{command[0]}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: _is_open(port) or process.poll() is not None)
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        yield
    finally:
        process.terminate()
        process.wait()


def find_ports(count: int) -> list[int]:
    """Return numbers of ports that are free."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def _is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Caller:
    """A client on one connection that asks for a skill, in either protocol era.

    Args:
        port: Of a server, or of a proxy.
        is_modern: Whether it speaks 2026-07-28; if not, 2025-06-18 without a session.
    """

    def __init__(self, port: int, *, is_modern: bool = True) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self._is_modern = is_modern

    def ask(self, context: str) -> dict[str, Any]:
        """Return what `get_skill` replies.

        Raises:
            OSError: The connection was closed or refused.
            HTTPException: The answer is none of HTTP.
            ValueError: It is no reply of the tool.
        """
        version = "2026-07-28" if self._is_modern else "2025-06-18"
        headers = {**HEADERS, "Mcp-Protocol-Version": version}
        params: dict[str, Any] = {
            "name": "get_skill",
            "arguments": {"context": context},
        }
        if self._is_modern:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "get_skill"}
            params["_meta"] = MODERN
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self._connection.request("POST", "/mcp", json.dumps(call), headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"{answer.status}: {text[:300]}")
        message = json.loads(text[text.index("{") :])
        reply: dict[str, Any] = json.loads(message["result"]["content"][0]["text"])
        return reply

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Traffic:
    """Callers in threads of their own, which ask until they are told to stop."""

    def __init__(self, port: int, count: int, context: str) -> None:
        self.asked = 0
        self.lost: list[str] = []
        self._port = port
        self._context = context
        self._gate = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(bool(number % 2),)) for number in range(count)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join()

    def _ask(self, is_modern: bool) -> None:  # noqa: FBT001 - of a thread
        caller = Caller(self._port, is_modern=is_modern)
        while not self._is_over.is_set():
            fault = ""
            try:
                reply = caller.ask(self._context)
                fault = "" if "content" in reply else str(reply)[:300]
            except (OSError, HTTPException, ValueError) as error:
                fault = repr(error)
                caller.close()
            with self._gate:
                self.asked += 1
                self.lost += [fault] if fault else []
        caller.close()
