"""A secret, the ways to configure it, and the places to search for it."""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import yaml

from tests.content.git_server import Answer, Fault, GitServer, Request

SECRET = "c4n4ry/Of+our=own&0123456789"  # noqa: S105 - it opens nothing
"""The secret has no known form, so no pattern finds it, and changes when encoded."""

_USER = "x-access-token"


@dataclass(frozen=True, slots=True)
class Way:
    """The ways to configure a secret."""

    name: str
    is_in_url: bool = False
    is_in_file: bool = False

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Return the variables that a server is started with."""
        if self.is_in_url:
            return {}
        if not self.is_in_file:
            return {"GITHUB_TOKEN": SECRET}
        file = folder / "operator" / "token"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{SECRET}\n", encoding="utf-8")
        return {"SKILLS_MCP_TOKEN_FILE": str(file)}

    def address(self, base: str) -> str:
        """Return an address as the operator writes it."""
        if not self.is_in_url:
            return base
        secret = f"{_USER}:{quote(SECRET, safe='')}"
        return base.replace("://", f"://{secret}@")


WAYS = (
    Way("environment"),
    Way("file", is_in_file=True),
    Way("URL", is_in_url=True),
)


def write_settings(folder: Path, sources: Iterable[Mapping[str, object]], **more: object) -> Path:
    """Write the operator's file, which lies outside of our home; return it."""
    file = folder / "operator" / "config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    settings = {"sources": [dict(each) for each in sources], **more}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def find_canaries(places: Mapping[str, bytes]) -> list[str]:
    """Return the places that show the secret, in any encoding."""
    forms = tuple(_forms())
    return [name for name, text in places.items() if any(form in text for form in forms)]


def read_below(folder: Path) -> dict[str, bytes]:
    """Return what every file below a folder holds, and its name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() + str(path).encode() for path in files}


def challenged(fault: Fault) -> Fault:
    """Ask for the secret first, so that it is on its way when things go wrong."""

    def answer_second(request: Request) -> None:
        if request.headers.get("Authorization"):
            fault(request)
        else:
            request.send(Answer(401, {"WWW-Authenticate": 'Basic realm="content"'}))

    return answer_second


def repeat_secret(request: Request) -> None:
    """Answer as a host does that echoes its input."""
    said = request.headers.get("Authorization") or ""
    plain = base64.b64decode(said.removeprefix("Basic ")).decode()
    lines = (f"no such thing: {said}", f"for {plain}", quote(plain, safe=""), said)
    content = "\n".join(lines).encode()
    request.send(Answer(500, {"Content-Type": "text/plain"}, content))


def dispatch(server: GitServer, faults: Mapping[str, Fault | None]) -> None:
    """Have each fault happen to the repositories below its own folder.

    The folders have the same repositories as the root.
    """
    for name in faults:
        (server.root / name).symlink_to(server.root, target_is_directory=True)

    def choose(request: Request) -> None:
        name = request.path.split("/")[1]
        fault: Callable[[Request], object] | None = faults.get(name)
        (fault or Request.serve)(request)

    server.fault = choose


def _forms() -> Iterator[bytes]:
    for secret in (SECRET, f"{_USER}:{SECRET}"):
        yield secret.encode()
        yield quote(secret).encode()
        yield quote(secret, safe="").encode()
        yield json.dumps(secret)[1:-1].encode()
        yield binascii.hexlify(secret.encode())
        yield base64.b64encode(secret.encode())
        yield base64.urlsafe_b64encode(secret.encode())
    for before in range(3):  # behind any user's name
        encoded = base64.b64encode(b"\0" * before + SECRET.encode())
        yield encoded[4:-4]
