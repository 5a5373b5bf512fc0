"""Rollouts: which sources have another version today, and for whom."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from skills_mcp.config.sections import Config, Source
from skills_mcp.errors import ConfigError

_COMMIT = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")


def has_ended(until: str) -> bool:
    """Whether the last day of a rollout is over, in UTC; empty if it has none."""
    return bool(until) and datetime.now(UTC).date().isoformat() > until


def is_active(source: Source) -> bool:
    """Whether a source has a rollout today."""
    return source.rollout is not None and not has_ended(source.rollout.until)


def is_for_groups(source: Source) -> bool:
    return is_active(source) and bool(source.rollout and source.rollout.to.groups)


def is_in_share(machine_share: Callable[[str], float], source: Source) -> bool:
    """Whether this machine gets the version of a rollout; `machine_share` places it."""
    share = source.rollout.to.share if source.rollout and is_active(source) else 0.0
    return share > 0 and machine_share(source.repo) < share


def find_groups(config: Config) -> tuple[str, ...]:
    """The groups of all rollouts; a server has one version for them.

    Raises:
        ConfigError: Two rollouts are for different groups, or one has neither groups nor a share.
    """
    for number, source in enumerate(config.sources):
        if source.rollout and not (source.rollout.to.groups or source.rollout.to.share):
            raise ConfigError(
                f"sources[{number}].rollout.to has neither groups nor a share. Write one of them"
            )
    rollouts = (source.rollout for source in config.sources if is_for_groups(source))
    groups = {tuple(sorted(rollout.to.groups)) for rollout in rollouts if rollout}
    if len(groups) > 1:
        raise ConfigError(
            "sources: two rollouts are for different groups. Write the same groups into both, "
            "or roll one out after the other"
        )
    return groups.pop() if groups else ()


def apply_rollouts(config: Config, is_early: Callable[[Source], bool]) -> Config:
    """The settings with the sources at the versions of their rollouts, or without these."""
    sources = tuple(
        _roll_out(source) if is_early(source) else source.model_copy(update={"rollout": None})
        for source in config.sources
    )
    return config.model_copy(update={"sources": sources})


def _roll_out(source: Source) -> Source:
    ref = source.rollout.ref if source.rollout else source.ref
    key, other = ("ref", "branch") if _COMMIT.fullmatch(ref) else ("branch", "ref")
    return source.model_copy(update={key: ref, other: ""})
