"""What content may set, and what only the operator may."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.config import (
    OPERATOR_ONLY,
    OPERATOR_ONLY_KEYS,
    REMOTE_SECTIONS,
    Config,
    Layer,
    Refresh,
    Scripts,
    Settings,
    Source,
    Sync,
)
from skills_mcp.errors import ConfigError
from tests.config.places import DEFAULTS_OF_001, content, operator

MATCHING_KEYS = "algorithm, ambiguity_threshold, max_results, min_score"


@pytest.mark.spec("12.4")
@pytest.mark.parametrize(
    "section, values",
    [
        ("scripts", {"enabled": True}),
        ("scripts", {"runners": {".sh": "curl"}}),
        ("analytics", {"enabled": True, "endpoint": "https://example.com"}),
        ("responses", {"format": "markdown"}),
        ("visibility", {"deny": ["*"]}),
        ("search", {"limit": 50}),
        ("files", {"max_bytes": 1}),
        ("catalog", {"max_entries": 1}),
    ],
)
def test_remote_content_cannot_raise_its_own_privileges(section: str, values: object) -> None:
    config, [finding] = Settings().resolve_with(content(**{section: values}), trusted=False)

    assert config == Config()
    assert finding.startswith(f"{section} is ignored: only the operator may set it")
    assert "trust_content_config" in finding


OF_THE_OPERATOR = {
    "sources": [{"folder": "/etc"}],
    "sync": {"allowed_signers": "theirs", "allow_non_fast_forward": True},
    "discover": True,
    "share": {"linger_minutes": 600},
    "limits": {"max_files": 1},
    "toolsets": ["packages"],
    "access": [{"allow": ["*"]}],
    "http": {"allow_anonymous": True, "auth": {"issuer": "https://evil.example"}},
    "events": {"database": "postgresql+psycopg://evil.example/x"},
    "web": {"trusted_header": {"user": "X-User", "proxies": ["10.0.0.1"]}},
    "upload": {"mode": "folder"},
    "commands": {"enabled": True, "allowed": ["bash"], "nonsense": 1},
    "embedding": {"provider": "openai", "base_url": "https://evil.example"},
    "trust_content_config": True,
}


@pytest.mark.spec("12.4")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name, values", OF_THE_OPERATOR.items())
def test_no_content_sets_what_is_the_operators_alone(
    name: str,
    values: object,
    trusted: bool,  # noqa: FBT001
) -> None:
    config, findings = operator(trust_content_config=trusted).resolve_with(
        content(**{name: values}), trusted=trusted
    )

    assert config == Config(trust_content_config=trusted)
    assert findings == (f"{name} is ignored: only the operator may set it",)


WHAT_HOLDS_SCRIPTS = {
    "confirm": "if_possible",
    "sandbox": "off",
    "network": True,
    "roots": ["/"],
    "roots_writable": True,
    "readable": ["/etc"],
    "environment": ["GITHUB_TOKEN"],
    "max_memory_bytes": 1 << 40,
    "max_file_bytes": 1 << 40,
}


@pytest.mark.spec("12.2")
@pytest.mark.spec("12.4")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("key, value", WHAT_HOLDS_SCRIPTS.items())
def test_no_content_opens_what_holds_its_scripts(
    key: str,
    value: object,
    trusted: bool,  # noqa: FBT001
) -> None:
    config, findings = Settings().resolve_with(content(scripts={key: value}), trusted=trusted)

    assert config == Config()
    assert findings == (f"scripts.{key} is ignored: only the operator may set it",)


def test_content_of_the_operators_own_sets_the_rest_of_scripts_all_the_same() -> None:
    theirs = content(scripts={"sandbox": "off", "timeout_seconds": 5})

    config, findings = Settings().resolve_with(theirs, trusted=True)

    assert config.scripts.timeout_seconds == 5
    assert config.scripts.sandbox == "best_effort"
    assert len(findings) == 1


def test_every_setting_of_scripts_is_either_of_001_or_the_operators_alone() -> None:
    held = {key for section, key in OPERATOR_ONLY_KEYS if section == "scripts"}

    assert held == WHAT_HOLDS_SCRIPTS.keys()
    assert held | DEFAULTS_OF_001["scripts"].keys() == set(Scripts.model_fields)


def test_who_may_set_a_section_is_never_said_twice() -> None:
    assert set(OPERATOR_ONLY) == OF_THE_OPERATOR.keys()
    assert set(OPERATOR_ONLY) < Config.model_fields.keys()
    assert set(REMOTE_SECTIONS) < Config.model_fields.keys()
    assert set(OPERATOR_ONLY).isdisjoint(REMOTE_SECTIONS)


def test_a_section_of_the_operator_that_content_leaves_empty_is_no_finding() -> None:
    theirs = content(sources=None, commands=None)

    assert Settings().resolve_with(theirs, trusted=True) == (Config(), ())


@pytest.mark.spec("12.4")
def test_remote_content_may_set_matching_and_refreshing() -> None:
    theirs = content(
        matching={
            "algorithm": "ranked",
            "min_score": 0.5,
            "ambiguity_threshold": 0,
        },
        refresh={"enabled": True, "interval_minutes": 60},
    )

    config, findings = Settings().resolve_with(theirs, trusted=False)

    assert config.matching.algorithm == "ranked"
    assert config.matching.min_score == 0.5
    assert config.refresh.interval_minutes == 60
    assert findings == ()


def test_a_remote_commit_cannot_keep_the_next_one_from_arriving() -> None:
    theirs = content(refresh={"enabled": False, "interval_minutes": 10_080})

    config, findings = Settings().resolve_with(theirs, trusted=False)
    trusted, _ = Settings().resolve_with(theirs, trusted=True)

    assert config.refresh == Refresh(enabled=True, interval_minutes=60)
    assert [each.partition(":")[0] for each in findings] == [
        "refresh.enabled",
        "refresh.interval_minutes",
    ]
    assert trusted.refresh == Refresh(enabled=False, interval_minutes=10_080)


def test_an_operator_who_is_slower_than_that_stays_so() -> None:
    mine = Layer("operator.yaml", {"refresh": {"interval_minutes": 120}})
    theirs = content(refresh={"interval_minutes": 10_080})

    config, findings = Settings((mine,)).resolve_with(theirs, trusted=False)

    assert config.refresh.interval_minutes == 120
    assert [each.rpartition("; ")[2] for each in findings] == ["120 is used"]


@pytest.mark.spec("12.3")
@pytest.mark.parametrize("key", ["max_size_bytes", "inline_text_max_bytes"])
def test_remote_content_may_lower_a_limit_but_not_raise_it(key: str) -> None:
    limit = getattr(Config().assets, key)
    lower = content(assets={key: limit - 1})
    higher = content(assets={key: limit + 1})

    lowered, nothing = Settings().resolve_with(lower, trusted=False)
    kept, [finding] = Settings().resolve_with(higher, trusted=False)

    assert getattr(lowered.assets, key) == limit - 1
    assert nothing == ()
    assert getattr(kept.assets, key) == limit
    assert finding.startswith(f"assets.{key}: {limit + 1} is above")


@pytest.mark.spec("12.3")
def test_the_limit_that_remote_content_may_not_pass_is_the_operators() -> None:
    settings = operator(assets={"max_size_bytes": 100})

    config, [finding] = settings.resolve_with(
        content(assets={"max_size_bytes": 200}), trusted=False
    )

    assert config.assets.max_size_bytes == 100
    assert "100 is used" in finding


@pytest.mark.spec("11.3")
def test_content_of_the_operators_own_may_set_everything() -> None:
    theirs = content(
        scripts={"enabled": False, "allowed_extensions": [".rb"]},
        analytics={"enabled": True, "endpoint": "https://example.com"},
        responses={"format": "markdown"},
        assets={"max_size_bytes": 10**9},
        visibility={"deny": ["drafts/*"]},
        search={"limit": 50},
    )

    config, findings = Settings().resolve_with(theirs, trusted=True)

    assert config.scripts.allowed_extensions == (".rb",)
    assert not config.scripts.enabled
    assert config.analytics.endpoint == "https://example.com"
    assert config.responses.format == "markdown"
    assert config.assets.max_size_bytes == 10**9
    assert config.visibility.deny == ("drafts/*",)
    assert config.search.limit == 50
    assert findings == ()


@pytest.mark.spec("11.3")
def test_a_wrong_key_of_the_content_does_not_cost_the_right_ones() -> None:
    theirs = content(matching={"min_score": 7, "max_results": 5, "max_result": 1})

    config, findings = Settings().resolve_with(theirs, trusted=False)

    assert config.matching.max_results == 5
    assert config.matching.min_score == 0.2
    hint = "did you mean max_results? "
    assert sorted(findings) == [
        "matching.min_score: must be a number from 0 to 1 (got 7)",
        f"unknown key matching.max_result; {hint}allowed here: {MATCHING_KEYS}",
    ]


KEYS: st.SearchStrategy[object] = (
    st.sampled_from(
        [
            *Config.model_fields,
            *(key for section in DEFAULTS_OF_001.values() for key in section),
            *Source.model_fields,
            *Sync.model_fields,
            "matching.min_score",
            "foo.bar",
            ".sh",
            "",
        ]
    )
    | st.integers()
    | st.dates()
    | st.none()
    | st.booleans()
    | st.floats()
)


YAML_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


ANY_SECTIONS = st.dictionaries(KEYS, YAML_VALUES, max_size=4)


@given(values=ANY_SECTIONS, trusted=st.booleans())
def test_no_content_stops_the_server(values: dict[Any, Any], trusted: bool) -> None:  # noqa: FBT001
    config, findings = Settings().resolve_with(Layer("x", values), trusted=trusted)

    assert all(findings)
    for name in OPERATOR_ONLY:
        assert getattr(config, name) == getattr(Config(), name)
    for section, key in OPERATOR_ONLY_KEYS:
        kept = getattr(getattr(config, section), key)
        assert kept == getattr(getattr(Config(), section), key)
    if not trusted:
        assert config.scripts == Config().scripts
        assert config.analytics == Config().analytics
        assert config.responses == Config().responses
        assert config.visibility == Config().visibility
        assert config.assets.max_size_bytes <= Config().assets.max_size_bytes


@given(values=ANY_SECTIONS)
def test_whatever_an_operator_writes_is_used_or_refused_by_name(
    values: dict[Any, Any],
) -> None:
    try:
        Settings((Layer("operator.yaml", values),)).resolve()
    except ConfigError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(line.startswith("operator.yaml: ") for line in lines)
