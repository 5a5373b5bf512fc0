"""YAML from strangers: bounded, without aliases, never an exception of its own kind.

An alias lets a few hundred bytes unfold into gigabytes or hang a merge, and
deep nesting ends the whole process, because the loader in C recurses without a
limit.  No skill needs either, so both are refused before anything is built.
"""

from collections.abc import Iterable
from typing import Any

MAX_YAML_CHARACTERS = 64 * 1024
"""Twenty times the largest frontmatter seen in 74,000 public skills."""

_MAX_DEPTH = 32
_OPENERS = "[{-?:"  # every level of nesting needs one of these
_STARTS = frozenset({"SequenceStartEvent", "MappingStartEvent"})
_ENDS = frozenset({"SequenceEndEvent", "MappingEndEvent"})


class YamlError(ValueError):
    """The text is not YAML that we accept; the message says why and where."""


def parse_values(text: str) -> Any:
    """Return the document with YAML's types: numbers, booleans, null, dates.

    Raises:
        YamlError: For invalid YAML, an alias, or too much of it.
    """
    return _parse(text, "SafeLoader")


def parse_texts(text: str) -> Any:
    """Return the document with every scalar as the text that was written.

    So `no`, `1.10` and `2026-01-31` stay what an author typed as a keyword.

    >>> parse_texts("keywords: [no, 1.10, 2026-01-31]")
    {'keywords': ['no', '1.10', '2026-01-31']}

    Raises:
        YamlError: For invalid YAML, an alias, or too much of it.
    """
    return _parse(text, "BaseLoader")


def _parse(text: str, kind: str) -> Any:
    import yaml  # late: the server answers before it needs YAML

    if len(text) > MAX_YAML_CHARACTERS:
        raise YamlError(f"it is longer than {MAX_YAML_CHARACTERS:,} characters")
    # The loader in C gives the same results up to ten times faster.
    loader = getattr(yaml, f"C{kind}", None) or getattr(yaml, kind)
    try:
        if "*" in text or sum(map(text.count, _OPENERS)) > _MAX_DEPTH:
            _refuse_traps(yaml.parse(text, Loader=loader))
        return yaml.load(text, Loader=loader)  # noqa: S506 - both kinds are safe
    except yaml.MarkedYAMLError as error:
        raise YamlError(_describe(error)) from error
    except YamlError:
        raise
    except (
        yaml.YAMLError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        # A date that does not exist, or a tag that its value does not suit.
        reason = " ".join(str(error).split())
        raise YamlError(reason or type(error).__name__) from error


def _refuse_traps(events: Iterable[Any]) -> None:
    depth = 0
    for event in events:
        kind = type(event).__name__
        if kind == "AliasEvent":
            raise YamlError("it uses an alias (*name); write the value out")
        depth += kind in _STARTS
        depth -= kind in _ENDS
        if depth > _MAX_DEPTH:
            raise YamlError(f"it is nested deeper than {_MAX_DEPTH} levels")


def _describe(error: Any) -> str:
    mark = error.problem_mark
    return f"{error.problem} in line {mark.line + 1}" if mark else str(error)
