"""Which values a setting takes."""

import re

import pytest

from skills_mcp.config import (
    Layer,
    Settings,
)
from skills_mcp.errors import ConfigError
from tests.config.places import operator


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
def test_a_folder_that_means_something_else_in_each_window_is_refused(key: str, path: str) -> None:
    with pytest.raises(ConfigError, match="an absolute path, or one that begins"):
        operator(scripts={key: [path]}).resolve()


def test_the_folder_in_which_the_server_starts_has_a_name_as_a_root_only() -> None:
    config = operator(scripts={"roots": [".", "/srv", "~", "~/src"]}).resolve()

    assert config.scripts.roots == (".", "/srv", "~", "~/src")
    with pytest.raises(ConfigError):
        operator(scripts={"readable": ["."]}).resolve()


@pytest.mark.parametrize("key", ["mount", "subfolder"])
@pytest.mark.parametrize(
    "path", ["/a", "/", "../a", "a/../b", "a//b", "a\\b", "C:/a", "a/.git", "..", "nul"]
)
def test_a_place_outside_of_the_tree_or_the_source_is_refused(key: str, path: str) -> None:
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
def test_a_place_is_understood_however_people_write_it(key: str, path: str, meant: str) -> None:
    [source] = operator(sources=[{"folder": "a", key: path}]).resolve().sources

    assert getattr(source, key) == meant


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
