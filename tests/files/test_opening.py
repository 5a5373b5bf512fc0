"""Paths on the disk: what is opened, however it is opened, and what never is."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import (
    MAX_PATH_BYTES,
    OPENERS,
    Opener,
    OpenFolder,
    best_opener,
    call_openat2,
    has_openat2,
    open_inside,
)
from tests.support import write

needs_posix = pytest.mark.skipif(
    sys.platform == "win32", reason="named pipes and descriptors of folders"
)
needs_openat2 = pytest.mark.skipif(not has_openat2(), reason="this kernel has no openat2")


@pytest.fixture(
    params=[
        pytest.param(name, marks=needs_openat2 if name == "openat2" else needs_posix)
        for name in OPENERS
    ]
)
def opener(request: pytest.FixtureRequest) -> Opener:
    """Every way to open, whichever this machine would choose."""
    return OPENERS[str(request.param)]


def test_a_file_inside_is_opened(tmp_path: Path, opener: Opener) -> None:
    write(tmp_path / "assets" / "x.txt", "inside")

    with open_inside(tmp_path, ("assets", "x.txt"), opener) as handle:
        assert handle.read() == b"inside"


@pytest.mark.spec("12.1")
@pytest.mark.parametrize(
    "parts, reason",
    [
        (("absent.txt",), "there is no such file"),
        (("assets",), "a folder"),
        (("link.txt",), "a link to a file outside"),
        (("inner-link.txt",), "a link to a file inside, too: it may change"),
        (("folder-link", "secret.txt"), "a link to a folder outside"),
        (("assets", "x.txt", "y"), "a file is no folder"),
        (("..", "secret.txt"), "the folder above, if nobody parsed the path"),
        (("assets", "../../secret.txt"), "two steps in one part"),
        (("a\0b",), "no file can have this name"),
        (("\ud800",), "no file can have this name"),
        ((), "no name at all"),
    ],
)
def test_what_is_no_file_inside_is_missing(
    tmp_path: Path, opener: Opener, parts: tuple[str, ...], reason: str
) -> None:
    folder = tmp_path / "skill"
    write(tmp_path / "secret.txt", "secret")
    write(folder / "assets" / "x.txt", "inside")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "inner-link.txt").symlink_to(folder / "assets" / "x.txt")
    (folder / "folder-link").symlink_to(tmp_path, target_is_directory=True)

    with pytest.raises(MissingFileError) as caught:
        open_inside(folder, parts, opener)

    assert str(tmp_path) not in str(caught.value), reason


@needs_posix
@pytest.mark.spec("12.1")
def test_a_named_pipe_is_refused_without_waiting_for_a_writer(
    tmp_path: Path, opener: Opener
) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(MissingFileError, match="not a regular file"):
        open_inside(tmp_path, ("pipe",), opener)


@needs_posix
def test_what_is_refused_leaves_no_open_descriptor(tmp_path: Path, opener: Opener) -> None:
    (tmp_path / "assets" / "inner").mkdir(parents=True)

    for parts in [("assets",), ("assets", "inner"), ("assets", "inner", "x", "y")] * 9:
        with pytest.raises(MissingFileError):
            open_inside(tmp_path, parts, opener)

    folders = (tmp_path, tmp_path / "assets", tmp_path / "assets/inner")
    assert [_open_descriptors_of(folder) for folder in folders] == [0, 0, 0]


def _open_descriptors_of(folder: Path) -> int:
    """Count this process's descriptors of a folder, by its identity."""
    wanted = folder.stat()
    count = 0
    for number in range(256):
        try:
            found = os.fstat(number)
        except OSError:
            continue
        count += (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
    return count


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder full of ways out, beside a secret."""
    top = tmp_path_factory.mktemp("maze")
    inside = top / "inside"
    write(top / "secret", "secret")
    write(top / "a", "secret")
    write(inside / "a", "public")
    write(inside / "b" / "a", "public")
    (inside / "..a").symlink_to(top / "secret")
    (inside / "b" / "up").symlink_to(top, target_is_directory=True)
    (inside / "up").symlink_to("..", target_is_directory=True)
    return inside


NAMES = st.sampled_from(
    [
        "a",
        "b",
        "up",
        "..",
        ".",
        "",
        "..a",
        "secret",
        "../a",
        "/etc/passwd",
        "a/..",
        "a\0",
    ]
)


@pytest.mark.spec("12.1")
@given(parts=st.lists(NAMES | st.text(max_size=4), max_size=5).map(tuple))
def test_nothing_outside_is_ever_read(maze: Path, parts: tuple[str, ...]) -> None:
    try:
        with open_inside(maze, parts) as handle:
            content = handle.read()
    except MissingFileError:
        return

    assert content == b"public"


KINDS = st.sampled_from(["file", "folder", "out", "in", "up", "itself", "none"])
TREES = st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), KINDS), max_size=8)


def grow(root: Path, tree: list[tuple[list[str], str]]) -> None:
    """Put files, folders and links where there is room for them."""
    links: dict[str, str | Path] = {
        "out": root.parent / "secret",
        "in": "a",
        "up": "..",
        "itself": "b",
    }
    for names, kind in tree:
        path = root.joinpath("x", *names)
        if os.path.lexists(path) or not path.parent.is_dir():
            continue
        if kind == "file":
            path.write_bytes(b"public")
        elif kind == "folder":
            path.mkdir()
        elif kind in links:
            path.symlink_to(links[kind])


@needs_posix
@needs_openat2
@given(tree=TREES, paths=st.lists(st.lists(NAMES | st.sampled_from("xabc"), max_size=5)))
@example(tree=[(["a"], "up"), (["b"], "file")], paths=[["x", "a", "b"], ["x", "b", "b"]])
@example(tree=[], paths=[["x"] * 2100])
def test_every_way_to_open_agrees_on_any_tree_and_any_path(
    tmp_path_factory: pytest.TempPathFactory,
    tree: list[tuple[list[str], str]],
    paths: list[list[str]],
) -> None:
    top = tmp_path_factory.mktemp("tree")
    write(top / "secret", "secret")
    (top / "root" / "x").mkdir(parents=True)
    grow(top / "root", tree)

    for path in (*paths, *(["x", *names] for names, _ in tree)):
        found = {_read(top / "root", path, each) for each in OPENERS.values()}
        assert len(found) == 1
        assert found <= {b"public", None}
    shutil.rmtree(top)


def _read(root: Path, parts: list[str], opener: Opener) -> bytes | None:
    try:
        with open_inside(root, parts, opener) as handle:
            return handle.read()
    except MissingFileError:
        return None


@needs_openat2
def test_a_kernel_that_can_is_asked_in_one_call() -> None:
    assert best_opener() is OPENERS["openat2"]


@needs_posix
def test_a_path_that_is_too_long_for_one_call_is_walked(tmp_path: Path, opener: Opener) -> None:
    names = ["d" * 250] * 20
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        for name in names:
            Path(name).mkdir()
            os.chdir(name)
        Path("x.txt").write_text("deep", "utf-8")
    finally:
        os.chdir(here)

    with open_inside(tmp_path, (*names, "x.txt"), opener) as handle:
        assert handle.read() == b"deep"


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("parts", [("link",), ("link", "inner"), ("..",), ("x.txt",)])
def test_only_a_folder_inside_is_listed(tmp_path: Path, parts: tuple[str, ...]) -> None:
    write(tmp_path / "outside/inner/secret.txt")
    write(tmp_path / "root/x.txt")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside", target_is_directory=True)

    with pytest.raises(OSError), OpenFolder(tmp_path / "root").scan_folder(parts):  # noqa: PT011
        pytest.fail("it was listed")


@needs_posix
def test_a_listed_folder_can_be_asked_about_its_entries_and_is_closed(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a/b/x.txt", "four")

    with OpenFolder(tmp_path).scan_folder(("a", "b")) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}

    assert sizes == {"x.txt": 4}
    assert _open_descriptors_of(tmp_path / "a/b") == 0


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """The descriptor of a folder with a file and ways out."""
    write(tmp_path / "secret", "secret")
    write(tmp_path / "inside/a/x", "public")
    (tmp_path / "inside/up").symlink_to("..", target_is_directory=True)
    (tmp_path / "inside/same").symlink_to("a", target_is_directory=True)
    (tmp_path / "inside/proc").symlink_to("/proc/self/root", target_is_directory=True)
    number = os.open(tmp_path / "inside", os.O_RDONLY | os.O_DIRECTORY)
    yield number
    os.close(number)


@needs_openat2
def test_a_file_below_the_folder_is_opened_and_no_child_inherits_it(
    descriptor: int,
) -> None:
    number = call_openat2(descriptor, b"a/x", os.O_RDONLY | os.O_CLOEXEC)

    with os.fdopen(number, "rb") as handle:
        assert handle.read() == b"public"
        assert not os.get_inheritable(number)


@needs_openat2
@pytest.mark.spec("12.1")
@pytest.mark.parametrize(
    "path, reason",
    [
        (b"../secret", errno.EXDEV),
        (b"a/../../secret", errno.EXDEV),
        (b"/etc/passwd", errno.EXDEV),
        (b"up/secret", errno.ELOOP),
        (b"same/x", errno.ELOOP),
        (b"proc/etc/passwd", errno.ELOOP),
        (b"absent", errno.ENOENT),
        (b"a/x/y", errno.ENOTDIR),
        (b"a/" * MAX_PATH_BYTES, errno.ENAMETOOLONG),
    ],
)
def test_whatever_leads_out_or_is_not_there_has_a_reason(
    descriptor: int, path: bytes, reason: int
) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number says which
        call_openat2(descriptor, path, os.O_RDONLY)

    assert caught.value.errno == reason


@needs_openat2
def test_nothing_is_asked_about_a_path_that_ends_early(descriptor: int) -> None:
    with pytest.raises(ValueError, match="x"):
        call_openat2(descriptor, b"a/x\0/../../secret", os.O_RDONLY)


_ASK = """
import errno, os, sys
from skills_mcp.files.opening import OPENERS, best_opener, open_inside
from pathlib import Path
print(best_opener() is OPENERS["walk"])
print(open_inside(Path(sys.argv[1]), ("a", "x")).read())
"""


@needs_openat2
@pytest.mark.skipif(not shutil.which("strace"), reason="strace makes the call fail")
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_where_the_call_is_forbidden_the_folders_are_walked(tmp_path: Path, error: str) -> None:
    write(tmp_path / "a/x", "public")
    trace = ["strace", "-f", "-o", os.devnull, "-e", f"inject=openat2:error={error}"]

    done = subprocess.run(
        [*trace, sys.executable, "-c", _ASK, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )

    if "ptrace" in done.stderr:
        pytest.skip("nobody may be traced here")
    assert done.stdout.splitlines() == ["True", "b'public'"]
