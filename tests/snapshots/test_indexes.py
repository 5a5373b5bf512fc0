"""What an earlier state has read changes nothing in the indexes of the next one."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_mcp.config import Layer, Settings
from skills_mcp.content.source import Content
from skills_mcp.snapshots.skill_snapshot import Snapshot, take_snapshot
from tests.skills.contents import part_of
from tests.support import skill_text, write

SETTINGS = Settings((Layer("test", {"toolsets": ["core", "packages"]}),))

FILES = ("_root.md", "ui.md", "ui/react.md", "pdf/SKILL.md", "pdf/notes.txt", "z.md")
WORDS = st.lists(st.sampled_from(["ant", "bat", "cat", "dog"]), min_size=1, max_size=3)
TEXTS = WORDS.map(lambda words: skill_text(keywords=words, body=" ".join(words)))
TREES = st.dictionaries(st.sampled_from(FILES), TEXTS, max_size=5)


def take(folder: Path, known: Snapshot | None = None) -> Snapshot:
    content = Content((part_of(folder),))
    snapshot = take_snapshot(content, SETTINGS, known.state if known else None)
    snapshot.prepare()
    return snapshot


def arrays_of(snapshot: Snapshot) -> dict[str, np.ndarray]:
    state = snapshot.state
    arrays = dict(state.texts.arrays) if state.texts else {}
    return {**arrays, **(state.keywords.arrays if state.keywords else {})}


@settings(suppress_health_check=list(HealthCheck), max_examples=50)
@given(TREES, TREES)
def test_an_index_over_what_is_known_is_that_over_what_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, str],
    edits: dict[str, str],
) -> None:
    folder = tmp_path_factory.mktemp("content")
    for file, text in files.items():
        write(folder / file, text)
    before = take(folder)
    for file in set(files) - set(edits):
        (folder / file).unlink()
    for file, text in edits.items():
        if files.get(file) != text:
            write(folder / file, text)

    after = arrays_of(take(folder, before))

    fresh = arrays_of(take(folder))
    assert after.keys() == fresh.keys() != set()
    assert all(np.array_equal(after[name], fresh[name]) for name in fresh)
