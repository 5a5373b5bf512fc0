"""The pictures of the README and the documentation, from the sample content.

`make pictures` takes them again: pages in light and dark, with a made-up month of use, and
commands in a terminal. A picture that looks as before keeps its file.
"""

import base64
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from playwright.sync_api import Page, ViewportSize, sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text

from demo.month import LAST_DAY, simulate
from demo.run import CONTENT, git
from skills_mcp.events.collector.event_store import open_event_store
from skills_mcp.events.received_event import parse_received

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

PAGES = {
    "home": "",
    "catalogue": "catalogue",
    "skill": "skills/ui/react/auth",
    "report": "report",
}
SCHEMES = ("light", "dark")
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": MONOKAI}

COMMANDS = (
    "skills-mcp tree --search auth --skills-dir skills-content",
    'skills-mcp explain "fix the auth" --skills-dir skills-content',
)

NAMES = (
    *(f"terminal-{scheme}.svg" for scheme in SCHEMES),
    *(f"{name}-{scheme}.webp" for name in PAGES for scheme in SCHEMES),
)
"""The file of each picture."""

MAX_BYTES = 150_000
_SCREEN: ViewportSize = {"width": 1_280, "height": 860}
_COLUMNS = 112
_QUALITY = 80

_SAME = 0.005
"""The share of pixels that dates and ages change from day to day."""

_COMPARE = """
async ([first, second]) => {
  const pixels = [];
  for (const each of [first, second]) {
    const image = new Image();
    image.src = "data:image/webp;base64," + each;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    pixels.push(context.getImageData(0, 0, image.width, image.height).data);
  }
  const [one, other] = pixels;
  if (one.length !== other.length) return 1;
  let changed = 0;
  for (let at = 0; at < one.length; at += 4)
    changed += Math.abs(one[at + 1] - other[at + 1]) > 48;
  return changed / (one.length / 4);
}
"""


def main() -> None:
    """Take every picture, and say which are new."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="skills-mcp-pictures-") as folder:
        stage = Path(folder)
        for name, data in (*record_terminal(stage), *photograph(stage)):
            if data is not None:
                (PICTURES / name).write_bytes(data)
            print(f"{name}: {'as before' if data is None else f'{len(data):,} bytes'}")
            if data is not None and len(data) > MAX_BYTES:
                raise SystemExit(f"{name} is larger than {MAX_BYTES:,} bytes.")


def record_terminal(stage: Path) -> Iterator[tuple[str, bytes | None]]:
    """Run the commands; yield what a terminal shows, in each theme."""
    shutil.copytree(CONTENT, stage / "skills-content")
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (line, "bold")))
        console.print(Text.from_ansi(_run(stage, line)), "")
    # Its fonts would be loaded from elsewhere.
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    for scheme, theme in THEMES.items():
        drawn = console.export_svg(
            title="skills-mcp", theme=theme, clear=False, code_format=form, unique_id="terminal"
        )
        name, data = f"terminal-{scheme}.svg", f"{drawn}\n".encode()
        yield name, data if _read(name) != data else None


def _run(stage: Path, line: str) -> str:
    environment = _environment(stage) | {"FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS)}
    command = [sys.executable, "-m", "skills_mcp", *shlex.split(line)[1:]]
    done = subprocess.run(
        command, cwd=stage, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.replace(f"{stage}/", "~/")


def photograph(stage: Path) -> Iterator[tuple[str, bytes | None]]:
    """Open the pages in a browser; yield what it shows, or None for what looks as before."""
    now = datetime.now(UTC)
    with serving(stage, now) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=_SCREEN, reduced_motion="reduce")
        blank = browser.new_page()  # the pages themselves load no image from elsewhere
        for name, path in PAGES.items():
            _open(page, f"{url}{path}")
            for scheme in SCHEMES:
                page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                data = _take(page)
                yield _keep(blank, f"{name}-{scheme}.webp", data)
        browser.close()


def _open(page: Page, url: str) -> None:
    """Open a page; history and use are read when somebody looks."""
    page.goto(url, wait_until="load")
    while re.search(r"being (counted|read|fetched)", page.inner_text("main"), re.IGNORECASE):
        page.reload(wait_until="load")


def _take(page: Page) -> bytes:
    asked = {"format": "webp", "quality": _QUALITY}
    session = page.context.new_cdp_session(page)
    return base64.b64decode(session.send("Page.captureScreenshot", asked)["data"])


def _keep(blank: Page, name: str, data: bytes) -> tuple[str, bytes | None]:
    before = _read(name)
    if before is not None:
        both = [base64.b64encode(each).decode() for each in (before, data)]
        changed: float = blank.evaluate(_COMPARE, both)
        if changed <= _SAME:
            return name, None
    return name, data


def _read(name: str) -> bytes | None:
    file = PICTURES / name
    return file.read_bytes() if file.exists() else None


@contextmanager
def serving(stage: Path, now: datetime) -> Iterator[str]:
    """Serve the sample content with its use and its history; yield the address."""
    home = stage / "home"
    home.mkdir(exist_ok=True)
    remote = publish(stage, now)
    database = f"sqlite:///{home / 'month.db'}"
    store = open_event_store(database, home)
    # The same events on any day: a month that ends on another weekday has other ones.
    later = now.date() - timedelta(days=1) - LAST_DAY
    for each in (events := simulate()):
        moment = datetime.fromisoformat(each["timestamp"]) + later
        each["timestamp"] = moment.isoformat()
    store.store([parse_received(each) for each in events])
    store.close()
    (home / "config.yaml").write_text(yaml.safe_dump({"events": {"database": database}}))
    command = [sys.executable, "-m", "skills_mcp", "open", "--no-browser", "--json"]
    process = subprocess.Popen(
        [*command, "--repo", f"file://{remote}"],
        env=_environment(stage),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        process.wait()


def publish(stage: Path, now: datetime) -> Path:
    """Make a repository of the sample content, with a change of this week."""
    remote = stage / "skills.git"
    clone = stage / "clone"
    shutil.copytree(CONTENT, clone)
    git("init", "-q", "--initial-branch=main", cwd=clone)
    _commit(clone, "Ada", now - timedelta(days=60), "Our skills")
    auth = clone / "skills" / "ui" / "react" / "auth.md"
    auth.write_text(auth.read_text(encoding="utf-8") + _NEW_RULE, encoding="utf-8")
    _commit(clone, "Grace", now - timedelta(days=2), "Tell people when their session ends")
    git("clone", "-q", "--bare", str(clone), str(remote))
    return remote


_NEW_RULE = "\n- Tell people a minute before their session ends, and let them stay.\n"


def _commit(clone: Path, author: str, moment: datetime, message: str) -> None:
    git("add", "--all", cwd=clone)
    date = moment.isoformat(timespec="seconds")
    said = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git("commit", "-q", "-m", message, cwd=clone, **said)


def _environment(stage: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(stage / "home"),
        "SKILLS_MCP_HOME": str(stage / "home"),
        "SKILLS_MCP_SHARE": "0",
    }


if __name__ == "__main__":
    main()
