"""Archives as sources: what has to be true of one before it is served."""

import hashlib
import os
import shutil
import struct
import subprocess
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from http.server import (
    BaseHTTPRequestHandler,
    SimpleHTTPRequestHandler,
    ThreadingHTTPServer,
)
from pathlib import Path

import pytest

from skills_mcp.content.released_archive import Archive, ReleasedArchive, is_fetchable
from skills_mcp.content.source import Signers, SyncPolicy, derive_last_error
from skills_mcp.errors import LimitExceededError, SignatureError, SyncError
from skills_mcp.files.locks import LOCK_FILE, remove_stale_folders
from tests.clients import HangingRemote, ServerProcess
from tests.features.authoring.intake.archives import special, write_tar, write_zip
from tests.support import open_library, skill_text, sync, write

FILES = {
    "skills-1.0/README.md": "A release.",
    "skills-1.0/skills/_root.md": skill_text(body="For every task."),
    "skills-1.0/skills/ui/auth.md": skill_text(body="Sign in."),
}


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def release(
    file: Path, cache: Path, *, sha256: str = "", policy: SyncPolicy | None = None
) -> ReleasedArchive:
    archive = Archive(str(file), sha256 or digest(file))
    return ReleasedArchive(archive, cache, policy or SyncPolicy())


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return write_tar(tmp_path / "skills.tar.gz", FILES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with serving_by(partial(Handler, directory=str(folder))) as address:
        yield address


@contextmanager
def serving_by(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", ["skills.tar.gz", "skills.zip"])
def test_a_release_is_served_below_its_top_folder(tmp_path: Path, cache: Path, name: str) -> None:
    write = write_zip if name.endswith("zip") else write_tar
    source = release(write(tmp_path / name, FILES), cache)

    library = open_library(source)

    assert [skill.path for skill in library.view().snapshot.index.offered] == ["_root", "ui/auth"]
    assert "For every task." in library.view().preview("ui/auth").guidance
    assert source.name.endswith(f"(sha256 {digest(tmp_path / name)[:12]})")


def unicode_name(path: Path, name: bytes, *, of: str) -> Path:
    """Write a release with one more skill, whose name in Unicode is a field of Info-ZIP."""
    entry = zipfile.ZipInfo("skills-1.0/skills/caf_.md")
    data = struct.pack("<BI", 1, zlib.crc32(of.encode())) + name
    entry.extra = struct.pack("<HH", 0x7075, len(data)) + data
    write_zip(path, FILES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, skill_text(keywords=["coffee"]))
    return path


@pytest.mark.parametrize(
    "of, path", [("skills-1.0/skills/caf_.md", "café"), ("another name", "caf_")]
)
def test_a_name_in_unicode_counts_for_the_name_that_it_is_of(
    tmp_path: Path, cache: Path, of: str, path: str
) -> None:
    packed = unicode_name(tmp_path / "a.zip", "skills-1.0/skills/café.md".encode(), of=of)

    offered = open_library(release(packed, cache)).view().snapshot.index.offered

    assert [skill.path for skill in offered] == ["_root", path, "ui/auth"]


@pytest.mark.parametrize(
    "name, said",
    [
        (b"skills-1.0/skills/caf\xe9.md", "damaged"),
        (b"skills-1.0/skills/caf\0.md", "damaged"),
        (b"../caf.md", r"\.\./caf"),
        (b"skills-1.0/skills/ui/auth.md", "ui/auth.md"),
    ],
)
def test_a_name_in_unicode_is_refused_as_any_other(
    tmp_path: Path, cache: Path, name: bytes, said: str
) -> None:
    packed = unicode_name(tmp_path / "a.zip", name, of="skills-1.0/skills/caf_.md")

    with pytest.raises(SyncError, match=said):
        sync(release(packed, cache))


def test_the_same_archive_is_the_same_commit_on_every_machine(packed: Path, tmp_path: Path) -> None:
    first = sync(release(packed, tmp_path / "one"))
    second = sync(release(packed, tmp_path / "two"))

    assert first.revision == second.revision is not None


def test_it_is_fetched_once_and_then_served_without_a_network(packed: Path, cache: Path) -> None:
    with served(packed.parent) as url:
        archive = Archive(f"{url}/{packed.name}", digest(packed))
        first = sync(ReleasedArchive(archive, cache, SyncPolicy()))

    later = ReleasedArchive(archive, cache, SyncPolicy())
    offline = ReleasedArchive(archive, cache, SyncPolicy(is_offline=True))

    assert sync(later).revision == sync(offline).revision == first.revision
    assert later.next_sync_at(60) == float("inf")


def test_a_server_that_ends_during_a_fetch_leaves_nothing(tmp_path: Path) -> None:
    home, remote = tmp_path / "home", HangingRemote()
    address = f"{remote.url}.tar.gz"
    write(home / "config.yaml", f"sources: [{{archive: {address!r}, sha256: '{64 * '0'}'}}]")
    environment = {"SKILLS_MCP_HOME": str(home), "SKILLS_MCP_SHARE": "0"}
    with (
        closing(remote),
        closing(ServerProcess(environment=environment, log=tmp_path / "log")) as server,
    ):
        remote.wait_for_request()

        server.close_input()

        assert server.wait() == 0
        assert [*home.glob("cache/archives/.*")] == []


def test_what_a_killed_process_left_is_removed(packed: Path, cache: Path) -> None:
    left = cache / "archives/.new-killed"
    write(left / LOCK_FILE)
    os.utime(left, (0, 0))
    remove_stale_folders.cache_clear()

    sync(release(packed, cache))

    assert not left.exists()


def test_what_was_not_used_for_30_days_is_deleted(
    packed: Path, tmp_path: Path, cache: Path
) -> None:
    other = write_zip(tmp_path / "other.zip", FILES)
    for file in (packed, other):
        sync(release(file, cache))
    for folder in (*cache.iterdir(), *(cache / "archives").iterdir()):
        os.utime(folder, (0, 0))
    source = release(packed, cache)

    served = source.open()
    source.check()

    assert served
    assert [path.stem for path in (cache / "archives").iterdir()] == [digest(packed)]
    assert len(list(cache.iterdir())) == len(("its store", "archives"))


@pytest.mark.parametrize("lost", ["objects", "HEAD", "refs"])
def test_a_damaged_copy_is_fetched_again(packed: Path, cache: Path, lost: str) -> None:
    sync(release(packed, cache))
    for folder in cache.iterdir():
        if folder.name != "archives":
            shutil.rmtree(folder)
    [copy] = (cache / "archives").glob("*.git")
    for file in [path for path in copy.rglob("*") if path.is_file() and lost in path.parts]:
        file.chmod(0o600)
        file.write_bytes(b"")

    with suppress(SyncError):  # it finds the damage
        sync(release(packed, cache))
    checkout = sync(release(packed, cache))

    assert (checkout.directory / "skills/ui/auth.md").exists()


def test_a_host_that_sends_byte_by_byte_is_given_up(cache: Path) -> None:
    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # the client has hung up
                for _ in range(100):
                    threading.Event().wait(0.05)
                    self.wfile.write(b"x")

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever).start()
        archive = Archive(f"http://127.0.0.1:{server.server_port}/a.tar.gz", "0" * 64)
        source = ReleasedArchive(archive, cache, SyncPolicy(timeout_seconds=1))

        with pytest.raises(SyncError, match=r"took longer than sync\.timeout_seconds"):
            sync(source)

        server.shutdown()


def test_a_redirect_to_an_address_without_https_is_not_followed(cache: Path) -> None:
    asked: list[str] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            port = self.headers["Host"].rpartition(":")[2]
            self.send_response(302)
            # This machine, by a name of which that is not known.
            self.send_header("Location", f"http://127.1:{port}/elsewhere.zip")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with serving_by(Redirecting) as address:
        archive = Archive(f"{address}/skills.zip", "0" * 64)
        with pytest.raises(SyncError, match="leads to an address without https"):
            sync(ReleasedArchive(archive, cache, SyncPolicy()))

    assert asked == ["/skills.zip"]


def test_another_digest_is_refused_and_nothing_is_kept(packed: Path, cache: Path) -> None:
    source = release(packed, cache, sha256="0" * 64)

    with pytest.raises(SyncError, match=f"has the SHA-256 {digest(packed)}"):
        sync(source)

    assert not [*(cache / "archives").iterdir()]


@pytest.mark.parametrize("address", ["gone.tar.gz", "http"])
def test_an_archive_that_is_not_there_is_named(tmp_path: Path, cache: Path, address: str) -> None:
    with served(tmp_path) as url:
        place = f"{url}/gone.tar.gz" if address == "http" else str(tmp_path / address)
        source = ReleasedArchive(Archive(place, "0" * 64), cache, SyncPolicy())

        with pytest.raises(SyncError, match=r"answers 404|cannot be read"):
            sync(source)

        # Each process of the machine can name the reason, and waits before it asks again.
        found = ReleasedArchive(Archive(place, "0" * 64), cache, SyncPolicy()).attempt()
        assert found.failures == 1
        assert place in str(derive_last_error(found))


def test_whether_it_is_there_can_be_asked_without_fetching(packed: Path, cache: Path) -> None:
    with served(packed.parent) as url:
        there = Archive(f"{url}/{packed.name}", digest(packed))
        answer = ReleasedArchive(there, cache, SyncPolicy()).ask_remote(10)
        gone = ReleasedArchive(Archive(f"{url}/gone", "0" * 64), cache, SyncPolicy())
        with pytest.raises(SyncError, match="answers 404"):
            gone.ask_remote(10)

    assert digest(packed) in answer.object
    assert not (cache / "archives").exists()


def test_no_secret_of_an_address_is_shown(packed: Path, cache: Path) -> None:
    with served(packed.parent) as url:
        archive = Archive(f"{url}/{packed.name}?sig=hidden", digest(packed))
        source = ReleasedArchive(archive, cache, SyncPolicy())
        wrong = Archive(f"{url}/{packed.name}?sig=hidden", "0" * 64)

        checkout = sync(source)
        with pytest.raises(SyncError) as caught:
            sync(ReleasedArchive(wrong, cache, SyncPolicy()))

    assert checkout.revision
    assert "hidden" not in f"{source.name} {source.url} {caught.value}"
    assert not is_fetchable("https://ada:hidden@releases.example.com/a.zip")


def test_a_hostile_archive_is_refused(tmp_path: Path, cache: Path) -> None:
    link = special(b"2", "skills/link", "/etc/passwd")
    file = write_tar(tmp_path / "a.tar.gz", {"skills/a.md": skill_text()}, link)

    with pytest.raises(SyncError, match="symbolic link"):
        sync(release(file, cache))


def test_the_limits_of_the_operator_hold(packed: Path, cache: Path) -> None:
    small = SyncPolicy(max_total_bytes=5)
    with pytest.raises(LimitExceededError, match="more than 10 bytes"):
        sync(release(packed, cache, policy=small))

    few = SyncPolicy(max_files=1)
    with pytest.raises(SyncError, match="more than 1 entries"):
        sync(release(packed, cache, policy=few))


def sign(file: Path, folder: Path, name: str) -> str:
    """Sign a file with a new key, and return the line that allows it."""
    key = folder / name
    command = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        name,
        "-f",
        str(key),
    ]
    subprocess.run(command, check=True)
    signing = [
        "ssh-keygen",
        "-q",
        "-Y",
        "sign",
        "-n",
        "file",
        "-f",
        str(key),
        str(file),
    ]
    file.with_name(f"{file.name}.sig").unlink(missing_ok=True)
    subprocess.run(signing, check=True, capture_output=True)
    kind, public, _ = key.with_suffix(".pub").read_text().split()
    return f"{name} {kind} {public}\n"


def test_a_demanded_signature_is_checked_at_every_opening(
    packed: Path, cache: Path, tmp_path: Path
) -> None:
    allowed = write(tmp_path / "keys/allowed", sign(packed, tmp_path, "ops@acme"))
    policy = SyncPolicy(signers=Signers(allowed=allowed))
    checkout = sync(release(packed, cache, policy=policy))
    allowed.write_text(sign(packed, tmp_path, "other@acme"))

    with pytest.raises(SignatureError, match="no allowed signer"):
        release(packed, cache, policy=policy).open()

    assert checkout.verified_by == "ops@acme"


def test_an_archive_without_the_signature_is_refused(
    packed: Path, cache: Path, tmp_path: Path
) -> None:
    line = sign(packed, tmp_path, "ops@acme")
    allowed = write(tmp_path / "keys/allowed", line)
    policy = SyncPolicy(signers=Signers(allowed=allowed))
    packed.with_name(f"{packed.name}.sig").unlink()

    with pytest.raises(SyncError, match="cannot be read"):
        sync(release(packed, cache, policy=policy))

    unsigned = sync(release(packed, cache))
    sign(packed, tmp_path, "stranger@acme")
    with pytest.raises(SignatureError):
        sync(release(packed, cache, policy=policy))
    assert unsigned.verified_by is None


@pytest.mark.parametrize("name", ["*", "*@acme", "!ops@acme,*"])
def test_a_pattern_does_not_say_who_has_signed_an_archive(
    packed: Path, cache: Path, tmp_path: Path, name: str
) -> None:
    _, key = sign(packed, tmp_path, "ops@acme").split(" ", 1)
    policy = SyncPolicy(signers=Signers(allowed=write(tmp_path / "keys/allowed", f"{name} {key}")))

    with pytest.raises(SignatureError, match="does not say whose key it is"):
        sync(release(packed, cache, policy=policy))
