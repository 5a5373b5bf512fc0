"""Writes what `--help` prints into the reference of the command line and the manual page.

Run `python -m tests.docs.help_texts` after a change; a test compares.
"""

import re
from typing import Any

from click.testing import CliRunner

from skills_mcp.cli import program
from tests.docs import man_page
from tests.docs.pages import REFERENCE

PAGES = sorted((REFERENCE / "cli").glob("*.md"))

_BLOCK = re.compile(r"(^```text help *([\w-]*)\n).*?(^```$)", re.MULTILINE | re.DOTALL)


def run(*arguments: str) -> Any:
    """Run the program as on a terminal that is 80 characters wide."""
    return CliRunner().invoke(
        program,
        arguments,
        prog_name="skills-mcp",
        env={"COLUMNS": "80"},
        terminal_width=80,
    )


def _render(block: re.Match[str]) -> str:
    return block[1] + str(run(*block[2].split(), "--help").output) + block[3]


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(_BLOCK.sub(_render, text), encoding="utf-8")
    man_page.PAGE.write_text(man_page.render(), encoding="utf-8")
