"""The stream of `git fast-import`: a commit without a working tree.

Source: https://git-scm.com/docs/git-fast-import
"""

from collections.abc import Iterator

IDENTITY = "skills-mcp <skills-mcp@localhost>"


def render_commit(ref: str, message: str, *, seconds: int) -> Iterator[bytes]:
    """Yield the beginning of a commit by this program, at a time since the epoch."""
    text = message.encode()
    yield b"commit %s\n" % ref.encode()
    yield b"committer %s %d +0000\n" % (IDENTITY.encode(), seconds)
    yield b"data %d\n%s\n" % (len(text), text)


def render_file(path: str, data: bytes, *, is_executable: bool) -> Iterator[bytes]:
    """Yield a file of the commit that has begun."""
    mode = b"100755" if is_executable else b"100644"
    yield b"M %s inline %s\n" % (mode, quote(path))
    yield b"data %d\n%s\n" % (len(data), data)


def render_known_file(path: str, blob: str, mode: str) -> bytes:
    """Return an entry of the commit that has begun, whose content the store has."""
    return b"M %s %s %s\n" % (mode.encode(), blob.encode(), quote(path))


def quote(path: str) -> bytes:
    r"""Quote a path as in C.

    >>> quote('a "b".md')
    b'"a \\"b\\".md"'
    """
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%s"' % escaped.encode()
