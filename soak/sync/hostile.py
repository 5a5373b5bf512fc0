"""Addresses, names, trees and environments that would run or write something.

Traps are settings and variables that tell Git to run programs.  Trees are commits with
entries that no honest Git makes, and no file system should see.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import ConfigError
from skills_mcp.skills.source_layout import DEFAULT_SELECTION
from soak.scenario import Figure, Scale, Scenario
from soak.stdio import home_variables
from soak.sync.mirror import Mirror, sync
from tests.content.git_server import serving
from tests.support import Upstream, git, write


class Traps:
    """Programs that leave a canary, in every place where Git takes one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sprung = folder / "sprung"
        self._sprung.mkdir()
        self.count = 0
        self._home = home_variables(folder)
        self._project = folder / "project"
        self._set_project()
        self._set_home()
        self._environment = self._invent_environment()

    def sync(self, url: str, name: str) -> str:
        """Run our program there; return what is served, and what it says."""
        home = self._folder / f"ours-{name}"
        ours = {"SKILLS_MCP_HOME": str(home), "SKILLS_REPO": url}
        done = subprocess.run(
            [sys.executable, "-m", "skills_mcp", "sync", "--json"],
            cwd=self._project,
            env={**self._started_with(), **ours},
            capture_output=True,
            text=True,
            check=False,
        )
        files = (path for path in home.rglob("snap/*/skills/*") if path.is_file())
        return done.stdout + repr([path.read_bytes() for path in files])

    def clone(self, url: str) -> None:
        """Run Git itself there, which is known to fall for some of it."""
        environment = {**os.environ, **self._home}
        for number, address in enumerate((url, url.removeprefix("file://"))):
            subprocess.run(
                ["git", "clone", "-q", address, f"{self._folder}/clone-{number}"],
                cwd=self._project,
                env=environment,
                capture_output=True,
                check=False,
            )

    def read_sprung(self) -> set[str]:
        """Return the traps that went off, and set them again."""
        found = {path.name for path in self._sprung.iterdir()}
        for path in self._sprung.iterdir():
            path.unlink()
        return found

    def _started_with(self) -> Mapping[str, str]:
        return {**os.environ, **self._home, **self._environment}

    def _spring(self, name: str) -> str:
        self.count += 1
        return f"touch {shlex.quote(str(self._sprung / name))}"

    def _program(self, name: str) -> str:
        file = write(self._folder / "programs" / name, f"#!/bin/sh\n{self._spring(name)}")
        file.chmod(0o755)
        return str(file)

    def _helper(self, name: str) -> str:
        """Return an address that Git hands to a program; a space is `% ` in it."""
        return f"ext::sh -c {self._spring(name).replace(' ', '% ')} "

    def _set_project(self) -> None:
        self._project.mkdir()
        git("init", "-q", cwd=self._project)
        hook = self._project / ".git/hooks/reference-transaction"
        write(hook, f"#!/bin/sh\n{self._spring('project-hook')}").chmod(0o755)
        self._configure(self._project / ".git/config", "project")

    def _set_home(self) -> None:
        home = Path(self._home["HOME"])
        self._configure(home / ".gitconfig", "home")
        for hook in ("reference-transaction", "post-checkout", "post-index-change"):
            file = home / "template/hooks" / hook
            write(file, f"#!/bin/sh\n{self._spring(f'template-{hook}')}").chmod(0o755)
        git("config", "--file", str(home / ".gitconfig"), "init.templateDir",
            str(home / "template"), cwd=home)  # fmt: skip

    def _configure(self, file: Path, whose: str) -> None:
        attributes = write(self._folder / "attributes", "* filter=trap")
        settings = {
            "core.fsmonitor": self._program(f"{whose}-fsmonitor"),
            "core.sshCommand": self._program(f"{whose}-ssh"),
            "core.askPass": self._program(f"{whose}-askpass"),
            "core.gitProxy": self._program(f"{whose}-proxy"),
            "core.alternateRefsCommand": self._program(f"{whose}-refs"),
            "core.pager": self._program(f"{whose}-pager"),
            "core.attributesFile": str(attributes),
            "filter.trap.smudge": self._spring(f"{whose}-smudge"),
            "filter.trap.clean": self._spring(f"{whose}-clean"),
            "filter.trap.process": self._program(f"{whose}-process"),
            "diff.trap.command": self._program(f"{whose}-diff"),
            "uploadpack.packObjectsHook": self._program(f"{whose}-pack-objects"),
            "gpg.program": self._program(f"{whose}-gpg"),
            "protocol.ext.allow": "always",
            f"url.{self._helper(f'{whose}-rewritten')}.insteadOf": "file://",
            "fetch.recurseSubmodules": "true",
            "remote.origin.uploadpack": self._program(f"{whose}-uploadpack"),
        }  # fmt: skip
        if whose == "project":  # of a user's, who has no token, they are wanted
            settings["credential.helper"] = f"!{self._spring('project-helper')}; true"
        for key, value in settings.items():
            git("config", "--file", str(file), key, value, cwd=self._folder)

    def _invent_environment(self) -> Mapping[str, str]:
        nowhere = str(self._folder / "nowhere")
        rewritten = f"url.{self._helper('variable-rewritten')}.insteadOf"
        return {
            **dict.fromkeys(("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"), nowhere),
            **dict.fromkeys(("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"), nowhere),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": nowhere,
            "GIT_NAMESPACE": "elsewhere",
            "GIT_TEMPLATE_DIR": str(Path(self._home["HOME"]) / "template"),
            "GIT_EXEC_PATH": nowhere,
            "GIT_CONFIG_PARAMETERS": "'protocol.ext.allow'='always'",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "protocol.ext.allow",
            "GIT_CONFIG_VALUE_0": "always",
            "GIT_CONFIG_KEY_1": rewritten,
            "GIT_CONFIG_VALUE_1": "file://",
            "GIT_SSH_COMMAND": self._program("variable-ssh-command"),
            "GIT_SSH": self._program("variable-ssh"),
            "GIT_ASKPASS": self._program("variable-askpass"),
            "GIT_PROXY_COMMAND": self._program("variable-proxy"),
            "GIT_EXTERNAL_DIFF": self._program("variable-diff"),
            "GIT_PAGER": self._program("variable-pager"),
            "GIT_EDITOR": self._program("variable-editor"),
            "GIT_TRACE": str(self._sprung / "variable-trace"),
            "GIT_TRACE2": str(self._sprung / "variable-trace2"),
            "GIT_ALLOW_PROTOCOL": "ext",
        }


MAX_FILE_BYTES = 10_000

_FOLDER = b"package"
_PACKAGE = "---\nname: package\ndescription: Has hostile files beside it.\n---\nText.\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree."""

    mode: str
    name: bytes
    object: str


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of a commit."""

    is_clean: bool
    """Whether only harmless entries were written."""
    is_reported: bool
    """Whether every entry was reported, or the commit as a whole."""
    is_refused: bool


class Trees:
    """Makes hostile commits, and looks at what a copy has of them."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        # Not pushed: Git would refuse to.
        self._bare = mirror.upstream.bare
        self._blob = self._store("blob", b"evil")
        self._inner = self._store("tree", self._compose([self._file(b"inner.md")]))
        self._large = self._store("blob", b"x" * (MAX_FILE_BYTES + 1))

    def invent_left_out(self) -> Mapping[str, list[Entry]]:
        """Return the entries that Git accepts, by kind; none may reach the disk."""
        files = {str(name): [self._file(name)] for name in _NAMES}
        folders = {f"folder {name!r}": [self._folder(name)] for name in _FOLDERS}
        together = {
            "case": [self._file(b"case.md"), self._file(b"CASE.md")],
            "accents": [self._file("é.md".encode()), self._file(b"e\xcc\x81.md")],
            "sharp s": [self._file("ß.md".encode()), self._file(b"ss.md")],
            "folder and file": [self._folder(b"Both"), self._file(b"both")],
            "size": [Entry("100644", b"large.md", self._large)],
            "submodule": [Entry("160000", b"module", "1" * 40)],
        }  # fmt: skip
        links = {
            f"link to {target!r}": [self._link(target, number)]
            for number, target in enumerate(_TARGETS)
        }
        return {**files, **folders, **together, **links}

    def invent_refused(self) -> Mapping[str, list[Entry]]:
        """Return the entries that Git itself refuses."""
        return {str(name): [self._folder(name)] for name in _REFUSED}

    def try_all(self, entries: Sequence[Entry]) -> Tried:
        """Push a commit with these entries, sync, and look."""
        before = self._mirror.served()
        self._push(entries)
        error = self._mirror.sync()
        checkout = self._mirror.open().open()
        assert checkout  # noqa: S101 - something was published before
        if error:
            is_kept = self._mirror.served() == before
            return Tried(is_kept, is_reported=True, is_refused=True)
        found = {path.name for path in checkout.directory.rglob("*")}
        least = {entry.name for entry in entries}
        is_reported = bool(checkout.surveyed[DEFAULT_SELECTION].problems) or not least
        written = {_FOLDER.decode(), "SKILL.md", "harmless.md"}
        return Tried(found == written, is_reported, is_refused=False)

    def go_back(self) -> None:
        """Restore the mirror to a whole commit."""
        self._mirror.push("harmless")
        self._mirror.sync()

    def _push(self, entries: Sequence[Entry]) -> None:
        """Commit a package with these entries: a file outside of one is not served."""
        harmless = Entry("100644", b"harmless.md", self._store("blob", b"harmless"))
        skill = Entry("100644", b"SKILL.md", self._store("blob", _PACKAGE.encode()))
        package = self._store("tree", self._compose([harmless, skill, *entries]))
        tree = self._store("tree", self._compose([Entry("40000", _FOLDER, package)]))
        words = ("commit-tree", "-m", "Evil", "-p", "refs/heads/main", tree)
        commit = git(*words, cwd=self._bare)
        git("update-ref", "refs/heads/main", commit, cwd=self._bare)

    def _file(self, name: bytes) -> Entry:
        return Entry("100644", name, self._blob)

    def _folder(self, name: bytes) -> Entry:
        return Entry("40000", name, self._inner)

    def _link(self, target: bytes, number: int) -> Entry:
        return Entry("120000", b"link-%d.md" % number, self._store("blob", target))

    def _compose(self, entries: Sequence[Entry]) -> bytes:
        """Return a tree as Git stores it, in Git's order."""

        def order(entry: Entry) -> bytes:
            return entry.name + b"/" if entry.mode == "40000" else entry.name

        def render(entry: Entry) -> bytes:
            head = entry.mode.encode() + b" " + entry.name
            return head + b"\0" + bytes.fromhex(entry.object)

        return b"".join(map(render, sorted(entries, key=order)))

    def _store(self, kind: str, data: bytes) -> str:
        words = ("git", "hash-object", "-t", kind, "-w", "--stdin", "--literally")
        done = subprocess.run(words, input=data, cwd=self._bare, check=True, capture_output=True)
        return done.stdout.decode().strip()


def _spell_devices() -> Iterator[bytes]:
    for device in ("CON", "con.md", "PRN.txt", "aux.md", "NUL", "COM1.txt", "lpt9.md"):
        yield device.encode()
    yield "COM\u00b9.md".encode()
    yield b"CONIN$"


_NAMES = (
    *_spell_devices(),
    *(b"C:evil.md", b"ads.md:stream", b"a\\b.md", b"..\\up.md", b"\\\\host\\share"),
    *(b"dot.md.", b"space.md ", b" lead.md", b"tab\there.md", b"line\nbreak.md"),
    *(b"bell\x07.md", b"escape\x1b[31m.md", b"delete\x7f.md"),
    *(b"bytes\xff.md", b"c1\xc2\x9b.md"),
    *("left\u202eright.md".encode(), "zero\u200bwidth.md".encode()),
    *("isolate\u2066.md".encode(), "\ufeffmark.md".encode()),
    *(b"star*.md", b"what?.md", b"pipe|.md", b'quote".md', b"less<.md"),
    *(b"GIT~2", b"long" * 80 + b".md"),
)
"""Names of files that some system takes for another file, or rejects."""

_FOLDERS = (b"nul", b"folder.", b"folder ", b"a:b", b"...", b"com7.d")

_REFUSED = (
    *(b".", b"..", b".git", b".GIT", b".Git", b"git~1", b"GIT~1"),
    *(b".git ", b".git.", b".git::$INDEX", b".git\\config", ".g\u200cit".encode()),
    *(b"up/../../up", b"/etc", b""),
)

_TARGETS = (
    *(b"/etc/passwd", b"../../../../etc/passwd", b"harmless.md", b".", b"link-4.md"),
    *(b"link-6.md", b"link-5.md", b"", b"\0"),
)
"""Targets of links: outside, inside, themselves, a loop."""


_FEWEST_ADDRESSES, _FEWEST_NAMES, _FEWEST_ENTRIES = 40, 20, 30


def refuse_addresses(folder: Path, _: Scale) -> Iterator[Figure]:
    """Configure addresses and names that Git, ssh or a shell would run."""
    canary = folder / "canary"
    upstream = Upstream.create(folder)
    upstream.commit({"a.md": "A"})
    addresses = tuple(_invent_addresses(str(canary)))
    configured = [each for each in addresses if _parses(each)]
    yield Figure.none(
        21, f"unsafe addresses configured{_name(configured)}", len(configured),
        len(addresses),
    )  # fmt: skip
    asked = (*addresses, *_LEFT_TO_GIT)
    fetched = [each for each in asked if not _is_refused(folder, each)]
    yield Figure.none(21, f"unsafe addresses fetched{_name(fetched)}", len(fetched), len(asked))
    names = tuple(_invent_names(str(canary)))
    # Without a name, `main` or the default branch is followed.
    named = [each for each in names if each and _parses(upstream.url, branch=each)]
    named += [each for each in names if each and _parses(upstream.url, pin=each)]
    yield Figure.none(
        21, f"unsafe branches and tags configured{_name(named)}", len(named), len(names)
    )
    strange = _find_strange_refs(upstream, folder / "good")
    yield Figure.none(21, "refs that are not ours", strange, 1)
    touched = len(list(folder.glob("canary*")))
    yield Figure.none(21, "side effects", touched, len(addresses) + len(names))
    enough = len(addresses) >= _FEWEST_ADDRESSES and len(names) >= _FEWEST_NAMES
    yield Figure.every(21, "as many addresses and names as promised", enough, 1)


_SKILL = "---\ndescription: A\nkeywords: [a]\n---\n$Id$\n"


def ignore_surroundings(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Sync in a project, a home and an environment that are full of traps."""
    upstream = Upstream.create(folder)
    attributes = "* filter=trap diff=trap merge=trap text eol=crlf ident\n"
    commit = upstream.commit({".gitattributes": attributes, "skills/a.md": _SKILL})
    traps = Traps(folder)
    with serving(folder) as server:
        urls = {"http": f"{server.url}/upstream.git", "file": upstream.url}
        for name in urls if scale.is_full else ("file",):
            served = traps.sync(urls[name], name)
            sprung = traps.read_sprung()
            is_served = commit in served and repr(_SKILL.encode()) in served
            yield Figure.every(22, f"hostile surroundings, {name}: synced", is_served, 1)
            what = f"hostile surroundings, {name}: traps set off{_name(sprung)}"
            yield Figure.none(22, what, len(sprung), traps.count)
    traps.clone(upstream.url)
    control = len(traps.read_sprung())
    what = "hostile surroundings: a plain clone sets off"
    yield Figure(22, what, str(control), "some, as a control", control > 0)


def write_no_hostile_entry(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Commit entries that no file system should see: one by one, or many at once."""
    mirror = Mirror.create(folder, max_file_bytes=MAX_FILE_BYTES)
    mirror.sync()
    trees = Trees(mirror)
    kinds, refused = trees.invent_left_out(), trees.invent_refused()
    together = [*chain.from_iterable(kinds.values())]
    cases = {**(kinds if scale.is_full else {}), "all at once": together}
    tried = {name: trees.try_all(entries) for name, entries in cases.items()}
    written = [name for name, each in tried.items() if not each.is_clean]
    silent = [name for name, each in tried.items() if not each.is_reported]
    refusing = [name for name, each in tried.items() if each.is_refused]
    said = f"{len(kinds)} kinds of entries that Git takes: "
    yield Figure.none(23, f"{said}written{_name(written)}", len(written), len(cases))
    yield Figure.none(23, f"{said}not reported{_name(silent)}", len(silent), len(cases))
    # What it refuses as a whole says nothing about us.
    what = f"{said}refused after all{_name(refusing)}"
    yield Figure.none(23, what, len(refusing), len(cases))
    trees.go_back()
    kept = {name: trees.try_all(entries) for name, entries in refused.items()}
    bad = [name for name, each in kept.items() if not each.is_clean]
    said = f"{len(refused)} kinds of entries that Git refuses: "
    yield Figure.none(23, f"{said}written, or old lost{_name(bad)}", len(bad), len(kept))
    enough = len(kinds) + len(refused) >= _FEWEST_ENTRIES
    yield Figure.every(23, "as many kinds as promised", enough, 1)


def _name(found: object) -> str:
    return f" ({found})" if found else ""


def _parses(url: str, branch: str = "main", pin: str = "") -> bool:
    try:
        Remote.parse(url, branch, pin=pin)
    except ConfigError:
        return False
    return True


def _is_refused(folder: Path, url: str) -> bool:
    """Whether nothing is fetched even if the address was not checked."""
    cache = folder / "unsafe"
    error = sync(RemoteBranch(Remote(url, "main"), cache, SyncPolicy(timeout_seconds=5)))
    return error is not None


def _find_strange_refs(upstream: Upstream, cache: Path) -> int:
    sync(RemoteBranch(Remote(upstream.url, "main"), cache, SyncPolicy()))
    [store] = cache.iterdir()
    refs = git("for-each-ref", "--format=%(refname)", cwd=store / "objects.git")
    return sum(not ref.startswith("refs/skills/") for ref in refs.splitlines())


def _invent_addresses(canary: str) -> Iterator[str]:
    run = f"touch {canary}"
    escaped = run.replace(" ", "% ")
    yield from (f"ext::sh -c {escaped}", f"ext::{run}", f"EXT::sh -c {escaped}")
    yield from (f"ext://sh -c {run}", "fd::17", "fd::17/foo", "fd://17")
    yield from (f"helper::{run}", f"transport-helper::{run}", "remote-ext::x")
    yield from ("http::http://127.0.0.1/x", "https::https://127.0.0.1/x", "a+b::c")
    yield from (f"--upload-pack={run}", f"-u{run}", "-", "--", f"--exec={run}")
    yield from (f"-oProxyCommand={run}", f"-oProxyCommand={run}:path", "-x@host:path")
    yield from (f"ssh://-oProxyCommand={run}/path", f"ssh://a@-oProxyCommand={run}/p")
    yield from ("git@-oProxyCommand=id:path", "ssh://-p/path", "ssh://a@-/p")
    yield from ("git://127.0.0.1/x.git", "ftp://127.0.0.1/x.git", "ftps://127.0.0.1/x")
    yield from ("rsync://127.0.0.1/x", "gopher://127.0.0.1/x", "sftp://127.0.0.1/x")
    yield from ("git+ssh://127.0.0.1/x", "ssh+git://127.0.0.1/x", "bundle://x", "a://b")
    yield from ("javascript://%0aalert(1)", "data://text/plain,x", "FILE+x:///tmp")
    yield from ("https://", "https:///path", "https://:80/x", "https://ho st/x")
    yield from ("https://127.0.0.1\n/x", "https://127.0.0.1/x\nhost=evil", "a\0b", "")
    yield from (
        "https://127.0.0.1:port/x",
        "https://127.0.0.1:99999/x",
        "https://[::1/x",
    )
    yield from (
        "https://127.0.0.1%0a.example/x",
        "ssh://127.0.0.1%00/x",
        "\thttps://x/",
    )


def _invent_names(canary: str) -> Iterator[str]:
    run = f"touch {canary}"
    yield from ("", "-", "--", f"--upload-pack={run}", f"-u{run}", "-b")
    yield from ("main:refs/heads/evil", "main:", ":main", "+main:x", "a:b")
    yield from ("*", "feature/*", "a?b", "a[b]", "a\\b", "a~1", "a^", "a^{commit}")
    yield from ("@{-1}", "a@{1}", "@", "a..b", "..", ".", ".hidden", "a/.b", "a.lock")
    yield from ("a.lock/b", "/a", "a/", "a//b", "a.", "a b", "a\tb", "a\nb", "a\0b")
    yield from ("a\x7fb", f"x;{run}", f"$({run})", f"`{run}`", f"| {run}")


_LEFT_TO_GIT = ("ssh://%2doProxyCommand=id/path", "/nowhere/at/all", "file:///nowhere")

SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("addresses", refuse_addresses),
    ("surroundings", ignore_surroundings),
    ("hostile-trees", write_no_hostile_entry),
)
