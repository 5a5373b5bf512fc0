"""A repository with signed commits and tags, and the keys of those who sign."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from soak.sync.mirror import Mirror
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
        lines = (
            f"{name} {said} {forge.read_key(name)}\n" for name, said in _SAID.items()
        )
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
