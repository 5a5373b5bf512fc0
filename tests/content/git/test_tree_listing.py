"""What Git lists, and what of it may reach a disk."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.content.git.failures import DamagedStoreError
from skills_mcp.content.git.tree_listing import TreeEntry, TreeListing, parse_listing
from skills_mcp.content.source import LeftOut
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import InvalidPathError, LimitExceededError
from skills_mcp.files.paths import parse_relative
from tests.support import GIT_IDENTITY, Upstream, git, write

BLOB = "b" * 40

HOSTILE_NAMES = [
    "..",
    ".git",
    ".GIT",
    ".Git",
    "git~1",
    "GIT~2",
    ".git ",
    ".git.",
    ".git...",
    ".g\u200cit",
    "\ufeff.git",
    ".git::$INDEX_ALLOCATION",
    "C:x",
    "x:ads",
    "a\\b",
    "CON",
    "con.md",
    "NUL",
    "aux .txt",
    "COM1",
    "com\u00b9.md",
    "LPT9.log",
    "CONIN$",
    "clock$",
    "trail.",
    "trail ",
    " lead",
    "tab\tbed",
    "new\nline",
    "bell\x07",
    "esc\x1b[2J",
    "del\x7f",
    "c1\x85",
    "right\u202eleft",
    "zero\u200bwidth",
    "line\u2028end",
    "tag\U000e0041",
    "what?",
    "star*",
    'quo"te',
    "le<ss",
    "pi|pe",
    "x" * 256,
    "\u00e9" * 128,
]


def record(
    file: str | bytes, *, mode: str = "100644", size: int | str = 1, blob: str = BLOB
) -> bytes:
    kind = "commit" if mode == "160000" else "blob"
    name = file.encode() if isinstance(file, str) else file
    return f"{mode} {kind} {blob} {size:>7}\t".encode() + name


def listed(*files: str, policy: SyncPolicy | None = None) -> TreeListing:
    return parse_listing(map(record, files), policy or SyncPolicy())


def names(listing: TreeListing) -> list[str]:
    return [entry.file for entry in listing.entries]


def ls_tree(tree: str, repository: Path) -> list[bytes]:
    done = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "-l", "--full-tree", tree],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    return done.stdout.split(b"\0")[:-1]


def store_tree(entries: dict[bytes, tuple[str, str]], repository: Path) -> str:
    """Write a tree as no honest program does; return its name."""
    raw = b"".join(
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(blob)
        for name, (mode, blob) in entries.items()
    )
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        cwd=repository,
        check=True,
        capture_output=True,
        input=raw,
        env=GIT_IDENTITY,
    )
    return done.stdout.decode().strip()


@pytest.mark.spec("9.1")
def test_what_git_lists_is_parsed(upstream: Upstream) -> None:
    write(upstream.work / "tool.sh", "#!/bin/sh\n").chmod(0o755)
    (upstream.work / "link.md").symlink_to("/etc/passwd")
    commit = upstream.commit({"ui/Écran d'accueil.md": "Bonjour", "empty.md": ""})

    listing = parse_listing(ls_tree(commit, upstream.work), SyncPolicy())

    assert [(e.file, e.size_bytes, e.is_executable) for e in listing.entries] == [
        ("empty.md", 0, False),
        ("tool.sh", 10, True),
        ("ui/Écran d'accueil.md", 7, False),
    ]
    assert listing.entries[1].blob == git(
        "rev-parse", f"{commit}:tool.sh", cwd=upstream.work
    )
    assert listing.left_out == (LeftOut("link.md", "link"),)


def test_a_submodule_is_left_out() -> None:
    listing = parse_listing([record("sub", mode="160000", size="-")], SyncPolicy())

    assert listing == TreeListing((), (LeftOut("sub", "submodule"),))


@pytest.mark.spec("12.1")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize("pattern", ["{}", "folder/{}", "{}/file.md"])
def test_a_name_that_some_system_misreads_is_left_out(name: str, pattern: str) -> None:
    file = pattern.format(name)

    listing = listed("good.md", file)

    assert names(listing) == ["good.md"]
    assert listing.left_out == (LeftOut(file, "name"),)


def test_a_name_that_is_no_text_is_left_out_and_can_be_said() -> None:
    listing = parse_listing([record(b"caf\xe9.md")], SyncPolicy())

    assert listing == TreeListing((), (LeftOut("caf\udce9.md", "name"),))


@pytest.mark.spec("12.1")
def test_nothing_of_a_hostile_tree_in_a_real_repository_is_kept(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    write(tmp_path / "x", "evil")
    blob = git("hash-object", "-w", "x", cwd=tmp_path)
    hostile = {name.encode(): ("100644", blob) for name in HOSTILE_NAMES}
    kinds = {b"link": ("120000", blob), b"sub": ("160000", blob)}
    tree = store_tree(hostile | kinds, tmp_path)

    listing = parse_listing(ls_tree(tree, tmp_path), SyncPolicy())

    assert listing.entries == ()
    assert len(listing.left_out) == len(HOSTILE_NAMES) + 2 >= 30


@pytest.mark.parametrize(
    "files",
    [
        ("A.md", "a.md"),
        ("Ui/a.md", "uI/b.md"),
        ("Ui/a.md", "ui/a.md"),
        ("x/Y/z/a.md", "x/y/z/b.md"),
        ("docs", "Docs/a.md"),
        ("Docs/a.md", "docs"),
        ("docs", "docs/a.md"),
        ("a.md", "a.md"),
        ("caf\u00e9.md", "cafe\u0301.md"),
        ("CAF\u00c9.md", "cafe\u0301.md"),
        ("\u212aelvin.md", "kelvin.md"),
        ("stra\u00dfe.md", "STRASSE.md"),
        ("\u03b1\u0345\u0301.md", "\u03b1\u0301\u0345.md"),
        ("A.md", "a.md", "B.md", "b.md"),
    ],
)
def test_names_that_some_file_system_takes_for_one_are_all_left_out(
    files: tuple[str, ...],
) -> None:
    listing = listed("good.md", *files, "other/good.md")

    assert names(listing) == ["good.md", "other/good.md"]
    assert listing.left_out == tuple(LeftOut(f, "collision") for f in sorted(files))


def test_only_what_would_be_written_collides() -> None:
    records = [record("A.md", mode="120000"), record("a.md")]

    listing = parse_listing(records, SyncPolicy())

    assert names(listing) == ["a.md"]


def test_the_same_name_in_two_folders_is_no_collision() -> None:
    files = ["a.md", "A/b.md", "b/A/b.md", "b/a.md"]

    assert names(listed(*files)) == files


def test_a_file_over_the_limit_is_left_out_and_one_at_the_limit_is_not() -> None:
    records = [record("large.bin", size=11), record("fits.bin", size=10)]

    listing = parse_listing(records, SyncPolicy(max_file_bytes=10))

    assert names(listing) == ["fits.bin"]
    assert listing.left_out == (LeftOut("large.bin", "size"),)


def test_too_many_files_are_refused_and_no_more_of_them_are_read() -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield record(f"file-{read}", mode="120000" if read % 2 else "100644")

    with pytest.raises(
        LimitExceededError, match=r"more than 1,000 .*limits\.max_files"
    ):
        parse_listing(endless(), SyncPolicy(max_files=1000))

    assert read == 1001


def test_as_many_files_as_are_allowed_are_listed() -> None:
    assert len(listed("a.md", "b.md", policy=SyncPolicy(max_files=2)).entries) == 2


def test_too_many_bytes_are_refused() -> None:
    records = [record("a", size=60), record("b", size=41)]

    with pytest.raises(
        LimitExceededError, match=r"101 bytes; the limit is 100\. .*max_total_bytes"
    ):
        parse_listing(records, SyncPolicy(max_total_bytes=100))


def test_what_is_left_out_does_not_count_as_written() -> None:
    records = [record("a", size=99), record("large", size=1000)]

    listing = parse_listing(records, SyncPolicy(max_total_bytes=100, max_file_bytes=99))

    assert listing.left_out == (LeftOut("large", "size"),)


def test_a_file_that_git_has_lost_is_a_damage_of_its_store(upstream: Upstream) -> None:
    commit = upstream.commit({"a.md": "lost"})
    blob = git("rev-parse", f"{commit}:a.md", cwd=upstream.work)
    (upstream.work / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(DamagedStoreError, match=r"a\.md"):
        parse_listing(ls_tree(commit, upstream.work), SyncPolicy())


@given(
    st.lists(
        st.sampled_from([*"abcgit.~-_/1", "con", "COM", "lpt", "aux", "nul", "skill"]),
        max_size=12,
    ).map("".join)
)
def test_what_is_quickly_found_safe_is_safe(file: str) -> None:
    try:
        parse_relative(file)
        kept = [TreeEntry(file, BLOB, 1, is_executable=False)]
    except InvalidPathError:
        kept = []

    assert list(listed(file).entries) == kept
