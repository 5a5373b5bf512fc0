"""Which place wins, and how files are read."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import (
    Config,
    Layer,
    Settings,
    load_file,
    parse_environment,
)
from skills_mcp.errors import ConfigError
from tests.config.places import content, operator
from tests.support import write


@pytest.mark.spec("11.3")
def test_each_place_wins_over_the_one_before_it() -> None:
    everywhere = {"refresh": {"interval_minutes": 20}}
    environment = parse_environment({"REFRESH_INTERVAL_MINUTES": "40"})
    theirs = Layer("config.yaml", everywhere)
    mine = Layer("operator.yaml", {"refresh": {"interval_minutes": 30}})

    minutes = [
        Settings(layers).resolve_with(layer, trusted=True)[0].refresh.interval_minutes
        for layers, layer in [
            ((), Layer("config.yaml", {})),
            ((), theirs),
            ((mine,), theirs),
            ((mine, environment), theirs),
            ((mine, environment, Layer("--x", everywhere)), theirs),
        ]
    ]

    assert minutes == [15, 20, 30, 40, 20]


@pytest.mark.spec("11.3")
def test_a_place_only_replaces_the_keys_that_it_sets() -> None:
    theirs = content(matching={"min_score": 0.3, "max_results": 5})

    config, findings = operator(matching={"max_results": 2}).resolve_with(theirs, trusted=True)

    assert config.matching.min_score == 0.3
    assert config.matching.max_results == 2
    assert config.matching.ambiguity_threshold == 0.1
    assert findings == ()


@pytest.mark.parametrize(
    "key, origin",
    [
        ("matching.min_score", "below.yaml"),
        ("matching.max_results", "above.yaml"),
        ("scripts.runners..sh", "below.yaml"),
        ("scripts.runners..rb", "above.yaml"),
        ("sources[0].folder", "above.yaml"),
        ("toolsets", "below.yaml"),
        ("search", "above.yaml"),
    ],
)
def test_a_wrong_value_is_named_with_the_highest_place_that_sets_it(key: str, origin: str) -> None:
    below = {
        "matching": {"min_score": -1, "max_results": 2},
        "scripts": {"runners": {".sh": 1}},
        "sources": [{"folder": 1}, {"repo": 2, "mount": "b"}],
        "toolsets": "packages",
    }
    above = {
        "matching": {"max_results": -2},
        "scripts": {"runners": {".rb": 2}},
        "sources": [{"folder": 3}],
        "toolsets": None,
        "search": 4,
    }
    layers = (Layer("below.yaml", below), Layer("above.yaml", above))

    with pytest.raises(ConfigError) as caught:
        Settings(layers).resolve()

    [line] = [each for each in str(caught.value).splitlines() if f" {key}:" in each]
    assert line.startswith(f"{origin}: ")


def test_a_section_whose_keys_are_all_commented_out_sets_nothing() -> None:
    settings = operator(matching=None, scripts=None, sources=None, toolsets=None)

    assert settings.resolve() == Config()


def test_an_empty_section_does_not_hide_the_one_below_it() -> None:
    below = Layer("below.yaml", {"matching": {"min_score": 0.5}})
    above = Layer("above.yaml", {"matching": None, "refresh": {}})

    assert Settings((below, above)).resolve().matching.min_score == 0.5


@pytest.mark.spec("11.3")
@pytest.mark.parametrize(
    "text, values",
    [
        ("", {}),
        ("# only a comment\n", {}),
        ("matching:\n  min_score: 0.3\n", {"matching": {"min_score": 0.3}}),
        ("\ufeffmatching: {max_results: 1}\n", {"matching": {"max_results": 1}}),
        ("refresh:\r\n  enabled: false\r\n", {"refresh": {"enabled": False}}),
    ],
)
def test_a_file_becomes_a_layer_that_is_named_after_it(
    tmp_path: Path, text: str, values: Mapping[str, Any]
) -> None:
    path = write(tmp_path / "config.yaml", text)

    assert load_file(path)[:2] == (str(path), values)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"- a\n- b\n", "must hold `section: {key: value}` pairs"),
        (b"just text", "must hold `section: {key: value}` pairs"),
        (b"matching: [", "cannot be read: did not find expected node content"),
        (b"a: &x 1\nb: *x\n", "cannot be read: it uses an alias"),
        ("a: 1\n".encode("utf-16"), "is not in UTF-8; save it in this encoding"),
        (b"a: !!bool perhaps", "cannot be read: "),
        (b"#" * 70_000, "cannot be read: it is longer than 65,536 characters"),
    ],
)
def test_a_file_that_holds_no_settings_is_refused_by_name(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = write(tmp_path / "config.yaml", data)

    with pytest.raises(ConfigError) as caught:
        load_file(path)

    assert str(caught.value).startswith(f"{path}: {reason}")


@pytest.mark.parametrize(
    "text",
    [
        "sync:\n  allowed_signers: /keys\nsync:\n  timeout_seconds: 5\n",
        "refresh: {enabled: false}\nsync: {offline: true, sync: 1, sync: 2}\n",
    ],
    ids=["a section", "a key"],
)
def test_a_key_that_occurs_twice_is_refused_as_one_of_them_would_not_count(
    tmp_path: Path, text: str
) -> None:
    path = write(tmp_path / "config.yaml", text)

    with pytest.raises(ConfigError, match=r"config\.yaml: sync occurs twice"):
        load_file(path)


def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    lines = (
        *("# of the operator", "refresh:", "  enabled: maybe", "sync: {verify: tag}", "sources:"),
        *("  - folder: /a", "    branch: next", "    everywhere: 1", "  - folder: /b"),
    )
    file = load_file(write(tmp_path / "config.yaml", "\n".join(lines)))
    layers = (file, Layer("environment", {"matching": {"min_score": "x"}}))

    with pytest.raises(ConfigError) as caught:
        Settings(layers).resolve()

    found = re.findall(r"^(?:.*config\.yaml:)?(\w+): (\S+)", str(caught.value), re.MULTILINE)
    assert {*found} == {
        ("3", "refresh.enabled:"),
        ("environment", "matching.min_score:"),
        ("8", "sources[0].everywhere:"),
        ("6", "sources[0]"),
        ("9", "sources[0]"),
        ("4", "sync.verify"),
    }


@pytest.mark.parametrize("name", ["absent.yaml", "folder"])
def test_a_file_that_cannot_be_opened_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(ConfigError) as caught:
        load_file(tmp_path / name)

    assert str(caught.value).startswith(f"{tmp_path / name}: cannot be read: ")


def test_a_huge_file_is_refused_without_reading_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with path.open("wb") as handle:
        handle.truncate(1 << 33)

    with pytest.raises(ConfigError, match="longer than"):
        load_file(path)


@pytest.mark.spec("11.3")
def test_a_runner_is_added_to_the_others_and_an_empty_one_takes_one_away() -> None:
    mine = {"scripts": {"runners": {".rb": "ruby", ".ts": ""}}}

    runners = Settings((Layer("operator.yaml", mine),)).resolve().scripts.runners

    assert runners == {
        ".sh": "bash",
        ".ts": "",
        ".js": "node",
        ".py": "python3",
        ".rb": "ruby",
    }
