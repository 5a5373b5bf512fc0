"""Configuration errors as one-line messages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
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

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}
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
        allowed = sorted(_fields_at(section))
        guess = get_close_matches(str(name), allowed, n=1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    may_quote = detail.get("ctx", {}).get("pattern") not in SECRET_PATTERNS
    got = quote_value(detail["input"]) if may_quote else "what may be a secret"
    return f"{key}: must be {describe_allowed_value(detail)} (got {got})"


def describe_allowed_value(detail: ErrorDetails) -> str:
    """Describe the allowed values."""
    pattern = detail.get("ctx", {}).get("pattern")
    if pattern in PATTERN_DESCRIPTIONS:
        return PATTERN_DESCRIPTIONS[pattern]
    message = detail["msg"].removeprefix("Input should be ")
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


_TOP = ""
_BRANCH = "main"  # it says no more than the default

_REPO_KEYS = (
    *("branch", "ref", "allow_non_fast_forward"),
    *("allowed_signers", "revoked_signers", "verify"),
)
_HISTORY_KEYS = ("branch", "ref", "allow_non_fast_forward", "verify")
_KINDS = ("folder", "repo", "archive")
_TAG_CHECKS = ("tag", "both")
_UNSET = ("", None)


def source_findings(sources: Any, sync: Any) -> Iterator[str]:
    """Yield errors of the operator's sources, except those of single keys.

    Other types than a list of mappings are reported by the key checks.

    Args:
        sources: The list.
        sync: The section with the defaults.
    """
    mounted: dict[str, list[str]] = {}
    for number, source in enumerate(sources if isinstance(sources, tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        name = name_key(("sources", number))
        yield from (f"{name} {finding}" for finding in _check_source(source))
        if _has(source, "repo"):
            yield from (f"{name} {finding}" for finding in _check_signatures(source, sync))
        mount = simplify_path(str(source.get("mount", _TOP)))
        mounted.setdefault(mount, []).append(name)
    for mount, names in mounted.items():
        if len(names) > 1:
            yield _describe_duplicate_mount(names, mount)


def sync_findings(sources: Any, sync: Any) -> Iterator[tuple[str, str]]:
    """Yield the keys of `sync` that need allowed signers, if there are none."""
    listed = sources if isinstance(sources, tuple) else ()
    sections = [section for section in (sync, *listed) if isinstance(section, Mapping)]
    if any(_has(section, "allowed_signers") for section in sections):
        return
    remedy = "name the file with the keys that may sign in sync.allowed_signers"
    if _get_default(sync, "verify") in _TAG_CHECKS:
        yield (
            "verify",
            f"sync.verify requires signatures, but no signer is allowed: {remedy}",
        )
    if _get_default(sync, "revoked_signers") not in _UNSET:
        yield (
            "revoked_signers",
            f"sync.revoked_signers revokes keys, but no signer is allowed: {remedy}",
        )


def _check_source(source: Mapping[str, Any]) -> Iterator[str]:
    kinds = [key for key in _KINDS if _has(source, key)]
    repo_keys = [key for key in _REPO_KEYS if _has(source, key)]
    if len(kinds) > 1:
        yield (f"has a {' and a '.join(kinds)}: keep one, and add the other as a source")
    elif not kinds:
        yield "needs a folder, the URL of a repo, or an archive with its sha256"
    elif _has(source, "archive") != _has(source, "sha256"):
        yield "needs archive and sha256 together: the file, and what it has to be"
    if "branch" in repo_keys and "ref" in repo_keys:
        yield "has a branch and a ref: keep the branch to follow, or the ref to pin"
    elif kinds == ["folder"] and repo_keys:
        yield (
            f"has a folder, which has no versions: remove {', '.join(repo_keys)}, or set a "
            "repo instead of the folder"
        )
    elif kinds == ["archive"] and (unfit := [k for k in repo_keys if k in _HISTORY_KEYS]):
        yield f"has an archive, which has no history: remove {', '.join(unfit)}"


def _check_signatures(source: Mapping[str, Any], sync: Any) -> Iterator[str]:
    """Yield signature requirements that cannot be met."""
    own = [key for key in ("revoked_signers", "verify") if _has(source, key)]
    verify = _resolve_for_source(source, sync, "verify")
    if _resolve_for_source(source, sync, "allowed_signers") in _UNSET:
        if own:
            yield (
                f"has {' and '.join(own)}, but no signer is allowed: name the file "
                "with the keys that may sign in allowed_signers"
            )
    elif verify in _TAG_CHECKS and not _has(source, "ref"):
        yield (
            f"follows a branch, which has no tag to verify (verify: {verify}): set ref "
            "to a tag, or `verify: commit`"
        )


def _has(source: Mapping[str, Any], key: str) -> bool:
    nothing = (*_UNSET, _BRANCH) if key == "branch" else _UNSET
    return source.get(key) not in nothing


def _resolve_for_source(source: Mapping[str, Any], sync: Any, key: str) -> Any:
    """Effective value for a source: its own, else the one in `sync`."""
    own = source.get(key)
    return _get_default(sync, key) if own is None else own


def _get_default(sync: Any, key: str) -> Any:
    return sync.get(key) if isinstance(sync, Mapping) else None


def _describe_duplicate_mount(names: list[str], mount: str) -> str:
    sources_text = f"{', '.join(names[:-1])} and {names[-1]}"
    if mount == _TOP:
        return (
            f"{sources_text} are at the top of the tree: give all but one of them a mount, "
            "such as `mount: teams/web`"
        )
    return f"{sources_text} have the mount {quote_value(mount)}: give each a mount of its own"
