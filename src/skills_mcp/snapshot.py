"""One revision of the content, ready to answer from: what a refresh replaces."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.config import Config, Layer, Settings, read_layer
from skills_mcp.content.source import Checkout
from skills_mcp.errors import ConfigError, MissingFileError
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.safe_path import open_inside
from skills_mcp.skills.discovery import load_skills, skills_root
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Problem

logger = logging.getLogger(__name__)

_CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The skills, settings and problems of one checkout.  Never changes."""

    checkout: Checkout
    index: SkillIndex
    matcher: KeywordMatcher
    config: Config
    problems: tuple[Problem, ...]
    taken_at: datetime

    def is_still(self, checkout: Checkout) -> bool:
        """Whether reading `checkout` would give the same again."""
        same = checkout.revision == self.checkout.revision is not None
        return same and not any(problem.is_passing for problem in self.problems)


def take_snapshot(checkout: Checkout, settings: Settings, *, trusted: bool) -> Snapshot:
    """Read a checkout (001 §4.6).  Blocking; what is wrong becomes a `Problem`.

    Args:
        checkout: The files.
        settings: The operator's, which the content's own are merged into.
        trusted: Whether the content may set everything (DESIGN §3.12).
    """
    root = skills_root(checkout.directory)
    loaded = load_skills(root)
    config, findings = _configure(checkout, root, settings, trusted=trusted)
    matcher = KeywordMatcher(loaded.index)
    beside = _beside(checkout, root)
    more = (*beside, *_left_out(checkout, root), *_unmatchable(matcher))
    return Snapshot(
        checkout=checkout,
        index=loaded.index,
        matcher=matcher,
        config=config,
        problems=(*findings, *loaded.problems, *more),
        taken_at=datetime.now(UTC),
    )


def log_news(snapshot: Snapshot, before: Snapshot | None) -> None:
    """Say what is served, and each problem once."""
    revision = snapshot.checkout.revision or os.fspath(snapshot.checkout.directory)
    logger.info("Serving %d skills at %s", len(snapshot.index), revision)
    if not len(snapshot.index):
        logger.warning("There is no skill: every task will have no match")
    known = set(before.problems) if before else set()
    for problem in snapshot.problems:
        if problem not in known:
            logger.warning("%s", problem)


def _unmatchable(matcher: KeywordMatcher) -> Iterator[Problem]:
    for skill, keyword in matcher.find_unmatchable():
        reason = f"has the keyword {keyword!r}, which no task can match"
        hint = "use a word of letters that is no stop word"
        yield Problem(skill.file, reason, hint, "warning")


def _beside(checkout: Checkout, root: Path) -> Iterator[Problem]:
    """Report categories that are not served because the skills are in `skills/`."""
    if root == checkout.directory:
        return
    for index in sorted(checkout.directory.glob("[!.]*/_index.md")):
        if index.parent != root:
            reason = f"is not served: the skills are in {root.name}/"
            hint = f"move it into {root.name}/, or add a _root.md beside {root.name}/"
            yield Problem(f"{index.parent.name}/_index.md", reason, hint)


def _left_out(checkout: Checkout, root: Path) -> Iterator[Problem]:
    """Report files of a commit that are never written to a disk."""
    prefix = "" if root == checkout.directory else f"{root.name}/"
    for name in checkout.left_out:
        if name.startswith(prefix):
            shown = name.removeprefix(prefix).encode("unicode_escape").decode()
            reason = "is a link, a submodule, or has a name that is not safe everywhere"
            yield Problem(shown, reason, "put a file with a plain name in its place")


def _configure(
    checkout: Checkout, root: Path, settings: Settings, *, trusted: bool
) -> tuple[Config, tuple[Problem, ...]]:
    """Merge the content's own `config.yaml`: beside its skills or at its top."""
    places = (root, checkout.directory)
    folder = next((p for p in places if os.path.lexists(p / _CONFIG)), None)
    try:
        layer = _read_config(folder) if folder else Layer(_CONFIG, {})
    except (ConfigError, MissingFileError) as error:
        return settings.resolve(), (_problem(str(error)),)
    config, findings = settings.resolve_with(layer, trusted=trusted)
    return config, tuple(map(_problem, findings))


def _read_config(folder: Path) -> Layer:
    with open_inside(folder, (_CONFIG,)) as handle:
        return read_layer(_CONFIG, handle)


def _problem(finding: str) -> Problem:
    reason = finding.removeprefix(f"{_CONFIG}: ")
    return Problem(_CONFIG, reason, "see docs/reference/configuration.md", "warning")
