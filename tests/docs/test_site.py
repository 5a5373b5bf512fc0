"""The documentation as a site: every page has its place, and nothing is loaded."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from markdown_it import MarkdownIt
from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.docs.pages import DOCS
from tests.support import CHROMIUM, PROJECT, write

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

_LOADED = (
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"' >]+)""",
    r"""<link\b[^>]*\bhref=["']?((?:https?:)?//[^"' >]+)""",
    r"""url\(["']?((?:https?:)?//[^"')]+)""",
    r"""@import\s+["']((?:https?:)?//[^"']+)""",
)

_OF_THE_REPOSITORY = {
    "changelog.html": "All notable changes",
    "security-policy.html": "Report a vulnerability",
}

_PARTS = {"list": r"<[uo]l\b", "item": r"<li\b", "block": r"<pre\b", "head": r"<th\b"}


def build(
    folder: Path, project: Path = PROJECT, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Build the site into a folder, as `make docs` does."""
    # With --quiet, warnings would be neither printed nor counted.
    words = ["mkdocs", "build", "--config-file", "website/mkdocs.yml"]
    return subprocess.run(
        [sys.executable, "-m", *words, "--site-dir", folder],
        check=False,
        capture_output=True,
        text=True,
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **environment},
    )


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine alone; yields its address."""
    handler = partial(_Quiet, directory=os.fspath(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_the_site_has_all_pages_whole_and_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    done = build(tmp_path, RELEASE_REPOSITORY="https://git.example.com/acme/skills-mcp")

    assert (done.returncode, _warnings(done)) == (0, [])
    assert _find_remote(tmp_path) == []
    for page in DOCS.rglob("*.md"):
        shown = (tmp_path / page.relative_to(DOCS)).with_suffix(".html")
        html = shown.read_text(encoding="utf-8")
        article = html.partition("<article")[2].partition("</article>")[0]
        markdown = page.read_text(encoding="utf-8")
        assert _count(article) == _count(_forge.render(markdown)), page
        assert 'class="mermaid"' not in html  # its script would be loaded
    for name, words in _OF_THE_REPOSITORY.items():
        assert words in (tmp_path / name).read_text(encoding="utf-8")
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="https://git.example.com/acme/skills-mcp"' in index
    if CHROMIUM or os.environ.get("CI"):
        with served(tmp_path) as url, _opened() as tab:
            _require_search(tab, url)
            assert _find_long(tab, url) == []


def _warnings(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line for line in done.stderr.splitlines() if not line.startswith("INFO ")]


_forge = MarkdownIt("commonmark").enable("table")


def _count(html: str) -> dict[str, int]:
    """Count the parts of a page: what one program takes for a list, others may not."""
    return {name: len(re.findall(part, html)) for name, part in _PARTS.items()}


def _find_remote(folder: Path) -> list[str]:
    return [
        f"{file.relative_to(folder)}: {address}"
        for file in folder.rglob("*")
        if file.suffix in {".html", ".css"}
        for pattern in _LOADED
        for address in re.findall(pattern, file.read_text(encoding="utf-8"))
    ]


_QUESTIONS = {
    "my skill is not chosen": "how-to/my-skill-is-not-chosen",
    "private GitLab repository with token": "how-to/private-repository",
    "limit what contractors see": "how-to/who-may-see-what",
    "run a script": "how-to/run-scripts",
    "turn analytics on": "how-to/analytics",
    "what does AMBIGUOUS mean": "reference/glossary",
    "compare with native skills": "explanation/compared-with-native-skills",
    "what data leaves my machine": "explanation/what-leaves-my-machine",
    "upgrade": "how-to/upgrade",
    "uninstall": "how-to/uninstall",
    "troubleshooting": "how-to/troubleshooting",
    "faq": "how-to/troubleshooting",
    "change a skill in the browser": "how-to/change-skills-in-a-browser",
    "import cursor rules": "how-to/bring-your-skills",
}
"""What people asked, and the page that has to come first."""


def _ask(page: Page, question: str) -> str:
    box = page.get_by_role("textbox", name="Search")
    box.click()
    box.fill("")
    box.press("End")  # the page listens to keys
    page.wait_for_selector("a.md-search-result__link", state="detached")
    box.fill(question)  # at once: the results of half a question would be shown, too
    box.press("End")
    href = page.locator("a.md-search-result__link").first.get_attribute("href") or ""
    return "/".join(href.partition(".html")[0].split("/")[-2:])


@contextmanager
def _opened() -> Iterator[Page]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=[*_ARGUMENTS, "--no-first-run"]
        )
        yield browser.new_page(viewport=_SCREEN)
        browser.close()


_SCREEN: ViewportSize = {"width": 1_280, "height": 900}
_MOST_SCREENS = 15


def _find_long(page: Page, url: str) -> list[str]:
    """Pages longer than a reader scrolls; a topic of theirs is a page of its own.

    Without scripts: each page would build the index of the search, for a second of CPU.
    """
    page.route("**/*.js", lambda route: route.abort())
    names = [each.relative_to(DOCS).with_suffix(".html").as_posix() for each in DOCS.rglob("*.md")]
    page.goto(url, wait_until="domcontentloaded")
    # The changelog is one list, which is read from the top, or searched as a whole.
    pixels = page.evaluate(_MEASURE, sorted({*names, *_OF_THE_REPOSITORY} - {"changelog.html"}))
    found = {name: height / _SCREEN["height"] for name, height in pixels.items()}
    assert len(found) > len(names)
    return [f"{name}: {n:.1f} screens" for name, n in found.items() if n > _MOST_SCREENS]


# In one document: a new one reads the style sheets again, for five times the CPU.
_MEASURE = """async names => {
  const heights = {};
  const root = location.href;
  const base = document.head.appendChild(document.createElement("base"));
  for (const name of names) {
    base.href = new URL(name, root);
    const text = await (await fetch(base.href)).text();
    document.body.replaceWith(new DOMParser().parseFromString(text, "text/html").body);
    await Promise.all([...document.images].map((image) => image.decode()));
    heights[name] = document.documentElement.scrollHeight;
  }
  return heights;
}"""


def _require_search(page: Page, url: str) -> None:
    """Search in a browser, which may ask for nothing but the site."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    box = page.get_by_role("textbox", name="Search")
    box.click()
    box.press_sequentially("rollback")
    page.locator("a.md-search-result__link[href*='#skills-mcp-rollback']").click()
    page.wait_for_url("**/reference/cli/content.html*")
    first = {question: _ask(page, question) for question in _QUESTIONS}
    assert first == _QUESTIONS
    assert [each for each in asked if not each.startswith((url, "blob:", "data:"))] == []


def test_a_link_that_leads_nowhere_and_a_page_without_a_place_stop_the_build(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT / "website", project / "website")
    settings = project / "website" / "mkdocs.yml"
    settings.write_text(settings.read_text().partition("\nnav:")[0] + "\nnav: [index.md]\n")
    write(project / "docs" / "index.md", "# Overview\n")
    wrong = "# Stray\n\n[One](index.md#nowhere)\n[Two](nowhere.md)\n"
    write(project / "docs" / "stray.md", wrong)

    done = build(tmp_path / "site", project)

    assert done.returncode == 1
    told = "\n".join(_warnings(done))
    assert told.count("WARNING") == 3
    assert "not included in the" in told
    assert "does not contain an anchor '#nowhere'" in told
    assert "a link 'nowhere.md', but the target is not found" in told
