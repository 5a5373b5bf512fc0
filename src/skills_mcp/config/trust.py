"""What content may set: never more than the operator allows."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from skills_mcp.config.findings import describe
from skills_mcp.config.sections import Config

REMOTE_SECTIONS = ("matching", "routing", "assets", "refresh", "validation")
"""What a remote repository may set without being trusted."""

LOWER_ONLY = (("assets", "max_size_bytes"), ("assets", "inline_text_max_bytes"))
"""Limits that a remote repository may lower, never raise."""

SLOWEST_REFRESH_MINUTES = 60
"""The longest interval that a remote repository may set for its own fetches.

A bad commit that switched the timer off would never be replaced by a good one.
"""

OPERATOR_ONLY = (
    "sources",
    "sync",
    "discover",
    "limits",
    "toolsets",
    "access",
    "http",
    "events",
    "web",
    "upload",
    "commands",
    "embedding",
    "trust_content_config",
)
"""What no content may set: where skills come from, who may see them, what is allowed,
and where texts are sent.

Limits are among them because they apply before any content is read.
"""

OPERATOR_ONLY_KEYS = (
    ("scripts", "sandbox"),
    ("scripts", "confirm"),
    ("scripts", "network"),
    ("scripts", "roots"),
    ("scripts", "roots_writable"),
    ("scripts", "readable"),
    ("scripts", "environment"),
    ("scripts", "max_memory_bytes"),
    ("scripts", "max_file_bytes"),
    ("scripts", "max_processes"),
    ("analytics", "token_file"),
    ("analytics", "heartbeats"),
    ("analytics", "context"),
    ("analytics", "identity"),
    ("analytics", "group"),
    ("analytics", "max_spool_bytes"),
    ("analytics", "keep_days"),
)
"""Single keys that no content may set, in sections that trusted content may set.

Those of `scripts` confine a script, so the content of the script may not loosen them.
Those of `analytics` decide how much of people's texts is recorded, and for how long.
"""


def permitted_part(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Remove what only the operator may set, for trusted content, too."""
    permitted = dict(values)
    refused = [name for name in OPERATOR_ONLY if name in permitted]
    for name in refused:
        del permitted[name]
    for section, key in OPERATOR_ONLY_KEYS:
        inner = permitted.get(section)
        if isinstance(inner, Mapping) and key in inner:
            permitted[section] = {k: v for k, v in inner.items() if k != key}
            refused.append(f"{section}.{key}")
        if permitted.get(section) == {}:
            del permitted[section]  # or the empty section would be reported again
    findings = [f"{name} is ignored: only the operator may set it" for name in refused]
    return permitted, findings


def valid_part(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the valid keys, and what is wrong with the others."""
    valid: dict[str, Any] = {}
    findings: list[str] = []
    for path, value in _leaves(values):
        try:
            Config.model_validate(_nested(path, value))
        except ValidationError as error:
            findings += [describe(detail) for detail in error.errors()]
            continue
        section, *keys = path
        for key in keys:
            valid.setdefault(section, {})[key] = value
        if not keys:
            valid[section] = value
    return valid, findings


def harmless_part(
    values: Mapping[str, Any], operator: Config
) -> tuple[dict[str, Any], list[str]]:
    """Keep what an untrusted repository may set."""
    harmless = {name: values[name] for name in REMOTE_SECTIONS if name in values}
    findings = [
        f"{name} is ignored: only the operator may set it (trust_content_config)"
        for name in values
        if name not in REMOTE_SECTIONS
    ]
    for section, name in LOWER_ONLY:
        limit = getattr(getattr(operator, section), name)
        wanted = harmless.get(section, {}).get(name, limit)
        if wanted > limit:
            harmless[section] = {**harmless[section], name: limit}
            findings.append(
                f"{section}.{name}: {wanted} is above the operator's limit; "
                f"{limit} is used"
            )
    if "refresh" in harmless:
        harmless["refresh"], slowed = _keep_timer(harmless["refresh"], operator)
        findings += slowed
    return harmless, findings


def _keep_timer(
    wanted: Mapping[str, Any], operator: Config
) -> tuple[dict[str, Any], list[str]]:
    """Remove what would keep the next commit from being fetched."""
    kept, findings = dict(wanted), []
    if kept.get("enabled") is False:
        del kept["enabled"]
        findings.append("refresh.enabled: only the operator may switch the timer off")
    slowest = max(SLOWEST_REFRESH_MINUTES, operator.refresh.interval_minutes)
    if kept.get("interval_minutes", slowest) > slowest:
        findings.append(
            f"refresh.interval_minutes: {kept['interval_minutes']} is above the limit "
            f"for content; {slowest} is used"
        )
        kept["interval_minutes"] = slowest
    return kept, findings


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value and name in Config.model_fields:
            yield from (((str(name), str(key)), inner) for key, inner in value.items())
        else:
            yield (str(name),), value


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)
