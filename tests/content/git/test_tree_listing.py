"""What Git lists, and what of it may reach a disk."""

import os
import subprocess
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.content.git.command import Git
from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.git.object_store import (
    CommitTree,
    TreeListing,
    opened_blobs,
    parse_listing,
    select_served,
)
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import LimitExceededError
from skills_mcp.skills.model import Problem, escape_unprintable
from skills_mcp.skills.source_layout import DEFAULT_SELECTION
from tests.content.git.git_store import GitStore
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


def chosen(records: Iterable[bytes], policy: SyncPolicy | None = None) -> TreeListing:
    """Return what is served of the files that Git has listed."""
    entries = parse_listing(records)
    links = {entry.blob for entry in entries if entry.kind == "link"}

    def read(blobs: Sequence[str]) -> list[bytes]:
        return [b"/etc/passwd"] if links.issuperset(blobs) else refuse(blobs)

    return select_served(CommitTree(entries, read), policy or SyncPolicy())


def refuse(blobs: Sequence[str]) -> list[bytes]:
    raise AssertionError(blobs)


def listed(*files: str, policy: SyncPolicy | None = None) -> TreeListing:
    return chosen(map(record, files), policy)


def problems(listing: TreeListing) -> list[Problem]:
    return list(listing.surveyed[DEFAULT_SELECTION].problems)


def told(listing: TreeListing) -> list[tuple[str, str]]:
    """Return the files with a problem, each with the rule."""
    return [(problem.file, problem.rule) for problem in problems(listing)]


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

    entries = parse_listing(ls_tree(commit, upstream.work))

    assert [(e.file, e.size_bytes, e.is_executable, e.kind) for e in entries] == [
        ("empty.md", 0, False, "file"),
        ("link.md", 11, False, "link"),
        ("tool.sh", 10, True, "file"),
        ("ui/Écran d'accueil.md", 7, False, "file"),
    ]
    assert entries[2].blob == git("rev-parse", f"{commit}:tool.sh", cwd=upstream.work)


def test_a_submodule_and_a_link_are_no_files() -> None:
    records = [
        record("sub", mode="160000", size="-"),
        record("link.md", mode="120000"),
        record("a.md"),
    ]

    listing = chosen(records)

    assert names(listing) == ["a.md"]
    assert told(listing) == [("link.md", "link"), ("sub", "submodule")]


@pytest.mark.spec("12.1")
def test_a_name_that_some_system_misreads_is_left_out() -> None:
    patterns = ["{}", "folder/{}", "{}/file.md", "{}/skills/a/SKILL.md", "a/SKILL.md/{}"]
    paths = [pattern.format(name) for pattern in patterns for name in HOSTILE_NAMES]

    found = {path: listed("good.md", path) for path in paths}

    assert [path for path in paths if names(found[path]) != ["good.md"]] == []
    others = [path for path in paths if {rule for _, rule in told(found[path])} - {"file-name"}]
    assert others == []


def test_a_name_that_is_no_text_is_left_out_and_can_be_said() -> None:
    listing = chosen([record(b"caf\xe9.md")])

    assert names(listing) == []
    assert told(listing) == [(escape_unprintable("caf\udce9.md"), "file-name")]


@pytest.mark.spec("12.1")
def test_nothing_of_a_hostile_tree_in_a_real_repository_is_kept(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    write(tmp_path / "x", "evil")
    blob = git("hash-object", "-w", "x", cwd=tmp_path)
    hostile = {name.encode(): ("100644", blob) for name in HOSTILE_NAMES}
    kinds = {b"link": ("120000", blob), b"sub": ("160000", blob)}
    tree = store_tree(hostile | kinds, tmp_path)

    listing = chosen(ls_tree(tree, tmp_path))

    assert listing.entries == ()
    assert {rule for _, rule in told(listing)} == {"file-name", "link", "submodule"}


@pytest.mark.parametrize(
    "files",
    [
        ("A.md", "a.md"),
        ("Ui/a.md", "uI/b.md"),
        ("Ui/a.md", "ui/a.md"),
        ("x/Y/z/a.md", "x/y/z/b.md"),
        ("docs", "Docs/a.md"),
        ("Docs/a.md", "docs"),
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
    assert {rule for _, rule in told(listing)} == {"name-collision"}


@pytest.mark.parametrize("files", [("docs.md", "docs.md/a.md"), ("a.md", "a.md")])
def test_a_tree_that_names_a_file_twice_is_written_once(files: tuple[str, ...]) -> None:
    assert len(names(listed(*files))) == 1


def test_of_two_main_files_the_one_with_the_exact_name_is_served() -> None:
    listing = listed("pdf/SKILL.md", "pdf/skill.md", "pdf/notes.md")

    assert names(listing) == ["pdf/SKILL.md", "pdf/notes.md"]
    assert told(listing) == [("pdf/skill.md", "name-collision")]


def test_the_same_name_in_two_folders_is_no_collision() -> None:
    files = ["a.md", "A/b.md", "b/A/b.md", "b/a.md"]

    assert names(listed(*files)) == sorted(files)


def test_a_file_over_the_limit_is_left_out_and_one_at_the_limit_is_not() -> None:
    records = [
        record("p/SKILL.md"),
        record("p/large.bin", size=11),
        record("p/fits.bin", size=10),
    ]

    listing = chosen(records, SyncPolicy(max_file_bytes=10))

    assert names(listing) == ["p/SKILL.md", "p/fits.bin"]
    assert told(listing) == [("p/large.bin", "file-size")]
    assert "has 11 bytes; limits.max_file_bytes is 10" in problems(listing)[0].reason


def test_too_many_files_are_refused_with_their_number() -> None:
    files = [f"{number}.md" for number in range(12)]

    with pytest.raises(
        LimitExceededError, match=r"12 files and folders, and limits\.max_files is 10"
    ):
        listed(*files, policy=SyncPolicy(max_files=10))


def test_as_many_files_as_are_allowed_are_listed() -> None:
    assert len(listed("a.md", "b.md", policy=SyncPolicy(max_files=2)).entries) == 2


def test_files_that_are_not_served_do_not_count() -> None:
    code = [f"src/{number}.py" for number in range(100)]

    listing = listed("skills/a.md", *code, policy=SyncPolicy(max_files=2))

    assert names(listing) == ["skills/a.md"]


def test_too_many_bytes_are_refused() -> None:
    records = [record("a.md", size=60), record("b.md", size=41)]

    with pytest.raises(LimitExceededError, match=r"101 bytes, and limits\.max_total_bytes is 100"):
        chosen(records, SyncPolicy(max_total_bytes=100))


def test_what_is_left_out_does_not_count_as_written() -> None:
    records = [record("a.md", size=99), record("large.md", size=1000)]

    listing = chosen(records, SyncPolicy(max_total_bytes=100, max_file_bytes=99))

    assert told(listing) == [("large.md", "file-size")]


def test_a_file_that_git_has_lost_is_a_damage_of_its_store(upstream: Upstream) -> None:
    commit = upstream.commit({"a.md": "lost"}, push=False)
    blob = git("rev-parse", f"{commit}:a.md", cwd=upstream.work)
    (upstream.work / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(DamagedStoreError, match=r"a\.md"):
        chosen(ls_tree(commit, upstream.work))


def test_a_file_that_is_not_served_need_not_be_in_the_store() -> None:
    records = [record("a.md"), record("b.py", size="BAD")]

    assert names(chosen(records)) == ["a.md"]


def test_a_file_that_was_too_large_to_be_kept_is_told_from_one_that_is_lost() -> None:
    records = [record("p/SKILL.md"), record("p/large.bin", size="BAD", blob="b" * 40)]
    entries = parse_listing(records, {"b" * 40: 11})

    listing = select_served(CommitTree(entries, refuse), SyncPolicy(max_file_bytes=10))

    assert names(listing) == ["p/SKILL.md"]
    assert told(listing) == [("p/large.bin", "file-size")]


def test_links_are_read_by_one_process(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (upstream.work / "linked").mkdir()
    for number in range(20):
        (upstream.work / f"linked/{number}.md").symlink_to(f"../pages/{number}.md")
    upstream.commit({f"pages/{n}.md": "---\nkeywords: [page]\n---\nPage." for n in range(20)})
    started: list[tuple[str, ...]] = []
    start = Git._start

    def count(git: Git, arguments: tuple[str, ...], *rest: Any) -> Any:
        started.append(arguments)
        return start(git, arguments, *rest)

    monkeypatch.setattr(Git, "_start", count)
    store = GitStore.create(tmp_path / "store", upstream.url)
    commit = store.fetch().commit
    fetched = started.count(("cat-file", "--batch"))
    store.repository.forget_listings()
    listing = store.repository.list_served(commit)

    # Of the new objects and of those that the store has; afterwards, of the store.
    assert fetched == 2
    assert started.count(("cat-file", "--batch")) == 3
    assert len(listing.links) == 20


def test_an_object_that_ends_the_process_is_a_damage_of_the_store(upstream: Upstream) -> None:
    damaged = "1" * 40
    cut_off = zlib.compress(b"blob 999\0" + os.urandom(999))[:99]
    write(upstream.bare / "objects" / damaged[:2] / damaged[2:], cut_off)

    def read_on() -> None:
        with opened_blobs(Git(upstream.bare, Remote("", ""), SyncPolicy())) as read:
            with suppress(DamagedStoreError):
                read([damaged])
            read([damaged])  # nobody reads what is asked for

    with pytest.raises(DamagedStoreError, match="missing"):
        read_on()
