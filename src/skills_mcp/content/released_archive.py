"""An archive with a digest as a source: an immutable release of skills.

It becomes a commit of a local repository, so that all rules of a repository hold. The
same archive is the same commit everywhere.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skills_mcp import errors
from skills_mcp.config.values import is_private_url
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.commit_store import ARCHIVES
from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Checkout, CommitCheck, Freshness, Signers, SyncPolicy
from skills_mcp.files.archive import ArchiveLimits, PackedFile, open_archive
from skills_mcp.files.durable import NEW_PREFIX
from skills_mcp.files.locks import locked_temporary_folder

if TYPE_CHECKING:
    from skills_mcp.content.git.repository import RemoteRef

_MAX_ARCHIVE_BYTES = 256 * 1024 * 1024  # they are in memory once, while the commit is made
_CHUNK = 1024 * 1024
_MAX_SIGNATURE_BYTES = 64 * 1024
_REF = "refs/heads/main"
_NAMESPACE = "file"  # of `ssh-keygen -Y sign -n file`
_CHECK_SECONDS = 30.0
_DIGITS = 12
_SIGNATURE = ".sig"
# The digest is of the file: a host must not compress it once more.
_UNENCODED = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Archive:
    """Location and digest of an archive."""

    url: str
    """An https URL, or an absolute path."""
    sha256: str
    """Digest of the whole file, in lower hexadecimal digits."""

    @property
    def redacted_url(self) -> str:
        """The address without its query, as hosts put signatures there."""
        return _strip_query(self.url)

    @property
    def file(self) -> str:
        """File name; its suffix tells the archive format."""
        return urlsplit(self.url).path.rpartition("/")[2] or "archive"


class ReleasedArchive(RemoteBranch):
    """An archive fetched once, compared with its digest, and served.  Blocking.

    A required SSH signature is in a file of the same name plus `.sig`.
    """

    def __init__(self, archive: Archive, cache: Path, policy: SyncPolicy) -> None:
        self._archive = archive
        self._repository_path = cache / ARCHIVES / f"{archive.sha256}.git"
        self._signers = policy.signers
        super().__init__(
            Remote(os.fspath(self._repository_path), "main"),
            cache,
            replace(policy, signers=None),
        )
        self._is_pinned = True  # an archive never changes
        self.name = f"{archive.redacted_url} (sha256 {archive.sha256[:_DIGITS]})"

    @property
    def url(self) -> str:
        """The address of the archive, without its possibly secret query."""
        return self._archive.redacted_url

    def _find_verifier(self) -> Callable[[str], str] | None:
        archive, signers = self._repository_path / "archive", self._signers
        return (lambda _: _verify_archive(archive, signers)) if signers else None

    def sync(self, freshness: Freshness, accept: CommitCheck) -> Checkout:
        """Fetch the archive if it is missing, and publish its content.

        Raises:
            SyncError: The sync failed; the published content stays published.
        """
        try:
            return super().sync(freshness, accept)
        except (DamagedStoreError, errors.RemoteMissingError) as error:
            if not error.is_recalled:  # the next sync fetches the archive again
                shutil.rmtree(self._repository_path, ignore_errors=True)
            raise

    def _prepare(self) -> None:
        if not self._is_imported():
            shutil.rmtree(self._repository_path, ignore_errors=True)
            self._import_archive()

    def ask_remote(self, timeout_seconds: float) -> "RemoteRef":
        """Request the start of the archive, without writing anything.

        Raises:
            SyncError: It is not there, or cannot be read.
        """
        from skills_mcp.content.git.repository import RemoteRef

        with closing(self._read(self._archive.url, timeout_seconds)) as chunks:
            next(chunks, b"")
        return RemoteRef("", f"the archive with the SHA-256 {self._archive.sha256}")

    def _delete_unused_stores(self) -> None:
        with suppress(OSError):  # or it would be unused itself
            os.utime(self._repository_path)
        super()._delete_unused_stores()

    def _log_default_branch(self, default: str) -> None:
        """Keep the name: an archive has no branch."""

    def _is_imported(self) -> bool:
        # Signers may have been demanded only after the archive was fetched.
        name = "archive" if self._signers else _REF
        # A crash may have left it empty.
        return any(file.stat().st_size for file in self._repository_path.glob(name))

    def _import_archive(self) -> None:
        above = self._repository_path.parent
        above.mkdir(parents=True, exist_ok=True)
        with locked_temporary_folder(NEW_PREFIX, os.fspath(above)) as scratch:
            file = scratch / self._archive.file
            self._download(self._archive.url, file, self._limits().archive_bytes)
            self._check_digest(file)
            repository = scratch / "repository"
            git = self._parts.repository.git.with_directory(repository)
            git.init()
            if self._signers:
                signature = file.with_name(f"{file.name}{_SIGNATURE}")
                base, mark, query = self._archive.url.partition("?")
                address = f"{base}{_SIGNATURE}{mark}{query}"
                self._download(address, signature, _MAX_SIGNATURE_BYTES)
                file.rename(archive := repository / "archive")
                signature.rename(repository / f"archive{_SIGNATURE}")
                _verify_archive(archive, self._signers)
                os.link(archive, file)  # its name says how it is packed
            try:
                with open_archive(file, scratch, self._limits()) as files:
                    stream = b"".join(_render(self._archive, files))
            except errors.PackageRefusedError as error:
                raise errors.SyncError(f"{self.name}: {error}") from error
            git.run("fast-import", "--quiet", "--done", stdin=stream)
            if not self._is_imported():  # or another source of the same archive was faster
                repository.rename(self._repository_path)

    def _limits(self) -> ArchiveLimits:
        policy = self._policy
        return ArchiveLimits(
            archive_bytes=min(policy.max_download_bytes, _MAX_ARCHIVE_BYTES),
            total_bytes=min(policy.max_total_bytes, _MAX_ARCHIVE_BYTES),
            entries=policy.max_files,
        )

    def _check_digest(self, file: Path) -> None:
        with file.open("rb") as handle:
            digest = file_digest(handle, "sha256").hexdigest()
        if digest != self._archive.sha256:
            raise errors.SyncError(
                f"{self._archive.redacted_url} has the SHA-256 {digest}, and the "
                f"settings want {self._archive.sha256}. Find out who changed the "
                "archive; if it is a new release, write its digest into sha256"
            )

    def _download(self, address: str, target: Path, max_bytes: int) -> None:
        written, deadline = 0, monotonic() + self._policy.timeout_seconds
        with target.open("xb") as sink:
            for chunk in self._read(address):
                written += len(chunk)
                if written > max_bytes:
                    raise errors.LimitExceededError(
                        f"{_strip_query(address)} has more than {max_bytes:,} bytes. Raise "
                        "limits.max_total_bytes, or make the archive smaller"
                    )
                if monotonic() > deadline:  # httpx knows that of a single read alone
                    raise errors.SyncError(
                        f"{_strip_query(address)} took longer than sync.timeout_seconds. If the "
                        "network is slow, raise it"
                    )
                sink.write(chunk)

    def _read(self, address: str, timeout_seconds: float = inf) -> Generator[bytes, None, None]:
        if "://" not in address:
            return _read_file(Path(address))
        return _read_url(address, min(timeout_seconds, self._policy.timeout_seconds))


def is_fetchable(url: str) -> bool:
    """Whether an address is https, http to this machine, or a path.

    User information is refused: it would stand in logs and lock files.

    >>> is_fetchable("https://x.example/a.zip"), is_fetchable("http://x.example/a.zip")
    (True, False)
    """
    has_secret = "@" in urlsplit(url).netloc
    return "://" not in url or (not has_secret and is_private_url(url))


def _strip_query(address: str) -> str:
    return address.partition("?")[0] if "://" in address else address


def _read_file(file: Path) -> Generator[bytes, None, None]:
    try:
        with file.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise errors.SyncError(f"{file} cannot be read: {error.strerror}") from error


def _read_url(address: str, timeout_seconds: float) -> Generator[bytes, None, None]:
    import httpx  # late: it takes longer to import than the first answer may wait

    def check(request: httpx.Request) -> None:
        if not is_fetchable(str(request.url)):
            raise errors.SyncError(f"{_strip_query(address)} leads to an address without https")

    hooks = {"request": [check]}  # before each request, also after a redirect
    try:
        with (
            httpx.Client(
                follow_redirects=True, timeout=timeout_seconds, event_hooks=hooks
            ) as client,
            client.stream("GET", address, headers=_UNENCODED) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise errors.SyncError(
                    f"{_strip_query(address)} answers {response.status_code} "
                    f"{response.reason_phrase}. Check the address"
                )
            yield from response.iter_raw()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise errors.SyncError(f"{_strip_query(address)} cannot be fetched: {reason}") from error


def _render(archive: Archive, files: Sequence[PackedFile]) -> Iterator[bytes]:
    from skills_mcp.content.git.proposal import render_commit, render_inline_file  # late: start-up

    top = _find_top([file.path for file in files])
    yield from render_commit(_REF, f"{archive.sha256}\n", seconds=0)
    for file in sorted(files, key=lambda packed: packed.path):
        with file.open() as handle:
            data = handle.read(file.size_bytes + 1)
        if len(data) != file.size_bytes:
            raise errors.PackageRefusedError(f"The archive lies about {file.path}")
        path = file.path.removeprefix(top)
        yield from render_inline_file(path, data, is_executable=file.is_executable)
    yield b"done\n"


def _find_top(paths: Sequence[str]) -> str:
    """Find the single top folder of a packed repository, unless it is a package.

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


def _verify_archive(archive: Path, signers: Signers) -> str:
    from skills_mcp.content.git.signatures import check_signer_files  # late: it loads Git

    check_signer_files(signers)
    signature = archive.with_name(f"{archive.name}{_SIGNATURE}")
    revoked = ("-r", os.fspath(signers.revoked)) if signers.revoked else ()
    allowed, signed = os.fspath(signers.allowed), os.fspath(signature)
    found = _run_keygen("find-principals", "-f", allowed, "-s", signed)
    for principal in found.stdout.decode("utf-8", "replace").splitlines():
        options = ("-f", allowed, "-I", principal, "-n", _NAMESPACE, "-s", signed)
        done = _run_keygen("verify", *options, *revoked, file=archive)
        if done.returncode == 0:
            return principal
    raise errors.SignatureError(
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
        raise errors.SignatureError(f"the signature cannot be checked: {error}") from error
