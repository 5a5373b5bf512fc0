"""An identity provider on the loopback, with real keys, that signs what it is told."""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from skills_mcp.http.access_tokens import TokenValidator
from skills_mcp.http.provider_metadata import SigningKeys

AUDIENCE = "https://skills.example.com/mcp"
EVERY_SCOPE = "skills:read skills:refresh skills:feedback"

_PRIVATE = {
    "RS": lambda: rsa.generate_private_key(65537, 2048),
    "PS": lambda: rsa.generate_private_key(65537, 2048),
    "ES": lambda: ec.generate_private_key(ec.SECP256R1()),
    "Ed": ed25519.Ed25519PrivateKey.generate,
}


def private_key(algorithm: str, number: int = 0) -> Any:
    """Return the same key every time: making one with RSA takes a while."""
    return _make_key(algorithm[:2], number)


@cache
def _make_key(family: str, number: int) -> Any:
    del number
    return _PRIVATE[family]()


def public_jwk(key: Any, algorithm: str, name: str) -> dict[str, Any]:
    """Return a key as a provider publishes it."""
    parsed = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**parsed, "kid": name, "alg": algorithm, "use": "sig"}


class Issuer(ThreadingHTTPServer):
    """Publishes its keys, and counts who asks."""

    daemon_threads = True

    def __init__(self, port: int = 0, path: str = "") -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}{path}"
        self.place = f"{path}/.well-known/openid-configuration"
        self.requests: list[str] = []
        self.metadata: dict[str, Any] = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/me",
            "end_session_endpoint": f"{self.url}/end",
        }
        self.keys: list[dict[str, Any]] = []
        self.tokens: dict[str, Any] = {}
        """What the token endpoint answers."""
        self.people: dict[str, Any] = {}
        """What the provider tells of the bearer of an access token."""
        self.forms: list[tuple[dict[str, str], str]] = []
        """What was sent to the token endpoint, and as whom."""
        self.broken: dict[str, tuple[int, bytes]] = {}
        """Paths that are answered with another status and body."""
        self.released = threading.Event()
        self.released.set()
        self.publish("first")

    def publish(self, name: str, algorithm: str = "RS256", number: int = 0) -> None:
        """Add a key."""
        key = private_key(algorithm, number)
        self.keys.append(public_jwk(key, algorithm, name))

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that have hung up."""

    def asked_for_keys(self) -> int:
        return self.requests.count(self.metadata["jwks_uri"].removeprefix(self._origin))

    @property
    def _origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def token(  # noqa: PLR0913 - each of them is what one test is about
        self,
        *,
        algorithm: str = "RS256",
        key: Any = None,
        number: int = 0,
        kid: str | None = "first",
        headers: Mapping[str, Any] | None = None,
        without: tuple[str, ...] = (),
        seconds: int = 300,
        **claims: Any,
    ) -> str:
        """Return a token that is valid unless it is told otherwise.

        A claim such as `nbf_in` is `nbf` in so many seconds.
        """
        now = int(time.time())
        said = {
            "iss": self.url,
            "sub": "ada",
            "aud": AUDIENCE,
            "client_id": "agent",
            "iat": now,
            "exp": now + seconds,
            "scope": EVERY_SCOPE,
            **{
                name.removesuffix("_in"): now + value if name.endswith("_in") else value
                for name, value in claims.items()
            },
        }
        said = {name: value for name, value in said.items() if name not in without}
        heads = {"kid": kid} if kid is not None else {}
        signing = private_key(algorithm, number) if key is None else key
        return jwt.encode(said, signing, algorithm, {**heads, **(headers or {})})


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        issuer = self.server
        issuer.requests.append(self.path)
        issuer.released.wait(30)
        documents = {
            issuer.place: json.dumps(issuer.metadata).encode(),
            f"{issuer.url}/keys".removeprefix(issuer._origin): json.dumps(
                {"keys": issuer.keys}
            ).encode(),
        }
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if given in issuer.people:
            documents[self._path("/me")] = json.dumps(issuer.people[given]).encode()
        known = self.path in documents
        self._answer((200, documents[self.path]) if known else (404, b""))

    def do_POST(self) -> None:
        issuer = self.server
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        sender = self.headers.get("Authorization", "")
        issuer.forms.append((dict(parse_qsl(form)), sender))
        self._answer((200, json.dumps(issuer.tokens).encode()))

    def _path(self, path: str) -> str:
        return f"{self.server.url}{path}".removeprefix(self.server._origin)

    def _answer(self, usual: tuple[int, bytes]) -> None:
        status, body = self.server.broken.get(self.path, usual)
        self.send_response(status)
        if status in range(300, 400):
            self.send_header("Location", body.decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running_issuer(port: int = 0, path: str = "") -> Iterator[Issuer]:
    """Start a provider; it is ended with the block."""
    with Issuer(port, path) as issuer:
        thread = threading.Thread(target=issuer.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield issuer
        finally:
            issuer.released.set()
            issuer.shutdown()
            thread.join()


class Clock:
    """Goes on when it is told."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def validator_of(issuer: Issuer | str, **options: Any) -> TokenValidator:
    """Return a validator that asks this provider."""
    url = issuer if isinstance(issuer, str) else issuer.url
    keys = SigningKeys(url, options.pop("now", Clock()))
    return TokenValidator(keys, **{"issuer": url, "audience": AUDIENCE, **options})


def check(validator: TokenValidator, token: str) -> Mapping[str, Any]:
    """Validate a token as the sign-in does."""
    return validator.load_and_validate(token)


def unsigned(claims: Mapping[str, Any]) -> str:
    """Return a token without a signature."""
    head = {"alg": "none", "kid": "first", "typ": "JWT"}
    parts = [json.dumps(part).encode() for part in (head, claims)]
    encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])
