"""The profile of macOS: closed by default, open at the places that are granted.

The text is the same on every system, so it is tested everywhere; that it holds is tried
on macOS, by the other tests of this folder and by the escapes.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox import (
    SANDBOX_EXEC,
    compose_seatbelt_profile,
    derive_seatbelt_prefix,
    probe_tier,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its paths are POSIX")

PLACES = {"SYSTEM_0": "/usr", "READABLE_0": "/skill", "HOME": "/run/home"}


def profile(*, has_network: bool = False, **more: str) -> str:
    return compose_seatbelt_profile({**PLACES, **more}, has_network=has_network)


def rules(text: str) -> list[str]:
    """Return the rules of a profile, without comments, one line each."""
    plain = re.sub(r"^;.*$", "", text, flags=re.MULTILINE)
    ends, depth, found = [], 0, ""
    for character in " ".join(plain.split()):
        depth += {"(": 1, ")": -1}.get(character, 0)
        found += character
        if depth == 0 and found.strip():
            ends.append(found.strip())
            found = ""
    assert depth == 0
    return ends


def allowed(text: str, operation: str) -> list[str]:
    """Return the rules that allow an operation, or a group of which it is one."""
    rights = [re.match(r"\(allow ((?:[a-z*-]+ ?)+)", rule) for rule in rules(text)]
    groups = {operation, operation.rsplit("-", 1)[0] + "*"}
    pairs = zip(rules(text), rights, strict=True)
    return [rule for rule, right in pairs if right and groups & set(right[1].split())]


def test_everything_is_denied_that_no_rule_allows() -> None:
    assert rules(profile())[:2] == ["(version 1)", "(deny default)"]


def test_no_rule_allows_an_operation_without_saying_where() -> None:
    bare = [rule for rule in rules(profile(has_network=True)) if rule.count("(") == 1]

    assert [rule for rule in bare if "allow" in rule] == [
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow file-read-metadata file-test-existence)",
    ]


@pytest.mark.parametrize(
    "character", ['"', "\\", "(", ")", "\n", ";", "'", "=", " ", "é", "\udce9"]
)
def test_no_character_of_a_path_reaches_the_profile(tmp_path: Path, character: str) -> None:
    folder = tmp_path / f'a{character}b") (allow default) ("'
    folder.mkdir()

    told = derive_seatbelt_prefix(Grants(home=tmp_path, readable=(folder,)))

    assert f"-DREADABLE_0={os.path.realpath(folder)}" in told
    assert "(allow default)" not in told[2]
    assert told[2].isascii()
    assert told[-1] == "--"


def test_every_place_of_the_profile_has_a_path_and_the_reverse(tmp_path: Path) -> None:
    grants = Grants(home=tmp_path, readable=(Path("/"),), writable=(Path("/usr"),))

    told = derive_seatbelt_prefix(grants)

    named = set(re.findall(r'\(param "([A-Z_0-9]+)"\)', told[2]))
    given = {word[2:].partition("=")[0] for word in told[3:-1]}
    assert named == given


def test_the_sandbox_is_the_one_of_the_system(tmp_path: Path) -> None:
    assert derive_seatbelt_prefix(Grants(home=tmp_path))[:2] == (
        "/usr/bin/sandbox-exec",
        "-p",
    )


def test_a_link_stands_for_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    told = derive_seatbelt_prefix(Grants(home=tmp_path, readable=(tmp_path / "link",)))

    assert f"-DREADABLE_0={os.path.realpath(tmp_path)}/real" in told


def test_only_the_home_and_what_is_granted_can_be_written() -> None:
    text = profile(WRITABLE_0="/project")

    names = ("null", "zero", "dtracehelper")
    devices = " ".join(f'(literal "/dev/{name}")' for name in names)
    assert allowed(text, "file-write-data") == [
        f"(allow file-read* file-write-data file-ioctl {devices})",
        '(allow file-read-data file-write-data (subpath "/dev/fd"))',
        '(allow file-read* file-write* (subpath (param "WRITABLE_0")))',
        '(allow file-read* file-write* (subpath (param "HOME")))',
    ]
    assert rules(text)[-1] == "(deny file-link)"


@pytest.mark.parametrize("inner, is_closed", [("/project/skill", True), ("/p", False)])
def test_what_is_granted_for_reading_stays_in_a_folder_to_write_into(
    inner: str,
    is_closed: bool,  # noqa: FBT001
) -> None:
    told = rules(profile(READABLE_0=inner, WRITABLE_0="/project"))

    closing = '(deny file-write* (subpath (param "READABLE_0")))'
    opening = '(allow file-read* file-write* (subpath (param "WRITABLE_0")))'
    assert (closing in told) is is_closed
    assert not is_closed or told.index(closing) > told.index(opening)


def test_without_a_network_there_are_sockets_of_the_home_only() -> None:
    text = profile()

    assert allowed(text, "network-outbound") == [
        '(allow network-outbound (remote unix-socket (subpath (param "HOME"))))'
    ]
    assert allowed(text, "network-bind") == [
        '(allow network-bind (local unix-socket (subpath (param "HOME"))))'
    ]
    assert allowed(text, "network-inbound") == []
    assert allowed(text, "system-socket") == []


def test_with_a_network_addresses_of_the_internet_can_be_reached() -> None:
    reached = allowed(profile(has_network=True), "network-outbound")

    assert "(allow network-outbound (remote ip))" in reached
    assert all("unix-socket" not in rule or "HOME" in rule for rule in reached)


@pytest.mark.parametrize("has_network", [True, False])
def test_no_service_is_reached_that_acts_for_a_run_outside(
    has_network: bool,  # noqa: FBT001
) -> None:
    text = profile(has_network=has_network)

    services = re.findall(r'global-name "com\.apple\.([^"]+)"', text)
    dangerous = ("launch", "security", "pasteboard", "appleevent", "coreservices")
    assert services
    assert not [x for x in services if any(d in x.lower() for d in dangerous)]
    assert "(allow mach-lookup)" not in text


def test_other_processes_are_neither_signalled_nor_inspected() -> None:
    text = profile()

    assert allowed(text, "signal") == ["(allow signal (target same-sandbox))"]
    assert "(allow process-info* (target same-sandbox))" in rules(text)
    assert "kern.proc" not in text
    assert 'sysctl-name-prefix "kern' not in text


@pytest.mark.skipif(sys.platform != "darwin", reason="Seatbelt is a part of macOS")
def test_it_works_on_macos() -> None:
    assert SANDBOX_EXEC.exists()
    assert probe_tier(derive_seatbelt_prefix) == ""
