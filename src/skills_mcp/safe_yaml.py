"""YAML from strangers: bounded, without aliases, never an exception of its own kind.

An alias lets a few hundred bytes unfold into gigabytes or hang a merge, and no
skill needs one, so it is refused before anything is built.
"""

from typing import Any

import yaml

try:
    from yaml import CBaseLoader as _TextLoader
    from yaml import CSafeLoader as _ValueLoader
except ImportError:  # PyYAML built without libyaml: the same results, more slowly
    from yaml import BaseLoader as _TextLoader  # type: ignore[assignment]
    from yaml import SafeLoader as _ValueLoader  # type: ignore[assignment]

MAX_YAML_CHARACTERS = 64 * 1024
"""Twenty times the largest frontmatter seen in 74,000 public skills."""


class YamlError(ValueError):
    """The text is not YAML that we accept; the message says why and where."""


def parse_values(text: str) -> Any:
    """Return the document with YAML's types: numbers, booleans, null, dates.

    Raises:
        YamlError: For invalid YAML, an alias, or too much of it.
    """
    return _parse(text, _ValueLoader)


def parse_texts(text: str) -> Any:
    """Return the document with every scalar as the text that was written.

    So `no`, `1.10` and `2026-01-31` stay what an author typed as a keyword.

    >>> parse_texts("keywords: [no, 1.10, 2026-01-31]")
    {'keywords': ['no', '1.10', '2026-01-31']}

    Raises:
        YamlError: For invalid YAML, an alias, or too much of it.
    """
    return _parse(text, _TextLoader)


def _parse(text: str, loader: Any) -> Any:
    if len(text) > MAX_YAML_CHARACTERS:
        raise YamlError(f"it is longer than {MAX_YAML_CHARACTERS:,} characters")
    try:
        if "*" in text and _has_alias(text, loader):
            raise YamlError("it uses an alias (*name); write the value out")
        return yaml.load(text, Loader=loader)  # noqa: S506 - both loaders are safe ones
    except yaml.YAMLError as error:
        raise YamlError(_describe(error)) from error
    except (ValueError, TypeError, RecursionError) as error:
        # A date that does not exist, a key that cannot be hashed, nesting.
        raise YamlError(str(error) or type(error).__name__) from error


def _has_alias(text: str, loader: Any) -> bool:
    return any(
        isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=loader)
    )


def _describe(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"{error.problem} in line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())
