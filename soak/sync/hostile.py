"""Addresses, names, trees and environments that would run or write something."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import ConfigError
from soak.scenario import Figure, Scale, Scenario
from soak.sync.mirror import Mirror, sync
from soak.sync.traps import Traps
from soak.sync.trees import MAX_FILE_BYTES, Trees
from tests.content.git_server import serving
from tests.support import Upstream, git

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
    yield Figure.none(
        21, f"unsafe addresses fetched{_name(fetched)}", len(fetched), len(asked)
    )
    names = tuple(_invent_names(str(canary)))
    named = [each for each in names if _parses(upstream.url, branch=each)]
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
            yield Figure.every(
                22, f"hostile surroundings, {name}: synced", is_served, 1
            )
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
    yield Figure.none(
        23, f"{said}written, or old lost{_name(bad)}", len(bad), len(kept)
    )
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
    error = sync(
        RemoteBranch(Remote(url, "main"), cache, SyncPolicy(timeout_seconds=5))
    )
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
