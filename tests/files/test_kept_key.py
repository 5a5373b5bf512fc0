import os
import stat
import sys
from pathlib import Path

import pytest

from skills_mcp.files.durable import _store_key, load_secret_key
from tests.support import run_python, running_python, write

LOAD = """
import sys
from pathlib import Path
from skills_mcp.files.durable import load_secret_key
sys.stdin.readline()
print(load_secret_key(Path(sys.argv[1])).hex(), flush=True)
"""


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "ours" / "kept.key"


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_the_key_is_for_its_user_alone_whatever_the_mask(key_file: Path) -> None:
    before = os.umask(0)
    try:
        load_secret_key(key_file)
    finally:
        os.umask(before)

    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


def test_all_windows_have_the_same_key_whichever_is_first(key_file: Path) -> None:
    windows = [running_python(LOAD, key_file) for _ in range(4)]
    keys = set()

    with windows[0] as a, windows[1] as b, windows[2] as c, windows[3] as d:
        for window in (a, b, c, d):
            assert window.stdin is not None
            window.stdin.write(b"go\n")
            window.stdin.flush()
        for window in (a, b, c, d):
            assert window.stdout is not None
            keys.add(window.stdout.readline().strip().decode())

    assert keys == {load_secret_key(key_file).hex()}
    assert [path.name for path in key_file.parent.iterdir()] == [key_file.name]


def test_a_window_that_comes_second_takes_the_key_of_the_first(key_file: Path) -> None:
    key = load_secret_key(key_file)

    assert _store_key(key_file, bytes(32)) == key
    assert load_secret_key(key_file) == key


@pytest.mark.parametrize("damaged", [b"", b"abc", b"zz" * 32, b"\xff" * 64, b"00"])
def test_a_damaged_key_is_made_anew(damaged: bytes, key_file: Path) -> None:
    write(key_file, damaged)

    key = load_secret_key(key_file)

    assert len(key) == 32
    assert load_secret_key(key_file) == key


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_a_link_in_place_of_the_key_is_not_followed(key_file: Path, tmp_path: Path) -> None:
    target = write(tmp_path / "target", b"00" * 32)
    key_file.parent.mkdir()
    key_file.symlink_to(target)

    key = load_secret_key(key_file)

    assert key != bytes(32)
    assert target.read_bytes() == b"00" * 32


def test_two_keys_are_never_the_same() -> None:
    code = "from skills_mcp.files.durable import load_secret_key; import pathlib, sys;"
    code += "print(load_secret_key(pathlib.Path(sys.argv[1], 'k')).hex())"

    assert run_python(code, "/dev/null/absent") != run_python(code, "/dev/null/absent")
