"""Settings: who may set what, and how a wrong one is named."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skills_mcp.config import (
    OPERATOR_ONLY,
    OPERATOR_ONLY_KEYS,
    REMOTE_SECTIONS,
    VARIABLES,
    Config,
    Layer,
    Refresh,
    Scripts,
    Settings,
    Source,
    Sync,
    environment_layer,
    load_file,
)
from skills_mcp.config.schema import json_schema
from skills_mcp.errors import ConfigError
from tests.support import PROJECT, write

EXAMPLE = PROJECT / "config.example.yaml"
SCHEMA = PROJECT / "config.schema.json"

SECTIONS = (
    "analytics, assets, catalog, commands, discover, embedding, files, limits, "
    "matching, refresh, responses, scripts, search, sources, sync, toolsets, "
    "trust_content_config, visibility"
)
MATCHING_KEYS = "algorithm, ambiguity_threshold, max_results, min_score"
SOURCE_KEYS = (
    "allow_non_fast_forward, allowed_signers, branch, folder, mount, ref, repo, "
    "revoked_signers, subfolder, verify"
)

SYNC_KEYS = (
    "allow_non_fast_forward, allowed_signers, offline, revoked_signers, "
    "timeout_seconds, verify"
)

DEFAULTS_OF_001: dict[str, dict[str, object]] = {
    "matching": {"min_score": 0.2, "max_results": 3, "ambiguity_threshold": 0.1},
    "refresh": {"enabled": True, "interval_minutes": 15},
    "scripts": {
        "enabled": True,
        "timeout_seconds": 60,
        "max_output_bytes": 1048576,
        "allowed_extensions": [".sh", ".ts", ".js", ".py"],
        "runners": {".sh": "bash", ".ts": "npx tsx", ".js": "node", ".py": "python3"},
    },
    "assets": {"max_size_bytes": 1048576, "inline_text_max_bytes": 10240},
    "analytics": {"enabled": False, "endpoint": ""},
}

DEFAULTS_OF_000 = {
    "search": {"limit": 10, "threshold": 0.2},
    "embedding": {
        "provider": "none",
        "model": "",
        "base_url": "",
        "api_key_env": "",
        "dimensions": 0,
        "timeout_seconds": 2.0,
        "batch_size": 32,
        "weight": 0.3,
    },
    "files": {"max_bytes": 65536},
    "commands": {
        "enabled": False,
        "allowed": ["python", "python3", "uv", "node", "cat", "ls", "grep"],
        "timeout_seconds": 60,
        "max_output_bytes": 65536,
    },
    "visibility": {
        "enabled_skills": [],
        "enabled_categories": [],
        "allow": [],
        "deny": [],
    },
}


def operator(**sections: Any) -> Settings:
    return Settings((Layer("operator.yaml", sections),))


def content(**sections: Any) -> Layer:
    return Layer("config.yaml", sections)


# --- defaults, the example and the schema -------------------------------------


@pytest.mark.spec("11.2")
def test_the_defaults_are_those_of_the_specification() -> None:
    defaults = Config().model_dump(mode="json")

    for section, values in DEFAULTS_OF_001.items():
        assert values.items() <= defaults[section].items()


def test_by_default_a_branch_is_followed_wherever_it_goes_and_by_anybody() -> None:
    defaults = Config()

    assert defaults.sync.allow_non_fast_forward
    assert not defaults.sync.allowed_signers
    assert not defaults.sync.offline
    assert set(Source().model_dump(exclude={"branch"}).values()) == {"", None}


def test_the_defaults_of_packages_are_those_of_skillhub() -> None:
    defaults = Config().model_dump(mode="json")

    assert DEFAULTS_OF_000.items() <= defaults.items()
    assert defaults["toolsets"] == ["core"]
    assert defaults["discover"] is False


@pytest.mark.spec("11.2")
def test_the_example_sets_every_key_to_its_default() -> None:
    layer = load_file(EXAMPLE)

    assert layer.values == Config().model_dump(mode="json")
    assert Settings((layer,)).resolve() == Config()


def test_every_key_of_the_example_has_the_comment_that_the_code_gives_it() -> None:
    above = dict(_commented_keys(EXAMPLE.read_text(encoding="utf-8")))

    assert above == dict(_described_keys())


def test_the_example_has_a_source_with_every_key_and_its_comment() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    _, _, shown = text.partition("# One of them, with every key:\n")
    shown, _, _ = shown.partition("\n\n")
    lines = [line.removeprefix("# ") for line in shown.splitlines()]
    comments = [line.partition("# ")[2] for line in lines if "# " in line]

    values = yaml.safe_load("\n".join(lines))
    [source] = operator(**values).resolve().sources

    assert list(values["sources"][0]) == list(Source.model_fields)
    assert comments == [field.description for field in Source.model_fields.values()]
    assert source.mount == "teams/web"


def test_the_example_names_its_schema_first() -> None:
    first = EXAMPLE.read_text(encoding="utf-8").splitlines()[0]

    assert first == "# yaml-language-server: $schema=./config.schema.json"
    assert SCHEMA.is_file()


def test_the_schema_in_the_repository_is_the_one_that_the_code_generates() -> None:
    written = SCHEMA.read_text(encoding="utf-8")

    assert written == json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def test_the_example_satisfies_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())

    jsonschema.validate(load_file(EXAMPLE).values, json_schema())


@pytest.mark.parametrize(
    "values",
    [
        {"matchng": {}},
        {"matching": {"min_scor": 0.2}},
        {"matching": {"min_score": 1.5}},
        {"refresh": {"interval_minutes": 0}},
        {"scripts": {"runners": {".sh": 1}}},
        {"responses": {"format": "xml"}},
        {"toolsets": []},
        {"toolsets": ["core", "pakages"]},
        {"commands": {"allowed": ["rm -rf"]}},
        {"visibility": {"deny": [""]}},
        {"sources": [{}]},
        {"sources": [{"folder": "a", "repo": "b"}]},
        {"sources": [{"repo": "a", "branch": "next", "ref": "v1"}]},
        {"sources": [{"folder": "a", "ref": "v1"}]},
        {"sources": [{"folder": "a", "branch": "next"}]},
        {"sources": [{"folder": "a", "mount": "/b"}]},
        {"sources": [{"folder": "a", "subfolder": "b\\c"}]},
        {"sources": [{"folder": "a", "allow_non_fast_forward": False}]},
        {"sources": [{"folder": "a", "allowed_signers": "b"}]},
        {"sources": [{"folder": "a", "revoked_signers": "b"}]},
        {"sources": [{"folder": "a", "verify": "commit"}]},
        {"sources": [{"repo": "a", "allowed_signers": "b", "verify": "tag"}]},
        {"sources": [{"repo": "a", "allowed_signers": "b", "verify": "both"}]},
        {"sources": [{"repo": "a", "verify": "signed"}]},
        {"sync": {"verify": "signed"}},
        {"sync": {"timeout_seconds": 0}},
        {"limits": {"max_download_bytes": 1 << 41}},
    ],
)
def test_an_editor_with_the_schema_sees_what_the_server_would_refuse(
    values: dict[str, Any],
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, json_schema())
    with pytest.raises(ConfigError):
        operator(**values).resolve()


@pytest.mark.parametrize(
    "source",
    [
        {"folder": "a"},
        {"folder": "a", "repo": "", "branch": "main", "ref": ""},
        {"repo": "a", "folder": ""},
        {"repo": "a", "branch": "next"},
        {"repo": "a", "branch": "main", "ref": "v1"},
        {"repo": "a", "branch": "HEAD", "allow_non_fast_forward": True},
        {"repo": "a", "ref": "v1", "allowed_signers": "b", "verify": "tag"},
        {"repo": "a", "allowed_signers": "b", "verify": "commit"},
        {"folder": "a", "allowed_signers": "", "verify": None},
        {"repo": "a", "mount": "teams/web", "subfolder": "."},
        {"repo": "a", "mount": "./teams/web/", "subfolder": "./skills/"},
    ],
)
def test_an_editor_with_the_schema_takes_a_source_that_the_server_takes(
    source: dict[str, object],
) -> None:
    jsonschema.validate({"sources": [source]}, json_schema())

    [taken] = operator(sources=[source]).resolve().sources

    assert taken.folder or taken.repo


def _commented_keys(text: str) -> Iterator[tuple[str, str]]:
    """Yield each key of the first two levels with the comment right above it."""
    comment, section = "", ""
    for line in text.splitlines():
        if found := re.match(r"( {0,2})(\w+):", line):
            indent, key = found.groups()
            section = section if indent else key
            yield (f"{section}.{key}" if indent else key), comment
        comment = line.strip()[2:] if line.strip().startswith("# ") else ""


def _described_keys() -> Iterator[tuple[str, str]]:
    for name, setting in Config.model_fields.items():
        value = setting.default
        if setting.description:
            yield name, setting.description
            continue
        yield name, type(value).__doc__ or ""
        for key, inner in type(value).model_fields.items():
            yield f"{name}.{key}", inner.description or ""


# --- precedence ---------------------------------------------------------------


@pytest.mark.spec("11.3")
def test_each_place_wins_over_the_one_before_it() -> None:
    everywhere = {"refresh": {"interval_minutes": 20}}
    environment = environment_layer({"REFRESH_INTERVAL_MINUTES": "40"})
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

    config, findings = operator(matching={"max_results": 2}).resolve_with(
        theirs, trusted=True
    )

    assert config.matching.min_score == 0.3
    assert config.matching.max_results == 2
    assert config.matching.ambiguity_threshold == 0.1
    assert findings == ()


@pytest.mark.spec("11.3")
def test_an_analytics_endpoint_in_the_environment_switches_analytics_on() -> None:
    layer = environment_layer({"ANALYTICS_ENDPOINT": "https://example.com/events"})

    analytics = Settings((layer,)).resolve().analytics

    assert analytics.enabled
    assert analytics.endpoint == "https://example.com/events"


@pytest.mark.spec("11.3")
def test_an_interval_in_the_environment_switches_refreshing_on() -> None:
    mine = Layer("operator.yaml", {"refresh": {"enabled": False}})
    layer = environment_layer({"REFRESH_INTERVAL_MINUTES": "5"})

    refresh = Settings((mine, layer)).resolve().refresh

    assert refresh.enabled
    assert refresh.interval_minutes == 5


def test_an_environment_that_is_empty_sets_nothing() -> None:
    empty = {variable.name: "" for variable in VARIABLES}

    layer = environment_layer({**empty, "HOME": "/home/ada"})

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
    layer = environment_layer({name: text})
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

    commands = Settings((environment_layer(everything),)).resolve().commands

    assert commands.allowed == ("python",)
    assert not commands.enabled


def test_every_variable_names_a_key_that_exists() -> None:
    for variable in VARIABLES:
        section, name = variable.key.split(".")
        assert name in type(getattr(Config(), section)).model_fields
        if variable.switches_on:
            assert getattr(Config(), section).enabled in {True, False}


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
            (
                "every name in ALLOWED_COMMANDS must be the bare name of a program, "
                "such as python3"
            ),
        ),
        (
            "EMBEDDING_PROVIDER",
            "cohere",
            (
                "EMBEDDING_PROVIDER must be 'none', 'openai', 'gemini' or "
                "'openai-compatible'"
            ),
        ),
        (
            "ANALYTICS_ENDPOINT",
            "example.com",
            (
                "ANALYTICS_ENDPOINT must be an https:// URL, or an http:// URL on "
                "this machine"
            ),
        ),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(
    name: str, text: str, finding: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        environment_layer({name: text})

    assert str(caught.value) == f"environment: {finding} (got {text!r})"


def test_every_wrong_variable_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        environment_layer(
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
        environment_layer({"REFRESH_INTERVAL_MINUTES": minutes})

    assert repr(minutes) in str(caught.value)


def test_an_interval_of_no_minutes_is_refused_and_named() -> None:
    with pytest.raises(ConfigError, match="environment: REFRESH_INTERVAL_MINUTES "):
        environment_layer({"REFRESH_INTERVAL_MINUTES": "0"})


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
def test_a_wrong_value_is_named_with_the_highest_place_that_sets_it(
    key: str, origin: str
) -> None:
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


# --- content that nobody vouched for ------------------------------------------


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
def test_remote_content_cannot_raise_its_own_privileges(
    section: str, values: object
) -> None:
    config, [finding] = Settings().resolve_with(
        content(**{section: values}), trusted=False
    )

    assert config == Config()
    assert finding.startswith(f"{section} is ignored: only the operator may set it")
    assert "trust_content_config" in finding


OF_THE_OPERATOR = {
    "sources": [{"folder": "/etc"}],
    "sync": {"allowed_signers": "theirs", "allow_non_fast_forward": True},
    "discover": True,
    "limits": {"max_files": 1},
    "toolsets": ["packages"],
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
    "sandbox": "off",
    "network": True,
    "roots": ["/"],
    "roots_writable": True,
    "readable": ["/etc"],
    "environment": ["GITHUB_TOKEN"],
    "max_memory_bytes": 1 << 40,
    "max_file_bytes": 1 << 40,
    "max_processes": 100,
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
    config, findings = Settings().resolve_with(
        content(scripts={key: value}), trusted=trusted
    )

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


@pytest.mark.spec("12.2")
@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV"),
        *("PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5LIB", "RUBYOPT", "IFS"),
        *("ld_preload", "BASH_FUNC_ls", "SHELLOPTS", "PS4"),
    ],
)
def test_a_variable_that_loads_code_cannot_be_let_through(name: str) -> None:
    with pytest.raises(ConfigError, match=r"scripts\.environment.*load code"):
        operator(scripts={"environment": [name]}).resolve()


def test_a_variable_that_carries_data_can_be_let_through() -> None:
    names = ("HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "ENVIRONMENT", "ifs_root")

    config = operator(scripts={"environment": list(names)}).resolve()

    assert config.scripts.environment == names


@pytest.mark.parametrize("key", ["roots", "readable"])
@pytest.mark.parametrize("path", ["src", "./src", "", "..", "~ada/src", "$HOME"])
def test_a_folder_that_means_something_else_in_each_window_is_refused(
    key: str, path: str
) -> None:
    with pytest.raises(ConfigError, match="an absolute path, or one that begins"):
        operator(scripts={key: [path]}).resolve()


def test_the_folder_in_which_the_server_starts_has_a_name_as_a_root_only() -> None:
    config = operator(scripts={"roots": [".", "/srv", "~", "~/src"]}).resolve()

    assert config.scripts.roots == (".", "/srv", "~", "~/src")
    with pytest.raises(ConfigError):
        operator(scripts={"readable": ["."]}).resolve()


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

    config, _ = Settings((mine,)).resolve_with(theirs, trusted=False)

    assert config.refresh.interval_minutes == 120


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
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
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


# --- wrong settings are named -------------------------------------------------


@pytest.mark.spec("11.2")
@pytest.mark.parametrize(
    "values, finding",
    [
        (
            {"matchng": {}},
            f"unknown key matchng; did you mean matching? allowed here: {SECTIONS}",
        ),
        (
            {"zzz": 1},
            f"unknown key zzz; allowed here: {SECTIONS}",
        ),
        (
            {"refresh": {"enable": True}},
            (
                "unknown key refresh.enable; "
                "did you mean enabled? allowed here: enabled, interval_minutes"
            ),
        ),
        (
            {"foo.bar": True},
            f"unknown key foo.bar; allowed here: {SECTIONS}",
        ),
        (
            {1: 2},
            f"unknown key 1; allowed here: {SECTIONS}",
        ),
        (
            {"matching": {"min_score": -0.1}},
            "matching.min_score: must be a number from 0 to 1 (got -0.1)",
        ),
        (
            {"matching": {"min_score": "0.2"}},
            "matching.min_score: must be a number from 0 to 1 (got '0.2')",
        ),
        (
            {"matching": {"min_score": float("nan")}},
            "matching.min_score: must be a number from 0 to 1 (got nan)",
        ),
        (
            {"matching": {"max_results": 2.5}},
            "matching.max_results: must be a whole number from 1 to 100 (got 2.5)",
        ),
        (
            {"matching": {"max_results": None}},
            "matching.max_results: must be a whole number from 1 to 100 (got None)",
        ),
        (
            {"scripts": {"enabled": "yes"}},
            "scripts.enabled: must be true or false (got 'yes')",
        ),
        (
            {"scripts": {"allowed_extensions": ".sh"}},
            "scripts.allowed_extensions: must be a list (got '.sh')",
        ),
        (
            {"scripts": {"allowed_extensions": [".sh", 1]}},
            "scripts.allowed_extensions[1]: must be text (got 1)",
        ),
        (
            {"scripts": {"runners": {".sh": 1}}},
            "scripts.runners..sh: must be text (got 1)",
        ),
        (
            {"scripts": {"runners": "bash"}},
            "scripts.runners: must be a mapping of `key: value` lines (got 'bash')",
        ),
        (
            {"analytics": True},
            "analytics: must be a section of `key: value` lines (got True)",
        ),
        (
            {"responses": {"format": "xml"}},
            "responses.format: must be 'json' or 'markdown' (got 'xml')",
        ),
        (
            {"embedding": {"api_key_env": "sk-proj-1234"}},
            (
                "embedding.api_key_env: must be the name of an environment variable in "
                "capitals, such as OPENAI_API_KEY (got what may be a secret)"
            ),
        ),
        (
            {"embedding": {"base_url": "https://example.com/v1?key=1234"}},
            (
                "embedding.base_url: must be an https:// or http:// URL without a "
                "password and without a query (got what may be a secret)"
            ),
        ),
        (
            {"embedding": {"timeout_seconds": 0}},
            "embedding.timeout_seconds: must be a number from 0.1 to 60 (got 0)",
        ),
        (
            {"scripts": {"runners": {"sh": "bash"}}},
            (
                "scripts.runners.sh: "
                "must be an extension with its dot, such as .sh (got 'sh')"
            ),
        ),
        (
            {"limits": {"max_files": 0}},
            "limits.max_files: must be a whole number from 1 to 10000000 (got 0)",
        ),
        (
            {"toolsets": []},
            "toolsets: must be a list that is not empty (got [])",
        ),
        (
            {"toolsets": ["core", "pakages"]},
            "toolsets[1]: must be 'core' or 'packages' (got 'pakages')",
        ),
        (
            {"discover": None},
            "discover: must be true or false (got None)",
        ),
        (
            {"visibility": {"deny": ["a", ""]}},
            "visibility.deny[1]: must be text that is not empty (got '')",
        ),
        (
            {"sources": {"folder": "a"}},
            "sources: must be a list (got {'folder': 'a'})",
        ),
        (
            {"sources": ["a"]},
            "sources[0]: must be a section of `key: value` lines (got 'a')",
        ),
        (
            {"sources": [{"folder": "a"}, {"repo": 1, "mount": "b"}]},
            "sources[1].repo: must be text (got 1)",
        ),
        (
            {"sources": [{"folder": "a", "rep": "b"}]},
            (
                "unknown key sources[0].rep; "
                f"did you mean repo? allowed here: {SOURCE_KEYS}"
            ),
        ),
        (
            {"sources": [{"folder": "a", 1: "b"}]},
            f"unknown key sources[0].1; allowed here: {SOURCE_KEYS}",
        ),
        (
            {"sources": [{"repo": "a", "branch": ""}]},
            "sources[0].branch: must be text that is not empty (got '')",
        ),
        (
            {"trust_content_config": None},
            "trust_content_config: must be true or false (got None)",
        ),
        (
            {"sync": {"allow_fast_forward": True}},
            (
                "unknown key sync.allow_fast_forward; did you mean "
                f"allow_non_fast_forward? allowed here: {SYNC_KEYS}"
            ),
        ),
        (
            {"sync": {"verify": "commits"}},
            "sync.verify: must be 'commit', 'tag' or 'both' (got 'commits')",
        ),
        (
            {"sync": {"offline": "yes"}},
            "sync.offline: must be true or false (got 'yes')",
        ),
        (
            {"sync": {"allowed_signers": ["ada"]}},
            "sync.allowed_signers: must be text (got ['ada'])",
        ),
        (
            {"sources": [{"repo": "a", "allowed_signers": "k", "verify": "commits"}]},
            "sources[0].verify: must be 'commit', 'tag' or 'both' (got 'commits')",
        ),
        (
            {"sources": [{"repo": "a", "allow_non_fast_forward": 1}]},
            "sources[0].allow_non_fast_forward: must be true or false (got 1)",
        ),
        (
            {"limits": {"max_file_bytes": 1 << 31}},
            (
                "limits.max_file_bytes: must be a whole number from 1 to 1073741824 "
                "(got 2147483648)"
            ),
        ),
        (
            {"limits": {"max_total_bytes": 0}},
            (
                "limits.max_total_bytes: must be a whole number from 1 to "
                "1099511627776 (got 0)"
            ),
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_file_and_what_is_allowed(
    values: dict[Any, Any], finding: str
) -> None:
    settings = Settings((Layer("operator.yaml", values),))

    with pytest.raises(ConfigError) as caught:
        settings.resolve()

    assert str(caught.value) == f"operator.yaml: {finding}"


def test_every_wrong_setting_is_named_at_once() -> None:
    settings = operator(matching={"min_score": 7, "max": 1}, nonsense=1)

    with pytest.raises(ConfigError) as caught:
        settings.resolve()

    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("operator.yaml: ") for line in lines)


@pytest.mark.parametrize(
    "sources, finding",
    [
        ([{}], "sources[0] needs a folder, or the URL of a repo"),
        ([{"mount": "a"}], "sources[0] needs a folder, or the URL of a repo"),
        (
            [{"folder": "", "repo": ""}],
            "sources[0] needs a folder, or the URL of a repo",
        ),
        ([{"folder": "a", "repo": "b"}], "sources[0] has a folder and a repo"),
        (
            [{"repo": "a", "branch": "b", "ref": "c"}],
            "sources[0] has a branch and a ref",
        ),
        (
            [{"folder": "a", "ref": "c"}],
            "sources[0] has a folder, which has no versions: remove ref,",
        ),
        (
            [{"folder": "a", "branch": "c"}],
            "sources[0] has a folder, which has no versions: remove branch,",
        ),
        (
            [{"folder": "a", "allow_non_fast_forward": False, "verify": "tag"}],
            (
                "sources[0] has a folder, which has no versions: remove "
                "allow_non_fast_forward, verify,"
            ),
        ),
        (
            [{"folder": "a", "allowed_signers": "k", "revoked_signers": "r"}],
            (
                "sources[0] has a folder, which has no versions: remove "
                "allowed_signers, revoked_signers,"
            ),
        ),
        (
            [{"repo": "a", "verify": "commit"}],
            "sources[0] has verify, but no signer is allowed: name the file",
        ),
        (
            [{"repo": "a", "revoked_signers": "r", "verify": "tag", "ref": "v1"}],
            "sources[0] has revoked_signers and verify, but no signer is allowed",
        ),
        (
            [{"repo": "a", "allowed_signers": "k", "verify": "tag"}],
            (
                "sources[0] follows a branch, which has no tag to verify "
                "(verify: tag): set ref to a tag, or"
            ),
        ),
        (
            [{"repo": "a", "allowed_signers": "k", "verify": "both", "branch": "b"}],
            (
                "sources[0] follows a branch, which has no tag to verify "
                "(verify: both): set ref to a tag, or"
            ),
        ),
        (
            [{"repo": "a"}, {"repo": "b", "mount": "b"}, {"repo": "c"}],
            "sources[0] and sources[2] are at the top of the tree: give all but one",
        ),
        (
            [{"repo": "a", "mount": "b"}, {"repo": "c", "mount": "./b/"}],
            "sources[0] and sources[1] have the mount 'b': give each",
        ),
    ],
)
def test_keys_of_a_source_that_contradict_each_other_are_named(
    sources: list[dict[str, object]], finding: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        operator(sources=sources).resolve()

    assert str(caught.value).startswith(f"operator.yaml: {finding}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "sync, source, finding",
    [
        (
            {"allowed_signers": "k", "verify": "tag"},
            {},
            "sources[0] follows a branch, which has no tag",
        ),
        (
            {"allowed_signers": "k"},
            {"verify": "both"},
            "sources[0] follows a branch, which has no tag",
        ),
        (
            {"verify": "both"},
            {"allowed_signers": "k"},
            "sources[0] follows a branch, which has no tag",
        ),
        (
            {"allowed_signers": "k"},
            {"allowed_signers": "", "verify": "commit"},
            "sources[0] has verify, but no signer is allowed",
        ),
        (
            {"allowed_signers": "k"},
            {"allowed_signers": "", "revoked_signers": "r"},
            "sources[0] has revoked_signers, but no signer is allowed",
        ),
        (
            {"verify": "tag"},
            {"ref": "v1"},
            "sync.verify requires signatures, but no signer is allowed: name the file",
        ),
        (
            {"revoked_signers": "r"},
            {},
            "sync.revoked_signers revokes keys, but no signer is allowed: name the",
        ),
    ],
)
def test_a_signature_that_nobody_could_give_is_not_demanded(
    sync: dict[str, str], source: dict[str, str], finding: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        operator(sync=sync, sources=[{"repo": "a", **source}]).resolve()

    assert str(caught.value).startswith(f"operator.yaml: {finding}")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "sync, source",
    [
        ({"allowed_signers": "k"}, {}),
        ({"allowed_signers": "k", "revoked_signers": "r"}, {"verify": "commit"}),
        ({"allowed_signers": "k", "verify": "tag"}, {"ref": "v1"}),
        ({"allowed_signers": "k", "verify": "tag"}, {"verify": "commit"}),
        ({"allowed_signers": "k", "verify": "tag"}, {"allowed_signers": ""}),
        ({"verify": "both"}, {"allowed_signers": "k", "ref": "v1"}),
        ({"allow_non_fast_forward": False}, {"allow_non_fast_forward": True}),
    ],
)
def test_what_a_source_demands_itself_wins(
    sync: dict[str, object], source: dict[str, object]
) -> None:
    config = operator(sync=sync, sources=[{"repo": "a", **source}]).resolve()

    [taken] = config.sources
    assert taken.model_dump(include=set(source)) == source


def test_a_demand_of_sync_is_named_with_the_place_that_it_comes_from() -> None:
    below = Layer("below.yaml", {"sync": {"verify": "tag", "revoked_signers": "r"}})
    above = Layer("above.yaml", {"sync": {"revoked_signers": "s"}, "sources": []})

    with pytest.raises(ConfigError) as caught:
        Settings((below, above)).resolve()

    assert [line.partition(",")[0] for line in str(caught.value).splitlines()] == [
        "below.yaml: sync.verify requires signatures",
        "above.yaml: sync.revoked_signers revokes keys",
    ]


@pytest.mark.parametrize("key", ["mount", "subfolder"])
@pytest.mark.parametrize(
    "path", ["/a", "/", "../a", "a/../b", "a//b", "a\\b", "C:/a", "a/.git", "..", "nul"]
)
def test_a_place_outside_of_the_tree_or_the_source_is_refused(
    key: str, path: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        operator(sources=[{"folder": "a", key: path}]).resolve()

    assert str(caught.value) == (
        f"operator.yaml: sources[0].{key}: must be a relative path with forward "
        f"slashes, such as teams/web (got {path!r})"
    )


@pytest.mark.parametrize(
    "key, path, meant",
    [
        ("mount", "", ""),
        ("mount", "teams/web", "teams/web"),
        ("mount", "./teams/web/", "teams/web"),
        ("subfolder", "", ""),
        ("subfolder", "./skills/", "skills"),
        ("subfolder", ".", "."),
        ("subfolder", "./", "."),
    ],
)
def test_a_place_is_understood_however_people_write_it(
    key: str, path: str, meant: str
) -> None:
    [source] = operator(sources=[{"folder": "a", key: path}]).resolve().sources

    assert getattr(source, key) == meant


def test_everything_that_is_wrong_with_sources_is_named_at_once() -> None:
    settings = operator(
        sources=[
            {},
            {"repo": "a", "branch": "b", "ref": "c", "mount": "/"},
            {"folder": "d", "repo": "e", "mnt": "f"},
            "g",
        ],
        nonsense=1,
    )

    with pytest.raises(ConfigError) as caught:
        settings.resolve()

    named = re.findall(
        r"^operator\.yaml: (?:unknown key )?(\S+)", str(caught.value), re.MULTILINE
    )
    assert sorted(named) == [
        "nonsense;",
        "sources[0]",
        "sources[0]",
        "sources[1]",
        "sources[1].mount:",
        "sources[2]",
        "sources[2].mnt;",
        "sources[3]:",
    ]


def test_a_wrong_source_is_named_with_the_place_that_its_list_comes_from() -> None:
    below = Layer("below.yaml", {"sources": [{"folder": "a"}]})
    wrong = Layer("wrong.yaml", {"sources": [{"repo": 1, "mount": "a"}, {}]})
    above = Layer("above.yaml", {"sources": None})

    with pytest.raises(ConfigError) as caught:
        Settings((below, wrong, above)).resolve()

    assert str(caught.value).splitlines() == [
        "wrong.yaml: sources[0].repo: must be text (got 1)",
        "wrong.yaml: sources[1] needs a folder, or the URL of a repo",
    ]


@pytest.mark.parametrize(
    "sections",
    [
        {"sources": ["https://ghp_canary@example.com/a.git"]},
        {"sources": {"repo": "https://ada:ghp_canary@example.com/a.git"}},
        {"analytics": {"endpoint": "ftp://ada:ghp_canary@example.com"}},
    ],
)
def test_a_secret_in_a_wrong_setting_is_not_shown(sections: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        operator(**sections).resolve()

    assert "(got a URL with a secret in it)" in str(caught.value)
    assert "ghp_canary" not in str(caught.value)


def test_a_section_whose_keys_are_all_commented_out_sets_nothing() -> None:
    settings = operator(matching=None, scripts=None, sources=None, toolsets=None)

    assert settings.resolve() == Config()


def test_an_empty_section_does_not_hide_the_one_below_it() -> None:
    below = Layer("below.yaml", {"matching": {"min_score": 0.5}})
    above = Layer("above.yaml", {"matching": None, "refresh": {}})

    assert Settings((below, above)).resolve().matching.min_score == 0.5


def test_settings_cannot_be_changed_behind_the_servers_back() -> None:
    config = Config()

    with pytest.raises(ValidationError):
        config.matching.min_score = 0.9


# --- files --------------------------------------------------------------------


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

    assert load_file(path) == Layer(str(path), values)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"- a\n- b\n", "must hold `section: {key: value}` pairs"),
        (b"just text", "must hold `section: {key: value}` pairs"),
        (b"matching: [", "cannot be read: did not find expected node content"),
        (b"a: &x 1\nb: *x\n", "cannot be read: it uses an alias"),
        (b"a: \xff\n", "cannot be read: 'utf-8' codec"),
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


@pytest.mark.parametrize("name", ["absent.yaml", "folder"])
def test_a_file_that_cannot_be_opened_is_refused_by_name(
    tmp_path: Path, name: str
) -> None:
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


@pytest.mark.spec("11.2")
@pytest.mark.parametrize(
    "section, values, said",
    [
        ("refresh", {"interval_minutes": 10**400}, "a whole number from 1 to 10080"),
        ("matching", {"max_results": -(16**6000)}, "got a very long number"),
        ("analytics", {"endpoint": "example.com"}, "an https:// URL"),
        ("scripts", {"allowed_extensions": ["sh"]}, "with its dot"),
        ("scripts", {"runners": {".sh": "bash 'x"}}, "every quotation mark closed"),
        ("scripts", {"runners": {"enabled": 1}}, "runners.enabled: must be text"),
        ("scripts", {"runners": {"timeout_seconds": 1}}, "must be text (got 1)"),
    ],
)
def test_what_would_fail_later_is_refused_at_once(
    section: str, values: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Settings((Layer("operator.yaml", {section: values}),)).resolve()
