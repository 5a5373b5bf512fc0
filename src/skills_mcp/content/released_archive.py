"""An archive with a digest as a source: a release of skills that never changes.

It becomes a commit in a repository of this machine, so that everything that holds for a
repository holds for it: limits, snapshots, gates and repair. The same archive is the
same commit everywhere.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skills_mcp.config.loopback import is_loopback
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.import_stream import render_commit, render_file
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Accept, Checkout, Freshness
from skills_mcp.content.sync_policy import Signers, SyncPolicy
from skills_mcp.errors import (
    LimitExceededError,
    PackageRefusedError,
    SignatureError,
    SyncError,
)
from skills_mcp.files.archive import ArchiveLimits, PackedFile, opened_archive

if TYPE_CHECKING:
    from skills_mcp.content.git.repository import RemoteAnswer

_MOST_BYTES = 256 * 1024 * 1024  # they are in memory once, while the commit is made
_CHUNK = 1024 * 1024
_MOST_SIGNATURE_BYTES = 64 * 1024
_REF = "refs/heads/main"
_NAMESPACE = "file"  # of `ssh-keygen -Y sign -n file`
_CHECK_SECONDS = 30.0
_DIGITS = 12
_SIGNATURE = ".sig"
# The digest is of the file: a host must not compress it once more.
_AS_STORED = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Archive:
    """Where an archive is, and which one it has to be."""

    url: str
    """An https URL, or an absolute path."""
    sha256: str
    """Of the whole file, in lower hexadecimal digits."""

    @property
    def shown(self) -> str:
        """The address without its query, in which hosts sign URLs."""
        return _show(self.url)

    @property
    def file(self) -> str:
        """The name of the file, which says how it is packed."""
        return urlsplit(self.url).path.rpartition("/")[2] or "archive"


class ReleasedArchive(RemoteBranch):
    """An archive that is fetched once, compared with its digest, and served. Blocking.

    Where signers are demanded, the archive needs an SSH signature of one of them, in a
    file beside it with `.sig` at the end; it is checked at each opening.
    """

    def __init__(self, archive: Archive, cache: Path, policy: SyncPolicy) -> None:
        self._archive = archive
        self._place = cache / "archives" / f"{archive.sha256}.git"
        self._signers = policy.signers
        self._seen_checkout: Checkout | None = None
        self._signed: Checkout | None = None
        super().__init__(
            Remote(os.fspath(self._place), "main"), cache, replace(policy, signers=None)
        )
        self.name = f"{archive.shown} (sha256 {archive.sha256[:_DIGITS]})"

    @property
    def url(self) -> str:
        """The address of the archive, without a query, which may be a secret."""
        return self._archive.shown

    def open(self) -> Checkout | None:
        """Return the release that was published on this machine, without any network.

        Raises:
            SyncError: It may not be served, or cannot be read.
        """
        checkout = super().open()
        if checkout is None or self._signers is None:
            return checkout
        # The same object for the same state: another one would be news.
        signer = _verify(self._place / "archive", self._signers)
        if checkout is not self._seen_checkout or self._signed is None:
            self._seen_checkout = checkout
            self._signed = replace(checkout, verified_by=signer)
        return self._signed

    def sync(self, freshness: Freshness, accept: Accept) -> Checkout:
        """Fetch the archive if it is not here yet, and publish what it holds.

        Raises:
            SyncError: What was published before stays published.
        """
        if not self._policy.is_offline and not self._is_here():
            try:
                shutil.rmtree(self._place, ignore_errors=True)
                self._bring()
            except OSError as error:
                reason = error.strerror or "an error of the disk"
                raise SyncError(f"{self.name} cannot be kept: {reason}") from error
        return super().sync(freshness, accept)

    def next_sync_at(self, interval_seconds: float | None) -> float:
        """Return infinity once it is published: an archive never changes."""
        published = self._store.current() is not None
        return inf if published else super().next_sync_at(interval_seconds)

    def ask_remote(self) -> "RemoteAnswer":
        """Begin to read the archive, as far as its host answers; nothing is written.

        Raises:
            SyncError: It is not there, or cannot be read.
        """
        from skills_mcp.content.git.repository import RemoteAnswer

        with closing(self._read(self._archive.url)) as chunks:
            next(chunks, b"")
        return RemoteAnswer(f"the archive with the SHA-256 {self._archive.sha256}")

    def _tell_branch(self, default: str) -> None:
        """Keep the name: an archive has no branch."""

    def _is_here(self) -> bool:
        # Signers may have been demanded only after the archive was fetched.
        wanted = self._place / "archive" if self._signers else self._place / "HEAD"
        return wanted.exists()

    def _bring(self) -> None:
        """Fetch, compare and unpack the archive, and make the commit of it."""
        above = self._place.parent
        above.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=above) as scratch:
            file = Path(scratch) / self._archive.file
            self._download(self._archive.url, file, self._limits().archive_bytes)
            self._compare(file)
            repository = Path(scratch) / "repository"
            git = self._parts.repository.git.beside(repository)
            git.run("init", "--quiet", "--bare", "--template=")
            if self._signers:
                signature = file.with_name(f"{file.name}{_SIGNATURE}")
                place, mark, query = self._archive.url.partition("?")
                address = f"{place}{_SIGNATURE}{mark}{query}"
                self._download(address, signature, _MOST_SIGNATURE_BYTES)
                file.rename(kept := repository / "archive")
                signature.rename(repository / f"archive{_SIGNATURE}")
                _verify(kept, self._signers)
                os.link(kept, file)  # its name says how it is packed
            try:
                with opened_archive(file, Path(scratch), self._limits()) as files:
                    stream = b"".join(_render(self._archive, files))
            except PackageRefusedError as error:
                raise SyncError(f"{self.name}: {error}") from error
            git.run("fast-import", "--quiet", "--done", stdin=stream)
            with suppress(OSError):  # another window was faster
                repository.rename(self._place)
        if not self._place.is_dir():
            raise SyncError(f"{self.name} cannot be kept in {above}")

    def _limits(self) -> ArchiveLimits:
        policy = self._policy
        return ArchiveLimits(
            archive_bytes=min(policy.max_download_bytes, _MOST_BYTES),
            total_bytes=min(policy.max_total_bytes, _MOST_BYTES),
            entries=policy.max_files,
        )

    def _compare(self, file: Path) -> None:
        with file.open("rb") as handle:
            digest = sha256()
            while chunk := handle.read(_CHUNK):
                digest.update(chunk)
        if digest.hexdigest() != self._archive.sha256:
            raise SyncError(
                f"{self._archive.shown} has the SHA-256 {digest.hexdigest()}, and the "
                f"settings want {self._archive.sha256}. Find out who changed the "
                "archive; if it is a new release, write its digest into sha256"
            )

    def _download(self, address: str, target: Path, most_bytes: int) -> None:
        """Write a file of the network or of this machine, and count what comes."""
        written = 0
        with target.open("xb") as sink:
            for chunk in self._read(address):
                written += len(chunk)
                if written > most_bytes:
                    raise LimitExceededError(
                        f"{_show(address)} has more than {most_bytes:,} bytes. Raise "
                        "limits.max_download_bytes, or make the archive smaller"
                    )
                sink.write(chunk)

    def _read(self, address: str) -> Generator[bytes, None, None]:
        if "://" not in address:
            yield from _read_file(Path(address))
            return
        yield from _read_url(address, self._policy.timeout_seconds)


def is_fetchable(url: str) -> bool:
    """Whether an archive is fetched from an address: https, this machine, or a path.

    An address with a user or a password is not: it would stand in logs and locks.

    >>> is_fetchable("https://x.example/a.zip"), is_fetchable("http://x.example/a.zip")
    (True, False)
    """
    parts = urlsplit(url)
    is_near = parts.scheme == "http" and is_loopback(parts.hostname or "")
    has_secret = "@" in parts.netloc
    return "://" not in url or (not has_secret and (parts.scheme == "https" or is_near))


def _show(address: str) -> str:
    return address.partition("?")[0] if "://" in address else address


def _read_file(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise SyncError(f"{file} cannot be read: {error.strerror}") from error


def _read_url(address: str, timeout_seconds: float) -> Iterator[bytes]:
    import httpx  # late: it takes longer to import than the first answer may wait

    try:
        with (
            httpx.Client(follow_redirects=True, timeout=timeout_seconds) as client,
            client.stream("GET", address, headers=_AS_STORED) as response,
        ):
            asked = (*(each.url for each in response.history), response.url)
            if not all(is_fetchable(str(each)) for each in asked):
                raise SyncError(f"{_show(address)} leads to an address without https")
            if response.status_code != httpx.codes.OK:
                raise SyncError(
                    f"{_show(address)} answers {response.status_code} "
                    f"{response.reason_phrase}. Check the address"
                )
            yield from response.iter_raw(_CHUNK)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = str(error) or type(error).__name__
        raise SyncError(f"{_show(address)} cannot be fetched: {said}") from error


def _render(archive: Archive, files: Sequence[PackedFile]) -> Iterator[bytes]:
    """Yield the stream of `git fast-import`; nothing of it depends on the machine."""
    top = _find_top([file.path for file in files])
    yield from render_commit(_REF, f"{archive.sha256}\n", seconds=0)
    for file in sorted(files, key=lambda each: each.path):
        with file.open() as handle:
            data = handle.read(file.size_bytes + 1)
        if len(data) != file.size_bytes:
            raise PackageRefusedError(f"The archive lies about {file.path}")
        path = file.path.removeprefix(top)
        yield from render_file(path, data, is_executable=file.is_executable)
    yield b"done\n"


def _find_top(paths: Sequence[str]) -> str:
    """Return the one folder that holds everything, as forges pack a repository.

    A package that was packed with its folder keeps it.

    >>> _find_top(["skills-1.2/README.md", "skills-1.2/skills/a.md"])
    'skills-1.2/'
    >>> _find_top(["pdf/SKILL.md"]), _find_top(["a.md", "b/c.md"])
    ('', '')
    """
    tops = {path.partition("/")[0] for path in paths}
    top = f"{next(iter(tops), '')}/"
    is_package = f"{top}SKILL.md" in paths
    is_alone = len(tops) == 1 and all("/" in path for path in paths)
    return top if is_alone and not is_package else ""


def _verify(archive: Path, signers: Signers) -> str:
    """Return who has signed an archive.

    Raises:
        SignatureError: No trusted key has, or that cannot be checked.
    """
    signature = archive.with_name(f"{archive.name}{_SIGNATURE}")
    revoked = ("-r", os.fspath(signers.revoked)) if signers.revoked else ()
    allowed, signed = os.fspath(signers.allowed), os.fspath(signature)
    found = _run_keygen("find-principals", "-f", allowed, "-s", signed)
    for principal in found.stdout.decode("utf-8", "replace").splitlines():
        options = ("-f", allowed, "-I", principal, "-n", _NAMESPACE, "-s", signed)
        done = _run_keygen("verify", *options, *revoked, file=archive)
        if done.returncode == 0:
            return principal
    raise SignatureError(
        f"no allowed signer has signed {archive.name} with {signature.name}. Sign the "
        "archive: ssh-keygen -Y sign -n file -f KEY ARCHIVE"
    )


def _run_keygen(
    action: str, *arguments: str, file: Path | None = None
) -> "subprocess.CompletedProcess[bytes]":
    command = ("ssh-keygen", "-Y", action, *arguments)
    try:
        with file.open("rb") if file else open(os.devnull, "rb") as stdin:  # noqa: PTH123
            return subprocess.run(  # noqa: S603 - a fixed program, and our paths
                command,
                stdin=stdin,
                capture_output=True,
                timeout=_CHECK_SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SignatureError(f"the signature cannot be checked: {error}") from error
