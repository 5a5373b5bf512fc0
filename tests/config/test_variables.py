"""Environment variables that set a key."""

from functools import reduce

import pytest

from skills_mcp.config import (
    VARIABLES,
    Config,
    Layer,
    Settings,
    parse_environment,
)
from skills_mcp.errors import ConfigError


@pytest.mark.spec("11.3")
def test_an_analytics_endpoint_in_the_environment_switches_analytics_on() -> None:
    layer = parse_environment({"ANALYTICS_ENDPOINT": "https://example.com/events"})

    analytics = Settings((layer,)).resolve().analytics

    assert analytics.enabled
    assert analytics.endpoint == "https://example.com/events"


@pytest.mark.spec("11.3")
def test_an_interval_in_the_environment_switches_refreshing_on() -> None:
    mine = Layer("operator.yaml", {"refresh": {"enabled": False}})
    layer = parse_environment({"REFRESH_INTERVAL_MINUTES": "5"})

    refresh = Settings((mine, layer)).resolve().refresh

    assert refresh.enabled
    assert refresh.interval_minutes == 5


def test_an_environment_that_is_empty_sets_nothing() -> None:
    empty = {variable.name: "" for variable in VARIABLES}

    layer = parse_environment({**empty, "HOME": "/home/ada"})

    assert layer.values == {}


@pytest.mark.parametrize(
    "name, text, key, value",
    [
        ("SEARCH_LIMIT", "7", "search.limit", 7),
        ("SEARCH_THRESHOLD", "0.5", "search.threshold", 0.5),
        ("SEARCH_THRESHOLD", "1", "search.threshold", 1.0),
        ("EMBEDDING_PROVIDER", "openai", "embedding.provider", "openai"),
        ("EMBEDDING_MODEL", "bge-m3", "embedding.model", "bge-m3"),
        ("ALLOWED_COMMANDS", "python", "commands.allowed", ("python",)),
        ("ALLOWED_COMMANDS", "uv, node,,ls,", "commands.allowed", ("uv", "node", "ls")),
        ("EXEC_TIMEOUT_SECONDS", "5", "commands.timeout_seconds", 5),
        ("EXEC_MAX_OUTPUT_BYTES", " 9 ", "commands.max_output_bytes", 9),
        ("MAX_FILE_BYTES", "1024", "files.max_bytes", 1024),
        (
            "SKILLHUB_ENABLED_SKILLS",
            "pdf,a/b",
            "visibility.enabled_skills",
            ("pdf", "a/b"),
        ),
        (
            "SKILLHUB_ENABLED_CATEGORIES",
            "Dev, Data Science",
            "visibility.enabled_categories",
            ("Dev", "Data Science"),
        ),
    ],
)
def test_a_variable_of_skillhub_sets_its_key_and_wins_over_the_file(
    name: str, text: str, key: str, value: object
) -> None:
    section, setting = key.split(".")
    layer = parse_environment({name: text})
    file = Layer("operator.yaml", {section: {setting: "wrong, but hidden"}})

    settings = Settings((file, layer))

    assert getattr(getattr(settings.resolve(), section), setting) == value


@pytest.mark.spec("12.4")
def test_no_variable_switches_commands_on() -> None:
    everything = {
        "ALLOWED_COMMANDS": "python",
        "EXEC_TIMEOUT_SECONDS": "5",
        "EXEC_MAX_OUTPUT_BYTES": "5",
    }

    commands = Settings((parse_environment(everything),)).resolve().commands

    assert commands.allowed == ("python",)
    assert not commands.enabled


def test_every_variable_names_a_key_that_exists() -> None:
    for variable in VARIABLES:
        section = reduce(getattr, variable.key.split(".")[:-1], Config())
        fields = type(section).model_fields
        assert variable.key.rpartition(".")[2] in fields
        assert "enabled" in fields or not variable.switches_on


def test_no_variable_lets_callers_in_without_sign_in() -> None:
    keys = {variable.key for variable in VARIABLES}

    assert "http.auth.issuer" in keys
    assert keys.isdisjoint({"http.anonymous", "http.allow_anonymous", "http.trust_proxy_headers"})


def test_a_variable_sets_a_key_of_a_section_within_a_section() -> None:
    layer = parse_environment({"SKILLS_MCP_HTTP_ISSUER": "https://login.example"})

    assert layer.values == {"http": {"auth": {"issuer": "https://login.example"}}}


@pytest.mark.parametrize(
    "name, text, finding",
    [
        ("SEARCH_LIMIT", "ten", "SEARCH_LIMIT must be a whole number from 1 to 100"),
        ("SEARCH_LIMIT", "0", "SEARCH_LIMIT must be a whole number from 1 to 100"),
        ("SEARCH_LIMIT", " ", "SEARCH_LIMIT must be a whole number from 1 to 100"),
        ("SEARCH_THRESHOLD", "2", "SEARCH_THRESHOLD must be a number from 0 to 1"),
        ("SEARCH_THRESHOLD", "nan", "SEARCH_THRESHOLD must be a number from 0 to 1"),
        ("SEARCH_THRESHOLD", "a", "SEARCH_THRESHOLD must be a number from 0 to 1"),
        (
            "SKILLHUB_ENABLED_SKILLS",
            " , ",
            "SKILLHUB_ENABLED_SKILLS must be names separated by commas",
        ),
        (
            "ALLOWED_COMMANDS",
            "../sh",
            ("every name in ALLOWED_COMMANDS must be the bare name of a program, such as python3"),
        ),
        (
            "EMBEDDING_PROVIDER",
            "cohere",
            ("EMBEDDING_PROVIDER must be 'none', 'openai', 'gemini' or 'openai-compatible'"),
        ),
        (
            "ANALYTICS_ENDPOINT",
            "example.com",
            ("ANALYTICS_ENDPOINT must be an https:// URL, or an http:// URL on this machine"),
        ),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(name: str, text: str, finding: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_environment({name: text})

    assert str(caught.value) == f"environment: {finding} (got {text!r})"


def test_every_wrong_variable_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_environment(
            {
                "SEARCH_LIMIT": "9" * 5000,
                "ALLOWED_COMMANDS": "a b,python,c d",
                "MAX_FILE_BYTES": "1",
            }
        )

    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("environment: ") for line in lines)


@pytest.mark.parametrize("minutes", ["soon", "1.5", "-5", "15m", "0x10", " "])
def test_an_interval_that_is_no_whole_number_is_refused(minutes: str) -> None:
    with pytest.raises(ConfigError, match="REFRESH_INTERVAL_MINUTES") as caught:
        parse_environment({"REFRESH_INTERVAL_MINUTES": minutes})

    assert repr(minutes) in str(caught.value)


def test_an_interval_of_no_minutes_is_refused_and_named() -> None:
    with pytest.raises(ConfigError, match="environment: REFRESH_INTERVAL_MINUTES "):
        parse_environment({"REFRESH_INTERVAL_MINUTES": "0"})


@pytest.mark.parametrize(
    "name, text, key, value",
    [
        ("SKILLS_MCP__HTTP__PORT", "0", "http.port", 0),
        ("SKILLS_MCP__HTTP__AUTH__ISSUER", "https://a.example", "http.auth.issuer", None),
        ("SKILLS_MCP__DISCOVER", "true", "discover", True),
        ("SKILLS_MCP__MATCHING__MIN_SCORE", "0.5", "matching.min_score", 0.5),
        ("SKILLS_MCP__VISIBILITY__DENY", "a/*, b", "visibility.deny", ("a/*", "b")),
        ("SKILLS_MCP__VISIBILITY__DENY", '["a, b"]', "visibility.deny", ("a, b",)),
        ("SKILLS_MCP__VISIBILITY__DENY", "[]", "visibility.deny", ()),
        ("SKILLS_MCP__HTTP__ANONYMOUS", "skills:read", "http.anonymous", ("skills:read",)),
        ("SKILLS_MCP__WEB__FORGES", '{"git.a": "gitea"}', "web.forges", {"git.a": "gitea"}),
        ("SKILLS_MCP__SCRIPTS__SANDBOX", "off", "scripts.sandbox", "off"),
    ],
)
def test_any_key_has_a_variable(name: str, text: str, key: str, value: object) -> None:
    config = Settings((parse_environment({name: text}),)).resolve()

    assert reduce(getattr, key.split("."), config) == (text if value is None else value)


def test_sources_in_a_variable_are_json() -> None:
    text = '[{"repo": "https://a.example/b.git"}, {"folder": "/srv", "mount": "mine"}]'

    sources = Settings((parse_environment({"SKILLS_MCP__SOURCES": text}),)).resolve().sources

    assert [source.mount for source in sources] == ["", "mine"]


def test_a_variable_with_a_name_of_its_own_wins() -> None:
    layer = parse_environment({"SEARCH_LIMIT": "7", "SKILLS_MCP__SEARCH__LIMIT": "8"})

    assert layer.values == {"search": {"limit": 7}}


def test_do_not_track_wins_over_the_variable_of_the_key() -> None:
    layer = parse_environment({"SKILLS_MCP__ANALYTICS__ENABLED": "true", "DO_NOT_TRACK": "1"})

    assert not Settings((layer,)).resolve().analytics.enabled


def test_the_variable_of_a_key_wins_over_content() -> None:
    theirs = Layer("config.yaml", {"matching": {"max_results": 9}})
    mine = parse_environment({"SKILLS_MCP__MATCHING__MAX_RESULTS": "2"})

    config, _ = Settings((mine,)).resolve_with(theirs, trusted=False)

    assert config.matching.max_results == 2


@pytest.mark.parametrize(
    "name, text, finding",
    [
        (
            "SKILLS_MCP__HTTP__PROT",
            "1",
            (
                "SKILLS_MCP__HTTP__PROT is the name of no setting. "
                "Did you mean SKILLS_MCP__HTTP__PORT?"
            ),
        ),
        (
            "SKILLS_MCP__X",
            "1",
            "SKILLS_MCP__X is the name of no setting. See config.example.yaml.",
        ),
        (
            "SKILLS_MCP__HTTP__PORT",
            "http",
            "SKILLS_MCP__HTTP__PORT must be a whole number from 0 to 65535 (got 'http')",
        ),
        (
            "SKILLS_MCP__EMBEDDING__API_KEY_ENV",
            "sk-1234",
            (
                "SKILLS_MCP__EMBEDDING__API_KEY_ENV must be the name of an environment variable "
                "in capitals, such as OPENAI_API_KEY (got what may be a secret)"
            ),
        ),
        (
            "SKILLS_MCP__SOURCES",
            '[{"repo": 1}]',
            "SKILLS_MCP__SOURCES: sources[0].repo: must be text (got 1)",
        ),
        (
            "SKILLS_MCP__WEB__FORGES",
            "gitea",
            "SKILLS_MCP__WEB__FORGES must be a mapping of `key: value` lines (got 'gitea')",
        ),
    ],
)
def test_a_wrong_name_or_value_of_a_key_is_named(name: str, text: str, finding: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_environment({name: text})

    assert str(caught.value) == f"environment: {finding}"
