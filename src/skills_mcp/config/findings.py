"""What is wrong with settings, in one line each for a person who writes YAML."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from skills_mcp.config.sections import Config
from skills_mcp.config.values import IN_WORDS, MAY_BE_SECRET, simplify_path
from skills_mcp.text.rendering import shorten

Step = str | int
"""A key of a mapping, or the number of an item in a list, from 0."""

_IN_YAML = {
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "dict_type": "a mapping of `key: value` lines",
    "model_type": "a section of `key: value` lines",
    "tuple_type": "a list",
    "too_short": "a list that is not empty",
}
"""What pydantic expects, in the terms of YAML."""

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}
_USERINFO = re.compile(r"//[^/\s]*@")
_OF_A_KEY = "[key]"  # pydantic marks with it that a key is wrong, not its value


def name_key(path: Sequence[Step]) -> str:
    """Return the path of a value as it is written in documentation.

    >>> name_key(("sources", 1, "repo"))
    'sources[1].repo'
    """
    named = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(named).removeprefix(".")


def path_of(detail: ErrorDetails) -> tuple[Step, ...]:
    """Return the path of the wrong value or key."""
    path = detail["loc"]
    return path[:-1] if path[-1] == _OF_A_KEY else path


def describe(detail: ErrorDetails) -> str:
    """Return which key is wrong and what is allowed there."""
    *section, name = path_of(detail)
    key = name_key([*section, name])
    if detail["type"] == "extra_forbidden":
        allowed = sorted(_fields_at(section))
        guess = get_close_matches(str(name), allowed, n=1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    is_shown = detail.get("ctx", {}).get("pattern") not in MAY_BE_SECRET
    got = show(detail["input"]) if is_shown else "what may be a secret"
    return f"{key}: must be {wanted(detail)} (got {got})"


def wanted(detail: ErrorDetails) -> str:
    """Return what is allowed instead of the wrong value."""
    pattern = detail.get("ctx", {}).get("pattern")
    if pattern in IN_WORDS:
        return IN_WORDS[pattern]
    message = detail["msg"].removeprefix("Input should be ")
    return _number_at(path_of(detail)) or _IN_YAML.get(detail["type"], message)


def show(value: object) -> str:
    """Return a wrong value as it was written, but never a secret."""
    try:
        has_secret = _USERINFO.search(repr(value)) is not None
    except ValueError:  # a number of more digits than Python prints
        has_secret = False
    if has_secret:
        return "a URL with a secret in it"
    return shorten(list(value) if isinstance(value, tuple) else value)


def _number_at(path: Sequence[Step]) -> str:
    """Return which numbers a setting allows; empty if it takes no number."""
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
    """Return the settings below a path; empty if the path is no section."""
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

_OF_A_REPO = (
    *("branch", "ref", "allow_non_fast_forward"),
    *("allowed_signers", "revoked_signers", "verify"),
)
_OF_A_HISTORY = ("branch", "ref", "allow_non_fast_forward", "verify")
_KINDS = ("folder", "repo", "archive")
_OF_A_TAG = ("tag", "both")
_UNSET = ("", None)


def source_findings(sources: Any, sync: Any) -> Iterator[str]:
    """Yield what is wrong with the operator's sources, besides single keys.

    A value that is not a list of mappings is reported by the checks of the keys.

    Args:
        sources: The list.
        sync: The section, which a source may override.
    """
    mounted: dict[str, list[str]] = {}
    for number, source in enumerate(sources if isinstance(sources, tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        name = name_key(("sources", number))
        yield from (f"{name} {finding}" for finding in _alone(source))
        if _has(source, "repo"):
            yield from (f"{name} {finding}" for finding in _unsigned(source, sync))
        mount = simplify_path(str(source.get("mount", _TOP)))
        mounted.setdefault(mount, []).append(name)
    for mount, names in mounted.items():
        if len(names) > 1:
            yield _same_place(names, mount)


def sync_findings(sources: Any, sync: Any) -> Iterator[tuple[str, str]]:
    """Yield each key of `sync` that needs allowed signers that are missing."""
    listed = sources if isinstance(sources, tuple) else ()
    sections = [each for each in (sync, *listed) if isinstance(each, Mapping)]
    if any(_has(each, "allowed_signers") for each in sections):
        return
    remedy = "name the file with the keys that may sign in sync.allowed_signers"
    if _shared(sync, "verify") in _OF_A_TAG:
        yield (
            "verify",
            f"sync.verify requires signatures, but no signer is allowed: {remedy}",
        )
    if _shared(sync, "revoked_signers") not in _UNSET:
        yield (
            "revoked_signers",
            f"sync.revoked_signers revokes keys, but no signer is allowed: {remedy}",
        )


def _alone(source: Mapping[str, Any]) -> Iterator[str]:
    kinds = [key for key in _KINDS if _has(source, key)]
    given = [key for key in _OF_A_REPO if _has(source, key)]
    if len(kinds) > 1:
        yield (
            f"has a {' and a '.join(kinds)}: keep one, and add the other as a source"
        )
    elif not kinds:
        yield "needs a folder, the URL of a repo, or an archive with its sha256"
    elif _has(source, "archive") != _has(source, "sha256"):
        yield "needs archive and sha256 together: the file, and what it has to be"
    if "branch" in given and "ref" in given:
        yield "has a branch and a ref: keep the branch to follow, or the ref to pin"
    elif kinds == ["folder"] and given:
        yield (
            f"has a folder, which has no versions: remove {', '.join(given)}, or set a "
            "repo instead of the folder"
        )
    elif kinds == ["archive"] and (unfit := [k for k in given if k in _OF_A_HISTORY]):
        yield f"has an archive, which has no history: remove {', '.join(unfit)}"


def _unsigned(source: Mapping[str, Any], sync: Any) -> Iterator[str]:
    """Yield each required signature that cannot exist."""
    own = [key for key in ("revoked_signers", "verify") if _has(source, key)]
    verify = _decide(source, sync, "verify")
    if _decide(source, sync, "allowed_signers") in _UNSET:
        if own:
            yield (
                f"has {' and '.join(own)}, but no signer is allowed: name the file "
                "with the keys that may sign in allowed_signers"
            )
    elif verify in _OF_A_TAG and not _has(source, "ref"):
        yield (
            f"follows a branch, which has no tag to verify (verify: {verify}): set ref "
            "to a tag, or `verify: commit`"
        )


def _has(source: Mapping[str, Any], key: str) -> bool:
    nothing = (*_UNSET, _BRANCH) if key == "branch" else _UNSET
    return source.get(key) not in nothing


def _decide(source: Mapping[str, Any], sync: Any, key: str) -> Any:
    """Return the value for a source: its own, else that of `sync`."""
    own = source.get(key)
    return _shared(sync, key) if own is None else own


def _shared(sync: Any, key: str) -> Any:
    return sync.get(key) if isinstance(sync, Mapping) else None


def _same_place(names: list[str], mount: str) -> str:
    every = f"{', '.join(names[:-1])} and {names[-1]}"
    if mount == _TOP:
        return (
            f"{every} are at the top of the tree: give all but one of them a mount, "
            "such as `mount: teams/web`"
        )
    return f"{every} have the mount {show(mount)}: give each a mount of its own"
