"""Writes the lines that install this program into README, docs and deploy.

Until the first release is on the package index, a line installs from a clone. After it,
set `RELEASED`, and run `python -m tests.docs.install_lines`; a test compares.
"""

import re
from pathlib import Path

from skills_mcp import DISTRIBUTION
from tests.support import PROJECT

RELEASED = False

_LINE = re.compile(
    r"(?P<verb>(?:uv tool|pipx|pip) install(?: --no-cache-dir)?) "
    rf"(?P<mark>['\"]?)(?:\.|{DISTRIBUTION})(?P<extras>\[[\w,-]+\])?(?P=mark)(?![\w./=])"
    r"(?P<more>[^\n`#]*?)(?P<note>  # in a clone of the repository)?(?=\n|`|$)"
)


def find_pages() -> list[Path]:
    """Every text with such a line."""
    folders = (PROJECT / "docs", PROJECT / "deploy")
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    texts = [file for file in files if file.suffix != ".webp"]
    return [PROJECT / "README.md", *texts]


def render_lines(text: str) -> str:
    """Write each line anew; in prose, within back-ticks, it has no comment."""
    return _LINE.sub(_render, text)


def _render(found: re.Match[str]) -> str:
    extras = found["extras"] or ""
    requirement = f"{DISTRIBUTION if RELEASED else '.'}{extras}"
    quoted = f"'{requirement}'" if extras else requirement
    is_prose = found.string[found.end() :].startswith("`")
    note = "" if RELEASED or is_prose else "  # in a clone of the repository"
    return f"{found['verb']} {quoted}{found['more'].rstrip()}{note}"


if __name__ == "__main__":
    for page in find_pages():
        before = page.read_text(encoding="utf-8")
        after = render_lines(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
