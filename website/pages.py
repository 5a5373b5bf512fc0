"""What the site changes in a page before it becomes HTML; the files in `docs/` stay.

- A link to a file of the repository that is no page leads to the repository, if the
  site knows its address (`RELEASE_REPOSITORY`); otherwise its words stay.
- A fenced block has words for the tests after its language, which Python-Markdown does
  not know: only the language stays, and a title that the line above does not name.
- The changelog and the security policy of the repository are pages, too.
- A page that is mostly one table has no list of its headings beside it.

It is a hook of MkDocs: https://www.mkdocs.org/user-guide/configuration/#hooks
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from mkdocs.structure.files import File

_DOCS = "docs"
_ICON = "fontawesome/brands/git-alt"

# A link of Markdown to a relative path that begins above its page.
_LINK = re.compile(r"\[(?P<words>[^\]]*)\]\((?P<target>\.\./[^)#\s]*)(?P<part>#[^)]*)?\)")

# Files of the repository that are pages, with their place on the site.
_PAGES = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security-policy.md"}

_RELATIVE = re.compile(r"\]\((?![a-z]+:|#)(?P<target>[^)]+)\)")

# Mostly one table, which gets the room of the list of headings.
_TABLES = {
    "benchmarks.md",
    "reference/config-yaml.md",
    "soak.md",
    "soak-of-input-and-http.md",
}

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`]*)")


class _File(Protocol):
    src_uri: str


class _Page(Protocol):
    file: _File
    meta: dict[str, Any]


def on_config(config: Any) -> Any:
    """Link each page to the repository.

    `repo_url` would do so, too, and ask the forge for stars from each reader's browser.
    """
    repository = config["extra"]["repository"]
    if repository:
        link = {"icon": _ICON, "link": repository, "name": "The repository"}
        config["extra"]["social"] = [link]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files of `docs/`, with links as if they were."""
    root = Path(config["config_file_path"]).parent.parent
    for name, place in _PAGES.items():
        if (root / name).exists():
            text = (root / name).read_text(encoding="utf-8")
            text = _RELATIVE.sub(lambda link: f"](../{link['target']})", text)
            files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: _Page, config: Any, **_: Any) -> str:
    """Return the text of a page as the site takes it."""
    if page.file.src_uri in _TABLES:
        page.meta["hide"] = ["toc"]
    if page.file.src_uri == _PAGES["CHANGELOG.md"]:  # what changed answers no question
        page.meta["search"] = {"exclude": True}
    here = posixpath.dirname(f"{_DOCS}/{page.file.src_uri}")
    repository = (config["extra"]["repository"] or "").rstrip("/")
    return "\n".join(_rewrite_lines(markdown, here, repository))


def _rewrite_lines(markdown: str, here: str, repository: str) -> Iterator[str]:
    open_fence = above = ""
    for line in markdown.split("\n"):
        fence = _FENCE.fullmatch(line)
        if open_fence:
            if fence and fence["fence"] == open_fence and not fence["info"].strip():
                open_fence = ""
            yield line
        elif fence:
            open_fence = fence["fence"]
            yield fence["indent"] + open_fence + _rewrite_info(fence["info"], above)
        else:
            above = line or above
            yield _LINK.sub(lambda link: _lead(link, here, repository), line)


def _rewrite_info(info: str, above: str) -> str:
    """Return the language of a fenced block, and its title if nothing else has it."""
    language, *words = info.split() or [""]
    titles = [word.partition("=")[2] for word in words if word.startswith("title=")]
    needed = [f'title="{title}"' for title in titles if title not in above]
    return " ".join([language, *needed])


def _lead(link: re.Match[str], here: str, repository: str) -> str:
    """Return a link that works on the site, or its words."""
    target = posixpath.normpath(posixpath.join(here, link["target"]))
    target = posixpath.join(_DOCS, _PAGES[target]) if target in _PAGES else target
    if target.startswith(f"{_DOCS}/"):
        return f"[{link['words']}]({posixpath.relpath(target, here)}{link['part'] or ''})"
    if not repository:
        return link["words"]
    return f"[{link['words']}]({repository}/blob/main/{target}{link['part'] or ''})"
