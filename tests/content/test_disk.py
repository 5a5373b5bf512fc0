"""What is said when the disk refuses something."""

import errno
import os
from pathlib import Path

import pytest

from skills_mcp.content.source import translate_disk_errors
from skills_mcp.errors import SyncError


@pytest.mark.parametrize(
    "number, advice",
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EROFS, "set SKILLS_MCP_HOME"),
        (errno.EACCES, "set SKILLS_MCP_HOME"),
        (errno.EPERM, "set SKILLS_MCP_HOME"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "check it"),
        (errno.ENOTEMPTY, "check the disk and the permissions"),
    ],
)
def test_what_the_disk_refuses_is_said_with_what_to_do(number: int, advice: str) -> None:
    with (
        pytest.raises(SyncError, match=advice) as raised,
        translate_disk_errors(Path("/cache")),
    ):
        raise OSError(number, os.strerror(number))

    assert "/cache" in str(raised.value)
    assert os.strerror(number) in str(raised.value)


def test_an_error_that_is_explained_already_stays_as_it_is() -> None:
    with (
        pytest.raises(SyncError, match="the remote is gone"),
        translate_disk_errors(Path("/c")),
    ):
        raise SyncError("the remote is gone")
