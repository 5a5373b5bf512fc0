"""`pins` under a source: some skills stay at a commit while the rest follows."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.bootstrap import Options, build
from skills_mcp.config import Grant
from skills_mcp.skills.access import derive_access
from tests.cli.conftest import Run
from tests.support import Upstream, skill_text, write

Pins = dict[str, str]
Commits = tuple[Upstream, str, str]
"""A repository, and its older and its newer commit."""


def texts(version: str, *names: str) -> dict[str, str | None]:
    """Skill files that say in which version they were written."""
    return {f"skills/{name}.md": skill_text(body=f"{name} {version}") for name in names}


NAMES = ("_root", "ui/_index", "ui/react/auth", "ui/react/forms", "data/events")


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Commits:
    made = Upstream.create(tmp_path_factory.mktemp("pins"))
    return made, made.commit(texts("old", *NAMES)), made.commit(texts("new", *NAMES))


def config_file(folder: Path, upstream: Upstream, mount: str = "", **source: Any) -> str:
    settings = {"sources": [{"repo": upstream.url, "mount": mount, **source}]}
    return str(write(folder / "mine.yaml", json.dumps(settings)))


def served(invoke: Run, config: str, path: str) -> dict[str, Any]:
    done = invoke("show", path, "--config", config, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "pins, old",
    [
        ({"ui/react/auth": "OLD"}, {"ui/react/auth"}),
        ({"ui/": "OLD"}, {"ui/_index", "ui/react/auth", "ui/react/forms"}),
        ({"ui/": "OLD", "ui/react/": "NEW"}, {"ui/_index"}),
        ({"ui/": "NEW", "ui/react/forms": "OLD"}, {"ui/react/forms"}),
    ],
)
def test_the_most_specific_pin_decides_whose_text_is_served(
    invoke: Run, commits: Commits, tmp_path: Path, pins: Pins, old: set[str]
) -> None:
    upstream, first, second = commits
    named = {path: first if commit == "OLD" else second for path, commit in pins.items()}
    config = config_file(tmp_path, upstream, "teams/web", pins=named)

    shown = {name: served(invoke, config, f"teams/web/{name}")["parts"][-1] for name in NAMES[1:]}

    assert {name for name, part in shown.items() if f"{name} old" in part["content"]} == old
    assert {name for name, part in shown.items() if part["commit"] == first} == old


def test_a_pinned_skill_inherits_the_rules_that_are_followed(
    invoke: Run, commits: Commits, tmp_path: Path
) -> None:
    upstream, first, _ = commits
    config = config_file(tmp_path, upstream, pins={"ui/react/auth": first})

    content = served(invoke, config, "ui/react/auth")["content"]

    assert "_root new" in content
    assert "ui/_index new" in content


def test_status_tells_both_commits_apart(invoke: Run, commits: Commits, tmp_path: Path) -> None:
    upstream, first, second = commits
    config = config_file(tmp_path, upstream, pins={"ui/": first, "data/events": first})
    invoke("sync", "--config", config)

    found = json.loads(invoke("status", "--config", config, "--json").stdout)["sources"]
    text = invoke("status", "--config", config).stdout

    assert [(each["commit"], each.get("pins")) for each in found] == [
        (second, None),
        (first, ["data/events", "ui/"]),
    ]
    assert "data/events, ui/" in text


def test_a_pin_without_its_skill_is_a_problem(
    invoke: Run, commits: Commits, tmp_path: Path
) -> None:
    upstream, first, _ = commits
    alone = config_file(tmp_path / "alone", upstream, pins={"ui/vue": first})
    beside = config_file(tmp_path, upstream, pins={"ui/vue": first, "ui/react/auth": first})

    failed = invoke("tree", "--config", alone)
    shown = invoke("tree", "--problems", "--config", beside)

    problem = f"pinned to {first[:12]}, which has no such skill"
    assert (problem in failed.stderr, problem in shown.stdout) == (True, True)
    assert "auth" in shown.stdout


def test_a_folder_has_no_commit_to_pin(invoke: Run, tmp_path: Path) -> None:
    settings = {"sources": [{"folder": str(tmp_path), "pins": {"ui/": "a" * 40}}]}
    config = str(write(tmp_path / "mine.yaml", json.dumps(settings)))

    done = invoke("tree", "--config", config)

    assert done.returncode == 3
    assert "remove pins" in done.stderr


def test_a_machine_in_a_rollout_says_so_once(invoke: Run, commits: Commits, tmp_path: Path) -> None:
    upstream, first, second = commits
    rollout = {"ref": second, "to": {"groups": ["web"], "share": 1}}
    config = config_file(tmp_path, upstream, ref=first, pins={"ui/": first}, rollout=rollout)
    invoke("sync", "--config", config)

    found = json.loads(invoke("status", "--config", config, "--json").stdout)["sources"]

    assert [(each["commit"], each.get("rollout"), each.get("pins")) for each in found] == [
        (second, "group web, 100 % of the machines", None),
        (first, None, ["ui/"]),
    ]


def test_a_loss_by_settings_is_that_of_the_source_that_has_it(
    upstream: Upstream, tmp_path: Path
) -> None:
    first = upstream.commit(texts("old", *NAMES))
    files = texts("new", *(f"data/events{number}" for number in range(4)))
    upstream.commit({**files, "elsewhere/tool/SKILL.md": skill_text()})
    config = Path(config_file(tmp_path, upstream, pins={"ui/": first}))
    environment = {"SKILLS_MCP_HOME": str(tmp_path)}
    build(Options(config_file=config), environment).library.sync()
    settings = json.loads(config.read_text()) | {"visibility": {"deny": ["data/*"]}}
    config.write_text(json.dumps(settings))
    library = build(Options(config_file=config), environment).library

    library.sync()

    main, pinned = library.view().states()
    assert main.loss is not None
    assert (main.loss.removed, pinned.loss) == (5, None)
    assert (main.not_served, pinned.not_served) == (1, 0)


def test_a_limited_caller_is_not_told_the_paths_of_pins(commits: Commits, tmp_path: Path) -> None:
    upstream, first, _ = commits
    config = Path(config_file(tmp_path, upstream, pins={"ui/": first}))
    library = build(Options(config_file=config), {"SKILLS_MCP_HOME": str(tmp_path)}).library
    library.sync()
    limited = derive_access([Grant(allow=("data/**",))], {})

    states = library.view(limited).states()

    assert states
    assert not any(state.pins for state in states)
