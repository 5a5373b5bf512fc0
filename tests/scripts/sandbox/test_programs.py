"""What a program opens besides itself, and what its first line lacks."""

import os
import sys
from pathlib import Path

import pytest

from skills_mcp.scripts.sandbox import (
    filter_search_path,
    find_executable,
    find_program_folders,
    find_shebang_fault,
)
from tests.support import write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and first lines of POSIX")


def a_program(path: Path, text: str = "") -> Path:
    write(path, text).chmod(0o755)
    return path


def opened(program: Path, home: Path, search_path: str = "/usr/bin:/bin") -> set[str]:
    """Return what is opened for a program, as seen from the home."""
    folders = find_program_folders(program, search_path, home)
    return {str(folder.relative_to(home)) for folder in folders}


def test_a_program_of_the_system_opens_nothing(home: Path) -> None:
    assert opened(Path("/bin/sh"), home) == set()


def test_a_program_is_found_by_its_path_and_stays_a_link(home: Path) -> None:
    real = a_program(home / "real/tool")
    (home / "bin").mkdir()
    (home / "bin/tool").symlink_to(real)

    assert find_executable("tool", f"{home}/bin") == home / "bin/tool"
    assert find_executable("no-such-program", f"{home}/bin") is None


def test_a_node_of_nvm_opens_its_version(home: Path) -> None:
    version = home / ".nvm/versions/node/v22"
    write(version / "lib/node_modules/npm/index.js")
    write(home / ".nvm/versions/node/v20/bin/node")
    write(version / "secret")

    found = opened(a_program(version / "bin/node"), home)

    top = ".nvm/versions/node/v22"
    assert found == {f"{top}/bin", f"{top}/lib"}


def test_a_virtual_environment_opens_itself_and_its_python(home: Path) -> None:
    base = home / ".local/share/uv/python/cpython-3.12"
    python = a_program(base / "bin/python3.12")
    write(base / "lib/os.py")
    write(home / ".local/share/keyrings/login.keyring")
    environment = home / "project/.venv"
    write(environment / "lib/site.py")
    write(environment / "pyvenv.cfg")
    write(home / "project/.env")
    (environment / "bin").mkdir()
    (environment / "bin/python").symlink_to(python)

    found = opened(environment / "bin/python", home)

    top = ".local/share/uv/python/cpython-3.12"
    own = {f"project/.venv/{part}" for part in ("bin", "lib", "pyvenv.cfg")}
    assert found == own | {f"{top}/bin", f"{top}/lib"}


@pytest.mark.parametrize("folder", [".local/bin", "bin", ".config/bin"])
def test_a_program_in_a_folder_for_everything_opens_itself_alone(home: Path, folder: str) -> None:
    write(home / ".local/share/keyrings/login.keyring")
    write(home / ".local/lib/x")
    write(home / "lib/x")

    found = opened(a_program(home / folder / "tool"), home)

    assert found == {f"{folder}/tool"}


def test_a_shim_opens_the_versions_that_it_stands_for(home: Path) -> None:
    for part in ("versions/3.12/bin/python3", "libexec/pyenv", "version", "secrets"):
        write(home / ".pyenv" / part)
    shim = a_program(home / ".pyenv/shims/python3", "#!/bin/sh\n")

    found = opened(shim, home)

    parts = ("shims", "versions", "libexec", "version")
    assert found == {f".pyenv/{part}" for part in parts}


@pytest.mark.parametrize("line", ["#!{}/x/bin/ruby", "#! {}/x/bin/ruby -w", "#!/usr/bin/env ruby"])
def test_the_interpreter_of_a_program_is_opened_too(home: Path, line: str) -> None:
    a_program(home / "x/bin/ruby")
    write(home / "x/lib/ruby.rb")
    tool = a_program(home / "tools/tool", line.format(home) + "\nputs 1\n")

    assert opened(tool, home, f"{home}/x/bin:/usr/bin") == {
        "tools/tool",
        "x/bin",
        "x/lib",
    }


def test_links_that_lead_in_circles_end(home: Path) -> None:
    (home / "tools").mkdir()
    (home / "tools/a").symlink_to(home / "tools/b")
    (home / "tools/b").symlink_to(home / "tools/a")

    assert opened(home / "tools/a", home) == {"tools/a", "tools/b"}


@pytest.mark.parametrize("folder", [".local/bin", "bin"])
def test_a_home_that_is_reached_through_a_link_opens_no_more(
    home: Path, tmp_path: Path, folder: str
) -> None:
    write(home / ".local/share/keyrings/login.keyring")
    write(home / "share/x")
    a_program(home / folder / "tool")
    link = tmp_path / "link"
    link.symlink_to(home)

    found = set(find_program_folders(link / folder / "tool", "/usr/bin", home.resolve()))

    assert found == {link / folder / "tool", home.resolve() / folder / "tool"}


def test_of_a_path_those_folders_stay_in_which_a_run_sees_something(home: Path) -> None:
    (home / "tools").mkdir()
    (home / "link").symlink_to(home / "tools")
    folders = ("tools", "tools/bin", "link", "of-one-program", "closed", "tools-not")
    opened = (home / "tools", home / "of-one-program/tool")

    kept = filter_search_path(":".join(["/usr/bin", *(f"{home}/{f}" for f in folders)]), opened)

    seen = [folder.removeprefix(f"{home}/") for folder in kept.split(":")]
    assert seen == ["/usr/bin", "tools", "tools/bin", "link", "of-one-program"]


# --- the first line ---------------------------------------------------------------


def fault(folder: Path, text: str | bytes) -> str:
    return find_shebang_fault(write(folder / "program", text), os.defpath)


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\n",
        "#! /bin/sh -e\n",
        "#!/bin/sh",
        "#!/usr/bin/env sh\n",
        "#!/usr/bin/env -S sh -e\n",
        "#!/usr/bin/env -i sh\n",
        "#!/usr/bin/env A=1 sh\n",
        "echo no first line of that kind\r\n",
        b"\x7fELF\xff",
        "",
    ],
)
def test_a_program_that_can_be_started_has_no_fault(tmp_path: Path, text: str | bytes) -> None:
    assert fault(tmp_path, text) == ""


@pytest.mark.parametrize(
    "text, said",
    [
        ("#!/nowhere/python3 -I\n", "names '/nowhere/python3', which is not there"),
        ("#!/bin\n", "names '/bin', which is not there"),
        ("#!\n", "names '', which is not there"),
        ("#!/usr/bin/env nowhere\n", "names 'nowhere', which is not in PATH"),
        ("#!/usr/bin/env -S nowhere -e\n", "names 'nowhere', which is not in PATH"),
        ("#!/bin/sh\r\necho hi\r\n", "ends with CR LF, as on Windows"),
    ],
)
def test_what_the_first_line_lacks_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert fault(tmp_path, text) == f"its first line {said}"


def test_a_program_that_cannot_be_read_has_no_fault(tmp_path: Path) -> None:
    assert find_shebang_fault(tmp_path / "nowhere", os.defpath) == ""
