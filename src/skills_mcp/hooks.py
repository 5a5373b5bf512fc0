"""Hooks by which features add themselves; the core knows no feature by name.

A feature is a folder of `skills_mcp.features`, and each of these is optional:

- `commands/NAME.py` is a command of the command line, see `skills_mcp.cli.command_group`.
- `early_commands/NAME.py` has `run`, which takes the words after the command NAME and a
  function that runs the program; it may answer before anything else is imported.
- `hooks.py` has any of `open_part`, which takes a `Serving` and gives a part of a server,
  `open_embedder`, which gives the embedder, and `audit`, a `SkillAudit`. It imports
  no server: a command that only checks skills imports it, too.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_FEATURES = "skills_mcp.features"


@cache
def find_features() -> Sequence[Path]:
    """The folders of all features, sorted by name; empty without the package."""
    try:
        spec = find_spec(_FEATURES)
    except ImportError:
        return ()
    folders = (spec.submodule_search_locations if spec else None) or ()
    entries = (entry for folder in folders for entry in Path(folder).iterdir())
    return sorted(entry for entry in entries if (entry / "__init__.py").is_file())


def find_modules(folder: str) -> Iterator[tuple[str, Path]]:
    """Modules in this folder of each feature: the name to import, and the file."""
    for feature in find_features():
        for file in (feature / folder).glob("[!_]*.py"):
            yield f"{_FEATURES}.{feature.name}.{folder}.{file.stem}", file


def load_hooks(name: str) -> Iterator[Any]:
    """Import the hook of this name from each feature that has it."""
    for folder in find_features():
        if (folder / "hooks.py").is_file():
            module = import_module(f"{_FEATURES}.{folder.name}.hooks")
            if hook := getattr(module, name, None):
                yield hook
