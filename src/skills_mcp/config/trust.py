"""Permissions of content's settings: never more than the operator allows."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from skills_mcp.config.findings import describe_validation_error
from skills_mcp.config.sections import KEYS, Config
from skills_mcp.config.values import SetBy

REMOTE_SECTIONS = tuple(
    path[0] for path, key in KEYS.items() if len(path) == 1 and key.set_by is SetBy.CONTENT
)
"""Sections an untrusted repository may set."""

LOWER_ONLY = tuple(path for path, key in KEYS.items() if key.set_by is SetBy.LOWERING)
"""Limits an untrusted repository may lower, never raise."""

SLOWEST_REFRESH_MINUTES = 60
"""Longest fetch interval a repository may set for itself.

A bad commit that switched the timer off would never be replaced by a good one.
"""

OPERATOR_ONLY = tuple(
    path[0] for path, key in KEYS.items() if len(path) == 1 and key.set_by is SetBy.OPERATOR
)
"""Keys no content may set: sources, visibility, rights, recipients of texts.

Limits are among these because they apply before any content is read.
"""

OPERATOR_ONLY_KEYS = tuple(
    path
    for path, key in KEYS.items()
    if key.set_by is SetBy.OPERATOR and path[0] not in OPERATOR_ONLY
)
"""Single keys no content may set, in sections open to trusted content.

Those of `scripts` confine a script, so the content of the script may not loosen them.
Those of `analytics` decide how much of people's texts is recorded, and for how long.
"""


def permitted_part(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Remove operator-only keys, for trusted content, too."""
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
    """Split values into valid keys and errors."""
    valid: dict[str, Any] = {}
    findings: list[str] = []
    for path, value in _leaves(values):
        try:
            Config.model_validate(_nested(path, value))
        except ValidationError as error:
            findings += [describe_validation_error(detail) for detail in error.errors()]
            continue
        section, *keys = path
        for key in keys:
            valid.setdefault(section, {})[key] = value
        if not keys:
            valid[section] = value
    return valid, findings


def harmless_part(values: Mapping[str, Any], operator: Config) -> tuple[dict[str, Any], list[str]]:
    """Keep the keys open to an untrusted repository."""
    harmless = {name: values[name] for name in REMOTE_SECTIONS if name in values}
    findings = [
        f"{name} is ignored: only the operator may set it (trust_content_config)"
        for name in values
        if name not in REMOTE_SECTIONS
    ]
    for section, name in LOWER_ONLY:
        limit = getattr(getattr(operator, section), name)
        requested = harmless.get(section, {}).get(name, limit)
        if requested > limit:
            harmless[section] = {**harmless[section], name: limit}
            findings.append(
                f"{section}.{name}: {requested} is above the operator's limit; {limit} is used"
            )
    if "refresh" in harmless:
        harmless["refresh"], slowed = _keep_timer(harmless["refresh"], operator)
        findings += slowed
    return harmless, findings


def _keep_timer(requested: Mapping[str, Any], operator: Config) -> tuple[dict[str, Any], list[str]]:
    """Remove settings that would prevent the fetch of the next commit."""
    permitted, findings = dict(requested), []
    if permitted.get("enabled") is False:
        del permitted["enabled"]
        findings.append("refresh.enabled: only the operator may switch the timer off")
    slowest = max(SLOWEST_REFRESH_MINUTES, operator.refresh.interval_minutes)
    if permitted.get("interval_minutes", slowest) > slowest:
        findings.append(
            f"refresh.interval_minutes: {permitted['interval_minutes']} is above the limit "
            f"for content; {slowest} is used"
        )
        permitted["interval_minutes"] = slowest
    return permitted, findings


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
