"""What holds for the pages as a whole, and for the files beside them."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from demo import pictures
from skills_mcp import __version__
from skills_mcp.config import Layer, Refresh, Settings
from skills_mcp.content import refresher
from skills_mcp.content.git import diagnostics as failures
from skills_mcp.content.git.remote import DEFAULT_BRANCH
from skills_mcp.content.source import LONGEST_PAUSE_SECONDS
from skills_mcp.errors import SkillsError
from skills_mcp.events.publisher import INTERVAL_SECONDS
from skills_mcp.features.embeddings import skill_embeddings as fused
from skills_mcp.library.skill_library import FIRST_CONTENT_SECONDS, MAX_LISTED_FILES
from skills_mcp.routing import decision as excerpt
from skills_mcp.routing.decision import MAX_UNCUT_CHARACTERS as _WHOLE
from skills_mcp.scripts.script_runner import TIMEOUT_EXIT_CODE
from skills_mcp.server import tools
from skills_mcp.skills import document, skill_discovery
from skills_mcp.text.safe_yaml import MAX_YAML_CHARACTERS
from tests.docs import install_lines
from tests.docs.pages import (
    CONFIGURATION,
    DOCS,
    PAGES,
    Block,
    blocks,
    code,
    prose,
    section,
    table,
    templates,
)
from tests.support import PROJECT

IN_DOCS = sorted(DOCS.rglob("*.md"))


def test_snippets_parse() -> None:
    wrong = []
    for page in PAGES:
        for block in blocks(page):
            try:
                _parse(block, page.name)
            except (ValueError, yaml.YAMLError, SkillsError) as error:
                wrong.append(f"{page}: {error} in\n{block.text}")

    assert wrong == []


def _parse(block: Block, page: str) -> None:
    match block.language:
        case "json" if "not-run" not in block.words:
            json.loads(block.text)
        case "toml":
            tomllib.loads(block.text)
        case "yaml" if not {"skill", "powers"} & set(block.words):
            Settings((Layer(page, yaml.safe_load(block.text)),)).resolve()


COMMANDS = (
    ["skills-mcp"],
    ["uvx", "skills-mcp-server"],
    ["skills-mcp", "serve", "--config", "/etc/skills-mcp/config.yaml"],
)


def test_snippets_for_hosts_name_our_program_and_variables_that_exist() -> None:
    known = {
        code(row["Variable"]) for row in table(section(CONFIGURATION, "## Environment variables"))
    }
    forwarded = known | {"SSH_AUTH_SOCK"}
    wrong = [
        f"{page}: {server}"
        for page in PAGES
        for server in _servers(page)
        if (
            server["url"] != "https://skills.acme.com/mcp"
            if "url" in server
            else [server["command"], *server.get("args", [])] not in COMMANDS
            or not set(server.get("env", {})) <= known
            or not set(server.get("env_vars", [])) <= forwarded
        )
    ]

    assert wrong == []


def _servers(page: Path) -> Iterator[dict[str, Any]]:
    """Yield every server that a snippet of a page configures in a host."""
    parsed = [json.loads(block.text) for block in blocks(page, "json")]
    parsed += [tomllib.loads(block.text) for block in blocks(page, "toml")]
    for snippet in parsed:
        for key in ("mcpServers", "servers", "mcp_servers"):
            yield from snippet.get(key, {}).values()


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def test_links_lead_somewhere() -> None:
    dead = [
        f"{page}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page))
        if not target.startswith(("https://", "http://")) and not _leads_somewhere(page, target)
    ]

    assert dead == []


def _leads_somewhere(page: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    linked = (page.parent / file).resolve() if file else page
    return linked.exists() and (not anchor or anchor in anchors(linked))


def test_every_picture_is_small_and_shown_by_a_page() -> None:
    shown = {
        (page.parent / name).resolve()
        for page in PAGES
        for name in re.findall(r'(?:src|srcset)="([^":]+)"', prose(page))
    }
    files = {file: file.stat().st_size for file in pictures.PICTURES.iterdir()}

    assert shown == files.keys()
    assert {file.name for file in files} == set(pictures.NAMES)
    assert [file.name for file, size in files.items() if size > pictures.MAX_BYTES] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", prose(index))

    assert {index, *(DOCS / link for link in linked)} == set(DOCS.rglob("*.md"))


def test_every_page_says_what_to_read_next() -> None:
    last = {page: re.findall(r"^## (.+)$", prose(page), re.MULTILINE)[-1:] for page in IN_DOCS}

    ends = (["What to read next"], ["Where to go next"])
    assert [page for page, heading in last.items() if heading not in ends] == []


def test_every_sentence_has_a_line_of_its_own() -> None:
    lines = [
        f"{page}: {line}"
        for page in IN_DOCS
        for line in prose(page).splitlines()
        if not line.startswith("|") and re.search(r"(?<!\d)[.?!] [A-Z]", line)
    ]

    assert lines == []


NUMBERS = [
    ("reference/tools/index.md", f"longer than {tools._MAX_TEXT:,} characters"),
    ("reference/tools/index.md", f"may have {tools._MAX_TASK:,}"),
    (
        "explanation/routing.md",
        f"more than {_WHOLE['ranked']:,} characters, {_WHOLE['keyword']:,} with",
    ),
    (
        "explanation/routing.md",
        f"less than {excerpt._MIN_PART_CHARACTERS} characters",
    ),
    ("explanation/routing.md", f"one of these with {excerpt._GOOD_SCORE} or more"),
    (
        "explanation/routing.md",
        f"if there are up to {excerpt._MAX_PARAGRAPHS} paragraphs",
    ),
    (
        "explanation/routing.md",
        f"none fits with {excerpt._NEAR_MISS_SCORE} or more",
    ),
    ("how-to/embeddings.md", f"up to {fused._MAX_TASK_CHARACTERS:,} characters"),
    ("reference/tools/index.md", f"at most {FIRST_CONTENT_SECONDS:.0f} seconds"),
    ("reference/tools/run_script.md", f"The exit code is {TIMEOUT_EXIT_CODE} either way"),
    ("reference/skill-format.md", f"{skill_discovery.MAX_SKILL_BYTES:,} bytes, UTF-8"),
    ("reference/skill-format.md", f"{MAX_YAML_CHARACTERS:,} characters"),
    ("reference/skill-format.md", f"more than {skill_discovery.MAX_DEPTH} levels"),
    ("reference/skill-format.md", f"-1000 to {document._MAX_PRIORITY} |"),
    ("reference/configuration.md", f"`SKILLS_BRANCH` | `{DEFAULT_BRANCH}` |"),
    ("reference/events.md", f"sends every {INTERVAL_SECONDS:.0f} seconds"),
    (
        "explanation/features.md",
        f"`load_skill` with up to {MAX_LISTED_FILES} files",
    ),
    ("explanation/features.md", f"may ask for at most {tools._MAX_HITS} |"),
    ("explanation/security.md", f"{skill_discovery.MAX_DEPTH} levels, and a size for each"),
    ("explanation/sync.md", f"within {refresher._RECENT_SECONDS:.0f} seconds"),
    (
        "explanation/sync.md",
        f"at most {LONGEST_PAUSE_SECONDS / 60:.0f} minutes; all windows",
    ),
    ("explanation/sync.md", f"Every {Refresh().interval_minutes} minutes"),
    ("tutorial.md", f"fetches every {Refresh().interval_minutes} minutes"),
]
"""Pages, and words of each that hold numbers of the program."""


def test_numbers_in_the_text_are_those_of_the_program() -> None:
    texts = {page: (DOCS / page).read_text(encoding="utf-8") for page, _ in NUMBERS}

    assert [(page, words) for page, words in NUMBERS if words not in texts[page]] == []


def test_advice_about_a_repository_is_what_the_program_says() -> None:
    said = templates(failures)
    page = DOCS / "how-to" / "private-repository.md"
    rows = table(section(page, "## When access is refused"))

    for row in rows:
        assert [t for t in said if t.startswith(row["The message says"])], row


def test_make_targets_that_are_named_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    named = [
        (name, page)
        for page in PAGES
        for name in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)
    ]

    assert [(name, page) for name, page in named if f"\n{name}:" not in makefile] == []


def test_the_newest_change_is_the_version() -> None:
    changes = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\] - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)

    assert newest
    assert newest[1] == __version__


def test_the_guide_for_agents_is_short() -> None:
    lines = (PROJECT / "AGENTS.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 80


def test_ci_runs_what_developers_run() -> None:
    file = PROJECT / ".github" / "workflows" / "ci.yml"
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    classifiers = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["classifiers"]
    versions = [c.rpartition(" ")[2] for c in classifiers if ":: 3." in c]
    check = workflow["jobs"]["check"]

    assert workflow["permissions"] == {}
    assert check["strategy"]["matrix"]["python"] == versions
    assert check["steps"][-1]["run"].startswith("make check")


def test_every_line_that_installs_the_program_is_that_of_the_constant() -> None:
    texts = {page: page.read_text("utf-8") for page in install_lines.find_pages()}

    wrong = [str(page) for page, text in texts.items() if install_lines.render_lines(text) != text]

    assert wrong == []
