"""A real identity provider in a process of its own: oidc-provider on Node.js."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from soak.http.node_packages import install_packages
from tests.support import wait_for

ROBOT, SECRET = "robot", "only-for-this-test"

_PACKAGE = "oidc-provider@9.13.3"
_SCRIPT = Path(__file__).with_name("provider.mjs")


def install(folder: Path) -> Path:
    """Install oidc-provider into a folder and return it.

    Raises:
        Unavailable: There is no Node.js, or the package cannot be had.
    """
    return install_packages(folder, _PACKAGE)


def make_key(name: str) -> dict[str, Any]:
    """Return a new private key with a name."""
    key = rsa.generate_private_key(65537, 2048)
    parsed = jwt.get_algorithm_by_name("RS256").to_jwk(key, as_dict=True)
    return {**parsed, "kid": name, "use": "sig", "alg": "RS256"}


def find_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port: int = opened.getsockname()[1]
        return port


class IdentityProvider:
    """Where it listens, and what starts and ends it."""

    def __init__(self, installed: Path, resource: str, people: Path | None = None) -> None:
        self.port = find_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.resource = resource
        self._installed = installed
        self._people = [people] if people else []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *keys: dict[str, Any]) -> None:
        """Start it with these keys, of which the first one signs."""
        self.kill()
        path = self._installed / "keys.json"
        path.write_text(json.dumps({"keys": keys}))
        self._process = subprocess.Popen(
            [
                *("node", _SCRIPT, str(self._installed), str(self.port), str(path)),
                *(self.resource, *map(str, self._people)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._answers)

    def kill(self) -> None:
        """End it at once."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/jwks").is_success
        except httpx2.TransportError:
            return False

    def issue(self, scope: str = "skills:read") -> str:
        """Return a token for a program (client credentials)."""
        reply = httpx2.post(
            f"{self.url}/token",
            auth=(ROBOT, SECRET),
            data={
                "grant_type": "client_credentials",
                "resource": self.resource,
                "scope": scope,
            },
        )
        token: str = reply.raise_for_status().json()["access_token"]
        return token


@contextmanager
def provided(folder: Path, resource: str) -> Iterator[IdentityProvider]:
    """Install a provider that is ended with the block.

    Raises:
        Unavailable: There is no Node.js, or the package cannot be had.
    """
    provider = IdentityProvider(install(folder / "provider"), resource)
    try:
        yield provider
    finally:
        provider.kill()
