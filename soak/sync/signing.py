"""Signed and badly signed commits and tags: only trusted ones are published.

A forge is a repository with such commits and tags, and the keys of its signers.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skills_mcp.config.values import Verify
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Signers
from skills_mcp.errors import SignatureError
from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.sync.mirror import Mirror, sync
from tests.support import GIT_IDENTITY, git

_SAID = {
    "ops": 'namespaces="git"',
    "second": "",
    "lost": "",
    "late": 'valid-before="20010101"',
    "early": 'valid-after="20990101"',
    "other": 'namespaces="file"',
}
"""Who may sign, and with what restriction; `eve` is not among them."""

_PEOPLE = (*_SAID, "eve")


@dataclass(frozen=True, slots=True)
class Forge:
    """The clone in which commits and tags are signed, and pushed from."""

    folder: Path
    mirror: Mirror

    @classmethod
    def create(cls, folder: Path) -> "Forge":
        """Make a repository and a key for each signer."""
        forge = cls(folder, Mirror.create(folder))
        for name in _PEOPLE:
            words = ("-q", "-t", "ed25519", "-N", "", "-C", name)
            subprocess.run(["ssh-keygen", *words, "-f", folder / name], check=True)
        lines = (f"{name} {said} {forge.read_key(name)}\n" for name, said in _SAID.items())
        forge.allowed.write_text("".join(lines), encoding="utf-8")
        forge.revoked.write_text(forge.read_key("lost") + "\n", encoding="utf-8")
        return forge

    @property
    def allowed(self) -> Path:
        """The file that says who may sign."""
        return self.folder / "allowed_signers"

    @property
    def revoked(self) -> Path:
        """The file with revoked keys."""
        return self.folder / "revoked_signers"

    @property
    def _work(self) -> Path:
        return self.mirror.upstream.work

    def read_key(self, name: str) -> str:
        """Return the public key of a signer."""
        return (self.folder / f"{name}.pub").read_text(encoding="utf-8").strip()

    def commit(self, signer: str | None) -> None:
        """Make a commit, signed by a signer or unsigned."""
        sign = "-S" if signer else "--no-gpg-sign"
        self._run(signer, "commit", "-q", "--allow-empty", sign, "-m", "Change")

    def tag(self, signer: str | None) -> None:
        """Mark the newest commit with `v1`, and an object of its own."""
        sign = "-s" if signer else "-a"
        self._run(signer, "tag", "--force", sign, "-m", "Release", "v1")

    def tag_lightly(self) -> None:
        """Mark the newest commit with `v1`, without any object."""
        self._run(None, "tag", "--force", "v1")

    def tamper_with_commit(self, old: str, new: str) -> None:
        """Change the newest commit after it was signed."""
        other = self._forge("commit", "HEAD", old, new)
        git("reset", "-q", "--hard", other, cwd=self._work)

    def tamper_with_tag(self, old: str, new: str) -> None:
        """Change the tag after it was signed."""
        other = self._forge("tag", "v1", old, new)
        git("update-ref", "refs/tags/v1", other, cwd=self._work)

    def push(self) -> str:
        """Push the branch and the tag; return the commit."""
        words = ("HEAD:main", "+refs/tags/*:refs/tags/*")
        git("push", "-q", "--force", "origin", *words, cwd=self._work)
        return git("rev-parse", "HEAD", cwd=self._work)

    def _run(self, signer: str | None, *words: str) -> None:
        key = ("-c", f"user.signingkey={self.folder / signer}") if signer else ()
        subprocess.run(
            ["git", "-c", "gpg.format=ssh", *key, *words],
            cwd=self._work,
            env={**os.environ, **GIT_IDENTITY},
            check=True,
            capture_output=True,
        )

    def _forge(self, kind: str, name: str, old: str, new: str) -> str:
        text = git("cat-file", kind, name, cwd=self._work) + "\n"
        assert old in text  # noqa: S101 - or nothing would be forged
        done = subprocess.run(
            ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"],
            input=text.replace(old, new).encode(),
            cwd=self._work,
            check=True,
            capture_output=True,
        )
        return done.stdout.decode().strip()


_FEWEST_CASES = 16
_EVERY = 3
"""The cases that a test runs."""

Change = Callable[[Forge], object]
Facts = dict[str, bool]


def refuse_unsigned(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Try every fault of a signature, on commits and on tags."""
    if not shutil.which("ssh-keygen"):
        raise Unavailable("signatures need ssh-keygen (OpenSSH)")
    gate = _Gate(Forge.create(folder))
    published, refused = Facts(), Facts()
    for name, (verify, change) in _GOOD.items():
        published[name] = gate.publishes(verify, change)
    bad = list(_BAD.items())[:: 1 if scale.is_full else _EVERY]
    for name, (verify, change) in bad:
        refused[name] = gate.refuses(verify, change)
    broken = gate.fail_closed()
    yield _count("signed and trusted: published", published)
    yield _count("anything else: refused, the last good one served", refused)
    yield _count("a gate that cannot work lets nothing through", broken)
    again = {"commit": gate.publishes("commit", _commit("ops"))}
    yield _count("signed again after all that: published", again)
    cases = len(_GOOD) + len(_BAD) + len(broken)
    yield Figure.every(27, "as many cases as promised", cases >= _FEWEST_CASES, 1)


class _Gate:
    """A machine that verifies the commits and tags of a forge."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._signers = Signers(allowed=forge.allowed, revoked=forge.revoked)

    def publishes(self, verify: Verify, change: Change) -> bool:
        """Whether a change is published, with the name of its signer."""
        change(self._forge)
        commit = self._forge.push()
        source = self._open(verify)
        error, served = sync(source), source.open()
        if error or served is None:
            return False
        return served.revision == commit and bool(served.verified_by)

    def refuses(self, verify: Verify, change: Change) -> bool:
        """Whether a change is refused, and what is served stays."""
        source = self._open(verify)
        before = source.open()
        assert before  # noqa: S101 - good ones came first
        change(self._forge)
        self._forge.push()
        error, served = sync(source), source.open()
        is_same = served is not None and served.revision == before.revision
        return isinstance(error, SignatureError) and is_same

    def fail_closed(self) -> Facts:
        """Return for each way to break the checks whether nothing is published."""
        self._forge.commit("ops")
        self._forge.push()
        empty, folder = self._forge.folder / "empty", self._forge.folder / "a-folder"
        empty.touch()
        folder.mkdir()
        missing = self._forge.folder / "missing"
        signers = {
            "no file": replace(self._signers, allowed=missing),
            "an empty file": replace(self._signers, allowed=empty),
            "a folder": replace(self._signers, allowed=folder),
            "no file of revoked keys": replace(self._signers, revoked=missing),
        }
        facts = {name: self._is_closed(each) for name, each in signers.items()}
        with _only_git_in_path(self._forge.folder):
            facts["no ssh-keygen"] = self._is_closed(self._signers)
        return facts

    def _is_closed(self, signers: Signers) -> bool:
        source = self._open("commit", signers)
        error = sync(source)
        try:
            source.open()
        except SignatureError:
            # Who has vouched for what is here cannot do so any more.
            return isinstance(error, SignatureError)
        return False

    def _open(self, verify: Verify, signers: Signers | None = None) -> RemoteBranch:
        mirror = self._forge.mirror
        demanded = replace(signers or self._signers, verify=verify)
        policy = replace(mirror.policy, signers=demanded)
        # A tag that is not the newest one's is no news for a branch, and the reverse.
        remote = replace(mirror.remote, pin="" if verify == "commit" else "v1")
        cache = mirror.cache / verify
        return RemoteBranch(remote, cache, policy)


def _count(what: str, facts: Mapping[str, bool]) -> Figure:
    failed = ", ".join(name for name, holds in facts.items() if not holds)
    said = f"{what} (not: {failed})" if failed else what
    return Figure.every(27, said, sum(facts.values()), len(facts))


@contextmanager
def _only_git_in_path(folder: Path) -> Iterator[None]:
    before = os.environ["PATH"]
    programs = folder / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "git")
    os.environ["PATH"] = str(programs)
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _commit(signer: str | None) -> Change:
    return lambda forge: forge.commit(signer)


def _tag(signer: str | None, commit: str | None = "ops") -> Change:
    def change(forge: Forge) -> None:
        forge.commit(commit)
        forge.tag(signer)

    return change


def _tag_lightly(forge: Forge) -> None:
    forge.commit("ops")
    forge.tag_lightly()


def _tampered_commit(old: str, new: str) -> Change:
    def change(forge: Forge) -> None:
        forge.commit("ops")
        forge.tamper_with_commit(old, new)

    return change


def _tampered_tag(old: str, new: str) -> Change:
    def change(forge: Forge) -> None:
        forge.commit("ops")
        forge.tag("ops")
        forge.tamper_with_tag(old, new)

    return change


_GOOD: Mapping[str, tuple[Verify, Change]] = {
    "a commit": ("commit", _commit("ops")),
    "a commit of somebody else": ("commit", _commit("second")),
    "a tag on an unsigned commit": ("tag", _tag("ops", None)),
    "a tag and its commit": ("both", _tag("ops", "second")),
}

_BAD: Mapping[str, tuple[Verify, Change]] = {
    "a commit, unsigned": ("commit", _commit(None)),
    "a commit of a stranger": ("commit", _commit("eve")),
    "a commit, key expired": ("commit", _commit("late")),
    "a commit, key not valid yet": ("commit", _commit("early")),
    "a commit, key revoked": ("commit", _commit("lost")),
    "a commit, key for other things": ("commit", _commit("other")),
    "a commit, text changed": ("commit", _tampered_commit("\nChange", "\nOther")),
    "a commit, other kind": ("commit", _tampered_commit("SSH SIG", "PGP SIG")),
    "a tag, unsigned": ("tag", _tag(None)),
    "a tag without an object": ("tag", _tag_lightly),
    "a tag of a stranger": ("tag", _tag("eve")),
    "a tag, key expired": ("tag", _tag("late")),
    "a tag, key not valid yet": ("tag", _tag("early")),
    "a tag, key revoked": ("tag", _tag("lost")),
    "a tag, text changed": ("tag", _tampered_tag("Release", "Relapse")),
    "a tag, other kind": ("tag", _tampered_tag("SSH SIG", "PGP SIG")),
    "both, unsigned commit": ("both", _tag("ops", None)),
    "both, unsigned tag": ("both", _tag(None, "ops")),
    "both, no tag object": ("both", _tag_lightly),
    "both, strange commit": ("both", _tag("ops", "eve")),
}

SCENARIOS: tuple[tuple[str, Scenario], ...] = (("signatures", refuse_unsigned),)
