"""The process that a host starts for a window: it passes bytes to a server and back.

It starts the server if there is none, and connects to the next one if it ends. A
`Conversation` is pure, and has only what a second server needs: the handshake, and
requests without an answer. An answer is recorded before it goes to the client, so none
comes twice.

Rule: no module of ours outside of this folder is imported, and little of the standard
library: each window of a host waits for these imports, and holds them in memory.
"""

import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from skills_mcp.server import windows
from skills_mcp.server.windows.rendezvous import (
    ACCEPTED,
    Rendezvous,
    compose_greeting,
    describe_process,
    find_rendezvous,
)

ONCE = frozenset({"run_script", "report_usage", "run_skill_command", "run_skill_entry"})
"""Tools that must not run twice for one call."""

_MAX_SERVERS = 3
"""How many servers may end during one request, which may be what ends them.

The last one serves no other window.
"""

_MAY_HAVE_RUN = (
    "The server ended during this call, which may have taken effect. Look at what it "
    "should have changed before you repeat it."
)
_GIVEN_UP = "Three servers ended during this call. Do not repeat it; go on without it."
LOST_CODE = "SERVER_LOST"
_INTERNAL_ERROR = -32603

_RESPONSE = b'{"jsonrpc":"2.0","id":'
_MAX_ID_BYTES = 300

_SUBSCRIPTION = "subscriptions/listen"

_UNSENT = 2**63

Id = str | int | float | None


class Request:
    """A request without an answer."""

    __slots__ = ("end", "is_acknowledged", "line", "method", "servers", "tool")

    def __init__(self, line: bytes, method: str, tool: str, end: int) -> None:
        self.line = line
        self.method = method
        self.tool = tool
        self.end = end
        """Number of the last byte, of those for this server."""
        self.servers = 1
        self.is_acknowledged = False
        """Whether the client has the acknowledgement of its subscription."""


class Conversation:
    """Handshake and open requests of one client."""

    def __init__(self) -> None:
        self.requests: dict[Id, Request] = {}
        self._initialize: bytes | None = None
        self._initialize_id: Id = None
        self._initialized: bytes | None = None
        self._generation = 0
        self.is_resuming = False
        """Whether another server has to answer the handshake first."""
        self._held: list[bytes] = []

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer; a subscription has none."""
        return any(each.method != _SUBSCRIPTION for each in self.requests.values())

    @property
    def may_end_servers(self) -> bool:
        """Whether a request is to be kept from the server of other windows."""
        return any(each.servers >= _MAX_SERVERS for each in self.requests.values())

    def send(self, line: bytes, end: int) -> bytes | None:
        """Record a line of the client; None if no server of now may see it."""
        message = _parse(line)
        if message is None:
            return line  # the server says what is wrong
        method, number = message.get("method"), message.get("id")
        if method is None:
            return self._translate_answer(line, message)
        if method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled":
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(cancelled, str | int):
                self.requests.pop(cancelled, None)
        elif (
            isinstance(method, str)
            and isinstance(number, str | int)
            and not isinstance(number, bool)
        ):
            params = message.get("params")
            tool = params.get("name") if isinstance(params, dict) else None
            is_call = method == "tools/call" and isinstance(tool, str)
            self.requests[number] = Request(line, method, str(tool) if is_call else "", end)
            if method == "initialize":
                self._initialize, self._initialize_id = line, number
        return line

    def receive(self, line: bytes) -> bytes | None:
        """Record a line of the server; None if the client has it already."""
        number = _read_response_id(line)
        if number is None:
            message = _parse(line)
            if message is None:
                return line
            if "method" in message:
                return self._translate_message(line, message)
            found = message.get("id")
            number = found if isinstance(found, str | int | float) else None
        if self.is_resuming and number == self._initialize_id:
            self.is_resuming = False
            return None
        self.requests.pop(number, None)
        return line

    def lose_server(self, sent: int) -> Iterator[bytes]:
        """Answer what must not be asked again.

        Args:
            sent: How many bytes the lost server may have read.
        """
        self._generation += 1
        self.is_resuming = False
        for number, request in [*self.requests.items()]:
            # A line without an end was not read; a subscription outlives any server.
            if request.end > sent or request.method == _SUBSCRIPTION:
                continue
            if request.tool in ONCE or request.servers >= _MAX_SERVERS:
                del self.requests[number]
                yield _compose_error(number, request)
            else:
                request.servers += 1

    def note_end(self, line: bytes, end: int) -> None:
        """Record where a repeated line ends among the bytes for its server."""
        for request in self.requests.values():
            if request.line is line:
                request.end = end

    def resume(self) -> list[bytes]:
        """Lines for another server; those of `continue_` come after its handshake."""
        for request in self.requests.values():
            request.end = _UNSENT
        self._held = [request.line for request in self.requests.values()]
        if self._initialize is None or self._initialize_id in self.requests:
            return self.continue_()
        self.is_resuming = True
        return [self._initialize]

    def continue_(self) -> list[bytes]:
        """Lines after the handshake with another server."""
        held, self._held = self._held, []
        return [self._initialized, *held] if self._initialized else held

    def _translate_answer(self, line: bytes, message: "dict[str, object]") -> bytes | None:
        """Answer of the client to a request of a server, which may be a lost one."""
        if not self._generation:
            return line
        generation, _, number = str(message.get("id")).partition(":")
        if generation != f"skills-mcp-{self._generation}":
            return None
        import json

        return json.dumps({**message, "id": json.loads(number)}).encode() + b"\n"

    def _translate_message(self, line: bytes, message: "dict[str, object]") -> bytes | None:
        """Request or notification of a server; ids of two servers must not be equal."""
        import json

        if message["method"] == "notifications/subscriptions/acknowledged":
            return self._acknowledge(line, message)
        if "id" not in message or not self._generation:
            return line
        number = f"skills-mcp-{self._generation}:{json.dumps(message['id'])}"
        return json.dumps({**message, "id": number}).encode() + b"\n"

    def _acknowledge(self, line: bytes, message: "dict[str, object]") -> bytes | None:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        number = meta.get("io.modelcontextprotocol/subscriptionId") if meta else None
        request = self.requests.get(number)
        if request is None:
            return line
        was_acknowledged, request.is_acknowledged = request.is_acknowledged, True
        return None if was_acknowledged else line


def _parse(line: bytes) -> "dict[str, object] | None":
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _read_response_id(line: bytes) -> Id:
    """Id of a response as our server writes it, without parsing the result."""
    if not line.startswith(_RESPONSE):
        return None
    head = line[len(_RESPONSE) : len(_RESPONSE) + _MAX_ID_BYTES]
    ends = [at for at in (head.find(b',"result":'), head.find(b',"error":')) if at >= 0]
    token = head[: min(ends)] if ends else b""
    if token.isdigit():
        return int(token)
    text = token[1:-1]
    is_plain = token == b'"%s"' % text and b"\\" not in text and b'"' not in text
    return text.decode() if is_plain else None


def _compose_error(number: Id, request: Request) -> bytes:
    import json

    text = _MAY_HAVE_RUN if request.tool in ONCE else _GIVEN_UP
    message: dict[str, object] = {"jsonrpc": "2.0", "id": number}
    if request.tool:
        body = json.dumps({"error": {"code": LOST_CODE, "message": text}})
        result: dict[str, object] = {
            "content": [{"type": "text", "text": body}],
            "isError": True,
        }
        if "io.modelcontextprotocol/protocolVersion" in request.line.decode(errors="replace"):
            result["resultType"] = "complete"
        message["result"] = result
    else:
        message["error"] = {"code": _INTERNAL_ERROR, "message": text}
    return json.dumps(message).encode() + b"\n"


Serve = Callable[[], object]
"""Runs the program as it runs without sharing; it ends its process by itself."""

# A cold start takes one, and ten times as long on a machine that is busy with others:
# a server of its own would take as long again. Most hosts give up after 30.
_START_PATIENCE_SECONDS = 20.0
# A server that listens answers at once, unless it was stopped or is out of memory.
_GREETING_PATIENCE_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 0.004
# Many may wait, and to look takes each of them CPU that the server needs; the one that
# has started it is alone.
_LAST_PAUSE_SECONDS = 0.03

_BACK_OFF_SECONDS = (0.0, 0.05, 0.2, 0.8)
"""Pauses before attempts to connect; then this window has a server of its own."""

# The attempts above, and a server of its own that ends twice without an answer.
_MAX_FAILURES = len(_BACK_OFF_SECONDS) + 2

_PARENT_CHECK_SECONDS = 1.0  # as often as a server without a forwarder
_END_PATIENCE_SECONDS = 3.0  # a server gives its last calls one

_MAX_LINE_BYTES = 16 * 2**20  # as the server's
_MAX_WAITING_BYTES = 2**20
_READ_BYTES = 2**16
# What a pipe takes without blocking, once it is ready: PIPE_BUF, at least.
_WRITE_BYTES = 4096 if sys.platform == "linux" else 512

_READY = select.POLLIN | select.POLLHUP | select.POLLERR


class _EndedError(Exception):
    """The client, the parent process or a signal ends this window."""


def forward(words: Sequence[str], environment: Mapping[str, str], serve: Serve) -> int | None:
    """Forward until the client leaves.

    Returns:
        The exit code; None if this process has to serve by itself.
    """
    try:
        if os.isatty(0):
            return None  # a person wants to see what is wrong
        found = find_rendezvous(words, environment)
    except (OSError, ValueError):
        return None
    if found is None:
        return None
    connector = _Connector(found, environment, serve)
    link = connector.open(lambda: None)
    return None if link is None else _Window(connector, link).run()


class _Link:
    """Connection to a server, and the pipe of its log."""

    def __init__(self, connection: socket.socket, log: int | None) -> None:
        self.connection = connection
        self.log = log
        self.sent = 0
        self.is_up = True

    def close(self) -> None:
        self.is_up = False
        self.connection.close()


class _Connector:
    """Finds the server of a rendezvous, and starts it."""

    def __init__(self, found: Rendezvous, environment: Mapping[str, str], serve: Serve) -> None:
        self.rendezvous = found
        self._serve = serve
        self._fields = describe_process(sys.argv[1:], environment)

    def open(self, check: Callable[[], object], *, is_resumed: bool = False) -> _Link | None:
        """Connect to the server, and start it if there is none; None if it fails.

        Args:
            check: Called while waiting; it may raise.
            is_resumed: Whether another server had the window before.
        """
        deadline = time.monotonic() + _START_PATIENCE_SECONDS
        has_started, pause = False, _FIRST_PAUSE_SECONDS
        while time.monotonic() < deadline:
            if connection := self.rendezvous.connect(_GREETING_PATIENCE_SECONDS):
                try:
                    return self._greet(connection, is_resumed=is_resumed)
                except TimeoutError:
                    connection.close()
                    return None
                except OSError:
                    connection.close()  # it has just ended, or retired
            try:
                descriptor = self.rendezvous.claim()
            except OSError:
                return None
            if descriptor is not None:
                if has_started:
                    self.rendezvous.leave(descriptor)
                    return None  # it has ended, and says why when it serves us alone
                has_started = True
                self._launch(descriptor)
            check()
            time.sleep(pause)
            pause = pause if has_started else min(pause * 1.5, _LAST_PAUSE_SECONDS)
        return None

    def open_own(self) -> _Link:
        """Start a server for this window alone, behind a pair of sockets."""
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                _restore_signals()
                os.dup2(theirs.fileno(), 0)
                os.dup2(theirs.fileno(), 1)
                _close_others()
                os.environ["SKILLS_MCP_SHARE"] = "0"
                if sys.platform != "linux":
                    _start_anew()
                self._serve()
            finally:
                os._exit(1)
        theirs.close()
        ours.settimeout(0)
        return _Link(ours, None)

    def _greet(self, connection: socket.socket, *, is_resumed: bool) -> _Link:
        reading, writing = os.pipe()
        try:
            kind = "resume" if is_resumed else "window"
            greeting = compose_greeting(kind, self._fields)
            sent = socket.send_fds(connection, [greeting], [writing])
            connection.sendall(greeting[sent:])
            if connection.recv(len(ACCEPTED), socket.MSG_WAITALL) != ACCEPTED:
                raise ConnectionError("the server takes no more windows")
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        connection.settimeout(0)
        return _Link(connection, reading)

    def _launch(self, descriptor: int) -> None:
        """Start a server that outlives this process and its group.

        It is a grandchild, because hosts end all descendants. On Linux it is a copy of
        this process, which saves the start of another interpreter; on other systems
        libraries refuse to work in a copy.
        """
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os.close(descriptor)
            return
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            _detach(descriptor, self.rendezvous)
            if sys.platform != "linux":
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - as the system has it
                fields = descriptor, int(self.rendezvous.keeps_folder), self.rendezvous.key
                os.environ[_CLAIM] = ":".join([*map(str, fields), self.rendezvous.folder])
                _start_anew()
            windows.claim = self.rendezvous, descriptor
            self._serve()
        finally:
            os._exit(1)


_CLAIM = "_SKILLS_MCP_CLAIM"


def take_claim(environment: "os._Environ[str]") -> bool:
    """Become the server that the process before this program was to start."""
    found = environment.pop(_CLAIM, None)
    if found is None:
        return False
    descriptor, keeps_folder, key, folder = found.split(":", 3)
    rendezvous = Rendezvous(folder, key, keeps_folder=keeps_folder == "1")
    windows.claim = rendezvous, int(descriptor)
    return True


def _start_anew() -> None:
    words = [sys.executable, "-m", "skills_mcp", *sys.argv[1:]]
    os.execv(sys.executable, words)  # noqa: S606 - the same program


def _detach(descriptor: int, found: Rendezvous) -> None:
    """Let go of everything that belongs to the window."""
    _restore_signals()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    _close_others(descriptor)
    if not found.keeps_folder:
        os.chdir("/")  # or its file system could not be unmounted


def _close_others(kept: int = -1) -> None:
    """Close all but the standard streams, also those left open by the host."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        numbers = [*range(256)]
    for number in numbers:
        if number > 2 and number != kept:  # noqa: PLR2004 - standard error
            try:
                os.close(number)
            except OSError:  # that of the list itself
                pass


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)


_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _open_output() -> tuple[int, int]:
    """Descriptor of standard output, and how much it takes at once without blocking.

    The flag that a descriptor does not block belongs to all processes that have
    inherited it.  On Linux a pipe can be opened once more, with flags of our own.
    """
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
        if is_pipe and sys.platform == "linux":
            return os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK), _READ_BYTES
    except OSError:
        pass
    return 1, _WRITE_BYTES


class _Window:
    """One client, and the server that it has at the moment."""

    def __init__(self, connector: _Connector, link: _Link) -> None:
        self._connector = connector
        self._link = link
        self._conversation = Conversation()
        self._parent = os.getppid()
        self._input = bytearray()
        """The begin of the client's next line."""
        self._skips_line = False
        self._queue = bytearray()
        """Lines for the server."""
        self._queued = 0
        """Number of bytes for this server, sent ones included."""
        self._reply = bytearray()
        """The begin of the server's next line."""
        self._output = bytearray()
        """Lines for the client."""
        self._log = b""
        self._is_ending = False
        self._has_input = True
        self._failures = 0
        self._exit_code = 0
        self._held: list[bytes] = []
        """Lines of the client that wait for the handshake with another server."""
        self._poll = select.poll()
        self._out, self._piece = _open_output()
        self._writable = select.poll()
        self._writable.register(1, select.POLLOUT)
        self._masks: dict[int, int] = {}
        self._woken = -1

    def run(self) -> int:
        """Forward until the end of this window; the exit code."""
        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in _ENDING:
            signal.signal(number, lambda *_: None)
        try:
            while True:
                self._step()
        except _EndedError:
            self._finish()
        except ConnectionError:
            pass  # the client reads no more, or has left a reply in the socket of both streams
        return self._exit_code

    def _step(self) -> None:
        self._watch()
        events = self._poll.poll(_PARENT_CHECK_SECONDS * 1000)
        if os.getppid() != self._parent:
            raise _EndedError
        ready = dict(events)
        self._pass_log(ready)
        if self._woken in ready:
            raise _EndedError
        connection = self._link.connection.fileno() if self._link.is_up else -1
        if mask := ready.get(connection, 0):
            self._exchange(mask)
        if ready.get(1):
            self._write_output()
        if ready.get(0):
            self._read_client()
        elif not self._link.is_up and self._conversation.is_waiting:
            self._recover()

    def _watch(self) -> None:
        """Ask for what can be worked on now."""
        is_up = self._link.is_up
        wanted = {self._woken: select.POLLIN}
        if self._has_input and len(self._queue) < _MAX_WAITING_BYTES:
            wanted[0] = select.POLLIN
        if is_up:
            reading = select.POLLIN if len(self._output) < _MAX_WAITING_BYTES else 0
            writing = select.POLLOUT if self._queue else 0
            wanted[self._link.connection.fileno()] = reading | writing
        if self._output:
            wanted[1] = select.POLLOUT
        if self._log:
            wanted[2] = select.POLLOUT
        elif self._link.log is not None:
            wanted[self._link.log] = select.POLLIN
        for descriptor in self._masks.keys() - wanted.keys():
            self._poll.unregister(descriptor)
        for descriptor, mask in wanted.items():
            if self._masks.get(descriptor) != mask:
                self._poll.register(descriptor, mask)
        self._masks = wanted

    # From the client to the server

    def _read_client(self) -> None:
        data = os.read(0, _READ_BYTES)
        if not data:
            if self._input and not self._skips_line:
                self._take_line(bytes(self._input) + b"\n")
            raise _EndedError
        self._input += data
        lines: list[bytearray] = []
        if b"\n" in data:
            *lines, self._input = self._input.split(b"\n")
        for line in lines:
            if self._skips_line:
                self._skips_line = False
                self._enqueue(bytes(line) + b"\n")
            else:
                self._take_line(bytes(line) + b"\n")
        if len(self._input) > _MAX_LINE_BYTES:  # the server refuses it, and skips it
            self._skips_line = True
            self._enqueue(self._input)
            self._input = bytearray()
        if not self._link.is_up and (lines or self._skips_line):
            self._recover()
        elif self._link.is_up:
            self._send()

    def _take_line(self, line: bytes) -> None:
        if self._conversation.is_resuming:
            self._held.append(line)
            return
        kept = self._conversation.send(line, self._queued + len(line))
        if kept is not None and self._link.is_up:
            self._enqueue(kept)

    def _enqueue(self, line: bytes | bytearray) -> None:
        self._queue += line
        self._queued += len(line)

    def _send(self) -> None:
        try:
            while self._queue:
                sent = self._link.connection.send(self._queue)
                del self._queue[:sent]
                self._link.sent += sent
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    # From the server to the client

    def _exchange(self, mask: int) -> None:
        if mask & select.POLLOUT:
            self._send()
        if mask & _READY and self._link.is_up:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._link.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._failures = 0
        if b"\n" not in data:
            self._reply += data
            return
        *lines, rest = (bytes(self._reply) + data).split(b"\n")
        self._reply = bytearray(rest)
        for line in lines:
            was_resuming = self._conversation.is_resuming
            kept = self._conversation.receive(line + b"\n")
            if kept is not None:
                self._output += kept
            if was_resuming and not self._conversation.is_resuming:
                self._continue()
        self._write_output()

    def _write_output(self) -> None:
        """Write as much as the client takes without blocking."""
        while self._output and self._writable.poll(0):
            try:
                written = os.write(self._out, self._output[: self._piece])
            except BlockingIOError:
                return
            del self._output[:written]

    def _pass_log(self, ready: Mapping[int, int]) -> None:
        if self._log and ready.get(2):
            try:
                written = os.write(2, self._log[:_WRITE_BYTES])
            except OSError:
                written = len(self._log)  # closed, as a log may be
            self._log = self._log[written:]
        log = self._link.log
        if log is not None and ready.get(log):
            self._log += os.read(log, _READ_BYTES)
            if not self._log:
                self._close_log(log)

    def _close_log(self, log: int) -> None:
        self._forget(log)
        os.close(log)
        self._link.log = None

    def _forget(self, descriptor: int) -> None:
        if self._masks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    # When a server ends

    def _lose(self) -> None:
        """Forget a server that has ended, and find the next one."""
        link = self._link
        self._forget(link.connection.fileno())
        link.close()
        self._reply.clear()
        for answer in self._conversation.lose_server(link.sent):
            self._output += answer
        self._queue.clear()
        if self._is_ending:
            return
        self._failures += 1
        if self._failures > _MAX_FAILURES:
            self._exit_code = 1
            raise _EndedError
        # One that was told to end has removed its socket. Another is not started before
        # the client wants something.
        if self._conversation.is_waiting or os.path.exists(self._connector.rendezvous.address):
            self._recover()

    def _recover(self) -> None:
        """Connect to another server, and repeat the handshake and open requests."""
        self._write_output()
        self._drain_log()
        self._link = self._reconnect()
        self._queue.clear()
        self._queued = 0
        self._resend(self._conversation.resume())
        self._send()

    def _resend(self, lines: list[bytes]) -> None:
        for line in lines:
            self._enqueue(line)
            self._conversation.note_end(line, self._queued)

    def _continue(self) -> None:
        """Go on after the handshake with another server."""
        self._resend(self._conversation.continue_())
        held, self._held = self._held, []
        for line in held:
            self._take_line(line)
        self._send()

    def _reconnect(self) -> _Link:
        if self._conversation.may_end_servers:
            return self._connector.open_own()
        for pause in _BACK_OFF_SECONDS[max(0, self._failures - 1) :]:
            time.sleep(pause)
            self._check()
            link = self._connector.open(self._check, is_resumed=True)
            if link is not None:
                return link
        return self._connector.open_own()

    def _check(self) -> None:
        """Stop waiting for a server once this window ends.

        Raises:
            _EndedError: The window has to end.
        """
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if poll.poll(0) or os.getppid() != self._parent:
            raise _EndedError

    def _drain_log(self) -> None:
        """Pass on the last log lines of a lost server."""
        log = self._link.log
        if log is None:
            return
        os.set_blocking(log, False)
        try:
            while data := os.read(log, _READ_BYTES):
                self._log += data
        except BlockingIOError:
            pass
        self._close_log(log)

    def _finish(self) -> None:
        """Let the server end its calls, and pass on its last words."""
        self._is_ending, self._has_input = True, False
        if self._link.is_up:
            self._send()
        deadline = time.monotonic() + _END_PATIENCE_SECONDS
        is_told = False
        while time.monotonic() < deadline:
            if self._link.is_up and not self._queue and not is_told:
                is_told = True
                self._shut_down()
            is_drained = self._link.log is None and not self._log
            if not self._link.is_up and is_drained and not self._output:
                return
            self._watch()
            self._forget(self._woken)  # it stays ready
            ready = dict(self._poll.poll(50))
            self._pass_log(ready)
            if self._link.is_up and (mask := ready.get(self._link.connection.fileno())):
                self._exchange(mask)
            try:
                self._write_output()
            except BrokenPipeError:
                self._output.clear()

    def _shut_down(self) -> None:
        try:
            self._link.connection.shutdown(socket.SHUT_WR)
        except OSError:
            self._lose()
