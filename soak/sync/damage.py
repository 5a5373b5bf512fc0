"""What a crash, another program or a person can do to the cache, and that it heals."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from skills_mcp.files.durable import delete_tree
from soak.scenario import Figure, Scale, Scenario
from soak.sync.mirror import Mirror

LOCKS = (
    *("index.lock", "HEAD.lock", "ORIG_HEAD.lock", "FETCH_HEAD.lock", "config.lock"),
    *("shallow.lock", "packed-refs.lock", "gc.pid", "refs/heads/main.lock"),
    *("refs/remotes/origin/main.lock", "refs/skills/published.lock"),
    *("objects/info/commit-graph.lock", "objects/pack/multi-pack-index.lock"),
    "objects/info/commit-graphs/commit-graph-chain.lock",
)
"""What a Git that was killed leaves locked, below its store."""

_EVERY = 4
"""Of the blows, with a new commit, in a test."""

Blow = Callable[[Path, str], object]
"""Damages a store, which serves a commit."""


def heal_stale_locks(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Plant each kind of lock alone, and then folders in their place."""
    mirror = Mirror.create(folder)
    mirror.sync()
    passed = sum(_passes_locks(mirror, lock) for lock in LOCKS)
    yield Figure.every(5, "stale locks of Git, by kind", passed, len(LOCKS))
    groups = [(lock,) for lock in LOCKS] if scale.is_full else [LOCKS]
    passed = sum(_passes_locks(mirror, *each, are_folders=True) for each in groups)
    yield Figure.every(5, "folders in the place of locks", passed, len(groups))
    stayed = sum((mirror.store / "objects.git" / lock).exists() for lock in LOCKS)
    yield Figure.none(5, "stale locks that stayed", stayed, len(LOCKS))
    ours = _passes(mirror, _replace_our_lock)
    yield Figure.every(5, "a folder in the place of our own lock", ours, 1)


def heal_damage(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Deal each blow alone; the next sync heals it, with and without a new commit."""
    mirror = Mirror.create(folder)
    mirror.sync()
    blows = {**_TO_GIT, **_TO_SNAPSHOTS}
    served, healed = {}, {}
    for name, blow in blows.items():
        blow(mirror.store, mirror.newest)
        if name in _TO_GIT:
            served[name] = mirror.serves()
        healed[name] = _revive(mirror)
    yield _name_failures("damage to Git's store: served meanwhile", served)
    yield _name_failures("damage healed by a sync without news", healed)
    some = [*blows.items()][:: 1 if scale.is_full else _EVERY]
    newer = {name: _passes(mirror, blow) for name, blow in some}
    yield _name_failures("damage healed by a sync with news", newer)


def _name_failures(what: str, passed: Mapping[str, bool]) -> Figure:
    figure = Figure.every(10, what, sum(passed.values()), len(passed))
    failed = [name for name, is_good in passed.items() if not is_good]
    named = f" (not: {', '.join(failed)})" if failed else ""
    return Figure(10, what, figure.reached + named, figure.target, figure.is_met)


def _passes_locks(mirror: Mirror, *locks: str, are_folders: bool = False) -> bool:
    def plant(store: Path, _: str) -> None:
        for lock in locks:
            path = store / "objects.git" / lock
            if are_folders:
                path /= "inside"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("4711 elsewhere", encoding="utf-8")

    return _passes(mirror, plant)


def _passes(mirror: Mirror, blow: Blow) -> bool:
    blow(mirror.store, mirror.newest)
    mirror.push(f"after {len(mirror.commits)}")
    return _revive(mirror)


def _revive(mirror: Mirror) -> bool:
    """Sync once; a store that stays broken is no part of the next case."""
    is_healed = mirror.sync() is None and mirror.serves()
    if not is_healed:
        shutil.rmtree(mirror.cache, ignore_errors=True)
        mirror.sync()
    return is_healed


def _truncate_packs(store: Path, _: str) -> None:
    for path in (store / "objects.git/objects/pack").glob("*.pack"):
        _overwrite(path, path.read_bytes()[: path.stat().st_size // 2])


def _empty_objects(store: Path, _: str) -> None:
    for path in (store / "objects.git/objects").rglob("*"):
        if path.is_file():
            _overwrite(path, b"")


def _flip_in_packs(store: Path, _: str) -> None:
    for path in (store / "objects.git/objects/pack").glob("*.pack"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x55
        _overwrite(path, bytes(data))


def _overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def _forget_head(store: Path, _: str) -> None:
    (store / "objects.git/HEAD").unlink()


def _break_configuration(store: Path, _: str) -> None:
    (store / "objects.git/config").write_text("[core\nbare = perhaps", encoding="utf-8")


def _empty_ref(store: Path, _: str) -> None:
    (store / "objects.git/refs/skills/published").write_bytes(b"")


def _ref_as_folder(store: Path, _: str) -> None:
    ref = store / "objects.git/refs/skills/published"
    delete_tree(ref)
    (ref / "deeper").mkdir(parents=True)
    (ref / "deeper/ref").write_text("0" * 40, encoding="utf-8")


def _empty_index(store: Path, _: str) -> None:
    (store / "objects.git/index").write_bytes(b"")


def _garbage_shallow(store: Path, _: str) -> None:
    (store / "objects.git/shallow").write_text("nonsense\n", encoding="utf-8")


def _delete_store(store: Path, _: str) -> None:
    delete_tree(store / "objects.git")


def _delete_snapshot(store: Path, commit: str) -> None:
    delete_tree(store / "snap" / commit)


def _edit_file(store: Path, commit: str) -> None:
    file = store / "snap" / commit / "skills/a.md"
    file.chmod(0o644)
    file.write_text("edited by hand", encoding="utf-8")


def _delete_file(store: Path, commit: str) -> None:
    (store / "snap" / commit / "skills/a.md").unlink()


def _link_file(store: Path, commit: str) -> None:
    file = store / "snap" / commit / "skills/a.md"
    file.unlink()
    file.symlink_to("/etc/passwd")


def _add_file(store: Path, commit: str) -> None:
    (store / "snap" / commit / "skills/c.md").write_text("mine", encoding="utf-8")


def _close_folder(store: Path, commit: str) -> None:
    (store / "snap" / commit / "skills").chmod(0o000)


def _close_store(store: Path, _: str) -> None:
    (store / "current.json").chmod(0o000)
    (store / "sync.lock").chmod(0o000)
    store.chmod(0o000)


def _forget_pointer(store: Path, _: str) -> None:
    (store / "current.json").unlink()


def _spoil_pointer(store: Path, _: str) -> None:
    (store / "current.json").write_text('{"commit": "../..', encoding="utf-8")


def _lead_astray(store: Path, commit: str) -> None:
    pointer = store / "current.json"
    text = pointer.read_text(encoding="utf-8")
    pointer.write_text(text.replace(commit, "1" * 40), encoding="utf-8")


def _pointer_as_folder(store: Path, _: str) -> None:
    _forget_pointer(store, "")
    (store / "current.json/inside").mkdir(parents=True)


def _spoil_state(store: Path, _: str) -> None:
    (store / "state.json").write_bytes(b"\0" * 100)


def _replace_our_lock(store: Path, _: str) -> None:
    (store / "sync.lock").unlink()
    (store / "sync.lock").mkdir()


_TO_GIT: Mapping[str, Blow] = {
    "a truncated pack": _truncate_packs,
    "a flipped byte in a pack": _flip_in_packs,
    "objects without content": _empty_objects,
    "a half clone, without HEAD": _forget_head,
    "a broken configuration": _break_configuration,
    "an empty ref": _empty_ref,
    "a folder in the place of a ref": _ref_as_folder,
    "an empty index": _empty_index,
    "a file of nonsense about its depth": _garbage_shallow,
    "no store at all": _delete_store,
    "a state of nonsense": _spoil_state,
}
"""Nothing of what is served is touched."""

_TO_SNAPSHOTS: Mapping[str, Blow] = {
    "a snapshot that is gone": _delete_snapshot,
    "an edited file": _edit_file,
    "a deleted file": _delete_file,
    "a link in the place of a file": _link_file,
    "a file too many": _add_file,
    "a folder that cannot be read": _close_folder,
    "a store that cannot be read": _close_store,
    "no pointer": _forget_pointer,
    "a pointer of nonsense": _spoil_pointer,
    "a pointer to nothing": _lead_astray,
    "a folder in the place of the pointer": _pointer_as_folder,
}

SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("stale-locks", heal_stale_locks),
    ("damage", heal_damage),
)
