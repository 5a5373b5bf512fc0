"""Packages that tests write, and a few that several of them read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support import write

PNG = b"\x89PNG\r\n\x1a\n\0\0"

PDF_FILES: Mapping[str, str | bytes] = {
    "references/forms.md": "One\nTwo\nThree\n",
    "scripts/fill.py": "print('filled')\n",
    "templates/letter.txt": "Dear {name}\n",
    "logo.png": PNG,
}
"""What lies beside the `SKILL.md` of the package that most tests read."""


def package_text(*, body: str = "Do it.", **fields: Any) -> str:
    """Return a `SKILL.md` with these fields and this text."""
    data = {"name": "pdf", "description": "Fill in PDF forms.", **fields}
    return f"---\n{yaml.safe_dump(data, sort_keys=False)}---\n\n{body}\n"


def write_package(
    root: Path,
    folder: str,
    files: Mapping[str, str | bytes] | None = None,
    **fields: Any,
) -> Path:
    """Write a package and return its folder; its name is that of the folder."""
    name = folder.rsplit("/", 1)[-1]
    write(root / folder / "SKILL.md", package_text(**{"name": name, **fields}))
    for file, text in (files or {}).items():
        write(root / folder / file, text)
    return root / folder


def write_pdf(root: Path, folder: str = "pdf", **fields: Any) -> Path:
    """Write the package that most tests read."""
    return write_package(root, folder, PDF_FILES, **fields)


def is_gone(folder: str) -> bool:
    """Whether a folder that a command has printed is not there any more."""
    path = Path(folder.strip())
    assert path.is_absolute()
    return not path.exists()


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, to compare it with a later state."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
