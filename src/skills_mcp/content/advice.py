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
        "no repository is there, or it may not be seen. Check SKILLS_REPO: https://…",
    ),
    (
        ("is not a git command", "Unable to find remote helper"),
        "Git does not know this kind of address. Check SKILLS_REPO: https://…",
    ),
    (
        ("couldn't find remote ref",),
        "the repository has no such branch. Check SKILLS_BRANCH",
    ),
    (
        ("unable to update url base from redirection", "returned error: 30"),
        "the address has moved. Set SKILLS_REPO to the new one",
    ),
    (
        ("Could not resolve host", "Failed to connect", "Connection refused",
         "Could not connect", "Connection timed out", "unable to access"),
        "the host cannot be reached. Check the network and SKILLS_REPO",
    ),
)  # fmt: skip


def find_advice(said: str) -> str | None:
    """Return what to do, or None when Git names no cause outside this machine.

    >>> find_advice("fatal: couldn't find remote ref refs/heads/mian")
    'the repository has no such branch. Check SKILLS_BRANCH'
    """
    return next(
        (advice for signs, advice in _ADVICE if any(sign in said for sign in signs)),
        None,
    )
