"""A client's conversation as its forwarder remembers it, to go on with another server.

Rule: pure, and only what a second server needs: the handshake, and requests without an
answer. An answer is recorded before it goes to the client, so none comes twice.

Rule: no module of ours is imported, and `json` with the first message: each window of a
host waits for these imports, and holds them in memory.
"""

from collections.abc import Iterator

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
        self._awaits_handshake = False
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
            number = _parse_id(message)
        if self._awaits_handshake and number == self._initialize_id:
            self._awaits_handshake = False
            return None
        self.requests.pop(number, None)
        return line

    def lose_server(self, sent: int) -> Iterator[bytes]:
        """Answer what must not be asked again.

        Args:
            sent: How many bytes the lost server may have read.
        """
        self._generation += 1
        self._awaits_handshake = False
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
        is_shaken = self._initialize is not None and self._initialize_id not in self.requests
        if not is_shaken:
            return self.continue_()
        self._awaits_handshake = True
        assert self._initialize is not None  # noqa: S101 - as above
        return [self._initialize]

    @property
    def is_resuming(self) -> bool:
        return self._awaits_handshake

    def continue_(self) -> list[bytes]:
        """Lines after the handshake with another server."""
        held, self._held = self._held, []
        is_legacy = self._initialized is not None
        return [self._initialized, *held] if is_legacy and self._initialized else held

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


def _parse_id(message: "dict[str, object]") -> Id:
    number = message.get("id")
    return number if isinstance(number, str | int | float) else None


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
