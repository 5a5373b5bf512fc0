"""The streams of a process, moved away: in a process of its own, which has no other."""

import subprocess
import sys

import pytest

_PROGRAM = """
import os, subprocess, sys
from skills_mcp.server.wire import claimed_wire

with claimed_wire() as wire:
    print("printed", flush=True)
    os.write(1, b"written\\n")
    subprocess.run(["echo", "by a child"], check=True)
    assert sys.stdin.read() == ""
    assert subprocess.run(["cat"], check=True, capture_output=True).stdout == b""
    wire.writing.write(wire.reading.readline().upper())
    wire.writing.flush()
print("given back")
"""


def test_only_who_has_the_wire_reads_from_it_and_writes_to_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input="a message é\n",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "A MESSAGE É\ngiven back\n"), done.stderr
    assert done.stderr == "printed\nwritten\nby a child\n"


def test_streams_that_do_not_block_are_waited_for() -> None:
    program = (
        "import os\n"
        "from skills_mcp.server.wire import claimed_wire\n"
        "os.set_blocking(0, False)\n"
        "os.set_blocking(1, False)\n"
        "with claimed_wire() as wire:\n"
        "    while line := wire.reading.readline():\n"
        "        wire.writing.write(line)\n"
        "        wire.writing.flush()\n"
    )
    # More than a pipe holds, and the reader comes late.
    sent = [f"{letter * 300_000}\n" for letter in "ab"]

    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(sent[0])
        process.stdin.flush()
        read = [process.stdout.readline()]
        process.stdin.write(sent[1])
        process.stdin.close()
        read.append(process.stdout.readline())

    assert (read, process.returncode) == (sent, 0)


@pytest.mark.parametrize(
    "sent, read",
    [
        (r"a cut emoji \ud83d.", r"a cut emoji \ufffd."),
        (r"the other half \uDE00", r"the other half \ufffd"),
        (r"in the wrong order \ude00\ud83d", r"in the wrong order \ufffd\ufffd"),
        (r"one and a half \ud83d\ud83d\ude00", r"one and a half \ufffd\ud83d\ude00"),
        (r"a whole emoji \uD83D\uDE00", r"a whole emoji \uD83D\uDE00"),
        (r"no escape \\ud83d", r"no escape \\ud83d"),
        (r"behind a backslash \\\ud83d", r"behind a backslash \\\ufffd"),
        (r"others \u00e9 \n \" \ue000", r"others \u00e9 \n \" \ue000"),
    ],
)
def test_half_a_surrogate_pair_is_replaced_and_nothing_else(sent: str, read: str) -> None:
    program = (
        "from skills_mcp.server.wire import claimed_wire\n"
        "with claimed_wire() as wire:\n"
        "    wire.writing.write(wire.reading.readline())\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        input=f"{sent}\n",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert done.stdout == f"{read}\n"
