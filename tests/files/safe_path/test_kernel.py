"""The call of the kernel that cannot be led out of a folder."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_mcp.files.safe_path.kernel import MAX_PATH_BYTES, is_able, open_beneath
from tests.support import write

pytestmark = pytest.mark.skipif(not is_able(), reason="this kernel has no openat2")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """The descriptor of a folder with a file and ways out."""
    write(tmp_path / "secret", "secret")
    write(tmp_path / "inside/a/x", "public")
    (tmp_path / "inside/up").symlink_to("..", target_is_directory=True)
    (tmp_path / "inside/same").symlink_to("a", target_is_directory=True)
    (tmp_path / "inside/proc").symlink_to("/proc/self/root", target_is_directory=True)
    number = os.open(tmp_path / "inside", os.O_RDONLY | os.O_DIRECTORY)
    yield number
    os.close(number)


def test_a_file_below_the_folder_is_opened_and_no_child_inherits_it(
    folder: int,
) -> None:
    number = open_beneath(folder, b"a/x", os.O_RDONLY | os.O_CLOEXEC)

    with os.fdopen(number, "rb") as handle:
        assert handle.read() == b"public"
        assert not os.get_inheritable(number)


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
    folder: int, path: bytes, reason: int
) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number says which
        open_beneath(folder, path, os.O_RDONLY)

    assert caught.value.errno == reason


def test_nothing_is_asked_about_a_path_that_ends_early(folder: int) -> None:
    with pytest.raises(ValueError, match="x"):
        open_beneath(folder, b"a/x\0/../../secret", os.O_RDONLY)


_ASK = """
import errno, os, sys
from skills_mcp.files.safe_path import kernel, open_inside
from skills_mcp.files.safe_path.opening import OPENERS, choose_opener
from pathlib import Path
print(choose_opener() is OPENERS["walk"])
print(open_inside(Path(sys.argv[1]), ("a", "x")).read())
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="strace makes the call fail")
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_where_the_call_is_forbidden_the_folders_are_walked(
    tmp_path: Path, error: str
) -> None:
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
