"""Hosts that refuse, fail, lie or stop, and what is said about them."""

import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from skills_mcp.content.git.remote import Remote
from skills_mcp.errors import (
    AccessRefusedError,
    RemoteMissingError,
    SyncError,
)
from tests.content.git.git_store import GitStore
from tests.content.git_server import (
    Fault,
    Request,
    alternate,
    answer,
    only,
    redirect,
    serving,
)
from tests.support import Upstream, git, write

TOKEN = f"canary-{uuid.uuid4().hex}"  # the bird that must not be heard


@pytest.mark.spec("9.2")
@pytest.mark.parametrize("token", ["wrong", None])
@pytest.mark.parametrize(
    "fault, kind, said",
    [
        (None, AccessRefusedError, "401: th"),
        (answer(403), AccessRefusedError, "403: "),
        (answer(404), RemoteMissingError, "404: no such repository, or"),
        (answer(410), RemoteMissingError, "410: the host refuses"),
        (answer(500), SyncError, "500: server error"),
    ],
)
def test_each_refusal_is_told_apart_and_asked_for_once(  # noqa: PLR0913 - fixtures
    *,
    token: str | None,
    fault: Fault | None,
    kind: type[SyncError],
    said: str,
    upstream: Upstream,
    tmp_path: Path,
) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path, TOKEN) as server:
        server.fault = fault
        remote = Remote(f"{server.url}/upstream.git", "main", token)
        error = GitStore.create(tmp_path / "store", remote).fail()

    assert type(error) is kind
    with pytest.raises(kind, match=said):
        raise error
    assert "http.c" not in str(error)
    assert len(server.kinds) <= 2  # without and with the token


@pytest.mark.parametrize(
    "fault, seconds",
    [
        (answer(429, Retry_After="60"), 60),
        (answer(429, Retry_After="1000000000"), 3600),
        (answer(429, Retry_After="garbage"), None),
        (answer(429), None),
        (answer(503, Retry_After="Sun, 22 Nov 2099 07:00:00 GMT"), 3600),
        (answer(403, Retry_After="7"), 7),
    ],
)
def test_a_host_that_asks_to_wait_is_understood(
    fault: Fault, seconds: float | None, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path) as server:
        server.fault = fault
        error = GitStore.create(tmp_path / "s", f"{server.url}/upstream.git").fail()

    assert type(error) is SyncError
    assert error.retry_after_seconds == seconds


def test_a_host_that_limits_who_has_signed_in_is_asked_no_further(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    def limit(request: Request) -> None:
        (answer(429) if request.headers.get("Authorization") else Request.serve)(request)

    with serving(tmp_path, TOKEN) as server:
        server.fault = limit
        remote = Remote(f"{server.url}/upstream.git", "main", TOKEN)
        error = GitStore.create(tmp_path / "s", remote).fail()

    assert "429: too many requests" in str(error)
    assert len(server.kinds) <= 3  # without the token, with it, and once more


def test_a_host_that_is_well_every_other_time_is_used_then(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.md": "A"})

    with serving(tmp_path) as server:
        server.fault = alternate(answer(500), answer(502), answer(503), None, None)
        store = GitStore.create(tmp_path / "s", f"{server.url}/upstream.git")
        errors = [store.fail() for _ in range(3)]
        fetched = store.fetch()

    assert all("server error" in str(error) for error in errors)
    assert fetched.commit == commit


@pytest.mark.spec("9.2")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", ["info/refs", "fetch"])
def test_a_redirect_is_not_followed_and_gets_no_token(
    kind: str, status: int, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path) as thief, serving(tmp_path, TOKEN) as server:
        server.fault = only(kind, redirect(status, thief.url))
        remote = Remote(f"{server.url}/upstream.git", "main", TOKEN)
        error = GitStore.create(tmp_path / "store", remote).fail()

    assert f"the address has moved to {thief.url}/upstream.git." in str(error)
    assert "Configure the new one" in str(error)
    assert thief.kinds == []


@pytest.mark.parametrize("target", ["ext::touch alarm; ", "file:///", "ftp://x"])
def test_a_redirect_to_another_kind_of_address_does_nothing(
    target: str, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})

    with serving(tmp_path) as server:
        server.fault = redirect(302, target)
        error = GitStore.create(tmp_path / "s", f"{server.url}/upstream.git").fail()

    assert "the address has moved" in str(error)
    assert list(tmp_path.rglob("alarm")) == []


def test_a_branch_that_is_missing_is_said_with_the_default(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit({"a.md": "A"})
    git("branch", "-m", "main", "trunk", cwd=upstream.bare)
    store = GitStore.create(tmp_path / "store", upstream.url)

    error = store.fail()

    assert type(error) is RemoteMissingError
    assert "no such branch. Its default branch is 'trunk'" in str(error)
    assert "HEAD, which follows" in str(error)


def test_without_a_default_the_branches_are_named(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": "A"})
    git("symbolic-ref", "HEAD", "refs/heads/nowhere", cwd=upstream.bare)
    store = GitStore.create(tmp_path / "store", Remote(upstream.url, "trunk"))

    assert "SKILLS_BRANCH (`branch` in `sources`) to one that it has: 'main'" in str(store.fail())


@pytest.mark.parametrize("branch", ["main", "HEAD"])
def test_an_empty_repository_is_said_to_be_empty(
    branch: str, upstream: Upstream, tmp_path: Path
) -> None:
    store = GitStore.create(tmp_path / "store", Remote(upstream.url, branch))

    error = store.fail()

    assert type(error) is RemoteMissingError
    assert "the repository is empty. Push a first commit" in str(error)


def test_a_pinned_tag_that_is_missing_is_said(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit({"a.md": "A"})
    store = GitStore.create(tmp_path / "s", Remote(upstream.url, "main", pin="v9"))

    error = store.fail()

    assert type(error) is RemoteMissingError
    assert "Check `ref`" in str(error)


@pytest.mark.parametrize("make", ["nothing", "folder", "file"])
def test_a_path_without_a_repository_is_said(make: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    if make == "folder":
        place.mkdir()
    elif make == "file":
        place.write_text("no bundle")

    for url in (str(place), f"file://{place}"):
        error = GitStore.create(tmp_path / "store", url).fail()
        assert isinstance(error, RemoteMissingError), error
        assert "https://…" not in str(error)


def test_a_host_that_nobody_knows_or_that_refuses_is_said(tmp_path: Path) -> None:
    refused = GitStore.create(tmp_path / "a", "http://127.0.0.1:1/x.git").fail()
    unknown = GitStore.create(tmp_path / "b", "https://host.invalid/x.git").fail()

    assert type(refused) is type(unknown) is SyncError
    assert "cannot be reached. Check the network" in str(refused)
    assert "cannot resolve the name of the host" in str(unknown)


def test_a_token_that_may_not_travel_is_not_sent_and_that_is_said(
    tmp_path: Path,
) -> None:
    remote = Remote("http://host.invalid/skills.git", "main", TOKEN)

    error = GitStore.create(tmp_path / "store", remote).fail()

    assert "the token was not sent: it travels over https only" in str(error)


@pytest.mark.spec("9.2")
def test_a_message_never_repeats_the_token_even_if_the_address_does(
    tmp_path: Path,
) -> None:
    remote = Remote(f"http://127.0.0.1:1/{TOKEN}/skills.git", "main", TOKEN)

    error = GitStore.create(tmp_path / "store", remote).fail()

    assert TOKEN not in str(error)
    assert "/***/skills.git" in str(error)


needs_openssl = pytest.mark.skipif(
    not shutil.which("openssl"), reason="makes certificates with openssl"
)
LONG_AGO, RECENTLY, LATER = "20200101000000Z", "20210101000000Z", "20900101000000Z"


@needs_openssl
@pytest.mark.parametrize(
    "end, is_trusted, said",
    [
        (RECENTLY, True, "expired"),
        (LATER, False, "TLS certificate not trusted"),
        (LATER, None, "file of TLS certificates cannot be read"),
    ],
)
def test_a_certificate_that_proves_nothing_is_refused_with_its_cause(
    *,
    end: str,
    is_trusted: bool | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = make_certificate(tmp_path, "localhost", LONG_AGO, end)
    if is_trusted is not False:
        believed = certificate if is_trusted else tmp_path / "nowhere.pem"
        monkeypatch.setenv("GIT_SSL_CAINFO", str(believed))

    with serving(tmp_path) as server:
        server.encrypt(certificate)
        url = f"https://localhost:{server.server_port}/upstream.git"
        error = GitStore.create(tmp_path / "store", url).fail()

    assert type(error) is SyncError
    assert said in str(error)
    assert server.kinds == []


@needs_openssl
def test_a_certificate_of_the_organisation_is_believed(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = upstream.commit({"a.md": "A"})
    certificate = make_certificate(tmp_path, "localhost", LONG_AGO, LATER)
    monkeypatch.setenv("GIT_SSL_CAINFO", str(certificate))

    with serving(tmp_path, TOKEN) as server:
        server.encrypt(certificate)
        url = f"https://localhost:{server.server_port}/upstream.git"
        fetched = GitStore.create(tmp_path / "s", Remote(url, "main", TOKEN)).fetch()
        other = url.replace("localhost", "127.0.0.1")
        wrong = GitStore.create(tmp_path / "t", Remote(other, "main", TOKEN)).fail()

    assert fetched.commit == commit
    assert "for another host name" in str(wrong)


def make_certificate(folder: Path, name: str, begin: str, end: str) -> Path:
    """Return a key and a certificate that it has signed itself, in one file."""
    ca = folder / "ca"
    write(ca / "index.txt")
    config = f"""
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[ca]
default_ca = own
[own]
dir = {ca}
database = {ca}/index.txt
new_certs_dir = {ca}
rand_serial = yes
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
CN = supplied
[extensions]
subjectAltName = DNS:{name}
basicConstraints = CA:TRUE
"""
    write(ca / "openssl.cnf", config)
    key, wish, made = ca / "key.pem", ca / "wish.pem", ca / "made.pem"
    of_ours = f"-config {ca}/openssl.cnf"
    dates = f"-startdate {begin} -enddate {end}"
    for words in (
        f"ecparam -name prime256v1 -genkey -noout -out {key}",
        f"req -new {of_ours} -key {key} -out {wish}",
        f"ca -batch -selfsign {of_ours} {dates} -keyfile {key} -in {wish} -out {made}",
    ):
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    return write(folder / "both.pem", key.read_bytes() + made.read_bytes())
