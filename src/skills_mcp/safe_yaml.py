"""YAML from strangers: bounded, without aliases, never an exception of its own kind.

An alias lets a few hundred bytes unfold into gigabytes or hang a merge, and no
skill needs one, so it is refused before anything is built.
"""

from collections.abc import Iterable
from typing import Any

MAX_YAML_CHARACTERS = 64 * 1024
"""Twenty times the largest frontmatter seen in 74,000 public skills."""


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
        if "*" in text and _has_alias(yaml.scan(text, Loader=loader)):
            raise YamlError("it uses an alias (*name); write the value out")
        return yaml.load(text, Loader=loader)  # noqa: S506 - both kinds are safe
    except yaml.MarkedYAMLError as error:
        raise YamlError(_describe(error)) from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        # A date that does not exist, a key that cannot be hashed, nesting.
        reason = " ".join(str(error).split())
        raise YamlError(reason or type(error).__name__) from error


def _has_alias(tokens: Iterable[Any]) -> bool:
    return any(type(token).__name__ == "AliasToken" for token in tokens)


def _describe(error: Any) -> str:
    mark = error.problem_mark
    return f"{error.problem} in line {mark.line + 1}" if mark else str(error)
