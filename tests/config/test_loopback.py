"""Which hosts only this machine reaches."""

import pytest

from skills_mcp.config.values import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]"]
)
def test_loopback_is_known_in_each_spelling(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "0.0.0.0", "::", "10.0.0.5", "skills.acme.com"),  # noqa: S104
        *("127.0.0.1.example", "localhost.example", "127.1", "127.0.0.1:80"),
    ],
)
def test_every_other_host_may_be_of_another_machine(host: str) -> None:
    assert not is_loopback(host)
