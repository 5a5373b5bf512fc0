"""A repository as data, and how it is written: into a folder, or into one commit."""

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BRANCH = "main"

_AUTHOR = b"Ada <ada@example.com> 1700000000 +0000"

# Any commit will do: nothing looks into another repository.
_SUBMODULE = b"1234567890123456789012345678901234567890"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Everything that a repository holds, by the paths from its top.

    A name that is not UTF-8 is written as `os.fsdecode` returns it.
    """

    files: Mapping[str, bytes | Path]
    """The content of each file, or the file that has it."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Symbolic links, and what they lead to."""
    submodules: Collection[str] = ()
    empty_folders: Collection[str] = ()
    """Folders without any file; a commit has none of them."""

    def write(self, folder: Path) -> Path:
        """Write all of it below an empty folder; a submodule is not checked out."""
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in self.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_load(content))
        for file, target in self.links.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        for inner in (*self.submodules, *self.empty_folders):
            (folder / inner).mkdir(parents=True, exist_ok=True)
        return folder

    def commit(self, bare: Path) -> str:
        """Write all of it as the only commit of a new repository; return its URL.

        Git never has a work tree of it, so that no name is too odd.
        """
        bare.parent.mkdir(parents=True, exist_ok=True)
        start = ("init", "-q", "--bare", f"--initial-branch={BRANCH}", str(bare))
        subprocess.run(["git", *start], check=True)
        with subprocess.Popen(
            ["git", "fast-import", "--quiet", "--done"], cwd=bare, stdin=subprocess.PIPE
        ) as importer:
            if importer.stdin is None:
                raise SystemExit("git fast-import has no standard input")
            for part in self._stream():
                importer.stdin.write(part)
        if importer.returncode:
            raise SystemExit(f"git fast-import ended with {importer.returncode}")
        return bare.as_uri()

    def _stream(self) -> Iterator[bytes]:
        """Iterate over the commands of `git fast-import`."""
        yield b"commit refs/heads/%s\n" % BRANCH.encode()
        yield b"committer %s\n" % _AUTHOR
        yield _data(b"Everything")
        for file, content in self.files.items():
            yield b"M 100644 inline %s\n" % _quote(file)
            yield _data(_load(content))
        for file, target in self.links.items():
            yield b"M 120000 inline %s\n" % _quote(file)
            yield _data(os.fsencode(target))
        for folder in self.submodules:
            yield b"M 160000 %s %s\n" % (_SUBMODULE, _quote(folder))
        yield b"done\n"


def load_tree(folder: Path) -> Tree:
    """Return what a folder holds; the content of its files is read when it is needed.

    What Git keeps there for itself is left out, at the top and in submodules.
    """
    files: dict[str, bytes | Path] = {}
    links: dict[str, str] = {}
    for path in iterate_paths(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            links[name] = os.readlink(path)  # noqa: PTH115 - a target is no Path
        elif path.is_file():
            files[name] = path
    return Tree(files=files, links=links)


def iterate_paths(folder: Path) -> Iterator[Path]:
    """Iterate over all files and links below a folder, without those of Git."""
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [each for each in folders if Path(above, each).is_symlink()]
        names = sorted(name for name in (*files, *links) if name != ".git")
        yield from (Path(above, name) for name in names)


def _load(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quote(file: str) -> bytes:
    """Return a path of any characters as `git fast-import` reads it."""
    raw = os.fsencode(file)
    for plain, escaped in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        raw = raw.replace(plain, escaped)
    return b'"%s"' % raw
