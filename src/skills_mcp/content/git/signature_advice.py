"""Why a signature does not count, and what a person can do about it.  Pure.

Rule: these are words only. Whether it counts has been decided before.
"""

import os
import re

NO_PROGRAM = f"{os.devnull}/no-other-signatures"
"""Instead of `gpg`: a path through a device that is no folder, so nothing is there.

No key ring of the user's can vouch for a signature that is not made with SSH.
"""

_LONGEST = 300  # characters of Git's own words; it may quote a whole signature

# The first line that fits is used.
_REASONS = (
    (
        (NO_PROGRAM,),
        ("it is signed with OpenPGP or X.509, and only SSH keys count. Sign it after "
         "`git config gpg.format ssh`"),
    ),
    (
        ("cannot run ssh-keygen", "cannot exec 'ssh-keygen'"),
        "ssh-keygen is not installed, or not in PATH. Install OpenSSH on this machine",
    ),
    (
        ("is needed for ssh signature verification",),
        "ssh-keygen is too old. OpenSSH 8.2 or newer is needed on this machine",
    ),
    (
        ("has expired",),
        ("its date is after the `valid-before` of its key. Sign it with a key that is "
         "valid, or renew that one in allowed_signers"),
    ),
    (
        ("not yet valid",),
        "its date is before the `valid-after` of its key. Correct allowed_signers",
    ),
    (
        ("not permitted for use in signature namespace",),
        ("its key may not sign for Git. Add `git` to its `namespaces` in "
         "allowed_signers, or leave that option out"),
    ),
    (
        ("incorrect signature",),
        "it is not what was signed. Find out who has changed it, and sign it again",
    ),
    (
        ("No principal matched",),
        "its key is not in allowed_signers. Sign it with one that is, or add that key",
    ),
    (
        ("Could not verify signature",),
        ("its key is revoked, or revoked_signers cannot be understood. Sign it with "
         "another key"),
    ),
    (
        ("unable to read", "could not parse", "bad object", "not found."),
        "Git cannot read it. Call refresh_skills, which fetches it again",
    ),
)  # fmt: skip


def find_reason(kind: str, said: str) -> str:
    """Return why a commit or a tag (`kind`) is refused, from what Git has said.

    >>> find_reason("commit", "")
    'it is not signed. Sign it with `git commit -S`'
    """
    fingerprint = re.search(r"SHA256:\S+", said)
    shown = f" (its key is {fingerprint[0]})" if fingerprint else ""
    for signs, reason in _REASONS:
        if any(sign in said for sign in signs):
            return reason + shown
    if said.strip() in {"", "error: no signature found"}:
        command = "git tag -s" if kind == "tag" else "git commit -S"
        return f"it is not signed. Sign it with `{command}`"
    return f"Git says: {' '.join(said.split())[:_LONGEST]}"
