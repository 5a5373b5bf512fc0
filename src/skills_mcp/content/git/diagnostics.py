"""Standard error of Git: messages, progress and HTTP response headers.

With `GIT_TRACE_CURL` the headers of every response stand between the messages.  They
carry details that Git omits: the status, and `Retry-After`.
"""

# ruff: noqa: ISC004 - in the table, the advice of a row may take several lines
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import unquote, urlsplit

from skills_mcp.content.git.remote import Remote
from skills_mcp.errors import (
    AccessRefusedError,
    LimitExceededError,
    RemoteMissingError,
    SignatureError,
    SyncError,
)
from skills_mcp.processes.retry import clamp_pause, parse_http_date, parse_retry_after
from skills_mcp.text.redaction import redact

_MAX_RETAINED_BYTES = 32 * 1024  # of the beginning, and as much of the end
_LONGEST_LINE = 16 * 1024  # a server that never ends one must not fill our memory
_MAX_SUMMARY = 1_200  # characters of a message

_TRACE = re.compile(rb"\d\d:\d\d:\d\d\.\d+ \S+:\d+ +")
_HEADER = re.compile(rb"<= Recv header: ([^:\r\n]+):? ?([^\r\n]*)")
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})")
_PROGRESS = re.compile(rb"(?:remote: )?([A-Z][a-z ]+): +(\d{1,3})%")

# Lines of a fetch without a failure.
_CHATTER = re.compile(
    rb"remote: (?:Enumerating|Counting|Compressing|Total) |From | [*+=t-] |POST git-"
)
_RELAYED = re.compile("remote: |fatal: remote error: ")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Response:
    """The last HTTP response of a host, without its body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def location(self) -> str:
        return self.headers.get("location", "")

    @property
    def is_throttled(self) -> bool:
        """Whether the host limits our requests, by 429 or by headers of a 403."""
        remaining = self.headers.get("x-ratelimit-remaining")
        asks_to_wait = "retry-after" in self.headers or remaining == "0"
        return self.status == 429 or (self.status == 403 and asks_to_wait)  # noqa: PLR2004

    def retry_after_seconds(self, now: datetime) -> float | None:
        """Parse the requested pause, up to an hour; None without a valid header."""
        sent_at = parse_http_date(self.headers.get("date", "")) or now
        if header := self.headers.get("retry-after", ""):
            return parse_retry_after(header, sent_at)
        reset = self.headers.get("x-ratelimit-reset", "")
        if self.is_throttled and re.fullmatch(r"[0-9]{1,18}", reset):
            return clamp_pause(float(reset) - sent_at.timestamp())
        return None


class Transcript:
    """Parser for the output of one command; fed by one thread."""

    def __init__(self) -> None:
        self._rest = b""
        self._head = bytearray()
        self._tail = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self.progress: tuple[str, float] | None = None
        """Git's step and the share that is done, from 0 to 1."""

    def feed(self, data: bytes) -> None:
        """Add a chunk of output; it may end within a line."""
        *lines, self._rest = re.split(rb"[\r\n]", self._rest + data)
        for line in lines:
            self._add(line)
        if len(self._rest) > _LONGEST_LINE:
            self._rest = self._rest[:_LONGEST_LINE]

    def finish(self) -> None:
        if self._rest:
            self.feed(b"\n")

    @property
    def summary(self) -> str:
        """The messages on one line, shortened."""
        words = " ".join(_CONTROLS.sub(" ", self.text).split())
        if len(words) <= _MAX_SUMMARY:
            return words
        return f"{words[: _MAX_SUMMARY // 2]} … {words[-_MAX_SUMMARY // 2 :]}"

    @property
    def local_text(self) -> str:
        """Git's own messages, without those relayed from the host."""
        lines = self.text.splitlines()
        return " ".join(line for line in lines if not _RELAYED.match(line))

    @property
    def text(self) -> str:
        return bytes(self._head + self._tail).decode("utf-8", "replace")

    @property
    def response(self) -> Response | None:
        return Response(self._status, dict(self._headers)) if self._status else None

    def _add(self, line: bytes) -> None:
        if trace := _TRACE.match(line):
            self._read_header(line[trace.end() :])
        elif progress := _PROGRESS.match(line):
            share = min(int(progress[2]), 100) / 100
            self.progress = (progress[1].decode(), share)
        elif not _CHATTER.match(line):
            self._append(line + b"\n")

    def _append(self, line: bytes) -> None:
        capacity = _MAX_RETAINED_BYTES - len(self._head)
        self._head += line[:capacity]
        self._tail += line[capacity:]
        del self._tail[:-_MAX_RETAINED_BYTES]

    def _read_header(self, trace: bytes) -> None:
        if not (header := _HEADER.match(trace)):
            return
        if status := _STATUS.match(trace, header.start(1)):
            self._status, self._headers = int(status[1]), {}
            return
        name, value = header[1].decode("latin-1"), header[2].decode("latin-1")
        self._headers[name.strip().lower()] = value.strip()


NO_PROGRAM = f"{os.devnull}/no-other-signatures"
"""A path below a device instead of `gpg`: no program can exist there."""

_MAX_QUOTE_CHARACTERS = 300  # characters of Git's own words; it may quote a whole signature

_RETRY = "Try again; a running server does so by itself"

_COMMIT_DIGITS = 40
_SHORTENED = re.compile(rf"[0-9a-f]{{4,{_COMMIT_DIGITS - 1}}}", re.IGNORECASE)

PIN_ADVICE = (
    "the repository has no such tag or commit, or does not hand it out. Check `ref`: "
    "the name of a tag, or a commit with all its digits"
)


def advise_pin(pin: str) -> str:
    if _SHORTENED.fullmatch(pin):
        return (
            f"{pin} looks like a shortened commit. Write all {_COMMIT_DIGITS} digits: "
            f"`git rev-parse {pin}` in a clone prints them"
        )
    return PIN_ADVICE


_PARTIAL_CLONE = "promisor remote"  # Git's words for a file that a clone has left out


def is_partial_clone(message: str) -> bool:
    return _PARTIAL_CLONE in message


def advise_partial_clone(folder: str) -> str:
    return (
        "the clone was made with --filter, and lacks files that are needed. Fetch them "
        f"once: git -C {shlex.quote(folder)} fetch --refetch --no-filter"
    )


class DamagedStoreError(SyncError):
    """Git's store is damaged; a new one may work."""


class RefMissingError(RemoteMissingError):
    """The repository exists, but not the branch, tag or commit."""


_CauseGroup = Literal[
    "machine",  # also if the command asks no remote
    "store",  # Git's own store is damaged; a new one heals it
    "token",  # the status of an answer to a request with a token
    "no token",  # the status of an answer to a request without one
    "status",  # any other status
    "pin",  # a tag or commit was asked for
    "folder",  # the remote is a folder of this machine
    "remote",
    "signature",
]


_Cause = tuple[type[SyncError], tuple[str, ...], str]

_CAUSES: Mapping[_CauseGroup, tuple[_Cause, ...]] = {
    "machine": (
        (SyncError, ("No space left on device", "Disk quota exceeded"),
         "the disk is full. Make room: the content that is served stays"),
        (SyncError, ("Read-only file system",),
         "the cache cannot be written: its disk is read-only. Set SKILLS_MCP_HOME to "
         "a folder on another disk"),
        # Newer versions of Git make no folder of packs anew.
        (DamagedStoreError, (".pack: No such file or directory", ".pack: Not a directory",
          "differ in contents"),
         "Git's store is damaged"),
        (SyncError, ("insufficient permission for adding",
          "nable to create temporary file", "tmp_pack_", "unable to write file",
          "failed to write", "couldn't write", "could not write"),
         "the cache cannot be written. Check its owner, its permissions and the free "
         "space, or set SKILLS_MCP_HOME to a folder of your own"),
        (LimitExceededError, ("Out of memory", "Cannot allocate memory",
          "std::bad_alloc", "mmap failed"),
         "Git needs more memory than its limit. Serve a smaller repository, or "
         "delete its largest files"),
        (AccessRefusedError, ("dubious ownership",),
         "the repository belongs to another user. If you trust it, run `git config "
         "--global --add safe.directory` with its path"),
        (SyncError, ("cannot run ssh", "ssh: not found", "ssh: command not found"),
         "SSH is not installed. Install it, or use the https address with a token"),
    ),
    "store": (
        # A pack that builds on a broken object of ours looks like a broken pack.
        (DamagedStoreError, ("unresolved delta", "all necessary objects",
          "loose object ", "object file ", "fatal: bad object", "is not a valid object",
          "cannot lock ref", "bad config ", "cannot be accessed", "not match index",
          "fatal: not a git repository", "unable to resolve reference", "bad shallow",
          "unable to read tree", "unable to read ", "is garbage",
          "object corrupt or missing", "bad signature"),
         "Git's store is damaged"),
    ),
    "token": (
        (AccessRefusedError, ("HTTP 401",),
         "401: the token is wrong, expired or revoked. Put a new one into "
         "GITHUB_TOKEN, or into the file that SKILLS_MCP_TOKEN_FILE names"),
        (AccessRefusedError, ("HTTP 403",),
         "403: the token may not read this repository. Give it read access to "
         "contents, or authorise it for the organisation's single sign-on"),
        (RemoteMissingError, ("HTTP 404",),
         "404: no such repository, or the token may not see it. Check the address, "
         "and which repositories the token may read"),
    ),
    "no token": (
        (AccessRefusedError, ("HTTP 401",),
         "401: this repository needs a token. Set GITHUB_TOKEN to one that may read "
         "it, or SKILLS_MCP_TOKEN_FILE to a file that holds one"),
        (AccessRefusedError, ("HTTP 403",),
         "403: no permission to read this repository. Set GITHUB_TOKEN to a token "
         "that may read it, or SKILLS_MCP_TOKEN_FILE to a file that holds one"),
        (RemoteMissingError, ("HTTP 404",),
         "404: no such repository, or it is private. Check the address, or set "
         "GITHUB_TOKEN to a token that may read it"),
    ),
    "status": (
        (RemoteMissingError, ("HTTP 407",),
         "407: the proxy needs authentication. Put a user and a password into "
         "http.proxy of your Git configuration"),
        (RemoteMissingError, ("HTTP 4",),
         "{status}: the host refuses the request. Check the address"),
        (SyncError, ("HTTP 5",),
         f"{{status}}: server error. {_RETRY}"),
    ),
    "pin": (
        # "expected commit type" is about a tag that marks no commit.
        (RemoteMissingError, ("couldn't find remote ref", "not our ref",
          "expected commit type", "unadvertised object", "no such remote ref"),
         PIN_ADVICE),
    ),
    "folder": (
        (AccessRefusedError, ("Permission denied",),
         "no permission to read the repository. Check its owner and its permissions"),
        (RemoteMissingError, ("does not appear to be a git repository",
          "' does not exist", "' not found"),
         "repository not found at this path. Check its address; if it is a folder "
         "without Git, set SKILLS_DIR (or pass --skills-dir); if it is on a host, "
         "write the URL, such as https://github.com/acme/skills.git"),
    ),
    "remote": (
        (SyncError, ("certificate has expired", "certificate is expired",
          "not yet valid", "not yet activated"),
         "TLS certificate expired, or not valid yet. Tell the operator of the host, "
         "or correct the clock of this machine"),
        (SyncError, ("does not match target host",
          "no alternative certificate subject", "hostname mismatch",
          "name does not match"),
         "TLS certificate is for another host name. Check the address"),
        (SyncError, ("error setting certificate", "error reading ca cert",
          "SSL CA cert"),
         "the file of TLS certificates cannot be read. Check GIT_SSL_CAINFO and "
         "http.sslCAInfo"),
        (SyncError, ("self-signed certificate", "self signed certificate",
          "local issuer", "certificate verification failed", "signer not trusted",
          "unknown CA", "UNTRUSTED_ROOT", "certificate problem",
          "server verification failed", "signer not found"),
         "TLS certificate not trusted: its CA is unknown here, or it has expired. If "
         "your organisation has a CA of its own, name the file with its certificate "
         "in GIT_SSL_CAINFO"),
        (SyncError, ("gnutls_handshake", "SSL_connect", "SSL_ERROR", "SSL routines",
          "schannel:", "GnuTLS"),
         "TLS connection failed. Check the address, its port and the proxy"),
        (AccessRefusedError, ("Permission denied (",),
         "SSH permission denied. Load a key that may read the repository into the "
         "agent, and make `git ls-remote` with this address work in a terminal"),
        (AccessRefusedError, ("Host key verification failed",
          "HOST IDENTIFICATION HAS CHANGED"),
         "SSH host key unknown, or changed. Connect once in a terminal and compare it"),
        (AccessRefusedError, ("Authentication failed", "could not read Username",
          "could not read Password", "returned error: 401", "returned error: 403"),
         "authentication failed. Set GITHUB_TOKEN to a token that may read the "
         "repository"),
        (RemoteMissingError, ("' not found", "Repository not found",
          "repository not found", "returned error: 404",
          "does not appear to be a git repository", "is this a git repository?",
          "' does not exist"),
         "repository not found, or no permission to see it. Check its address"),
        (RemoteMissingError, ("is not a git command", "Unable to find remote helper",
          "transport '"),
         "Git does not know this kind of address. Check its address"),
        (RefMissingError, ("couldn't find remote ref", "no such remote ref"),
         "the repository has no such branch"),
        (SyncError, ("fsck error", "badTree", "hasDot"),
         "the repository holds what Git refuses as broken or dangerous. Take it out"),
        (SyncError, ("mismatched algorithms",),
         "the repository names its commits by SHA-256, and only SHA-1 is supported. "
         "Serve one that was made without --object-format"),
        (SyncError, ("unable to update url base from redirection",
          "returned error: 30"),
         "the address has moved. Configure the new one"),
        (SyncError, ("Could not resolve", "Temporary failure in name resolution"),
         "cannot resolve the name of the host (DNS). Check the network and the "
         "address"),
        (SyncError, ("Failed to connect", "Connection refused", "Could not connect",
          "Connection timed out", "Operation timed out", "No route to host",
          "Network is unreachable", "Couldn't connect"),
         "the host cannot be reached. Check the network, the proxy and the address"),
        (SyncError, ("Operation too slow",),
         f"timeout: the host sent nothing for too long. {_RETRY}"),
        (RemoteMissingError, ("lacks these prerequisite commits",),
         "the bundle builds on commits that are not in it. Make it without a range: "
         "`git bundle create FILE main`"),
        (RemoteMissingError, ("invalid gitfile format",),
         "this is not a repository. If it is a bundle, write its path without file://"),
        (SyncError, ("early EOF", "hung up unexpectedly", "RPC failed",
          "unexpected disconnect", "still expected", "transfer closed", "Empty reply",
          "protocol error", "bad line length", "bad pack header", "expected 'packfile'",
          "index-pack", "unpack-objects failed", "pack is corrupt", "bad object at",
          "inflate", "expected flush", "error processing", "Recv failure",
          "Connection reset", "remote error", "invalid server response"),
         f"the transfer was cut off, or its data is damaged. {_RETRY}"),
        (SyncError, ("unable to access", "Could not read from remote",
          "Connection closed"),
         "the host cannot be reached. Check the network and the address"),
    ),
    "signature": (
        (SignatureError, (NO_PROGRAM,),
         "it is signed with OpenPGP or X.509, and only SSH keys count. Sign it after "
         "`git config gpg.format ssh`"),
        (SignatureError, ("cannot run ssh-keygen", "cannot exec 'ssh-keygen'"),
         "ssh-keygen is not installed, or not in PATH. Install OpenSSH on this "
         "machine"),
        (SignatureError, ("is needed for ssh signature verification",),
         "ssh-keygen is too old. OpenSSH 8.2 or newer is needed on this machine"),
        (SignatureError, ("has expired",),
         "its date is after the `valid-before` of its key. Sign it with a key that "
         "is valid, or renew that one in allowed_signers"),
        (SignatureError, ("not yet valid",),
         "its date is before the `valid-after` of its key. Correct allowed_signers"),
        (SignatureError, ("not permitted for use in signature namespace",),
         "its key may not sign for Git. Add `git` to its `namespaces` in "
         "allowed_signers, or leave that option out"),
        (SignatureError, ("incorrect signature",),
         "it is not what was signed. Find out who has changed it, and sign it again"),
        (SignatureError, ("No principal matched",),
         "its key is not in allowed_signers. Sign it with one that is, or add that "
         "key"),
        (SignatureError, ("Could not verify signature",),
         "its key is revoked, or revoked_signers cannot be understood. Sign it with "
         "another key"),
        (SignatureError, ("unable to read", "could not parse", "bad object",
          "not found."),
         "Git cannot read it. Call refresh_skills, which fetches it again"),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Advice:
    """Error class and message for a recognised cause."""

    kind: type[SyncError]
    words: str
    retry_after_seconds: float | None = None


def find_advice(transcript: Transcript, remote: Remote, now: datetime) -> Advice | None:
    """Match a failed fetch to a cause; None if Git's own store may be damaged."""
    summary, local_text, response = (
        transcript.summary,
        transcript.local_text,
        transcript.response,
    )
    # A host that speaks through Git may have a full disk or a damaged store of its own.
    if advice := find_local_advice(local_text):
        return advice
    if _match_cause("store", local_text):
        return None
    if response and (advice := _read_status(response, remote, now)):
        return advice
    if remote.scheme == "file" and is_partial_clone(summary):
        folder = unquote(urlsplit(remote.url).path) if "://" in remote.url else remote.url
        return Advice(RemoteMissingError, advise_partial_clone(folder))
    groups: list[_CauseGroup] = ["pin"] if remote.pin else []
    groups += ["folder", "remote"] if remote.scheme == "file" else ["remote"]
    return next(filter(None, (_match_cause(group, summary) for group in groups)), None)


def find_local_advice(message: str) -> Advice | None:
    return _match_cause("machine", message)


def compose_error(
    advice: Advice | None, git_message: str, fallback: str, remote: Remote | None = None
) -> SyncError:
    """Compose the error for a failed command, without secrets.

    Our own words are not redacted: a token may be a word such as `wrong`.
    """
    about = redact(f"{remote}: ") if remote else ""
    words = advice.words if advice else fallback
    note = ""
    if remote and remote.withholds_token:
        note = " (the token was not sent: it travels over https only)"
    message = f"{about}{words}. Git said: {redact(git_message)}{note}"
    if advice is None:
        return DamagedStoreError(message)
    return advice.kind(message, retry_after_seconds=advice.retry_after_seconds)


def render_reason(kind: str, git_message: str) -> str:
    """Render why a commit or tag (`kind`) is refused, from the output of Git.

    >>> render_reason("commit", "")
    'it is not signed. Sign it with `git commit -S`'
    """
    if advice := _match_cause("signature", git_message):
        fingerprint = re.search(r"SHA256:\S+", git_message)
        return advice.words + (f" (its key is {fingerprint[0]})" if fingerprint else "")
    if git_message.strip() in {"", "error: no signature found"}:
        command = "git tag -s" if kind == "tag" else "git commit -S"
        return f"it is not signed. Sign it with `{command}`"
    return f"Git says: {' '.join(git_message.split())[:_MAX_QUOTE_CHARACTERS]}"


def _match_cause(group: _CauseGroup, message: str) -> Advice | None:
    for kind, signs, words in _CAUSES[group]:
        if any(sign in message for sign in signs):
            return Advice(kind, words)
    return None


def _read_status(response: Response, remote: Remote, now: datetime) -> Advice | None:
    status = response.status
    if response.is_throttled:
        words = f"{status}: too many requests (rate limit). {_RETRY}"
        return Advice(SyncError, words, response.retry_after_seconds(now))
    if status // 100 == 3:  # noqa: PLR2004 - redirects are not followed
        return Advice(SyncError, _render_redirect(response.location))
    status_text = f"HTTP {status}"
    advice = _match_cause("token" if remote.sends_token else "no token", status_text)
    advice = advice or _match_cause("status", status_text)
    if advice is None:
        return None
    is_server_error = status // 100 == 5  # noqa: PLR2004 - as HTTP has it
    pause_seconds = response.retry_after_seconds(now) if is_server_error else None
    return Advice(advice.kind, advice.words.format(status=status), pause_seconds)


def _render_redirect(location: str) -> str:
    address = location.partition("/info/refs")[0].partition("/git-upload-pack")[0]
    target = f" to {redact(address)}" if address else ""
    return f"the address has moved{target}. Configure the new one"
