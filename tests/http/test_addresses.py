import httpx
import pytest
from starlette.responses import PlainTextResponse

from skills_mcp.config import Http
from skills_mcp.errors import ConfigError
from skills_mcp.http.allowed_hosts import AllowedAddresses, with_address_check

Headers = list[tuple[str, str]]

BASE = Http(host="0.0.0.0", base_url="https://skills.acme.com")  # noqa: S104


async def ask(
    http: Http, headers: Headers, method: str = "POST", path: str = "/mcp"
) -> httpx.Response:
    """Send a request with these headers to an application behind the checks."""
    app = with_address_check(PlainTextResponse("served"), http)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return await client.request(method, path, headers=headers)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:8000", "LOCALHOST:8000", "127.0.0.1:8000"),
        *("[::1]:8000", "127.0.0.1:80"),
    ],
)
async def test_on_loopback_its_names_are_allowed(host: str) -> None:
    assert (await ask(Http(), [("Host", host)])).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil.example", "10.0.0.7"),
        *("localhost:8000:1", "localhost@evil.example", "localhost:", "", "[::1", "*"),
    ],
)
async def test_another_host_is_refused(host: str) -> None:
    reply = await ask(Http(), [("Host", host)])

    assert reply.status_code == 421
    assert reply.json()["error"]["data"]["code"] == "HOST_NOT_ALLOWED"
    assert "http.allowed_hosts" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/", "/mcp", "/hooks/git", "/.well-known/oauth-protected-resource", "/x"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "HEAD"])
async def test_every_route_is_checked(path: str, method: str) -> None:
    reply = await ask(Http(), [("Host", "evil.example")], method, path)

    assert reply.status_code == 421


async def test_a_path_with_a_line_break_is_not_the_path_before_it() -> None:
    reply = await ask(Http(), [("Host", "localhost")], path="/mcp%0A")

    assert (reply.status_code, reply.text) == (404, "Not Found")


@pytest.mark.parametrize(
    "host, status",
    [
        ("skills.acme.com", 200),
        ("skills.acme.com:443", 200),
        ("localhost:8000", 421),
        ("10.0.0.7:8000", 421),
    ],
)
async def test_the_host_of_the_base_url_is_allowed(host: str, status: int) -> None:
    assert (await ask(BASE, [("Host", host)])).status_code == status


async def test_an_allowed_host_with_a_port_allows_that_port_only() -> None:
    http = Http(allowed_hosts=("Skills.acme.com:8443", "skills.internal"))

    for host, status in (
        ("skills.acme.com:8443", 200),
        ("skills.acme.com:9000", 421),
        ("skills.acme.com", 421),
        ("skills.internal:9000", 200),
    ):
        assert (await ask(http, [("Host", host)])).status_code == status


async def test_the_address_it_listens_on_is_allowed() -> None:
    for listening, host in (("10.0.0.5", "10.0.0.5:8000"), ("fd00::5", "[fd00::5]:1")):
        assert (await ask(Http(host=listening), [("Host", host)])).status_code == 200


def test_listening_everywhere_needs_a_name() -> None:
    for host in ("0.0.0.0", "::"):  # noqa: S104
        with pytest.raises(ConfigError, match=r"Set http\.base_url"):
            AllowedAddresses.of(Http(host=host))

        named = Http(host=host, allowed_hosts=("skills.acme.com",))
        assert AllowedAddresses.of(named).allow_host("skills.acme.com")


@pytest.mark.parametrize("wrong", ["https://skills.acme.com", "*", "*.acme.com", "a b"])
def test_an_allowed_host_that_is_none_is_reported(wrong: str) -> None:
    with pytest.raises(ConfigError, match="which is no host"):
        AllowedAddresses.of(Http(allowed_hosts=(wrong,)))


@pytest.mark.parametrize("wrong", ["skills.acme.com", "*", "null", "https://a.b/path"])
def test_an_allowed_origin_that_is_none_is_reported(wrong: str) -> None:
    with pytest.raises(ConfigError, match="which is no origin"):
        AllowedAddresses.of(Http(allowed_origins=(wrong,)))


@pytest.mark.parametrize(
    "origin, status",
    [
        ("https://skills.acme.com", 200),
        ("https://skills.acme.com:443", 200),
        ("https://SKILLS.acme.com", 200),
        ("https://portal.acme.com", 200),
        ("http://skills.acme.com", 403),
        ("https://skills.acme.com:8443", 403),
        ("https://skills.acme.com.evil.example", 403),
        ("https://evil.example", 403),
        ("http://localhost:3000", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_only_allowed_origins_are_answered(origin: str, status: int) -> None:
    http = BASE.model_copy(update={"allowed_origins": ("https://portal.acme.com:443",)})

    reply = await ask(http, [("Host", "skills.acme.com"), ("Origin", origin)])

    assert reply.status_code == status
    if status == 403:
        assert reply.json()["error"]["data"]["code"] == "ORIGIN_NOT_ALLOWED"


@pytest.mark.parametrize(
    "origin, status",
    [
        ("http://localhost:6274", 200),
        ("http://127.0.0.1:8000", 200),
        ("http://[::1]:8000", 200),
        ("http://evil.example", 403),
    ],
)
async def test_on_loopback_pages_of_this_machine_are_answered(origin: str, status: int) -> None:
    reply = await ask(Http(), [("Host", "localhost:8000"), ("Origin", origin)])

    assert reply.status_code == status


async def test_each_of_several_headers_is_checked() -> None:
    good, evil = "http://localhost", "http://evil.example"

    both = [("Host", "localhost"), ("Origin", good), ("Origin", evil)]
    hosts = [("Host", "localhost"), ("Host", "evil.example")]

    assert (await ask(Http(), both)).status_code == 403
    assert (await ask(Http(), hosts)).status_code == 421


async def test_a_forwarded_host_counts_only_behind_a_trusted_proxy() -> None:
    behind = BASE.model_copy(update={"trust_proxy_headers": True})
    inner = ("Host", "skills.internal:8000")
    named = ("X-Forwarded-Host", "skills.acme.com")
    evil = ("X-Forwarded-Host", "skills.acme.com, evil.example")

    assert (await ask(BASE, [inner, named])).status_code == 421
    assert (await ask(behind, [inner, named])).status_code == 200
    assert (await ask(behind, [inner, evil])).status_code == 421
    assert (await ask(behind, [("Host", "skills.acme.com"), evil])).status_code == 421
    assert (await ask(behind, [("Host", "skills.acme.com")])).status_code == 200


def test_an_ip_address_is_a_good_host_where_probes_come_in() -> None:
    probed = AllowedAddresses(hosts=frozenset({"localhost"}), any_ip_address=True)

    for good in ("10.0.0.7", "10.0.0.7:8001", "[fd00::7]:8001", "localhost:8001"):
        assert probed.allow_host(good)
    assert not probed.allow_host("10.0.0.7.evil.example")


async def test_a_client_in_a_browser_may_ask_first() -> None:
    asked = [
        ("Host", "skills.acme.com"),
        ("Origin", "https://skills.acme.com"),
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "authorization,content-type,mcp-protocol-version,mcp-session-id,mcp-method",
        ),
    ]

    reply = await ask(BASE, asked, "OPTIONS")

    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == "https://skills.acme.com"
    assert "DELETE" in reply.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in reply.headers


async def test_another_page_may_not_ask_first() -> None:
    asked = [
        ("Host", "skills.acme.com"),
        ("Origin", "https://evil.example"),
        ("Access-Control-Request-Method", "POST"),
    ]

    reply = await ask(BASE, asked, "OPTIONS")

    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers


async def test_a_client_in_a_browser_can_read_session_and_challenge() -> None:
    sent = [("Host", "skills.acme.com"), ("Origin", "https://skills.acme.com")]

    reply = await ask(BASE, sent)

    readable = reply.headers["access-control-expose-headers"]
    assert {"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"} <= {
        name.strip() for name in readable.split(",")
    }
    assert reply.headers["access-control-allow-origin"] == "https://skills.acme.com"
    assert reply.headers["vary"] == "Origin"
