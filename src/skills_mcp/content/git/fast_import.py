"""Streams for `git fast-import`: a commit without a working tree.

Source: https://git-scm.com/docs/git-fast-import
"""

from collections.abc import Iterator

COMMITTER = "skills-mcp <skills-mcp@localhost>"


def render_commit(ref: str, message: str, *, seconds: int) -> Iterator[bytes]:
    """Render the header of a commit by this program; `seconds` since the epoch."""
    text = message.encode()
    yield b"commit %s\n" % ref.encode()
    yield b"committer %s %d +0000\n" % (COMMITTER.encode(), seconds)
    yield b"data %d\n%s\n" % (len(text), text)


def render_inline_file(path: str, data: bytes, *, is_executable: bool) -> Iterator[bytes]:
    mode = b"100755" if is_executable else b"100644"
    yield b"M %s inline %s\n" % (mode, quote_c_style(path))
    yield b"data %d\n%s\n" % (len(data), data)


def render_blob_file(path: str, blob: str, mode: str) -> bytes:
    """Render a file of the current commit by the id of an existing blob."""
    return b"M %s %s %s\n" % (mode.encode(), blob.encode(), quote_c_style(path))


def quote_c_style(path: str) -> bytes:
    r"""Quote a path as in C.

    >>> quote_c_style('a "b".md')
    b'"a \\"b\\".md"'
    """
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%s"' % escaped.encode()
