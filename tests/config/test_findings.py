"""How wrong settings are named."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skills_mcp
from skills_mcp.config import Layer, Settings, parse_environment
from skills_mcp.config.findings import REMOVED_KEYS
from skills_mcp.config.variables import name_generic_variable
from skills_mcp.errors import ConfigError
from tests.config.places import operator

SECTIONS = (
    "access, analytics, assets, catalog, commands, discover, embedding, events, "
    "files, http, limits, matching, refresh, responses, routing, scripts, search, share, "
    "sources, sync, toolsets, "
    "trust_content_config, upload, validation, visibility, web"
)


SOURCE_KEYS = (
    "allowed_signers, archive, branch, everywhere, folder, mount, pins, plugins, ref, repo, "
    "rollout, sha256, subfolder, verify"
)


NO_SOURCE = "needs a folder, the URL of a repo, or an archive with its sha256"


SYNC_KEYS = (
    "allow_non_fast_forward, allowed_signers, max_removed, offline, powers, revoked_signers, "
    "timeout_seconds, verify"
)


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
            {"routing": {"synonyms": ["rfc"]}},
            (
                "routing.synonyms[0]: must be words that mean the same, such as "
                "`rfc = request for change` (got 'rfc')"
            ),
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
            "responses.format: must be 'auto', 'json' or 'markdown' (got 'xml')",
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
        *(
            (
                {"http": {"base_url": address}},
                f"http.base_url: must be a URL that can be read (got {address!r})",
            )
            for address in ("http://[::1", "http://[x]/", "https://a:99999")
        ),
        (
            {"http": {"auth": {"issuer": "https://[::1"}}},
            "http.auth.issuer: must be a URL that can be read (got 'https://[::1')",
        ),
        (
            {"search": {"threshold": 1.5}},
            "search.threshold: must be a number from 0 to 1 (got 1.5)",
        ),
        (
            {"scripts": {"runners": {"sh": "bash"}}},
            ("scripts.runners.sh: must be an extension with its dot, such as .sh (got 'sh')"),
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
            (f"unknown key sources[0].rep; did you mean repo? allowed here: {SOURCE_KEYS}"),
        ),
        (
            {"sources": [{"folder": "a", 1: "b"}]},
            f"unknown key sources[0].1; allowed here: {SOURCE_KEYS}",
        ),
        (
            {"visibility": {"allow": [""]}},
            "visibility.allow[0]: must be text that is not empty (got '')",
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
            {"analytics": {"group": "a" * 101}},
            f"analytics.group: must be text with at most 100 characters (got '{'a' * 56}...)",
        ),
        (
            {"sources": [{"archive": "/a.zip", "sha256": "abc"}]},
            (
                "sources[0].sha256: must be 64 hexadecimal digits, as `sha256sum` prints them "
                "(got 'abc')"
            ),
        ),
        (
            {"sources": [{"repo": "a", "everywhere": 1}]},
            "sources[0].everywhere: must be true or false (got 1)",
        ),
        (
            {"limits": {"max_file_bytes": 1 << 31}},
            ("limits.max_file_bytes: must be a whole number from 1 to 1073741824 (got 2147483648)"),
        ),
        (
            {"sync": {"max_removed": 1.5}},
            "sync.max_removed: must be a share below 1, or a whole number (got 1.5)",
        ),
        (
            {"limits": {"max_total_bytes": 0}},
            ("limits.max_total_bytes: must be a whole number from 1 to 1099511627776 (got 0)"),
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


@pytest.mark.parametrize("key", [key for key in REMOVED_KEYS if "[" not in key])
def test_a_key_of_an_earlier_version_is_answered_with_what_replaces_it(key: str) -> None:
    *sections, name = key.split(".")
    values: dict[str, Any] = {name: 1}
    for section in reversed(sections):
        values = {section: values}

    with pytest.raises(ConfigError) as caught:
        Settings((Layer("operator.yaml", values),)).resolve()
    with pytest.raises(ConfigError) as named:
        parse_environment({name_generic_variable(key): "1"})

    assert str(caught.value) == f"operator.yaml: unknown key {key}: {REMOVED_KEYS[key]}"
    assert str(named.value).endswith(REMOVED_KEYS[key])


@pytest.mark.parametrize("key", [key for key in REMOVED_KEYS if key.startswith("sources[]")])
def test_a_key_that_sources_had_is_answered_with_what_replaces_it(key: str) -> None:
    name = key.removeprefix("sources[].")
    sources = [{"repo": "a"}, {"repo": "b", "mount": "b", name: None}]

    with pytest.raises(ConfigError) as caught:
        operator(sources=sources).resolve()

    assert str(caught.value) == (
        f"operator.yaml: unknown key sources[1].{name}: {REMOVED_KEYS[key]}"
    )


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
        ([{}], "sources[0] needs a folder, the URL of a repo, or an archive"),
        (
            [{"mount": "a"}],
            "sources[0] needs a folder, the URL of a repo, or an archive",
        ),
        (
            [{"folder": "", "repo": ""}],
            "sources[0] needs a folder, the URL of a repo, or an archive",
        ),
        ([{"archive": "a.zip"}], "sources[0] needs archive and sha256 together"),
        (
            [{"archive": "a.zip", "sha256": "0" * 64, "ref": "v1"}],
            "sources[0] has an archive, which has no history: remove ref",
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
            [{"folder": "a", "allowed_signers": "k", "verify": "tag"}],
            "sources[0] has a folder, which has no versions: remove allowed_signers, verify,",
        ),
        (
            [{"repo": "a", "verify": "commit"}],
            "sources[0] has verify, but no signer is allowed: name the file",
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

    named = re.findall(r"^operator\.yaml: (?:unknown key )?(\S+)", str(caught.value), re.MULTILINE)
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
        f"wrong.yaml: sources[1] {NO_SOURCE}",
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


def texts_of_program() -> Iterator[str]:
    """Yield each text in the code, except for the answers to removed keys themselves."""
    sources = Path(skills_mcp.__file__).parent.rglob("*.py")
    for source in sorted(sources):
        if source.name != "findings.py":
            nodes = ast.walk(ast.parse(source.read_text(encoding="utf-8")))
            yield from (
                node.value
                for node in nodes
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            )


def test_no_text_of_the_program_names_a_removed_key() -> None:
    keys = "|".join(re.escape(key) for key in REMOVED_KEYS)

    named = [text for text in texts_of_program() if re.search(rf"\b(?:{keys})\b", text)]

    assert named == []
