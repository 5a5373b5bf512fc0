"""Configuration errors as one-line messages."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import combinations, islice
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from skills_mcp.config.sections import Config
from skills_mcp.config.values import (
    PATTERN_DESCRIPTIONS,
    SECRET_PATTERNS,
    simplify_path,
)
from skills_mcp.text.rendering import abbreviate_value

Step = str | int
"""Mapping key, or list index from 0."""

_YAML_TYPES = {
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a section of `key: value` lines",
    "tuple_type": "a list",
    "too_short": "a list that is not empty",
}
"""Error types of pydantic in terms of YAML."""

_FIXED = "it is {} now and no setting; remove the key"
_SHARED = "{} is for every repository; remove the key, and set that one"
REMOVED_KEYS = {
    "analytics.heartbeats": "servers that send events send heartbeats, too; remove the key",
    "analytics.max_spool_bytes": _FIXED.format("10 MiB"),
    "embedding.batch_size": _FIXED.format(32),
    "embedding.timeout_seconds": _FIXED.format(2),
    "embedding.weight": _FIXED.format(0.3),
    "events.reserve_bytes": "it is limits.max_total_bytes now; remove the key",
    "events.total_bytes_per_day": "it is twice events.sender_bytes_per_day now; remove the key",
    "http.auth.clock_skew_seconds": _FIXED.format(60),
    "http.max_concurrent_requests": _FIXED.format(64),
    "http.max_streams": _FIXED.format("4,096"),
    "http.max_waiting_requests": _FIXED.format("1,024"),
    "http.refreshes_per_minute": _FIXED.format(6),
    "http.request_timeout_seconds": _FIXED.format(30),
    "limits.max_characters": _FIXED.format("250,000,000"),
    "limits.max_download_bytes": "it is twice limits.max_total_bytes now; remove the key",
    "matching.max_candidates": _FIXED.format(16),
    "scripts.max_processes": _FIXED.format(64),
    "sources[].allow_non_fast_forward": _SHARED.format("sync.allow_non_fast_forward"),
    "sources[].revoked_signers": _SHARED.format("sync.revoked_signers"),
    "sync.watch": "folders are always watched; remove the key",
    "web.idle_minutes": "it is a sixth of web.session_hours now; remove the key",
    "web.trusted_header.groups_claim": "it is `groups` now and no setting; remove the key, and "
    "write `groups` in access",
}
"""Keys of earlier versions, and what replaces them."""

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}
_INDEX = re.compile(r"\[[0-9]+\]")
_USERINFO = re.compile(r"//[^/\s]*@")
_KEY_MARKER = "[key]"  # pydantic marks with it that a key is wrong, not its value


def name_key(path: Sequence[Step]) -> str:
    """Format a key path as in the documentation.

    >>> name_key(("sources", 1, "repo"))
    'sources[1].repo'
    """
    named = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(named).removeprefix(".")


def find_error_path(detail: ErrorDetails) -> tuple[Step, ...]:
    """Path of the invalid value or key."""
    path = detail["loc"]
    return path[:-1] if path[-1] == _KEY_MARKER else path


def describe_validation_error(detail: ErrorDetails) -> str:
    """Describe an invalid key, and the allowed values."""
    *section, name = find_error_path(detail)
    key = name_key([*section, name])
    if detail["type"] == "extra_forbidden":
        if answer := REMOVED_KEYS.get(_INDEX.sub("[]", key)):
            return f"unknown key {key}: {answer}"
        allowed = sorted(_fields_at(section))
        guess = get_close_matches(str(name), allowed, n=1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    got = quote_input(detail, detail["input"])
    return f"{key}: must be {describe_allowed_value(detail)} (got {got})"


def quote_input(detail: ErrorDetails, value: object) -> str:
    """Quote the value of an invalid key, unless API keys are pasted there."""
    may_quote = detail.get("ctx", {}).get("pattern") not in SECRET_PATTERNS
    return quote_value(value) if may_quote else "what may be a secret"


def describe_allowed_value(detail: ErrorDetails) -> str:
    """Describe the allowed values."""
    pattern = detail.get("ctx", {}).get("pattern")
    if pattern in PATTERN_DESCRIPTIONS:
        return PATTERN_DESCRIPTIONS[pattern]
    message = detail["msg"].removeprefix("Input should be ")
    message = message.replace("String should have", "text with")
    return _number_at(find_error_path(detail)) or _YAML_TYPES.get(detail["type"], message)


def quote_value(value: object) -> str:
    """Quote an invalid value, masking secrets."""
    try:
        has_secret = _USERINFO.search(repr(value)) is not None
    except ValueError:  # a number of more digits than Python prints
        has_secret = False
    if has_secret:
        return "a URL with a secret in it"
    return abbreviate_value(list(value) if isinstance(value, tuple) else value)


def _number_at(path: Sequence[Step]) -> str:
    """Describe the numeric range of a setting; empty for other types."""
    field = _fields_at(path[:-1]).get(str(path[-1]))
    if field is None or field.annotation not in _NUMBERS:
        return ""
    limits = {
        name: getattr(rule, name)
        for rule in field.metadata
        for name in ("ge", "le")
        if hasattr(rule, name)
    }
    return f"{_NUMBERS[field.annotation]} from {limits['ge']} to {limits['le']}"


def _fields_at(path: Sequence[Step]) -> Mapping[str, FieldInfo]:
    """Settings below a path; empty if the path is no section."""
    fields: Mapping[str, FieldInfo] = Config.model_fields
    for step in path:
        if isinstance(step, str):  # the items of a list are all alike
            fields = _fields_of(fields[step]) if step in fields else {}
    return fields


def _fields_of(field: FieldInfo) -> Mapping[str, FieldInfo]:
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind.model_fields
    return {}


Schema = Mapping[str, Any]
"""A JSON Schema of the keywords in `_KEYWORDS`, for the program and for editors."""

_UNSET = ("", None)
_KINDS = ("folder", "repo", "archive")
_HISTORY_KEYS = ("branch", "ref", "verify", "pins", "rollout")
_REPO_KEYS = ("branch", "ref", "allowed_signers", "verify", "pins", "rollout")
_TAG_CHECKS = ("tag", "both")


def _set(*keys: str) -> Schema:
    """Match a mapping that sets all of these keys; the branch `main` is the default."""
    unset = {key: (*_UNSET, "main") if key == "branch" else _UNSET for key in keys}
    given = {key: {"not": {"enum": list(values)}} for key, values in unset.items()}
    return {"type": "object", "required": list(keys), "properties": given}


def _any_set(*keys: str) -> Schema:
    return {"anyOf": [_set(key) for key in keys]}


def _one_of(key: str, values: Sequence[object]) -> Schema:
    return {"type": "object", "required": [key], "properties": {key: {"enum": list(values)}}}


def _all(*schemas: Schema) -> Schema:
    return {"allOf": list(schemas)}


def _inherits(key: str) -> Schema:
    """Match a source without the key, or with null: the one in `sync` holds."""
    return {"not": {"required": [key], "properties": {key: {"not": {"enum": [None]}}}}}


def _in_sync(schema: Schema) -> Schema:
    """Match settings by their section `sync`."""
    return {"type": "object", "required": ["sync"], "properties": {"sync": schema}}


@dataclass(frozen=True, slots=True)
class SourceRule:
    """A combination of keys that no source may have."""

    refused: Schema
    describe: Callable[[Mapping[str, Any], Any], str]
    """Describe it, from the source and `sync`."""
    among: Schema = field(default_factory=dict)
    """The rule holds only in settings that match."""


def _named(source: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    return [key for key in keys if fits(_set(key), source)]


def _describe_missing_tag(source: Mapping[str, Any], sync: Any) -> str:
    return (
        "follows a branch, which has no tag to verify "
        f"(verify: {source.get('verify') or sync['verify']}): set ref to a tag, or "
        "`verify: commit`"
    )


_KIND_RULES = (
    SourceRule(
        {"anyOf": [_set(*pair) for pair in combinations(_KINDS, 2)]},
        lambda source, _: (
            f"has a {' and a '.join(_named(source, _KINDS))}: keep one, and add the other as a "
            "source"
        ),
    ),
    SourceRule(
        {"not": _any_set(*_KINDS)},
        lambda *_: "needs a folder, the URL of a repo, or an archive with its sha256",
    ),
    SourceRule(
        _all(_any_set("archive", "sha256"), {"not": _set("archive", "sha256")}),
        lambda *_: "needs archive and sha256 together: the file, and what it has to be",
    ),
)
_VERSION_RULES = (
    SourceRule(
        _set("branch", "ref"),
        lambda *_: "has a branch and a ref: keep the branch to follow, or the ref to pin",
    ),
    SourceRule(
        _all(_set("folder"), {"not": _any_set("repo", "archive")}, _any_set(*_REPO_KEYS)),
        lambda source, _: (
            "has a folder, which has no versions: remove "
            f"{', '.join(_named(source, _REPO_KEYS))}, or set a repo instead of the folder"
        ),
    ),
    SourceRule(
        _all(_set("archive"), {"not": _any_set("folder", "repo")}, _any_set(*_HISTORY_KEYS)),
        lambda source, _: (
            "has an archive, which has no history: remove "
            f"{', '.join(_named(source, _HISTORY_KEYS))}"
        ),
    ),
)
_SIGNED = _in_sync(_set("allowed_signers"))
_SIGNATURE_RULES = (
    *(
        SourceRule(
            _all(_set("repo", "verify"), unsigned),
            lambda *_: (
                "has verify, but no signer is allowed: name the file with the keys that may "
                "sign in allowed_signers"
            ),
            among,
        )
        for unsigned, among in (
            (_one_of("allowed_signers", [""]), {}),
            (_inherits("allowed_signers"), {"not": _SIGNED}),
        )
    ),
    *(
        SourceRule(
            _all(_set("repo"), signed, tagged, {"not": _set("ref")}),
            _describe_missing_tag,
            _all(signed_by, tagged_by),
        )
        for signed, signed_by in (
            (_set("allowed_signers"), {}),
            (_inherits("allowed_signers"), _SIGNED),
        )
        for tagged, tagged_by in (
            (_one_of("verify", _TAG_CHECKS), {}),
            (_inherits("verify"), _in_sync(_one_of("verify", _TAG_CHECKS))),
        )
    ),
)
SOURCE_RULES = (_KIND_RULES, _VERSION_RULES, _SIGNATURE_RULES)
"""Of each group, a source breaks one rule at most: the first."""

_SIGNED_SOURCE = {
    "required": ["sources"],
    "properties": {"sources": {"type": "array", "contains": _set("allowed_signers")}},
}
_UNSIGNED = {"not": {"anyOf": [_SIGNED, _SIGNED_SOURCE]}}
_REMEDY = "name the file with the keys that may sign in sync.allowed_signers"
SYNC_RULES = (
    (
        "verify",
        _all(_UNSIGNED, _in_sync(_one_of("verify", _TAG_CHECKS))),
        f"sync.verify requires signatures, but no signer is allowed: {_REMEDY}",
    ),
    (
        "revoked_signers",
        _all(_UNSIGNED, _in_sync(_set("revoked_signers"))),
        f"sync.revoked_signers revokes keys, but no signer is allowed: {_REMEDY}",
    ),
)
"""Keys of `sync`, the settings in which they are refused, and why."""


Finding = tuple[Sequence[Step], str]
"""Path of a setting, and what is wrong with it."""


def source_findings(settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield errors of the operator's sources, except those of single keys.

    Other types than a list of mappings are reported by the key checks.
    """
    mounted: dict[str, list[int]] = {}
    sources = settings["sources"]
    for number, source in enumerate(sources if isinstance(sources, tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        path = ("sources", number)
        for group in SOURCE_RULES:
            broken = (
                rule for rule in group if fits(rule.among, settings) and fits(rule.refused, source)
            )
            for rule in islice(broken, 1):
                yield path, f"{name_key(path)} {rule.describe(source, settings['sync'])}"
        mounted.setdefault(simplify_path(str(source.get("mount", ""))), []).append(number)
    for mount, numbers in mounted.items():
        if len(numbers) > 1:
            names = [name_key(("sources", number)) for number in numbers]
            yield ("sources", numbers[-1]), _describe_duplicate_mount(names, mount)


def sync_findings(settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the keys of `sync` that need allowed signers, if there are none."""
    return ((("sync", key), text) for key, refused, text in SYNC_RULES if fits(refused, settings))


def fits(schema: Schema, value: Any) -> bool:
    """Evaluate a schema of the rules."""
    return all(_KEYWORDS[keyword](operand, value) for keyword, operand in schema.items())


_TYPES = {"object": Mapping, "array": tuple}
_KEYWORDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda name, value: isinstance(value, _TYPES[name]),
    "enum": lambda allowed, value: value in allowed,
    "required": lambda keys, value: all(key in value for key in keys),
    "properties": lambda schemas, value: all(
        fits(schema, value[key]) for key, schema in schemas.items() if key in value
    ),
    "contains": lambda schema, value: any(fits(schema, item) for item in value),
    "not": lambda schema, value: not fits(schema, value),
    "anyOf": lambda schemas, value: any(fits(schema, value) for schema in schemas),
    "allOf": lambda schemas, value: all(fits(schema, value) for schema in schemas),
}


def _describe_duplicate_mount(names: list[str], mount: str) -> str:
    sources_text = f"{', '.join(names[:-1])} and {names[-1]}"
    if not mount:
        return (
            f"{sources_text} are at the top of the tree: give all but one of them a mount, "
            "such as `mount: teams/web`"
        )
    return f"{sources_text} have the mount {quote_value(mount)}: give each a mount of its own"
