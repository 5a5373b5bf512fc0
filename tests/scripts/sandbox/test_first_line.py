"""Programs whose first line names what is not there."""

import os
import sys
from pathlib import Path

import pytest

from skills_mcp.scripts.sandbox.first_line import find_fault
from tests.support import write

posix = pytest.mark.skipif(sys.platform == "win32", reason="first lines of POSIX")


def fault(folder: Path, text: str | bytes) -> str:
    return find_fault(write(folder / "program", text), os.defpath)


@posix
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
def test_a_program_that_can_be_started_has_no_fault(
    tmp_path: Path, text: str | bytes
) -> None:
    assert fault(tmp_path, text) == ""


@posix
@pytest.mark.parametrize(
    "text, said",
    [
        ("#!/nowhere/python3 -I\n", "names '/nowhere/python3', which is not there"),
        ("#!/bin\n", "names '/bin', which is not there"),
        ("#!\n", "names '', which is not there"),
        ("#!/usr/bin/env nowhere\n", "names 'nowhere', which is not in PATH"),
        ("#!/usr/bin/env -S nowhere -e\n", "names 'nowhere', which is not in PATH"),
        ("#!/bin/sh\r\necho hi\r\n", "ends like those of Windows"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert fault(tmp_path, text) == f"its first line {said}"


@posix
def test_a_program_that_nobody_may_read_has_no_fault(tmp_path: Path) -> None:
    assert find_fault(tmp_path / "nowhere", os.defpath) == ""
