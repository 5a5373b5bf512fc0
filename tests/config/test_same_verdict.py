"""Property: the JSON Schema and the program accept the same settings."""

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import Layer, Settings
from skills_mcp.config.sections import KEYS, Source
from skills_mcp.errors import ConfigError
from tests.docs.settings import json_schema

# Texts that some key takes, and texts that differ from one by a character.  Without
# addresses of IPv6 other than these and paths of Windows: JSON Schema knows no machine.
_TEXTS = (
    *("", "a", "main", "off", "On", "*", "a b", "ü", "a\n", "\x7f", "rfc = request", "a,b", "a, b"),
    *("rfc > x", "= a", "rfc =\u3000a", "core", "https://a.example", "https://a.example/x?y#z"),
    *("https://a:1@b.example", "http://a.example/mcp", "http://localhost:80/x", "http://127.0.0.1"),
    *("http://[::1]:1/", "http://[::1", "http://[x]/", "https://a:65535", "https://a:65536"),
    *("https://a:b", "https://a\x85b", "https://a\ufeffb", "https://a\nb", "ftp://a", "https://"),
    *("OPENAI_API_KEY", "sk-1234", "X-Forwarded-User", "X_User", ".sh", "sh", ".s-h", "python3"),
    *("../sh", "bash 'x", 'bash "x\\"', "a \\", 'a \'b\' "c\\""', "LD_PRELOAD", "ld_x", "PATH"),
    *("node_path", "NODE_PATHS", "1A", "~", "~/a", "~a", "/a", ".", "./", "..", "teams/web"),
    *(
        "./teams/web/",
        "a//b",
        "a/../b",
        "a/.git",
        "a\\b",
        "C:b",
        "nul",
        "NUL.txt",
        "com1 .x",
        "git~1",
    ),
    *("a/.GIT/b", "a.", " a", "a /b", "conf", "a~b", "./~a", "./a", "././a", "/".join("a" * 33)),
    *(
        "/".join("a" * 34),
        "a" * 256,
        "a" * 101,
        "a" * 201,
        "0" * 64,
        "0" * 63,
        "groups",
        "skills:read",
    ),
)
_WRONG: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    2.5,
    -1,
    10**30,
    "1",
    [],
    {},
    [1],
    {"a": 1},
)


def _candidates(kind: Any, metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield values of a type, those at its bounds, and wrong ones."""
    yield from _WRONG
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        yield from _candidates(inner[0], kind.__metadata__)
    elif origin is types.UnionType:
        for each in inner:
            yield from _candidates(each, metadata)
    elif origin is Literal:
        yield from (*inner, inner[0].upper(), "")
    elif origin is tuple:
        yield from ([each] for each in _candidates(inner[0], ()))
    elif origin is dict:
        yield from ({each: "a"} for each in _TEXTS)
        yield from ({".sh": each} for each in _candidates(inner[1], ()))
    elif kind is str:
        yield from _TEXTS
    elif kind in {int, float}:
        yield from _numbers(metadata)


def _numbers(metadata: Iterable[Any]) -> Iterator[float]:
    for each in metadata:
        for bound in (getattr(each, "ge", None), getattr(each, "le", None)):
            if bound is not None:
                yield from (bound, float(bound), bound - 1, bound + 1, bound + 0.5)
        yield from _numbers(getattr(each, "metadata", ()))


def _nest(path: Sequence[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def _merge(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: _merge(below.get(key), value) for key, value in above.items()}


_EDITS = {
    path: [_nest(path, each) for each in _candidates(key.field.annotation, key.field.metadata)]
    + [_nest((*path, "unknown"), 1)]
    for path, key in KEYS.items()
}
_EDIT = st.sampled_from(list(_EDITS.values())).flatmap(st.sampled_from)

_SIGNING: Mapping[str, st.SearchStrategy[Any]] = {
    "allowed_signers": st.sampled_from(["", "k", "k", None]),
    "verify": st.sampled_from(["commit", "tag", "both", None, "signed"]),
}
_SOURCE_KEYS: Mapping[str, st.SearchStrategy[Any]] = {
    **_SIGNING,
    "branch": st.sampled_from(["", "main", "next"]),
    "ref": st.sampled_from(["", "v1"]),
    "sha256": st.sampled_from(["", "0" * 64, "0" * 63]),
}
_KINDS = st.sampled_from(
    [
        {"folder": "a"},
        {"repo": "a"},
        {"repo": "a", "folder": ""},
        {"archive": "https://a.example/b.zip", "sha256": "0" * 64},
        {"archive": "b.zip"},
        {"folder": "a", "repo": "b"},
        {},
    ]
)


@st.composite
def _sources(draw: st.DrawFn) -> list[Any]:
    """Sources whose keys contradict each other; no two have one mount below the top."""
    sources = []
    for number in range(draw(st.integers(0, 3))):
        mounts = [{}, {"mount": ""}, {"mount": f"m{number}"}, {"mount": f"./m{number}/"}]
        mount = draw(st.sampled_from([*mounts, *mounts[2:], *mounts[2:]]))
        keys = draw(st.lists(st.sampled_from(list(_SOURCE_KEYS)), max_size=4))
        chosen = {key: draw(_SOURCE_KEYS[key]) for key in keys}
        sources.append({**draw(_KINDS), **mount, **chosen})
    return sources


_SYNC = st.fixed_dictionaries({}, optional=_SIGNING) | st.none()


class _EcmaValidator:
    """Validator whose `$` is the end of a text, as in the patterns of JSON Schema."""

    def __init__(self) -> None:
        kind = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
            jsonschema.Draft202012Validator, {"pattern": self._check_pattern}
        )
        self._validator = kind(json_schema())

    @staticmethod
    def _check_pattern(_: Any, pattern: str, text: Any, __: Any) -> Iterator[Any]:
        if isinstance(text, str) and not re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), text):
            yield jsonschema.ValidationError(f"{text!r} does not match {pattern!r}")

    def accepts(self, values: object) -> bool:
        return bool(self._validator.is_valid(values))


@pytest.fixture(scope="module")
def schema() -> _EcmaValidator:
    return _EcmaValidator()


def _is_accepted(values: Mapping[str, Any]) -> bool:
    try:
        Settings((Layer("config.yaml", values),)).resolve()
    except ConfigError:
        return False
    return True


def test_the_schema_accepts_the_values_of_each_key_that_the_program_accepts(
    schema: _EcmaValidator,
) -> None:
    alone = [each for edits in _EDITS.values() for each in edits]

    assert [each for each in alone if schema.accepts(each) != _is_accepted(each)] == []


def test_the_schema_accepts_the_values_of_a_source_that_the_program_accepts(
    schema: _EcmaValidator,
) -> None:
    alone = [
        {"sources": [{"repo": "a", "ref": "v1", name: each}]}
        for name, field in Source.model_fields.items()
        for each in _candidates(field.annotation, field.metadata)
    ]

    assert [each for each in alone if schema.accepts(each) != _is_accepted(each)] == []


@given(edits=st.lists(_EDIT, max_size=4), sources=_sources(), sync=_SYNC)
def test_the_schema_accepts_the_settings_that_the_program_accepts(
    schema: _EcmaValidator, edits: list[dict[str, Any]], sources: list[Any], sync: Any
) -> None:
    values = reduce(_merge, edits, {"sources": sources, "sync": sync})

    assert schema.accepts(values) == _is_accepted(values)


@given(sources=_sources(), sync=_SYNC)
def test_the_schema_accepts_the_sources_that_the_program_accepts(
    schema: _EcmaValidator, sources: list[Any], sync: Any
) -> None:
    values = {"sources": sources, "sync": sync}

    assert schema.accepts(values) == _is_accepted(values)


def test_an_archive_with_its_digest_is_a_source(schema: _EcmaValidator) -> None:
    values = {"sources": [{"archive": "https://a.example/b.zip", "sha256": "0" * 64}]}

    assert _is_accepted(values)
    assert schema.accepts(values)
