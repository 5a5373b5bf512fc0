"""Signatures of commits and tags, verified by Git and ssh-keygen.

Rule 1: only exit status 0 lets content pass. The output of ssh-keygen is for people.
Rule 2: a signature that cannot be checked is refused.
Rule 3: only SSH keys count, and only from a file outside of all content.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from skills_mcp.content.git.command import CommandOutput, Git, is_older
from skills_mcp.content.git.diagnostics import NO_PROGRAM, render_reason
from skills_mcp.content.source import Signers
from skills_mcp.errors import ConfigError, SignatureError, SyncError
from skills_mcp.skills.model import escape_unprintable

_TIMEOUT_SECONDS = 30.0
"""A check takes milliseconds; only a hanging disk takes longer."""

_OLDEST_GIT = (2, 34)  # the first that knows signatures made with SSH

# Git exits with 1 for a signature that it does not accept, and with 128 for an object
# that it cannot read. `run` passes both on.
_EXPECTED_STATUSES = (0, 1, 128)

_GOOD = re.compile(r'^Good "git" signature for (.+) with (\S+) key (SHA256:\S+)$', re.MULTILINE)

# Otherwise Git may check a replacement instead of the object that is served.
_EXACT = "core.useReplaceRefs=false"

# A line of the allowed signers: names, then options or the kind of key.
_SIGNER = re.compile(r'\s*("[^"]*"|[^\s"]+)\s+((?:"[^"]*"|[^\s"])+)')
_IS_AUTHORITY = re.compile(r"(?:^|,)cert-authority(?:,|$)", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_BLANK = " \t\r"
_PATTERN = re.compile(r"[*?!]")


_NO_TAG = (
    "only a signed tag counts (`verify`), and it was asked for by a branch, by its own "
    "hash, or by a tag without a signature. Let `ref` name a tag made with `git tag -s`"
)


def check_signers(signers: Signers, cache: Path) -> None:
    """Refuse signer files within reach of the content.

    Raises:
        ConfigError: A file is inside of the cache, or has a relative path.
    """
    for key, file in _files(signers):
        if not file.is_absolute():
            raise ConfigError(f"{key} {str(file)!r} is a relative path. Write the whole path")
        if any(location.is_relative_to(cache.resolve()) for location in _resolve_links(file)):
            raise ConfigError(
                f"{key} {str(file)!r} is in the cache, where content is written. "
                "Keep it in a folder of your own"
            )


def verify_signature(
    git: Git,
    signers: Signers,
    *,
    commit: str,
    object: str,  # noqa: A002 - Git's own word for it
    tag: str = "",
) -> str:
    """Verify the signatures required by the policy, and name the signers.

    Args:
        git: Git, in the store with both objects.
        signers: Trusted keys, and the objects that must be signed.
        commit: The full id of the commit to serve.
        object: The remote's tag object, or else the commit.
        tag: The requested tag: another tag's signature does not count. Or empty.

    Raises:
        SignatureError: No trusted key has signed it, or that cannot be checked.
    """
    check_signer_files(signers)
    signed: list[str] = []
    if signers.verify != "tag":
        signed.append(_verify_object(git, signers, "commit", commit))
    if signers.verify != "commit":
        _check_tag(git, commit, object, tag)
        signed.append(_verify_object(git, signers, "tag", object))
    return " and ".join(dict.fromkeys(signed))


def find_signers(git: Git, signers: Signers, commits: Sequence[str]) -> Mapping[str, str]:
    """Name the trusted signers of commits; one without a good signature has none."""
    if not commits:
        return {}
    try:
        check_signer_files(signers)
        options = ("--no-walk=unsorted", "-z", "--format=%H%x1f%G?%x1f%GS")
        printed = _run(git, "log", *options, *commits, settings=_settings(signers)).stdout
    except SignatureError:
        return {}
    rows = (row.split("\x1f") for row in printed.decode("utf-8", "replace").split("\0") if row)
    return {commit: escape_unprintable(name) for commit, state, name in rows if state == "G"}


def _verify_object(git: Git, signers: Signers, kind: str, name: str) -> str:
    done = _run(git, f"verify-{kind}", name, settings=_settings(signers))
    if done.returncode != 0:
        raise _refuse(kind, name, _find_reason(git, kind, done.stderr))
    return _parse_signer(done.stderr)


def _settings(signers: Signers) -> tuple[str, ...]:
    revoked = (f"gpg.ssh.revocationFile={signers.revoked}",) if signers.revoked else ()
    return (
        f"gpg.ssh.allowedSignersFile={signers.allowed}",
        *revoked,
        "gpg.ssh.program=ssh-keygen",
        f"gpg.program={NO_PROGRAM}",
        f"gpg.openpgp.program={NO_PROGRAM}",
        f"gpg.x509.program={NO_PROGRAM}",
        _EXACT,
    )


def _run(git: Git, *arguments: str, settings: tuple[str, ...] = ()) -> CommandOutput:
    try:
        return git.run(
            *arguments,
            timeout_seconds=_TIMEOUT_SECONDS,
            settings=settings,
            is_ok=_EXPECTED_STATUSES,
        )
    except SyncError as error:
        raise SignatureError(f"the signature cannot be checked: {error}") from error


def _check_tag(git: Git, commit: str, tag_object: str, tag: str) -> None:
    """Require a tag object for this commit under the requested name.

    Its signature covers all of that, but Git compares nothing: an attacker with write
    access to the remote may put an older signed tag under a newer name.
    """
    if tag_object == commit:
        raise _refuse("commit", commit, _NO_TAG)
    content = _run(git, "cat-file", "tag", tag_object, settings=(_EXACT,)).stdout
    lines = content.decode("utf-8", "replace").split("\n")
    if lines[0] != f"object {commit}":
        reason = f"it does not mark the commit {commit[:12]} itself. Tag the commit"
        raise _refuse("tag", tag_object, reason)
    if tag and lines[2:3] != [f"tag {tag}"]:
        reason = f"it was not signed as {tag!r}. Find out who has moved it, and sign it"
        raise _refuse("tag", tag_object, reason)


def _refuse(kind: str, name: str, reason: str) -> SignatureError:
    return SignatureError(f"the {kind} {name[:12]} is refused: {reason}")


def _find_reason(git: Git, kind: str, stderr: str) -> str:
    if is_older(_run(git, "version").text, _OLDEST_GIT):
        return "Git is too old. Version 2.34 or newer is needed on this machine"
    return render_reason(kind, stderr)


def _parse_signer(stderr: str) -> str:
    found = _GOOD.search(stderr)
    return f"{found[1]}, {found[2]} {found[3]}" if found else "one of allowed_signers"


def check_signer_files(signers: Signers) -> None:
    """Refuse files that do not say who may sign.

    Git only warns about a missing file of revoked keys.

    Raises:
        SignatureError: One is missing, holds no key, or has a pattern in place of a name.
    """
    for key, file in _files(signers):
        data = _read(key, file)
        if key == "allowed_signers":
            _check_names(file, data.decode("utf-8", "replace").split("\n"))


def _check_names(file: Path, lines: Sequence[str]) -> None:
    numbered = ((number, line.strip(_BLANK)) for number, line in enumerate(lines, start=1))
    rules = [(n, line) for n, line in numbered if line and not line.startswith("#")]
    if not rules:
        raise SignatureError(
            f"allowed_signers {str(file)!r} holds no key, so no signature counts. Add "
            "a line with a name and a public key"
        )
    for number, line in rules:
        if not _is_clear(line):
            raise SignatureError(
                f"line {number} of allowed_signers {str(file)!r} does not say whose "
                "key it is. Write a name without * ? or !, then the public key"
            )


def _is_clear(line: str) -> bool:
    """Whether a line names a signer; certificates bring their own names."""
    found = _SIGNER.match(line)
    if found is None:
        return False
    options = _QUOTED.sub("", found[2])
    return not _PATTERN.search(found[1]) or bool(_IS_AUTHORITY.search(options))


def _files(signers: Signers) -> tuple[tuple[str, Path], ...]:
    named = {"allowed_signers": signers.allowed, "revoked_signers": signers.revoked}
    return tuple((key, file) for key, file in named.items() if file)


def _read(key: str, file: Path) -> bytes:
    try:
        if file.is_file():  # a pipe would be waited for, for ever
            return file.read_bytes()
    except OSError as error:
        raise SignatureError(
            f"{key} {str(file)!r} cannot be read ({error.strerror}), so nothing new "
            "is served. Correct the path or its permissions"
        ) from error
    raise SignatureError(
        f"{key} {str(file)!r} is no file, so nothing new is served. Correct the path"
    )


def _resolve_links(file: Path) -> Iterator[Path]:
    yield file.resolve()
    for step in (file, *file.parents):
        yield step.parent.resolve() / step.name
