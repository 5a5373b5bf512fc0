"""Hypothesis strategies of requests that an attacker would send to each address."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from soak.http.hostile_archives import archives
from soak.http.raw_http import Header, RawRequest, compose
from tests.http import forge

Requests = st.SearchStrategy[RawRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What an attacker knows of a server: its name, and rights of his own."""

    host: bytes
    authorizations: tuple[bytes, ...]
    """Values of the header that let some callers in, and others not."""
    cookie: bytes
    """The session of a person; empty if pages need none."""
    form_token: str
    ingest: bytes
    """The value of `Authorization` of a sender of events."""
    webhook_secret: str
    sessions: tuple[bytes, ...]
    """Sessions of MCP that are open."""
    outside: str
    """A folder that the server does not own, as an absolute path."""
    paths: tuple[str, ...]
    """Paths of skills and names of files that there are."""


_SPECIAL = (
    *("", " ", ".", "..", "../", "../../x", "..\\..\\x", "....//x", "/", "//", "/etc"),
    *("~", "~root", "C:\\x", "\\\\host\\x", "//evil.example/", "file:///etc/passwd"),
    *("http://[::1", "http://[", "//[", "http://x:99999/", "javascript:alert(1)"),
    *("%", "%2e%2e%2f", "%00", "%c0%ae", "%zz", "a\0b", "\0", "x\r\nInjected: y"),
    *("\ud800", "\u202e", "\ufeff", "İ", "ﬀ", "é", "e\u0301", "🦊", "\U0001d54f"),
    *("\x85", "\u2028", "\u2029"),
    *("**", "**/" * 50 + "x", "[", "[[:", "{a,b}", "(?:", "*" * 200, "!" * 50),
    *("NaN", "-1", "0", "1e999", "9" * 40, "9" * 5_000, "-0", "٣", "²", "0x10", "1_0"),
    *("null", "true", "[]", "{}", "'", '"', "<script>", "{{7*7}}", "${x}", "%s%n"),
    *("COM1", "con", ".git", ".earlier", ".hidden", "SKILL.md", "_root", "_index"),
    *("2026-02-30", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
    *("2026-02-18T14:30:00Z\0", "a" * 300, "a" * 9_000, "a/" * 200, ";", ",", "="),
)


_URLS = (
    *("http://[::1", "http://[", "//[x]/", "http://x:y/", "http://x:99999/"),
    *("http://\u2100.example/", "http://a@b@c/", "?", "#", "/\\evil.example/", "//x/"),
    *("/skills/%00", "data:,", "http://127.0.0.1/\u202e", "/sign-in?next=/sign-in"),
)


def texts(doors: Doors) -> st.SearchStrategy[str]:
    """Return texts that programs misread, alone and beside others."""
    special = st.sampled_from((*_SPECIAL, *_URLS, *doors.paths))
    drawn = st.text(st.characters(codec=None), max_size=12)
    joined = st.lists(st.one_of(special, drawn), min_size=1, max_size=3).map("/".join)
    return st.one_of(special, escapes(doors), drawn, joined)


def file_names(doors: Doors) -> st.SearchStrategy[str]:
    """Return hostile names of files that a server with a hole would write.

    An absolute one leads to a folder of the run, and never into the machine's own.
    """

    def confine(text: str) -> str:
        is_safe = not text.startswith("/") or text.startswith(doors.outside)
        return text if is_safe else doors.outside + text

    return texts(doors).map(confine)


def escapes(doors: Doors) -> st.SearchStrategy[str]:
    """Return paths that lead to what lies beside the folders of the server."""
    places = ("outside/made", "data/ssh", "beside", "content", "canary", "made")
    climbs = [f"{'../' * steps}{place}" for steps in range(1, 5) for place in places]
    absolute = (doors.outside, f"{doors.outside}/made", f"{doors.outside}/a/b/made")
    return st.sampled_from((*absolute, *climbs))


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _percent(text: str, how: str) -> bytes:
    raw = _bytes_of(text)
    match how:
        case "plain":  # what cannot stand in the first line of a request is encoded
            return quote(raw, safe="/%?&=+:@!$'()*,;[]~{}|\\^`\"<>").encode()
        case "each":
            return b"".join(b"%%%02x" % byte for byte in raw)
        case "twice":
            return quote(quote(raw, safe="")).encode()
        case "raw":
            return raw
        case _:
            return quote(raw).encode()


def encoded(doors: Doors) -> st.SearchStrategy[bytes]:
    """Return hostile texts as parts of an address, well and badly encoded."""
    ways = st.sampled_from(("usual", "plain", "each", "twice", "raw"))
    return st.builds(_percent, texts(doors), ways)


_ROUTES = (
    *("/", "/skills/{}", "/api/skills", "/api/skills/{}/preview", "/api/report"),
    *("/api/skills/{}/files/{}", "/api/openapi.json", "/api/{}", "/report", "/{}"),
    *("/report.css", "/try", "/problems", "/sources", "/add", "/add/take", "/sign-in"),
    *("/add/restore", "/api/skills/upload-install", "/sign-in/callback", "/sign-out"),
    *("/static/{}", "/.well-known/{}", "/.well-known/agent-skills/index.json"),
    *("/.well-known/agent-skills/{}/{}", "/.well-known/oauth-protected-resource/{}"),
    *("/mcp", "/mcp/{}", "/events", "/hooks/git", "/healthz", "/readyz", "/metrics"),
)
_QUERY = (
    *("scope", "q", "cursor", "view", "file", "days", "around", "next", "task"),
    *("skill", "limit", "area", "source", "format", "owner", "origin", "problems"),
    *("used", "code", "state", "iss", "error", "tab", "path", "error_description"),
)
_METHODS = (b"GET",) * 12 + (
    *(b"POST", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE"),
    *(b"CONNECT", b"get", b"G\xc3\x89T", b"X" * 300),
)


def targets(doors: Doors) -> st.SearchStrategy[bytes]:
    """Return addresses of the server, with hostile paths and queries."""
    part = encoded(doors)
    known = st.sampled_from(doors.paths).map(lambda path: quote(path).encode())

    inner = st.one_of(part, known)

    def fill(route: str) -> st.SearchStrategy[bytes]:
        first, *rest = route.encode().split(b"{}")
        given = [st.tuples(inner, st.just(end)).map(b"".join) for end in rest]
        return st.tuples(st.just(first), *given).map(b"".join)

    pair = st.builds(
        lambda name, value: name + b"=" + value,
        st.one_of(st.sampled_from(_QUERY).map(str.encode), part),
        part,
    )
    query = st.lists(pair, max_size=3).map(b"&".join)
    path = st.sampled_from(_ROUTES).flatmap(fill)
    return st.builds(lambda p, q: p + b"?" + q if q else p, path, query)


_HEADERS = (
    *("Host", "Origin", "Referer", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host"),
    *("X-Forwarded-Proto", "X-Forwarded-User", "X-Forwarded-Groups", "X-Real-IP"),
    *("HX-Request", "HX-Current-URL", "HX-Target", "HX-Boosted", "X-Form-Token"),
    *("Authorization", "Authorization", "Cookie", "Accept", "Accept-Language"),
    *("Accept-Encoding", "Content-Type", "Content-Encoding", "Content-Length"),
    *("Transfer-Encoding", "Expect", "Upgrade", "Connection", "Range", "If-Range"),
    *("If-None-Match", "If-Modified-Since", "Mcp-Session-Id", "Mcp-Protocol-Version"),
    *("Mcp-Method", "Mcp-Name", "Last-Event-ID", "X-Skills-Scope", "Traceparent"),
    *("Tracestate", "Baggage", "User-Agent", "X-Request-ID", "Sec-WebSocket-Key"),
)
_VALUES = (
    *(b"chunked", b"gzip, chunked", b"-1", b"+1", b"1, 1", b"0", b"99999999999999"),
    *(b"100-continue", b"websocket", b"h2c", b"Upgrade", b"bytes=0-", b"bytes=5-1"),
    *(b"bytes=-99999999999", b"bytes=0-0,1-1,2-2", b'"x"', b'W/"', b"*", b"* / *"),
    *(b"Bearer", b"Bearer ", b"bearer x", b"Basic eDp4", b"Basic %%%", b"Bearer a b"),
    *(b"Bearer " + b"a" * 20_000, b"Bearer a.b.c", b"Bearer e30.e30.", b"true"),
    *(b"null", b"http://[::1", b"http://", b"localhost", b"[::1]:8", b"127.0.0.1:x"),
    *(b'for=127.0.0.1;host="', b"text/event-stream", b"application/json", b"\xff\xfe"),
    *(b"multipart/form-data", b"multipart/form-data; boundary=", b"a" * 70_000),
    *(b'multipart/form-data; boundary="x', b"application/x-www-form-urlencoded"),
    *(b"Sun, 06 Nov 1994 08:49:37 GMT", b"Sun, 99 Foo 0000 99:99:99 GMT", b"\t \t"),
    *(b"skills_session=x", b"skills_session=; skills_session=", b"=;=;,=", b";" * 500),
    *(b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"2026-07-28", b"2025-06-18"),
)


def headers(doors: Doors) -> st.SearchStrategy[list[Header]]:
    """Return headers: a right Host mostly, rights of some callers, and hostile ones."""
    text = texts(doors).map(_bytes_of)
    sound = texts(doors).map(_in_header)
    value = st.one_of(st.sampled_from(_VALUES), sound, text, st.binary(max_size=30))
    known = st.sampled_from(_HEADERS).map(str.encode)
    odd = st.sampled_from((b"", b"X Y", b"x\x00", b"\xffx", b"a" * 5_000, b":"))
    # Most heads are sound as a whole, or no more than the parser would be tried.
    hostile = st.one_of(
        st.lists(st.tuples(known, sound), max_size=4),
        st.lists(st.tuples(known, value), max_size=2),
        st.lists(st.tuples(st.one_of(known, odd), value), max_size=4),
    )
    return st.builds(lambda own, more: [*own, *more], callers(doors), hostile)


def callers(doors: Doors) -> st.SearchStrategy[list[Header]]:
    """Return the headers of a caller: a program, a person, or nobody known."""
    base = [(b"Host", doors.host), (b"Connection", b"close")]
    person = [*base, (b"Cookie", doors.cookie)] if doors.cookie else base
    ways = _list_programs(doors)
    # Who may do most gets furthest: these two come more often.
    return st.sampled_from([*[person] * 5, *ways[:1] * 5, *ways, base])


def programs(doors: Doors) -> st.SearchStrategy[list[Header]]:
    """Return the headers of a program, mostly of the one that may do most."""
    ways = _list_programs(doors)
    return st.sampled_from([*ways[:1] * 8, *ways])


def _list_programs(doors: Doors) -> list[list[Header]]:
    base = [(b"Host", doors.host), (b"Connection", b"close")]
    return [*([*base, (b"Authorization", it)] for it in doors.authorizations), base]


_FRAMING = frozenset(
    {b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"connection"}
)
"""Headers that say where a request ends: with a wrong one a server waits for more."""


def raw_requests(doors: Doors) -> Requests:
    """Return requests of any address with any headers and hardly a body."""
    body = st.one_of(st.just(b""), st.just(b""), st.binary(max_size=40))
    version = st.sampled_from(
        (b"HTTP/1.1",) * 9 + (b"HTTP/1.0", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 x", b"")
    )

    def build(
        method: bytes,
        target: bytes,
        given: list[Header],
        data: bytes,
        protocol: bytes,
    ) -> RawRequest:
        raw = compose(method, target, given, data, version=protocol)
        is_framed = protocol == b"HTTP/1.1" and _FRAMING.isdisjoint(
            name.lower() for name, _ in given[2:]
        )
        head = raw.partition(b"\r\n\r\n")[0]
        is_whole = is_framed and head.count(b"\n") == len(given) + bool(data)
        return RawRequest(raw, is_whole=is_whole)

    methods = st.sampled_from(_METHODS)
    return st.builds(build, methods, targets(doors), headers(doors), body, version)


def page_requests(doors: Doors) -> Requests:
    """Return well-formed requests of pages and REST, with hostile parts."""

    def build(method: bytes, target: bytes, given: list[Header]) -> RawRequest:
        return RawRequest(compose(method, target, given))

    htmx = st.sampled_from(
        ("HX-Current-URL", "X-Skills-Scope", "If-None-Match", "Accept", "Referer")
    ).map(str.encode)
    urls = st.sampled_from(_URLS).map(str.encode)
    value = st.one_of(urls, texts(doors).map(_in_header))
    more = st.lists(st.tuples(htmx, value), max_size=2)
    asked = st.sampled_from(((), ((b"HX-Request", b"true"),)))
    given = st.builds(lambda own, hx, odd: [*own, *hx, *odd], callers(doors), asked, more)
    methods = st.sampled_from((b"GET", b"GET", b"GET", b"HEAD"))
    safe = targets(doors).map(_in_target)
    return st.builds(build, methods, safe, given)


_CONTROLS = bytes((*range(0x20), 0x7F))
_MOST_HEADER = 4_000  # all headers together may have 64 KiB


def _in_header(text: str) -> bytes:
    """Return a text as a header can hold it."""
    return _bytes_of(text).translate(None, _CONTROLS)[:_MOST_HEADER].strip()


def _in_target(target: bytes) -> bytes:
    return quote(target, safe="/%?&=+:@!$'()*,;[]~").encode()[:30_000]


# --- forms --------------------------------------------------------------------------

_FIELDS = ("form_token", "archive", "name", "version", "file", "task", "next", "skill")
_FORMS = (
    *(b"/add", b"/add/take", b"/add/restore", b"/add/restore", b"/sign-in"),
    *(b"/sign-out", b"/try", b"/api/skills/upload-install", b"/sign-in/callback"),
)
_VERSIONS = ("20261126-120000", "1", "../../x", "")


def form_requests(doors: Doors) -> Requests:
    """Return forms, urlencoded and multipart, with hostile fields and boundaries."""
    value = st.one_of(file_names(doors), st.sampled_from(_VERSIONS))
    names = st.one_of(st.sampled_from(_FIELDS), file_names(doors))
    fields = st.one_of(
        st.lists(st.tuples(names, value), max_size=4), _restored(doors), _many_fields()
    )
    with_token = st.integers(0, 5)  # without it, no form is read
    urlencoded = st.builds(_encode_form, fields)
    multipart = st.builds(
        _encode_multipart,
        fields,
        st.sampled_from((b"x", b"x" * 70, b"-", b"a b", b"\xff", b"x" * 1_000)),
        st.sampled_from(("whole", "whole", "whole", "no end", "other", "no start")),
        texts(doors),
    )

    def build(
        path: bytes, caller: list[Header], form: tuple[bytes, bytes], has_token: object
    ) -> RawRequest:
        kind, body = form
        head = [*caller, (b"Content-Type", kind)]
        if has_token:
            head.append((b"X-Form-Token", doors.form_token.encode()))
        return RawRequest(compose(b"POST", path, head, body))

    form = st.one_of(urlencoded, multipart)
    paths = st.sampled_from(_FORMS)
    restoring = st.just(b"/add/restore")
    restored = _restored(doors).map(_encode_form)
    return st.one_of(
        st.builds(build, paths, callers(doors), form, with_token),
        st.builds(build, restoring, callers(doors), restored, with_token),
    )


def _restored(doors: Doors) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Return the fields of a form that takes a skill back to an earlier version."""
    kits = st.sampled_from(("kit", "../kit"))
    names = st.one_of(kits, escapes(doors), file_names(doors))
    versions = st.one_of(st.sampled_from(_VERSIONS), file_names(doors))
    return st.builds(lambda n, v: [("name", n), ("version", v)], names, versions)


def _many_fields() -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.sampled_from([[("name", "x")] * 1_100, [("a" * 5_000, "b" * 5_000)] * 3])


def _encode_form(fields: list[tuple[str, str]]) -> tuple[bytes, bytes]:
    pairs = (quote(_bytes_of(name)) + "=" + quote(_bytes_of(value)) for name, value in fields)
    return b"application/x-www-form-urlencoded", "&".join(pairs).encode()


def _encode_multipart(
    fields: list[tuple[str, str]], boundary: bytes, how: str, filename: str
) -> tuple[bytes, bytes]:
    used = b"other" if how == "other" else boundary
    parts = [
        b"--" + used + b"\r\n" + _disposition(name, filename) + _bytes_of(value) + b"\r\n"
        for name, value in fields
    ]
    end = b"" if how == "no end" else b"--" + used + b"--\r\n"
    start = b"garbage" if how == "no start" else b""
    return b"multipart/form-data; boundary=" + boundary, start + b"".join(parts) + end


def _disposition(name: str, filename: str) -> bytes:
    head = b'\r\nContent-Disposition: form-data; name="' + _bytes_of(name) + b'"'
    if name == "file":
        head += b'; filename="' + _bytes_of(filename) + b'"'
    return head + b"\r\n\r\n"


def archive_requests(doors: Doors) -> Requests:
    """Return uploads of archives, by programs and by forms."""
    names = file_names(doors).map(lambda text: text[:5_000])

    def build(
        path: bytes, caller: list[Header], archive: tuple[str, bytes], filename: str
    ) -> RawRequest:
        suffix, data = archive
        head = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="'
            + _in_header(filename)
            + f'.{suffix}"\r\n\r\n'.encode()
        )
        kinds = [
            (b"Content-Type", b"multipart/form-data; boundary=x"),
            (b"X-Form-Token", doors.form_token.encode()),
        ]
        body = head + data + b"\r\n--x--\r\n"
        return RawRequest(compose(b"POST", path, [*caller, *kinds], body))

    paths = st.sampled_from((b"/api/skills/upload-install", b"/add"))
    filename = st.one_of(st.just("kit"), st.just("kit"), names)
    return st.builds(build, paths, callers(doors), archives(names), filename)


# --- JSON ---------------------------------------------------------------------------


def json_values(doors: Doors) -> st.SearchStrategy[Any]:
    """Return JSON of any shape, with hostile texts and numbers."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from((0, -1, 1, 2**31, 2**63, 10**40, 1e308, -0.0, 0.1)),
        texts(doors),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(texts(doors).map(lambda t: t[:50]), inner, max_size=3),
        ),
        max_leaves=6,
    )


_BROKEN: Mapping[str, Callable[[bytes], bytes]] = {
    "cut": lambda body: body[: len(body) // 2],
    "twice": lambda body: body + body,
    "list": lambda body: b"[" + body + b"," + body + b"]",
    "empty list": lambda _: b"[]",
    "nothing": lambda _: b"",
    "deep": lambda body: b"[" * 50_000 + body,
    "deep and closed": lambda body: b'{"a":' * 3_000 + body + b"}" * 3_000,
    "NaN": lambda body: body.replace(b"1", b"NaN"),
    "digits": lambda body: body.replace(b"1", b"9" * 5_000),
    "exponent": lambda body: body.replace(b"1", b"1e400"),
    "mark": lambda body: b"\xef\xbb\xbf" + body,
    "UTF-16": lambda body: body.decode("utf-8", "replace").encode("utf-16"),
    "not UTF-8": lambda body: body + b"\xff",
    "NUL": lambda body: body.replace(b'"', b'"\\u0000', 3),
    "doubled": lambda body: body[:-1] + b',"id":2,"params":null,"events":1}',
}


_BREAKS = st.sampled_from(("",) * 3 * len(_BROKEN) + tuple(_BROKEN))


def _write(value: object, how: str) -> bytes:
    """Return JSON as bytes, broken in some way unless there is none."""
    body = json.dumps(value).encode()
    return _BROKEN[how](body) if how else body


def _bodies(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Return JSON as bytes, mostly whole."""
    return st.builds(_write, values, _BREAKS)


def _mutated(doors: Doors, whole: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of which one part is another one."""

    def replace(value: Any, place: list[int], by: Any) -> Any:
        if not place or not isinstance(value, dict | list) or not value:
            return by
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[place[0] % len(keys)]
        changed = dict(value) if isinstance(value, dict) else list(value)
        changed[key] = replace(value[key], place[1:], by)
        return changed

    places = st.lists(st.integers(0, 5), min_size=1, max_size=4)
    changed = st.builds(replace, whole, places, json_values(doors))
    return st.one_of(whole, changed)


_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "get_skill": {
        "context": "add a login",
        "skill_path": "ui/react",
        "within": "ui",
        "category": "x",
        "known_digest": "x",
        "explain": True,
        "part": 1,
    },
    "list_skills": {"path": "ui", "depth": 1, "cursor": "x"},
    "get_asset": {"skill_path": "ui/react/auth", "file": "x", "part": 1},
    "report_usage": {"skill_path": "ui/react", "useful": True, "comment": "x"},
    "refresh_skills": {},
    "search_skills": {
        "query": "login",
        "limit": 1,
        "scope": "org",
        "within": "ui",
        "category": "x",
    },
    "load_skill": {"skill_name": "auth", "known_digest": "x", "part": 1},
    "read_skill_file": {
        "skill_name": "auth",
        "file_path": "x",
        "start_line": 1,
        "max_lines": 1,
    },
    "find_skill_files": {"skill_name": "auth", "pattern": "*", "contains": "x"},
    "load_skill_examples": {"skill_name": "auth", "query": "x", "top_k": 1},
    "run_script": {"skill_path": "x", "file": "x", "args": {}, "cwd": "/"},
    "no_such_tool": {},
}
_METHODS_OF_MCP: Mapping[str, Mapping[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
    "ping": {},
    "tools/list": {"cursor": "x"},
    "resources/list": {"cursor": "x"},
    "resources/templates/list": {"cursor": "x"},
    "resources/read": {"uri": "skill://ui/react"},
    "resources/subscribe": {"uri": "skill://ui/react"},
    "resources/directory/read": {"uri": "skill://ui", "cursor": "x"},
    "prompts/list": {"cursor": "x"},
    "prompts/get": {"name": "skill", "arguments": {"skill": "x"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "skill"},
        "argument": {"name": "skill", "value": "u"},
        "context": {"arguments": {}},
    },
    "skills/list": {"cursor": "x"},
    "skills/get": {"uri": "skill://ui/react"},
    "server/discover": {},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "logging/setLevel": {"level": "debug"},
    "roots/list": {},
    "sampling/createMessage": {},
    "notifications/initialized": {},
    "notifications/cancelled": {"requestId": 1, "reason": "x"},
    "notifications/progress": {"progressToken": 1, "progress": 1},
    "no/such": {},
}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "progressToken": 1,
}


def mcp_requests(doors: Doors) -> Requests:
    """Return messages of MCP of both eras, sound but for a part, and broken ones."""
    arguments = st.sampled_from(sorted(_TOOLS)).flatmap(
        lambda tool: st.tuples(st.just(tool), _arguments(doors, tool))
    )
    calls = arguments.map(
        lambda pair: _message("tools/call", {"name": pair[0], "arguments": pair[1]})
    )
    others = st.sampled_from(sorted(_METHODS_OF_MCP)).map(
        lambda method: _message(method, dict(_METHODS_OF_MCP[method]))
    )
    messages = st.one_of(calls, calls, _mutated(doors, st.one_of(calls, others)))
    known = st.sampled_from(doors.sessions)
    session = st.one_of(known, known, known, texts(doors).map(_in_header))
    legacy = session.map(lambda given: ((b"Mcp-Session-Id", given),))
    # Those of the newer era are derived from the message.
    eras = st.one_of(st.none(), legacy)
    sent = st.builds(_put_into_envelope, messages, eras, _BREAKS)

    def build(
        caller: list[Header],
        envelope: tuple[tuple[Header, ...], bytes],
        odd: tuple[Header, ...],
    ) -> RawRequest:
        own, body = envelope
        head = [
            *caller,
            (b"Accept", b"application/json, text/event-stream"),
            (b"Content-Type", b"application/json"),
            *(*own, *odd),
        ]
        return RawRequest(compose(b"POST", b"/mcp", head, body))

    odd = st.one_of(st.just(()), _odd_headers(doors))
    return st.builds(build, programs(doors), sent, odd)


def _put_into_envelope(
    message: Any, legacy: tuple[Header, ...] | None, how: str
) -> tuple[tuple[Header, ...], bytes]:
    """Return the headers that belong to a message, and its bytes."""
    if legacy is not None:
        return legacy, _write(message, how)
    params = message.get("params") if isinstance(message, dict) else None
    if isinstance(params, dict):
        message = {**message, "params": {"_meta": _META, **params}}
    return _modern(message), _write(message, how)


def _arguments(doors: Doors, tool: str) -> st.SearchStrategy[Any]:
    """Return arguments with a hostile value at each place, or a sound one."""
    inner = {
        name: st.one_of(st.just(value), texts(doors), json_values(doors))
        for name, value in _TOOLS[tool].items()
    }
    return st.fixed_dictionaries({}, optional=inner) if inner else json_values(doors)


def _message(method: str, params: Any) -> dict[str, Any]:
    number = {} if method.startswith("notifications/") else {"id": 1}
    return {"jsonrpc": "2.0", **number, "method": method, "params": params}


def _modern(message: Any) -> tuple[Header, ...]:
    method = message.get("method") if isinstance(message, dict) else None
    params = message.get("params") if isinstance(message, dict) else None
    found = params if isinstance(params, dict) else {}
    name = found.get("name", found.get("uri"))
    named = ((b"Mcp-Name", _in_header(name)),) if isinstance(name, str) else ()
    shown = _in_header(method) if isinstance(method, str) else b""
    version = (b"Mcp-Protocol-Version", b"2026-07-28")
    return (version, (b"Mcp-Method", shown), *named)


def _odd_headers(doors: Doors) -> st.SearchStrategy[tuple[Header, ...]]:
    names = st.sampled_from(
        (b"Mcp-Protocol-Version", b"X-Skills-Scope", b"Last-Event-ID", b"Accept")
    )
    return st.tuples(st.tuples(names, texts(doors).map(_in_header)))


_EVENT = {
    "type": "skill_served",
    "timestamp": "2026-11-20T10:00:00.000Z",
    "server_id": "dev-x",
    "event_id": "1",
    "content_commit": "1" * 40,
    "data": {
        "context": "x",
        "skill_path": "ui/react",
        "score": 1,
        "group": "x",
        "matched_keywords": ["x"],
        "was_ambiguous": False,
        "unchanged": False,
        "candidates": ["x"],
        "near": ["x"],
        "near_score": 1,
        "useful": True,
        "file": "x",
        "exit_code": 1,
        "duration_ms": 1,
        "comment": "x",
        "count": 1,
    },
}
_HEARTBEAT = {
    "type": "heartbeat",
    "timestamp": "2026-11-20T10:00:00.000Z",
    "server_id": "x",
    "event_id": "1",
    "data": {
        "version": "1",
        "transport": "stdio",
        "sources": [
            {
                "mount": "",
                "repository": "x",
                "commit": "1",
                "age_seconds": 1,
                "last_error": None,
            }
        ],
    },
}
_KINDS = (
    *("no_match", "ambiguous", "skill_served", "asset_served", "script_executed"),
    *("skill_feedback", "refresh", "events_dropped"),
)


def event_requests(doors: Doors) -> Requests:
    """Return bodies for `/events`, sound but for a part, and broken ones."""
    sound = st.one_of(
        st.sampled_from(_KINDS).map(lambda kind: {**_EVENT, "type": kind}),
        st.just(_HEARTBEAT),
    )
    one = _mutated(doors, sound)
    numbered = st.builds(
        lambda event, name: {**event, "event_id": name} if isinstance(event, dict) else event,
        one,
        st.one_of(st.uuids().map(str), texts(doors)),
    )
    whole = st.lists(st.one_of(one, numbered), max_size=3).map(lambda events: {"events": events})
    bodies = _bodies(_mutated(doors, whole))
    kinds = st.sampled_from(
        (b"application/json",) * 6 + (b"application/json; charset=utf-16", b"text/plain", b"")
    )
    others = (*doors.authorizations, b"")
    senders = st.sampled_from((*(doors.ingest,) * 8, *others))

    def build(sender: bytes, kind: bytes, body: bytes) -> RawRequest:
        head = [(b"Host", doors.host), (b"Connection", b"close")]
        head += [(b"Authorization", sender)] if sender else []
        return RawRequest(compose(b"POST", b"/events", [*head, (b"Content-Type", kind)], body))

    return st.builds(build, senders, kinds, bodies)


_SIGNED = (forge.github, forge.gitea, forge.forgejo, forge.gitlab)


def webhook_requests(doors: Doors) -> Requests:
    """Return deliveries to the webhook, with right and with wrong signatures."""
    payloads = st.sampled_from(
        (
            *(forge.GITHUB_PUSH, forge.GITLAB_PUSH, forge.GITLAB_MERGE),
            forge.GITHUB_MERGE,
        )
    )
    bodies = _bodies(_mutated(doors, payloads))
    secrets = st.sampled_from((doors.webhook_secret,) * 3 + ("wrong-" * 5,))
    events = st.sampled_from(("push", "ping", "pull_request", "Push Hook", "x", ""))
    more = st.lists(
        st.tuples(
            st.sampled_from(
                (
                    *("X-Hub-Signature-256", "X-GitHub-Event", "X-Gitlab-Token"),
                    *("X-GitHub-Delivery", "webhook-timestamp", "webhook-id"),
                    *("webhook-signature", "Content-Type", "X-Gitlab-Event"),
                )
            ).map(str.encode),
            texts(doors).map(_in_header),
        ),
        max_size=2,
    )

    def build(body: bytes, sign: Any, secret: str, event: str, odd: list[Header]) -> RawRequest:
        signed = sign(body, secret, event)
        own = [(name.encode(), value.encode()) for name, value in signed.items()]
        head = [(b"Host", doors.host), (b"Connection", b"close"), *own, *odd]
        return RawRequest(compose(b"POST", b"/hooks/git", head, body))

    signs = st.sampled_from(_SIGNED)
    return st.builds(build, bodies, signs, secrets, events, more)


ATTACKS: Mapping[str, Callable[[Doors], Requests]] = {
    "raw": raw_requests,
    "pages": page_requests,
    "forms": form_requests,
    "archives": archive_requests,
    "mcp": mcp_requests,
    "events": event_requests,
    "webhook": webhook_requests,
}
"""The strategies, by what they attack."""
