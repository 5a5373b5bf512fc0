"""Indexes on disk, for a start without reading skills.

```text
<cache>/index/<layout>/       one per set of sources, limits and version
  lock                        held by the building process; the others wait
  <number>/                   the arrays of one state, the newest has the largest
```

A damaged folder counts as absent: all its content can be rebuilt. Later changes of the
files never harm a process with open ones.
"""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from skills_mcp.about import __version__
from skills_mcp.config import Config
from skills_mcp.content.source import Content
from skills_mcp.files.arrays import (
    STAGING,
    Sliceable,
    open_text,
    read_arrays,
    write_arrays,
)
from skills_mcp.files.locks import StaleLockDetector, acquire_lock, lock_heartbeat
from skills_mcp.routing.analyzer import STEMMER_VERSION
from skills_mcp.routing.inverted_index import IndexedDocument, TextIndex
from skills_mcp.routing.keyword_matcher import KeywordIndex
from skills_mcp.routing.ranked_matcher import to_indexed_document
from skills_mcp.skills.model import Problem
from skills_mcp.skills.source_layout import Selection
from skills_mcp.snapshots.indexes import IndexState
from skills_mcp.snapshots.loaded_skills import KeyedProblem, LoadedSkills, SourceOrigin
from skills_mcp.snapshots.skill_records import Rebuild, SkillTable

logger = logging.getLogger(__name__)

FORMAT = 14
"""Incremented with each change in the meaning of the arrays."""

# Longer than the largest library takes to build. A process that has waited so long
# builds without the lock.
_WAIT_SECONDS = 60.0

# A state that was not opened for so long belongs to sources that are served no more.
_RETENTION_SECONDS = 30 * 24 * 60 * 60.0

# No write takes so long: the process that began it has died.
_ABANDONED_SECONDS = 60 * 60.0

_OFFERED = "offered"

_TEXT = "text"
_SEQUENCES = "sequences"

_DAMAGE_ERRORS = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError)


class IndexCache:
    """The folder described above, for one set of sources."""

    def __init__(
        self,
        folder: Path,
        content: Content,
        operator: Config,
        rebuild: Rebuild | None = None,
    ) -> None:
        self._cache_folder = folder
        self._rebuild = rebuild
        self.folder = folder / _derive_layout(content, operator)
        """The folder with the states of these sources."""
        self._known = ""
        self._damaged: set[str] = set()

    def open(self) -> IndexState | None:
        """Open the newest usable state, unless this object opened or saved it last."""
        for folder in self._list():
            if folder.name == self._known:
                return None
            if folder.name in self._damaged:
                continue
            with suppress(OSError):  # a read-only disk can still be read
                os.utime(self.folder)  # or `_collect` takes it for unused
            try:
                state = _open_state(folder, self._rebuild)
            except FileNotFoundError:
                continue  # another process has replaced it
            except _DAMAGE_ERRORS as error:
                self._mark_damaged(folder.name, error)
            else:
                self._known = folder.name
                return state
        return None

    def mark_damaged(self, reason: object) -> None:
        if self._known:
            self._mark_damaged(self._known, reason)
            self._known = ""

    def _mark_damaged(self, name: str, reason: object) -> None:
        self._damaged.add(name)
        logger.warning("The kept index is damaged and built anew: %s", reason)

    def save(self, state: IndexState) -> IndexState:
        """Write a state and reopen it from disk; the original on failure."""
        folders = self._list()
        newest = int(folders[0].name) if folders else 0
        folder = self.folder / str(newest + 1)
        try:
            write_arrays(folder, _arrays_of(state), _encode_metadata(state), _texts_of(state))
            saved = _open_state(folder, self._rebuild)
            self._known = folder.name
        except (OSError, ValueError) as error:
            logger.debug("The index cannot be kept in %s: %s", folder, error)
            return state
        self._delete_old_states(folders)
        return saved

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one process build while the others wait, unless it was stopped."""
        path = self.folder / "lock"
        try:
            lock = acquire_lock(path, timeout_seconds=_WAIT_SECONDS, wait=StaleLockDetector(path))
        except OSError as error:
            logger.debug("Building the index without a lock: %s", error)
            yield
            return
        with lock, lock_heartbeat(lock):
            yield

    def _list(self) -> list[Path]:
        try:
            found = [folder for folder in self.folder.iterdir() if folder.name.isdecimal()]
        except OSError:
            return []
        return sorted(found, key=lambda folder: int(folder.name), reverse=True)

    def _delete_old_states(self, replaced: list[Path]) -> None:
        """Delete replaced and unused states; processes with mapped ones keep them."""
        for folder in replaced:
            shutil.rmtree(folder, ignore_errors=True)
        abandoned = _find_older(self.folder, f"{STAGING}*", _ABANDONED_SECONDS)
        forgotten = _find_older(self._cache_folder, "*", _RETENTION_SECONDS)
        for folder in (*abandoned, *forgotten):
            if folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)


def _find_older(folder: Path, pattern: str, seconds: float) -> Iterator[Path]:
    for path in folder.glob(pattern):
        with suppress(OSError):  # another process has deleted it
            if time.time() - path.stat().st_mtime > seconds:
                yield path


def _derive_layout(content: Content, operator: Config) -> str:
    mounts = (
        (p.mount.source.name, p.mount.at, asdict(p.mount.selection), p.mount.scope)
        for p in content.parts
    )
    # Not `model_dump`: it would build the checker of all settings, which takes longer
    # than opening the index.
    rules = [vars(operator.limits), vars(operator.visibility)]
    rules.append({"trust_content_config": operator.trust_content_config})
    # Another stemmer makes other words of the same text.
    versions = (FORMAT, __version__, STEMMER_VERSION)
    identity = json.dumps([*versions, *rules, *mounts])
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _arrays_of(state: IndexState) -> dict[str, Any]:
    kinds = {
        "skills": state.collection.table.arrays,
        "keywords": state.keywords.arrays if state.keywords else {},
        "texts": state.texts.arrays if state.texts else {},
    }
    named = {f"{k}.{name}": a for k, arrays in kinds.items() for name, a in arrays.items()}
    return {**named, _OFFERED: np.array(state.offered, np.uint32)}


def _texts_of(state: IndexState) -> dict[str, Sliceable]:
    sequences = state.texts.sequences.source if state.texts else b""
    return {_TEXT: state.collection.table.text, _SEQUENCES: sequences}


def _encode_metadata(state: IndexState) -> dict[str, Any]:
    collection = state.collection
    return {
        "origins": [asdict(origin) for origin in collection.origins],
        "findings": [
            (asdict(finding.problem), finding.key.hex(), finding.part)
            for finding in collection.findings
        ],
        "blank_keys": [key.hex() for key in collection.blank_keys],
        "copies": collection.copies,
        "package_parts": sorted(collection.package_parts),
    }


def _parse_origin(origin: dict[str, Any]) -> SourceOrigin:
    selection = origin["selection"]
    plugins = tuple(selection["plugins"])
    return SourceOrigin(**{**origin, "selection": Selection(**{**selection, "plugins": plugins})})


def _open_state(folder: Path, rebuild: Rebuild | None) -> IndexState:
    about, arrays = read_arrays(folder)
    text = open_text(folder, _TEXT)
    kinds: dict[str, dict[str, Any]] = {"skills": {}, "keywords": {}, "texts": {}}
    for name, array in arrays.items():
        kind, _, inner = name.partition(".")
        if inner:
            kinds[kind][inner] = array
    table = SkillTable(kinds["skills"], text, rebuild)
    offered = arrays[_OFFERED].data  # a list would take ten times the memory
    collection = LoadedSkills(
        origins=tuple(map(_parse_origin, about["origins"])),
        table=table,
        findings=tuple(
            KeyedProblem(Problem(**problem), bytes.fromhex(key), part)
            for problem, key, part in about["findings"]
        ),
        blank_keys=tuple(map(bytes.fromhex, about["blank_keys"])),
        copies=tuple(map(tuple, about["copies"])),
        package_parts=frozenset(about["package_parts"]),
    )

    def reread(number: int) -> IndexedDocument:
        return to_indexed_document(table.reread(offered[number]))

    keywords, texts = kinds["keywords"], kinds["texts"]
    sequences = open_text(folder, _SEQUENCES)
    return IndexState(
        collection=collection,
        offered=offered,
        keywords=KeywordIndex.from_arrays(keywords) if keywords else None,
        texts=TextIndex.from_arrays(texts, sequences, reread) if texts else None,
    )
