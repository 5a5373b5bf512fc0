"""YAML from untrusted files: bounded, without aliases, one exception type.

An alias lets a few hundred bytes expand to gigabytes or hang a merge, and deep nesting
crashes the process, because the C loader recurses without a limit.  No skill needs
either, so both are refused before construction.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

MAX_YAML_CHARACTERS = 64 * 1024
"""Twenty times the largest frontmatter seen in 74,000 public skills."""

_MAX_DEPTH = 32
_MAX_NODES = 10_000  # events, so at most as many keys and values
_OPENERS = "[{-?:"  # each level of nesting needs one of these
_STARTS = frozenset({"SequenceStartEvent", "MappingStartEvent"})
_ENDS = frozenset({"SequenceEndEvent", "MappingEndEvent"})


class YamlError(ValueError):
    pass


class StringDocument(NamedTuple):
    """Document with string scalars only, and the lines of its keys."""

    value: Any
    lines: Mapping[str, int]
    """Zero-based line of each top-level key."""
    repeated: tuple[str, ...]
    """Duplicate keys of any mapping; the last one counts."""


def parse_yaml(text: str) -> Any:
    """Parse with YAML's types: numbers, booleans, null, dates.

    Raises:
        YamlError: For invalid YAML, an alias, or excessive size.
    """
    with _translate_errors(text):
        import yaml

        # The loader in C gives the same results up to ten times faster.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_events(text, loader)
        return yaml.load(text, Loader=loader)  # noqa: S506 - it is the safe one


def parse_yaml_strings(text: str) -> StringDocument:
    """Parse every scalar as a string, as written.

    >>> parse_yaml_strings("keywords: [no, 1.10, 2026-01-31]").value
    {'keywords': ['no', '1.10', '2026-01-31']}

    Raises:
        YamlError: For invalid YAML, an alias, or excessive size.
    """
    with _translate_errors(text):
        kind = _string_loader()
        _check_events(text, kind)
        loader = kind(text)
        try:
            node = loader.get_single_node()
            value = loader.construct_document(node) if node else None
        finally:
            loader.dispose()
        pairs = node.value if isinstance(value, dict) else ()
        lines = {key.value: key.start_mark.line for key, _ in pairs}
        return StringDocument(value, lines, tuple(loader.repeated))


def find_line(text: str, path: Sequence[str | int]) -> int:
    r"""Line of a key or an item, else of the nearest above it; 0 if there is none.

    >>> find_line("a:\n  b: [1]", ("a", "b", "c"))
    2
    """
    import yaml

    line, node = 0, yaml.compose(text, Loader=_string_loader())
    for step in path:
        marked, node = _children(node).get(step, (None, None))
        line = marked.start_mark.line + 1 if marked else line
    return line


def _children(node: Any) -> Mapping[str | int, tuple[Any, Any]]:
    """Node with the mark, and value, of each key or item."""
    match getattr(node, "id", ""):
        case "mapping":
            return {key.value: (key, value) for key, value in node.value}
        case "sequence":
            return {number: (item, item) for number, item in enumerate(node.value)}
        case _:
            return {}


@cache
def _string_loader() -> Any:
    import yaml

    parent: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

    class TextLoader(parent):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.repeated: list[str] = []

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's
            mapping = super().construct_mapping(node, deep=deep)
            if len(mapping) < len(node.value):
                counts = Counter(str(key.value) for key, _ in node.value)
                self.repeated += sorted(n for n, count in counts.items() if count > 1)
            return mapping

    return TextLoader


@contextmanager
def _translate_errors(text: str) -> Iterator[None]:
    import yaml  # late: the server answers before it needs YAML

    if len(text) > MAX_YAML_CHARACTERS:
        raise YamlError(f"it is longer than {MAX_YAML_CHARACTERS:,} characters")
    try:
        yield
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        raise YamlError(_describe_mark(error)) from error
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A date that does not exist, or a tag that its value does not suit.
        reason = " ".join(str(error).split())
        raise YamlError(reason or type(error).__name__) from error


def _check_events(text: str, loader: Any) -> None:
    """Refuse aliases, deep nesting and excessive size before construction."""
    may_nest = sum(map(text.count, _OPENERS)) > _MAX_DEPTH
    if "*" not in text and not may_nest and len(text) < _MAX_NODES:
        return
    import yaml

    depth = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=loader)):
        kind = type(event).__name__
        if kind == "AliasEvent":
            raise YamlError("it uses an alias (*name); write the value out")
        depth += kind in _STARTS
        depth -= kind in _ENDS
        if depth > _MAX_DEPTH:
            raise YamlError(f"it is nested deeper than {_MAX_DEPTH} levels")
        if nodes > _MAX_NODES:
            raise YamlError(f"it has more than {_MAX_NODES:,} values")


def _describe_mark(error: Any) -> str:
    mark = error.problem_mark
    return f"{error.problem} in line {mark.line + 1}" if mark else str(error)
