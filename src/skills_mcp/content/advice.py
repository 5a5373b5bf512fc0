"""What Git says when it fails, and what a person can do about it.  Pure."""

# The first line that fits is used. Signs are whole phrases: addresses and commits
# stand in the same text, and "401" may be a part of either.
_ADVICE = (
    (
        ("Authentication failed", "could not read Username", "could not read Password",
         "returned error: 401", "returned error: 403"),
        "access was refused. Set GITHUB_TOKEN to a token that may read the repository",
    ),
    (
        ("Permission denied (", "Host key verification failed"),
        "SSH was refused. Make `git ls-remote` with this address work in a terminal",
    ),
    (
        ("' not found", "Repository not found", "returned error: 404",
         "does not appear to be a git repository"),
        "no repository is there, or it may not be seen. Check its address: https://…",
    ),
    (
        ("is not a git command", "Unable to find remote helper"),
        "Git does not know this kind of address. Check its address: https://…",
    ),
    (
        ("couldn't find remote ref",),
        "the repository has no such branch. Check the name of the branch",
    ),
    (
        ("unable to update url base from redirection", "returned error: 30"),
        "the address has moved. Configure the new one",
    ),
    (
        ("Could not resolve host", "Failed to connect", "Connection refused",
         "Could not connect", "Connection timed out", "unable to access"),
        "the host cannot be reached. Check the network and the address",
    ),
)  # fmt: skip

# The last is what Git says of a tag on something else than a commit.
_NOT_PINNED = (
    "couldn't find remote ref", "not our ref", "unadvertised object",
    "expected commit type",
)  # fmt: skip
_PIN_ADVICE = (
    "the repository has no such tag or commit, or does not hand it out. Check `ref`: "
    "the name of a tag, or a commit with all its digits"
)


def find_advice(said: str, *, is_pinned: bool = False) -> str | None:
    """Return what to do, or None when Git names no cause outside this machine.

    Args:
        said: The words of Git.
        is_pinned: Whether a tag or a commit was asked for.

    >>> find_advice("fatal: couldn't find remote ref refs/heads/mian")
    'the repository has no such branch. Check the name of the branch'
    """
    if is_pinned and any(sign in said for sign in _NOT_PINNED):
        return _PIN_ADVICE
    return next(
        (advice for signs, advice in _ADVICE if any(sign in said for sign in signs)),
        None,
    )
