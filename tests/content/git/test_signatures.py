"""What a signature lets through, and that nothing else gets through."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config.values import Verify
from skills_mcp.content.git.command import CommandOutput, Git
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.signatures import check_signers, verify_signature
from skills_mcp.content.source import Signers, SyncPolicy
from skills_mcp.errors import ConfigError, SignatureError, SyncError
from skills_mcp.processes.group import GROUP_OPTIONS, kill_group
from tests.support import GIT_IDENTITY, git, write

pytestmark = pytest.mark.skipif(
    not shutil.which("ssh-keygen"), reason="signatures need ssh-keygen (OpenSSH)"
)

OPS = "ops@acme.example"


class RealGit(Git):
    """Runs Git in a store, with the limits of the server's own."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        longest_seconds: float = 30.0,
    ) -> None:
        super().__init__(directory, Remote(str(directory), "main"), SyncPolicy())
        self.environment = environment or {}
        self.longest_seconds = longest_seconds

    def run(
        self,
        *arguments: str,
        timeout_seconds: float = 60.0,
        settings: tuple[str, ...] = (),
        is_ok: tuple[int, ...] = (0,),
        **_: Any,
    ) -> CommandOutput:
        flags = [word for setting in settings for word in ("-c", setting)]
        process = subprocess.Popen(
            ["git", f"--git-dir={self.directory}", *flags, *arguments],
            cwd=self.directory,
            env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **GROUP_OPTIONS,
        )
        try:
            seconds = min(timeout_seconds, self.longest_seconds)
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            kill_group(process.pid)
            process.communicate()
            raise SyncError(f"git {arguments[0]} took longer") from error
        if process.returncode not in is_ok:
            raise SyncError(f"git {arguments[0]} ended with {process.returncode}")
        return CommandOutput(stdout, stderr.decode(), process.returncode)


@dataclass(frozen=True)
class Forge:
    """A repository with signed history, and the keys of those who signed."""

    folder: Path

    @property
    def git(self) -> RealGit:
        return self.git_with()

    def git_with(
        self,
        environment: Mapping[str, str] | None = None,
        longest_seconds: float = 30.0,
    ) -> RealGit:
        return RealGit(self.folder / "work" / ".git", environment, longest_seconds)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def key(self, name: str) -> Path:
        """Return the private key of a person; a new one for a new name."""
        path = self.folder / "keys" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            make_key(path, name)
        return path

    def public(self, name: str) -> str:
        return self.key(name).with_suffix(".pub").read_text(encoding="utf-8").strip()

    def commit(self, signer: str | None = "ops", *, date: str = "") -> str:
        """Make a commit that changes nothing; return its hash."""
        how = (*self.signing(signer), "commit", "-q", "--allow-empty", "-m", "Change")
        self.sign(*how, "-S" if signer else "--no-gpg-sign", date=date)
        return git("rev-parse", "HEAD", cwd=self.work)

    def tag(self, name: str, object_: str, signer: str | None = "ops") -> str:
        """Make a tag with an object of its own; return the object's hash."""
        how = (*self.signing(signer), "tag", "--force", "-s" if signer else "-a")
        self.sign(*how, "-m", "Release", name, object_)
        return git("rev-parse", f"refs/tags/{name}", cwd=self.work)

    def signing(self, signer: str | None) -> tuple[str, ...]:
        key = (f"user.signingkey={self.key(signer)}",) if signer else ()
        return tuple(w for each in ("gpg.format=ssh", *key) for w in ("-c", each))

    def sign(self, *arguments: str, date: str = "") -> None:
        dated = {"GIT_COMMITTER_DATE": date} if date else {}
        environment = {**os.environ, **GIT_IDENTITY, **dated}
        subprocess.run(
            ["git", *arguments],
            cwd=self.work,
            env=environment,
            check=True,
            capture_output=True,
        )

    def store(self, kind: str, text: str) -> str:
        """Write an object as somebody would who does not ask Git."""
        done = subprocess.run(
            ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"],
            input=text.encode(),
            cwd=self.work,
            check=True,
            capture_output=True,
        )
        return done.stdout.decode().strip()

    def text(self, kind: str, name: str) -> str:
        return git("cat-file", kind, name, cwd=self.work) + "\n"


def make_key(path: Path, comment: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path],
        check=True,
    )


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    forge = Forge(tmp_path_factory.mktemp("forge"))
    forge.work.mkdir()
    git("init", "-q", "--initial-branch=main", cwd=forge.work)
    return forge


@dataclass(frozen=True)
class Signed:
    """A commit and a tag of it, by the same person."""

    forge: Forge
    commit: str
    object: str


@pytest.fixture(scope="module")
def release(forge: Forge) -> Signed:
    commit = forge.commit()
    return Signed(forge, commit, forge.tag("v1", commit))


def allow(folder: Path, *lines: str, verify: Verify = "commit") -> Signers:
    """Return signers whose file has these lines."""
    text = "".join(f"{line}\n" for line in lines)
    return Signers(allowed=write(folder / "signers" / "allowed", text), verify=verify)


def script(folder: Path, name: str, *lines: str) -> Path:
    path = write(folder / name, "\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


every_demand = pytest.mark.parametrize("what", ["commit", "tag", "both"])
either = pytest.mark.parametrize("what", ["commit", "tag"])


@pytest.mark.parametrize("what", ["commit", "tag", "both"])
def test_a_good_signature_says_who_has_signed(
    what: Verify, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, "# us", "", f"{OPS} {forge.public('ops')}", verify=what)

    who = verify_signature(
        forge.git, signers, commit=release.commit, object=release.object, tag="v1"
    )

    fingerprint = subprocess.check_output(
        ["ssh-keygen", "-l", "-f", forge.key("ops")], text=True
    ).split()[1]
    assert who == f"{OPS}, ED25519 {fingerprint}"


def test_two_people_are_both_named(forge: Forge, tmp_path: Path) -> None:
    commit = forge.commit("ops")
    tag = forge.tag("two", commit, "lead")
    lines = (
        f"{OPS} {forge.public('ops')}",
        f"lead@acme.example {forge.public('lead')}",
    )
    signers = allow(tmp_path, *lines, verify="both")

    who = verify_signature(forge.git, signers, commit=commit, object=tag)

    assert [part.split(",")[0] for part in who.split(" and ")] == [
        OPS,
        "lead@acme.example",
    ]


@pytest.mark.parametrize("signer", ["ops", "mallory", None])
def test_the_git_of_the_server_tells_them_apart_as_well(
    signer: str | None, forge: Forge, tmp_path: Path
) -> None:
    commit = forge.commit(signer)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")
    runner = Git(forge.git.directory, Remote("/srv/skills", "main"), SyncPolicy())

    try:
        who = verify_signature(runner, signers, commit=commit, object=commit)
    except SignatureError as error:
        who = str(error).partition(": ")[2]

    beginning = {
        "ops": f"{OPS}, ED25519 SHA256:",
        "mallory": "its key is not in allowed_signers",
        None: "it is not signed",
    }
    assert who.startswith(beginning[signer])


@either
@pytest.mark.parametrize(
    "line, reason",
    [
        ("mallory@evil.example {other}", "its key is not in allowed_signers"),
        (OPS + ' valid-before="20200101" {ops}', "after the `valid-before` of its key"),
        (OPS + ' valid-after="20990101" {ops}', "before the `valid-after` of its key"),
        (OPS + ' namespaces="file" {ops}', "its key may not sign for Git"),
        (OPS + " cert-authority {ops}", "its key is not in allowed_signers"),
        ("* {ops}", "line 1 of allowed_signers .* does not say whose"),
        ("*@acme.example {ops}", "does not say whose key it is"),
        ('"ops,*" {ops}', "does not say whose key it is"),
        ("ops,!mallory {ops}", "does not say whose key it is"),
        ('* namespaces="git,cert-authority,x" {ops}', "does not say whose key it is"),
        ("{ops} * cert-authority", "its key is not in allowed_signers"),
        ("nonsense", "does not say whose key it is"),
        ("# {ops}", "holds no key, so no signature counts"),
        ("", "holds no key, so no signature counts"),
    ],
)
def test_a_signature_does_not_count_unless_the_file_allows_its_key(
    what: Verify, line: str, reason: str, release: Signed, tmp_path: Path
) -> None:
    forge = release.forge
    line = line.format(ops=forge.public("ops"), other=forge.public("other"))
    signers = allow(tmp_path, line, verify=what)

    with pytest.raises(SignatureError, match=reason):
        verify_signature(forge.git, signers, commit=release.commit, object=release.object)


@either
def test_what_nobody_has_signed_is_refused(what: Verify, forge: Forge, tmp_path: Path) -> None:
    commit = forge.commit(None)
    tag = forge.tag("unsigned", commit, None)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)

    with pytest.raises(SignatureError, match=r"refused: it is not signed\. Sign it"):
        verify_signature(forge.git, signers, commit=commit, object=tag)


@every_demand
def test_a_signed_tag_does_not_vouch_for_an_unsigned_commit_unless_that_is_enough(
    what: Verify, forge: Forge, tmp_path: Path
) -> None:
    commit = forge.commit(None)
    tag = forge.tag("reviewed", commit)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)

    assert is_accepted(forge, signers, commit, tag) is (what == "tag")


@every_demand
def test_a_signed_commit_does_not_vouch_for_an_unsigned_tag_unless_that_is_enough(
    what: Verify, forge: Forge, tmp_path: Path
) -> None:
    commit = forge.commit()
    tag = forge.tag("sloppy", commit, None)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)

    assert is_accepted(forge, signers, commit, tag) is (what == "commit")


def is_accepted(forge: Forge, signers: Signers, commit: str, object_: str) -> bool:
    try:
        return bool(verify_signature(forge.git, signers, commit=commit, object=object_))
    except SignatureError:
        return False


@pytest.mark.parametrize("what", ["tag", "both"])
def test_what_is_no_tag_cannot_stand_for_one(
    what: Verify, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)

    with pytest.raises(SignatureError, match="Let `ref` name a tag made with"):
        verify_signature(forge.git, signers, commit=release.commit, object=release.commit)


def test_a_good_tag_of_another_commit_does_not_count(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    evil = forge.commit(None)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify="tag")

    with pytest.raises(SignatureError, match=f"not mark the commit {evil[:12]}"):
        verify_signature(forge.git, signers, commit=evil, object=release.object)


def test_a_good_tag_under_another_name_does_not_count(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify="tag")

    with pytest.raises(SignatureError, match="it was not signed as 'v2'"):
        verify_signature(forge.git, signers, commit=release.commit, object=release.object, tag="v2")


def test_a_tag_of_a_tag_does_not_count(forge: Forge, release: Signed, tmp_path: Path) -> None:
    outer = forge.tag("outer", release.object)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify="tag")

    with pytest.raises(SignatureError, match="does not mark the commit"):
        verify_signature(forge.git, signers, commit=release.commit, object=outer)


@either
def test_what_was_changed_after_it_was_signed_is_refused(
    what: Verify, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    name = release.commit if what == "commit" else release.object
    changed = forge.text(what, name).replace("Ada", "Eve")
    evil = forge.store(what, changed)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)
    commit = evil if what == "commit" else release.commit

    with pytest.raises(SignatureError, match="it is not what was signed"):
        verify_signature(forge.git, signers, commit=commit, object=evil)


@either
def test_a_revoked_key_counts_no_more(
    what: Verify, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)
    revoked = write(tmp_path / "revoked", f"# lost\n{forge.public('ops')}\n")

    with pytest.raises(SignatureError, match="its key is revoked"):
        verify_signature(
            forge.git,
            replace(signers, revoked=revoked),
            commit=release.commit,
            object=release.object,
        )


def test_a_revocation_list_of_ssh_keygen_counts_as_well(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    revoked = tmp_path / "revoked.krl"
    key = forge.key("ops").with_suffix(".pub")
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", revoked, key], check=True)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="its key is revoked"):
        verify_signature(
            forge.git,
            replace(signers, revoked=revoked),
            commit=release.commit,
            object=release.commit,
        )


@pytest.mark.parametrize("text", ["", "# nobody yet\n", "{other}\n"])
def test_keys_that_others_have_lost_change_nothing(
    text: str, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")
    revoked = write(tmp_path / "revoked", text.format(other=forge.public("other")))

    who = verify_signature(
        forge.git,
        replace(signers, revoked=revoked),
        commit=release.commit,
        object=release.commit,
    )

    assert who.startswith(OPS)


def test_revoked_keys_that_cannot_be_understood_stop_everything(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")
    revoked = write(tmp_path / "revoked", f"ops@acme.example {forge.public('other')}\n")

    with pytest.raises(SignatureError, match="revoked_signers cannot be understood"):
        verify_signature(
            forge.git,
            replace(signers, revoked=revoked),
            commit=release.commit,
            object=release.commit,
        )


def plant(kind: str, path: Path) -> Path:
    """Put something at a path that is no file which can be read."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    return path


@pytest.mark.parametrize("key", ["allowed_signers", "revoked_signers"])
@pytest.mark.parametrize("kind", ["nothing", "folder", "pipe", "loop"])
def test_without_its_files_nothing_is_let_through(
    key: str, kind: str, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")
    bad = plant(kind, tmp_path / "bad")
    is_allowed = key == "allowed_signers"
    wrong = replace(signers, allowed=bad) if is_allowed else replace(signers, revoked=bad)

    with pytest.raises(SignatureError, match=f"{key} .*nothing new is served"):
        verify_signature(
            forge.git,
            wrong,
            commit=release.commit,
            object=release.commit,
        )


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that nobody can read")
def test_a_file_that_cannot_be_read_lets_nothing_through(forge: Forge, release: Signed) -> None:
    signers = Signers(allowed=Path("/proc/self/mem"))

    with pytest.raises(SignatureError, match=r"allowed_signers .* cannot be read"):
        verify_signature(forge.git, signers, commit=release.commit, object=release.commit)


@either
def test_without_ssh_keygen_nothing_is_let_through(
    what: Verify, forge: Forge, release: Signed, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    runner = forge.git_with(environment={"PATH": str(programs)})
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify=what)

    with pytest.raises(SignatureError, match="ssh-keygen is not installed"):
        verify_signature(runner, signers, commit=release.commit, object=release.object)


def beside(folder: Path) -> dict[str, str]:
    """Return an environment in which the programs of a folder come first."""
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_an_ssh_keygen_that_knows_no_signatures_lets_nothing_through(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    script(tmp_path / "bin", "ssh-keygen", "echo 'usage: ssh-keygen' >&2; exit 1")
    runner = forge.git_with(environment=beside(tmp_path / "bin"))
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="ssh-keygen is too old"):
        verify_signature(runner, signers, commit=release.commit, object=release.commit)


def test_an_ssh_keygen_that_fails_lets_nothing_through_whatever_it_says(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    good = f'Good "git" signature for {OPS} with ED25519 key SHA256:abc'
    script(tmp_path / "bin", "ssh-keygen", f"echo '{good}'; exit 1")
    runner = forge.git_with(environment=beside(tmp_path / "bin"))
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="is refused"):
        verify_signature(runner, signers, commit=release.commit, object=release.commit)


def test_a_check_that_does_not_end_lets_nothing_through(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "never")
    script(tmp_path / "bin", "ssh-keygen", f"read line < {tmp_path / 'never'}")
    runner = forge.git_with(environment=beside(tmp_path / "bin"), longest_seconds=0.2)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="cannot be checked: git verify-commit"):
        verify_signature(runner, signers, commit=release.commit, object=release.commit)


def test_a_git_without_ssh_signatures_says_which_one_is_needed(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    script(
        tmp_path / "bin",
        "git",
        'case "$*" in *version) echo "git version 2.33.8";; *) exit 1;; esac',
    )
    runner = forge.git_with(environment=beside(tmp_path / "bin"))
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match=r"Version 2\.34 or newer is needed"):
        verify_signature(runner, signers, commit=release.commit, object=release.commit)


@pytest.mark.parametrize("kind", ["PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE"])
def test_a_key_ring_of_the_users_cannot_vouch(
    kind: str, forge: Forge, release: Signed, home: Path, tmp_path: Path
) -> None:
    text = forge.text("commit", release.commit).replace("SSH SIGNATURE", kind)
    commit = forge.store("commit", text)
    vouch = script(
        tmp_path / "bin",
        "gpg",
        "cat > /dev/null",
        "echo '[GNUPG:] NEWSIG'",
        "echo '[GNUPG:] GOODSIG 0123456789ABCDEF Ada'",
        "echo '[GNUPG:] TRUST_ULTIMATE 0 pgp'",
    )
    shutil.copy(vouch, vouch.with_name("gpgsm"))
    sections = ("gpg", 'gpg "openpgp"', 'gpg "x509"')
    lines = (f"[{section}]\n\tprogram = {vouch}\n" for section in sections)
    write(home / ".gitconfig", "".join(lines))
    runner = forge.git_with(environment=beside(tmp_path / "bin"))
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")
    is_vouched = runner.run("verify-commit", commit, is_ok=(0, 1)).returncode == 0

    with pytest.raises(SignatureError, match="only SSH keys count"):
        verify_signature(runner, signers, commit=commit, object=commit)

    assert is_vouched


def test_a_kind_of_signature_that_git_does_not_know_is_refused(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    text = forge.text("commit", release.commit).replace("SSH SIGNATURE", "NEW SEAL")
    commit = forge.store("commit", text)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="is refused: Git says: fatal: bad/incomp"):
        verify_signature(forge.git, signers, commit=commit, object=commit)


@pytest.mark.parametrize("key", ["allowedSignersFile", "program"])
@pytest.mark.parametrize("place", ["file", "variables"])
def test_the_users_own_settings_and_variables_let_nobody_else_sign(
    key: str, place: str, forge: Forge, home: Path, tmp_path: Path
) -> None:
    commit = forge.commit("mallory")
    good = 'Good \\"git\\" signature for mallory with ED25519 key SHA256:abc'
    lines = ("cat > /dev/null", f'echo "{good}"')
    evil = {
        "allowedSignersFile": write(tmp_path / "evil", f"m {forge.public('mallory')}"),
        "program": script(tmp_path / "evils", "ssh-keygen", *lines),
    }[key]
    environment = {}
    if place == "file":
        others = f"\tallowedSignersFile = {tmp_path / 'evil'}\n"
        write(home / ".gitconfig", f'[gpg "ssh"]\n{others}\t{key} = {evil}\n')
    else:
        planted = {"allowedSignersFile": tmp_path / "evil", key: evil}
        environment = {"GIT_CONFIG_COUNT": str(len(planted))}
        for number, (name, value) in enumerate(planted.items()):
            environment[f"GIT_CONFIG_KEY_{number}"] = f"gpg.ssh.{name}"
            environment[f"GIT_CONFIG_VALUE_{number}"] = str(value)
    runner = forge.git_with(environment=environment)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")
    is_vouched = runner.run("verify-commit", commit, is_ok=(0, 1)).returncode == 0

    with pytest.raises(SignatureError, match="its key is not in allowed_signers"):
        verify_signature(runner, signers, commit=commit, object=commit)

    assert is_vouched


def test_a_replacement_in_the_store_does_not_vouch(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    evil = forge.commit(None)
    git("replace", evil, release.commit, cwd=forge.work)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="it is not signed"):
        verify_signature(forge.git, signers, commit=evil, object=evil)


def test_a_replacement_of_a_tag_in_the_store_does_not_vouch(
    forge: Forge, release: Signed, tmp_path: Path
) -> None:
    other = forge.tag("other", forge.commit(None))
    git("replace", other, release.object, cwd=forge.work)
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}", verify="tag")

    with pytest.raises(SignatureError, match="does not mark the commit"):
        verify_signature(forge.git, signers, commit=release.commit, object=other)


def test_a_commit_that_is_not_in_the_store_is_refused(forge: Forge, tmp_path: Path) -> None:
    signers = allow(tmp_path, f"{OPS} {forge.public('ops')}")

    with pytest.raises(SignatureError, match="Git cannot read it"):
        verify_signature(forge.git, signers, commit="1" * 40, object="1" * 40)


def test_it_is_the_date_of_the_commit_that_a_key_has_to_be_valid_at(
    forge: Forge, tmp_path: Path
) -> None:
    line = f'{OPS} valid-before="20200101Z" {forge.public("ops")}'
    signers = allow(tmp_path, line)
    before = forge.commit(date="2019-12-31T12:00:00Z")
    after = forge.commit(date="2020-01-01T12:00:00Z")

    assert is_accepted(forge, signers, before, before)
    assert not is_accepted(forge, signers, after, after)


def test_a_certificate_is_reported_with_the_name_that_its_authority_gave(
    forge: Forge, tmp_path: Path
) -> None:
    authority, member = forge.key("authority"), forge.key("member")
    subprocess.run(
        ["ssh-keygen", "-q", "-s", authority, "-I", "1", "-n", "eve@acme.example",
         "-V", "-1d:+1d", member.with_suffix(".pub")],
        check=True,
    )  # fmt: skip
    certificate = member.with_name("member-cert.pub")
    shutil.copy(member, certificate.with_suffix(""))
    forge.sign(
        *("-c", "gpg.format=ssh", "-c", f"user.signingkey={certificate}"),
        *("commit", "-q", "--allow-empty", "-S", "-m", "Change"),
    )
    commit = git("rev-parse", "HEAD", cwd=forge.work)
    line = f"*@acme.example cert-authority {forge.public('authority')}"

    who = verify_signature(forge.git, allow(tmp_path, line), commit=commit, object=commit)

    assert who.startswith("eve@acme.example, ED25519-CERT SHA256:")


def test_the_files_have_to_lie_outside_of_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    inside = write(cache / "store" / "snap" / "allowed")
    outside = write(tmp_path / "allowed")
    (tmp_path / "link-in").symlink_to(inside)
    (cache / "link-out").symlink_to(outside)
    (cache / "folder-out").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "other").symlink_to(cache, target_is_directory=True)
    bad = (
        inside,
        tmp_path / "link-in",
        cache / "link-out",
        cache / "not-yet-there",
        tmp_path / "other" / "store" / "x",
        tmp_path / "x" / ".." / "cache" / "allowed",
        tmp_path / "x" / ".." / "cache" / "link-out",
        cache / "folder-out" / "allowed",
    )

    check_signers(Signers(allowed=outside, revoked=tmp_path / "cache.revoked"), cache)
    for path in bad:
        with pytest.raises(ConfigError, match=r"allowed_signers .* is in the cache"):
            check_signers(Signers(allowed=path), cache)
        with pytest.raises(ConfigError, match=r"revoked_signers .* is in the cache"):
            check_signers(Signers(allowed=outside, revoked=path), cache)


def test_a_cache_that_is_named_through_a_link_is_the_same_cache(tmp_path: Path) -> None:
    inside = write(tmp_path / "real" / "allowed")
    (tmp_path / "cache").symlink_to(tmp_path / "real", target_is_directory=True)

    with pytest.raises(ConfigError, match="in the cache"):
        check_signers(Signers(allowed=inside), tmp_path / "cache")


def test_a_relative_path_would_depend_on_where_the_server_starts(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="'signers' is a relative path"):
        check_signers(Signers(allowed=Path("signers")), tmp_path)
