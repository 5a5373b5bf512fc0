"""A real server, and a real browser that looks at its pages."""

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.http_server import HttpServer, served
from tests.issuer import Issuer, running_issuer
from tests.support import CHROMIUM, SKILLS_CONTENT

WIDTHS = (390, 1_024, 1_600)
WIDE = 1_600
"""The layout is that of 1,024 pixels: no rule of `site.css` begins between."""

Scheme = Literal["light", "dark"]

# What Chromium would do besides showing pages; and it runs as root in a container.
# To start a process takes longer than to show a page: those of a context share one.
_ARGUMENTS = (
    "--renderer-process-limit=1",
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


@dataclass
class Site:
    """Pages that are served, and what a browser has asked for on them."""

    server: HttpServer
    browser: Browser
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _pages: dict[bool, Page] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of the catalogue."""
        return self.server.url.removesuffix("mcp")

    def open(
        self,
        path: str = "",
        *,
        width: int = 1_024,
        scheme: Scheme = "light",
        scripts: bool = True,
    ) -> Page:
        """Open a page in the only tab, without what was signed in before.

        A new tab costs ten times what a page costs.
        """
        page = self._pages.get(scripts) or self._open_tab(scripts)
        page.context.clear_cookies()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{self.url}{path}")
        return page

    def _open_tab(self, scripts: bool) -> Page:  # noqa: FBT001
        page = self.browser.new_context(java_script_enabled=scripts).new_page()
        page.on("request", self._note)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self._hear(said.type, said.text))
        self._pages[scripts] = page
        return page

    def close(self) -> None:
        """Close every tab."""
        for page in self._pages.values():
            page.context.close()

    def _note(self, request: Request) -> None:
        self.asked.append(request.url)

    def _hear(self, kind: str, text: str) -> None:
        # A page that is not there is a page, too.
        if kind == "error" and "404" not in text:
            self.errors.append(text)

    def require_own_requests(self) -> None:
        """Fail if a page has asked another server, or a script has failed."""
        own = urlsplit(self.url).netloc
        assert [url for url in self.asked if urlsplit(url).netloc != own] == []
        assert self.errors == []


_AXE = Axe()
_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe whose result depends on the colour scheme."""


def find_barriers(page: Page, *rules: str) -> list[str]:
    """Return what axe, or some of its rules, finds that keeps people from using a page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.axe_script)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    script = "options => axe.run(options).then(found => found.violations)"
    found = page.evaluate(script, options)
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


def measure_overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than its window."""
    script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    width: int = page.evaluate(script)
    return width


def find_faults(page: Page, widths: Sequence[int] = WIDTHS) -> list[str]:
    """Barriers in each layout, and overflow in each width, in light and dark.

    In one document: there axe needs a quarter of what it needs in a new one.
    """
    found = []
    for width, scheme in product(widths, get_args(Scheme)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        rules = () if scheme == "light" else _COLOURS
        barriers = find_barriers(page, *rules) if width < WIDE else []
        faults = [*barriers, *filter(None, [measure_overflow(page)])]
        found += [f"{width} {scheme}: {fault}" for fault in faults]
    return found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, with a folder of its own."""
    if CHROMIUM is None and not os.environ.get("CI"):
        pytest.skip("Debian's chromium-headless-shell and chromium are missing")
    assert CHROMIUM, "CI has to install chromium"
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=_ARGUMENTS,
            env={**os.environ, "HOME": folder},
        )
        yield chromium
        asyncio._set_running_loop(chromium._loop)
        chromium.close()


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Iterator[Browser]:
    """Chromium for a module, in which no test may be `async`.

    Playwright keeps an event loop running in the thread of the tests until it is
    stopped; between two modules nobody sees it.
    """
    asyncio._set_running_loop(chromium._loop)
    yield chromium
    for context in [*chromium.contexts]:
        context.close()
    asyncio._set_running_loop(None)


@pytest.fixture(scope="module")
def site(browser: Browser) -> Iterator[Site]:
    """The pages of the fixtures."""
    with opened_site(browser) as opened:
        yield opened


@contextmanager
def opened_site(
    browser: Browser,
    content: Path = SKILLS_CONTENT,
    options: tuple[str, ...] = (),
    **settings: object,
) -> Iterator[Site]:
    """Serve a folder, and open its pages; settings are those of `config.yaml`."""
    with served(settings, content=content, options=options) as server:
        server.wait_for_log(" skills at ")
        opened = Site(server, browser)
        try:
            yield opened
        finally:
            opened.close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer
