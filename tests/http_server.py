"""A real server over HTTP, in a process of its own on a port that is free."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import yaml

from tests.support import PATIENCE_SECONDS, SKILLS_CONTENT

_LISTENING = re.compile(r"Serving MCP at (\S+)")
_OPERATING = re.compile(r"Operations at (\S+)")


@dataclass
class HttpServer:
    """A process that serves, with what it has logged."""

    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)
    home: Path = Path()
    _news: Event = field(default_factory=Event)

    def follow(self) -> None:
        """Read the log until the process ends."""
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)
            self._news.set()
        self._news.set()

    @property
    def url(self) -> str:
        """The address of MCP."""
        return self._find(_LISTENING)

    @property
    def operations_url(self) -> str:
        """The address of the operations port, without a path."""
        return self._find(_OPERATING)

    @property
    def log(self) -> str:
        """All that was logged so far."""
        return "".join(self.lines)

    def wait_for_log(self, text: str) -> str:
        """Return the first line with a text, as soon as there is one."""
        return self._find(re.compile(f"(.*{re.escape(text)}.*)"))

    def wait(self) -> int:
        """Return the exit code."""
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def _find(self, pattern: re.Pattern[str]) -> str:
        while True:
            self._news.clear()
            for line in tuple(self.lines):
                if found := pattern.search(line):
                    return found[1]
            is_over = self.process.poll() is not None
            assert self._news.wait(0.5 if is_over else PATIENCE_SECONDS), self.log


@contextmanager
def served(
    settings: Mapping[str, object] | None = None,
    *,
    content: Path = SKILLS_CONTENT,
    options: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "skills_mcp"),
) -> Iterator[HttpServer]:
    """Serve a folder over HTTP, with settings as in `config.yaml`.

    Both ports are free ones, unless the settings name others. Another program than ours
    may change what is no setting.
    """
    with tempfile.TemporaryDirectory() as home:
        merged = dict(settings or {})
        given = merged.get("http") or {}
        assert isinstance(given, dict)
        merged["http"] = {"port": 0, "operations_port": 0, **given}
        (Path(home) / "config.yaml").write_text(yaml.safe_dump(merged))
        command = [sys.executable, *program, "--transport", "http", *options]
        if not {"--repo", "--skills-dir"} & set(options):
            command += ["--skills-dir", str(content)]
        with following(command, {"SKILLS_MCP_HOME": home, **(environment or {})}) as it:
            it.home = Path(home)
            yield it


@contextmanager
def following(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[HttpServer]:
    """Start a server and read its log; it is killed with the block."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    server = HttpServer(process)
    reader = Thread(target=server.follow, daemon=True)
    reader.start()
    try:
        yield server
    finally:
        process.kill()
        process.wait()
        reader.join()
        assert process.stderr
        process.stderr.close()
