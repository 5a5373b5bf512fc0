"""The recipes of docs/how-to/other-frameworks.md, as they stand there, run for real.

A recipe is `frameworks/NAME/recipe.py`.  Its program is the one of the development
environment, which is on the path of the tests; only the model is scripted.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

TASK = "Add authentication to a React component"

PAGES = Path(__file__).parent.parent / "docs" / "how-to"

_PUBLIC_URL = "https://skills.acme.com/mcp"
_LISTENING = re.compile(r"Serving MCP at (\S+)")
_OTHER_WAY = re.compile(r"^( *)(\w+ = ).*\n +# Over HTTP: (.+)$", re.MULTILINE)


def load_recipe(folder: Path, url: str = "") -> ModuleType:
    """Import a recipe; with a URL, its line for HTTP replaces the one above it."""
    file = folder / "recipe.py"
    source = file.read_text(encoding="utf-8")
    if url:
        source, count = _OTHER_WAY.subn(r"\1\2\3", source)
        assert count == 1, f"{file} has no line for HTTP"
        source = source.replace(_PUBLIC_URL, url)
    module = ModuleType("recipe")
    exec(compile(source, str(file), "exec"), module.__dict__)  # noqa: S102 - our file
    return module


def load_block(page: str, title: str) -> ModuleType:
    """Import a program that `docs/how-to/PAGE` shows under a title."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.search(rf"```python title={title}\n(.*?)```", text, re.DOTALL)
    assert found, f"{page} has no program {title}"
    module = ModuleType(title.removesuffix(".py"))
    exec(compile(found[1], title, "exec"), module.__dict__)  # noqa: S102 - our page
    return module


@contextmanager
def serve(skills: Path) -> Iterator[str]:
    """Serve a folder over HTTP until the block ends; yield the address of MCP."""
    program = shutil.which("skills-mcp")
    assert program, f"no skills-mcp on the path of {sys.executable}"
    config = skills.parent / "config.yaml"  # both ports are free ones
    config.write_text("http: {port: 0, operations_port: 0}\n", encoding="utf-8")
    options = ("--transport", "http", "--config", str(config))
    process = subprocess.Popen(
        [program, *options, "--skills-dir", str(skills)],
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield _find_address(process)
        finally:
            process.terminate()


def _find_address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr
    log: list[str] = []
    for line in process.stderr:
        log.append(line)
        if found := _LISTENING.search(line):
            return found[1]
    raise AssertionError(f"the server has ended: {''.join(log)}")
