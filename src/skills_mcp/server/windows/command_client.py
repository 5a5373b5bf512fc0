"""The process of a command that a running server answers.

It sends its words, its variables and the facts of its terminal, and writes what the
server sends back. Without an answer it has written nothing, and runs the command itself.

Rule: no module of ours outside of this folder is imported, and little of the standard
library: to import the program takes most of the time of a command.
"""

import os
import socket
import sys
from collections.abc import Mapping, Sequence

from skills_mcp.server.windows.rendezvous import (
    ACCEPTED,
    FLAGS,
    PATHS,
    Rendezvous,
    compose_greeting,
    describe_process,
    find_rendezvous,
)

STDOUT = b"o"
STDERR = b"e"
PAGED = b"p"
PAGED_PLAIN = b"q"
"""A text for a pager; the second without colours."""
WORKING = b"w"
"""The server is at work; sent when there is nothing else for a while."""
ENDED = b"x"
"""The command has ended; with its exit code."""
DECLINED = b"d"
"""The process has to run the command itself."""

HEADER_BYTES = 5
"""Kind of a frame, and the length of its data."""

WORKING_SECONDS = 0.5
"""How often a server that works says so."""

_ANSWER_SECONDS = 1.0  # a server that listens answers at once
_SILENCE_SECONDS = 6 * WORKING_SECONDS
_READ_BYTES = 2**18

_SWITCHES = {"--json", "--pager", "--no-pager", "--raw", "--files", "--problems", "--tokens"}
_VALUES = {
    *("--skill", "--within", "--category", "--limit", "--algorithm", "--depth", "--search"),
    "--project",
}
_CONTENT_VALUES = PATHS | {"--branch", "--ref", "--subfolder", "--plugins"}
OPTIONS = _SWITCHES | _VALUES | _CONTENT_VALUES | FLAGS
"""Options of these commands but for `--log-level`: the server has a level of its own."""

# With one of these, a command logs more, or is completed by a shell.
_OWN_PROCESS = ("LOG_LEVEL", "SKILLS_MCP_LOG_LEVEL", "_SKILLS_MCP_COMPLETE")

_HIDDEN_CURSOR = b"\x1b[?25l"
_CLEARED_LINE = b"\r\x1b[2K\x1b[?25h"

_Frames = list[tuple[bytes, bytes]]


def ask_server(words: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Have a running server of the same settings answer a command.

    Returns:
        The exit code; None without an answer.

    Raises:
        KeyboardInterrupt: The person does not wait for the answer.
    """
    try:
        rendezvous = _find_rendezvous(words, environment)
        connection = rendezvous.connect(_ANSWER_SECONDS) if rendezvous else None
    except (OSError, ValueError):
        return None
    if connection is None:
        return None
    with connection:
        answer = _Answer(connection)
        try:
            greeting = compose_greeting(
                "command", describe_process([_describe_terminal(), *words], environment)
            )
            connection.sendall(greeting)
            return answer.receive()
        except (OSError, ValueError):
            return None
        finally:
            answer.clear()


def _find_rendezvous(words: Sequence[str], environment: Mapping[str, str]) -> Rendezvous | None:
    content = select_content_words(words[1:])
    if content is None or any(map(environment.get, _OWN_PROCESS)):
        return None
    if any(getattr(each, "encoding", None) != "utf-8" for each in (sys.stdout, sys.stderr)):
        return None
    return find_rendezvous(content, environment, is_window=False)


def select_content_words(words: Sequence[str]) -> list[str] | None:
    """Words of a command line that a window would have, too; None if one is unknown."""
    rest = iter(words)
    content: list[str] = []
    for word in rest:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, has_value, value = word.partition("=")
        if name not in OPTIONS or (has_value and name in _SWITCHES | FLAGS):
            return None
        if name in _SWITCHES | FLAGS:
            content += [name] if name in FLAGS else []
            continue
        found = value if has_value else next(rest, None)
        if found is None:
            return None
        if name in _CONTENT_VALUES:
            content += [name, found]
    return content


def _describe_terminal() -> str:
    """Which of standard output and standard error is a terminal, and its size."""
    size = next(filter(None, map(_read_size, (0, 1, 2))), (0, 0))
    facts = (int(os.isatty(1)), int(os.isatty(2)), *size)
    return " ".join(map(str, facts))


def _read_size(descriptor: int) -> Sequence[int]:
    try:
        return os.get_terminal_size(descriptor)
    except OSError:
        return ()


class _Answer:
    """What a server sends back, which is written once it is complete.

    Before any output, what goes to standard error is shown at once: a progress bar.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._frames: _Frames = []
        self._is_live = os.isatty(2)
        self._has_hidden_cursor = False

    def receive(self) -> int | None:
        """Receive and write the answer.

        Raises:
            OSError: The server has ended, or says nothing any more.
        """
        self._connection.settimeout(_ANSWER_SECONDS)
        if self._read(len(ACCEPTED)) != ACCEPTED:
            return None
        self._connection.settimeout(_SILENCE_SECONDS)
        while True:
            header = self._read(HEADER_BYTES)
            kind, data = header[:1], self._read(int.from_bytes(header[1:], "big"))
            if kind == DECLINED:
                return None
            if kind == ENDED:
                self._has_hidden_cursor = False
                return int(data) if _write_all(self._frames) else None
            if kind == STDERR and self._is_live and not self._frames:
                self._has_hidden_cursor |= _HIDDEN_CURSOR in data
                _write(2, data)
            elif kind != WORKING:
                self._frames.append((kind, data))

    def clear(self) -> None:
        """Remove the progress bar of a server that has not answered."""
        if self._has_hidden_cursor:
            _write(2, _CLEARED_LINE)

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self._connection.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError("the server has ended")
            self._buffer += data
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found


def _write_all(frames: _Frames) -> bool:
    """Write an answer; False without a reader, which the program reports in its own way."""
    try:
        for kind, data in frames:
            if kind in {PAGED, PAGED_PLAIN}:
                _page(data.decode(), is_plain=kind == PAGED_PLAIN)
            else:
                _write(1 if kind == STDOUT else 2, data)
    except OSError:
        return False
    return True


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _page(text: str, *, is_plain: bool) -> None:
    from click import echo_via_pager

    echo_via_pager(text, color=False if is_plain else None)
