"""What Git says when it fails, phrase by phrase, and what each of them means."""

from typing import NamedTuple

from skills_mcp.errors import (
    AccessRefusedError,
    LimitExceededError,
    RemoteMissingError,
    SyncError,
)


class RefMissingError(RemoteMissingError):
    """The repository is there; what was asked for is not in it."""


class Cause(NamedTuple):
    """Words of Git's, and what they mean.

    They are whole phrases: addresses and commits stand in the same text, and "401" may
    be a part of either. Of several causes the first one counts.
    """

    signs: tuple[str, ...]
    kind: type[SyncError]
    words: str


THIS_MACHINE: tuple[Cause, ...] = (
    Cause(
        ("No space left on device", "Disk quota exceeded"), SyncError,
        "the disk is full. Make room: the content that is served stays",
    ),
    Cause(
        ("Read-only file system",), SyncError,
        "the cache cannot be written: its disk is read-only. Set SKILLS_MCP_HOME to a "
        "folder on another one",
    ),
    Cause(
        ("insufficient permission for adding", "nable to create temporary file",
         "tmp_pack_", "unable to write file", "failed to write", "couldn't write",
         "could not write"), SyncError,
        "the cache cannot be written. Check who owns it and whether there is room, or "
        "set SKILLS_MCP_HOME to a folder of your own",
    ),
    Cause(
        ("Out of memory", "Cannot allocate memory", "std::bad_alloc", "mmap failed"),
        LimitExceededError,
        "Git needs more memory than it may have. Serve a smaller repository, or delete "
        "what is huge from it",
    ),
    Cause(
        ("dubious ownership",), AccessRefusedError,
        "the repository belongs to somebody else. If you trust it, run `git config "
        "--global --add safe.directory` with its path",
    ),
    Cause(
        ("cannot run ssh", "ssh: not found", "ssh: command not found"), SyncError,
        "SSH is not installed. Install it, or take the https address with a token",
    ),
)  # fmt: skip

# What Git says when it cannot use what it has itself; a new store heals all of them.
# A pack that builds on a broken object of ours looks like a broken pack.
DAMAGE = (
    "unresolved delta", "all necessary objects", "loose object ", "object file ",
    "fatal: bad object", "is not a valid object", "cannot lock ref", "bad config ",
    "cannot be accessed", "not match index", "fatal: not a git repository",
    "unable to resolve reference", "bad shallow", "unable to read tree",
    "unable to read ", "is garbage", "object corrupt or missing", "bad signature",
)  # fmt: skip

FOLDERS: tuple[Cause, ...] = (
    Cause(
        ("Permission denied",), AccessRefusedError,
        "the repository may not be read. Check who owns it, and its permissions",
    ),
)  # fmt: skip

ELSEWHERE: tuple[Cause, ...] = (
    Cause(
        ("certificate has expired", "certificate is expired", "not yet valid",
         "not yet activated"), SyncError,
        "the host's certificate is out of date, or the clock of this machine is wrong",
    ),
    Cause(
        ("does not match target host name", "no alternative certificate subject",
         "hostname mismatch", "name does not match"), SyncError,
        "the host's certificate is for another name. Check the address",
    ),
    Cause(
        ("error setting certificate", "error reading ca cert", "SSL CA cert"),
        SyncError,
        "the file of certificates cannot be read. Check GIT_SSL_CAINFO and "
        "http.sslCAInfo",
    ),
    Cause(
        ("self-signed certificate", "self signed certificate", "local issuer",
         "certificate verification failed", "signer not trusted", "unknown CA",
         "UNTRUSTED_ROOT", "certificate problem", "server verification failed",
         "signer not found"), SyncError,
        "the host's certificate is not believed: nobody whom this machine trusts has "
        "signed it, or it is out of date. If your organisation has signed it, name the "
        "file with its own certificate in GIT_SSL_CAINFO",
    ),
    Cause(
        ("gnutls_handshake", "SSL_connect", "SSL_ERROR", "SSL routines", "schannel:",
         "GnuTLS"), SyncError,
        "no secure connection could be made. Check the address, its port and the proxy",
    ),
    Cause(
        ("Permission denied (",), AccessRefusedError,
        "SSH was refused. Load a key that may read the repository into the agent, and "
        "make `git ls-remote` with this address work in a terminal",
    ),
    Cause(
        ("Host key verification failed", "HOST IDENTIFICATION HAS CHANGED"),
        AccessRefusedError,
        "SSH does not know the key of the host, or it has changed. Connect once in a "
        "terminal and compare it",
    ),
    Cause(
        ("Authentication failed", "could not read Username", "could not read Password",
         "returned error: 401", "returned error: 403"), AccessRefusedError,
        "access was refused. Set GITHUB_TOKEN to a token that may read the repository",
    ),
    Cause(
        ("' not found", "Repository not found", "repository not found",
         "returned error: 404", "does not appear to be a git repository",
         "is this a git repository?", "' does not exist"),
        RemoteMissingError,
        "no repository is there, or it may not be seen. Check its address",
    ),
    Cause(
        ("is not a git command", "Unable to find remote helper", "transport '"),
        RemoteMissingError,
        "Git does not know this kind of address. Check its address",
    ),
    Cause(
        ("couldn't find remote ref", "no such remote ref"), RefMissingError,
        "the repository has no such branch",
    ),
    Cause(
        ("fsck error", "badTree", "hasDot"), SyncError,
        "the repository holds what Git refuses as broken or dangerous. Take it out",
    ),
    Cause(
        ("mismatched algorithms",), SyncError,
        "the repository names its commits by SHA-256, and only SHA-1 is read. Serve "
        "one that was made without --object-format",
    ),
    Cause(
        ("unable to update url base from redirection", "returned error: 30"), SyncError,
        "the address has moved. Configure the new one",
    ),
    Cause(
        ("Could not resolve", "Temporary failure in name resolution"), SyncError,
        "the host's name is not known. Check the network and the address",
    ),
    Cause(
        ("Failed to connect", "Connection refused", "Could not connect",
         "Connection timed out", "Operation timed out", "No route to host",
         "Network is unreachable", "Couldn't connect"), SyncError,
        "the host cannot be reached. Check the network, the proxy and the address",
    ),
    Cause(
        ("Operation too slow", "Operation timed out after"), SyncError,
        "the host was silent, or too slow for too long. It is tried again later",
    ),
    Cause(
        ("lacks these prerequisite commits",), RemoteMissingError,
        "the bundle builds on commits that are not in it. Make it without a range: "
        "`git bundle create FILE main`",
    ),
    Cause(
        ("invalid gitfile format",), RemoteMissingError,
        "what is there is no repository. If it is a bundle, write its path without "
        "file://",
    ),
    Cause(
        ("early EOF", "hung up unexpectedly", "RPC failed",
         "unexpected disconnect", "still expected", "transfer closed", "Empty reply",
         "protocol error", "bad line length", "bad pack header", "expected 'packfile'",
         "index-pack", "unpack-objects failed", "pack is corrupt", "bad object at",
         "inflate", "expected flush", "error processing", "Recv failure",
         "Connection reset", "remote error", "invalid server response"), SyncError,
        "what the host sent was cut or damaged. It is tried again later",
    ),
    Cause(
        ("unable to access", "Could not read from remote", "Connection closed"),
        SyncError,
        "the host cannot be reached. Check the network and the address",
    ),
)  # fmt: skip

# The last is what Git says of a tag on something else than a commit.
NOT_PINNED = (
    "couldn't find remote ref", "not our ref", "unadvertised object",
    "expected commit type", "no such remote ref",
)  # fmt: skip
