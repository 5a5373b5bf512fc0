import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from skills_mcp.http import provider_metadata
from skills_mcp.http.access_tokens import InvalidTokenError
from skills_mcp.http.provider_metadata import (
    FRESH_SECONDS,
    MAX_STALE_SECONDS,
    PAUSE_SECONDS,
    KeysUnavailableError,
    ProviderUnavailableError,
    SigningKeys,
    derive_discovery_urls,
    parse_keys,
    parse_url,
)
from tests.issuer import (
    Clock,
    Issuer,
    check,
    private_key,
    public_jwk,
    running_issuer,
    validator_of,
)
from tests.support import wait_for


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def away() -> str:
    """The URL of a provider that has gone."""
    with running_issuer() as issuer:
        return issuer.url


def test_keys_are_found_by_discovery_and_asked_for_once(issuer: Issuer) -> None:
    validator = validator_of(issuer)

    for _ in range(3):
        check(validator, issuer.token())

    assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("number", range(4))
def test_every_place_of_the_description_is_tried(number: int) -> None:
    with running_issuer(path="/realms/one") as issuer:
        place = derive_discovery_urls(issuer.url)[number]
        issuer.place = place.removeprefix(issuer._origin)

        assert check(validator_of(issuer), issuer.token())["sub"] == "ada"


def test_the_places_of_an_issuer_with_a_path() -> None:
    urls = derive_discovery_urls("https://id.example.com/realms/one/")

    assert urls == [
        "https://id.example.com/realms/one/.well-known/openid-configuration",
        "https://id.example.com/.well-known/oauth-authorization-server/realms/one",
        "https://id.example.com/.well-known/openid-configuration/realms/one",
        "https://id.example.com/realms/one/.well-known/oauth-authorization-server",
    ]


def test_a_new_key_is_used_with_the_next_token(issuer: Issuer, clock: Clock) -> None:
    validator = validator_of(issuer, now=clock)
    check(validator, issuer.token())
    issuer.publish("second", number=1)
    clock.seconds += PAUSE_SECONDS

    token = issuer.token(kid="second", key=private_key("RS256", 1))

    assert check(validator, token)["sub"] == "ada"
    assert check(validator, issuer.token())["sub"] == "ada"
    assert issuer.asked_for_keys() == 2


def test_a_withdrawn_key_is_refused_once_keys_are_due(issuer: Issuer, clock: Clock) -> None:
    validator, token = validator_of(issuer, now=clock), issuer.token()
    check(validator, token)
    issuer.keys.clear()
    issuer.publish("second", number=1)
    clock.seconds += FRESH_SECONDS - 1
    check(validator, token)
    clock.seconds += 1

    with pytest.raises(InvalidTokenError, match="no key of the token's name"):
        check(validator, token)


def test_a_key_of_another_owner_is_not_taken_for_the_one_that_is_known(
    issuer: Issuer, clock: Clock
) -> None:
    validator, token = validator_of(issuer, now=clock), issuer.token()
    check(validator, token)
    issuer.keys.clear()
    issuer.publish("first", number=1)
    clock.seconds += FRESH_SECONDS

    with pytest.raises(InvalidTokenError, match="signature"):
        check(validator, token)


def test_a_key_that_is_replaced_under_its_name_is_used_with_the_next_token(
    issuer: Issuer, clock: Clock
) -> None:
    validator = validator_of(issuer, now=clock)
    check(validator, issuer.token())
    issuer.keys.clear()
    issuer.publish("first", number=1)
    clock.seconds += PAUSE_SECONDS

    assert check(validator, issuer.token(number=1))["sub"] == "ada"
    with pytest.raises(InvalidTokenError, match="signature"):
        check(validator, issuer.token())


def test_wrong_signatures_cause_one_request_in_a_pause(issuer: Issuer, clock: Clock) -> None:
    validator = validator_of(issuer, now=clock)
    check(validator, issuer.token())
    clock.seconds += PAUSE_SECONDS

    for _ in range(50):
        with pytest.raises(InvalidTokenError, match="signature"):
            check(validator, issuer.token(number=1))
        clock.seconds += 0.1

    assert issuer.asked_for_keys() == 2
    assert check(validator, issuer.token())["sub"] == "ada"


def test_made_up_keys_cause_one_request_in_a_pause(issuer: Issuer, clock: Clock) -> None:
    validator = validator_of(issuer, now=clock)
    check(validator, issuer.token())
    clock.seconds += PAUSE_SECONDS

    for number in range(50):
        with pytest.raises(InvalidTokenError, match="no key of the token's name"):
            check(validator, issuer.token(kid=f"made-up-{number}"))
        clock.seconds += 0.1

    assert issuer.asked_for_keys() == 2


def test_a_provider_that_is_away_at_the_start_is_no_fault_of_the_token(
    away: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    validator = validator_of(away, now=clock)
    with running_issuer() as other:
        token = other.token(iss=away)

    with pytest.raises(KeysUnavailableError, match="cannot be reached"):
        check(validator, token)

    assert "No keys to check tokens with" in caplog.text


def test_a_provider_that_comes_back_is_asked_again(clock: Clock) -> None:
    with running_issuer() as issuer:
        port, token = issuer.server_port, issuer.token()
    validator = validator_of(issuer, now=clock)
    for _ in range(3):
        with pytest.raises(KeysUnavailableError):
            check(validator, token)

    with running_issuer(port):
        with pytest.raises(KeysUnavailableError):
            check(validator, token)
        clock.seconds += PAUSE_SECONDS
        assert check(validator, token)["sub"] == "ada"


def test_known_keys_are_used_while_the_provider_is_away(clock: Clock) -> None:
    with running_issuer() as issuer:
        validator = validator_of(issuer, now=clock)
        check(validator, issuer.token())
    clock.seconds += MAX_STALE_SECONDS - 1

    assert check(validator, issuer.token())["sub"] == "ada"
    with pytest.raises(KeysUnavailableError):
        check(validator, issuer.token(kid="second"))

    clock.seconds += 1
    with pytest.raises(KeysUnavailableError):
        check(validator, issuer.token())


def test_a_provider_that_is_away_is_asked_once_in_a_pause(issuer: Issuer, clock: Clock) -> None:
    issuer.broken["/keys"] = (503, b"")
    validator = validator_of(issuer, now=clock)

    for _ in range(20):
        with pytest.raises(KeysUnavailableError, match="answers 503"):
            check(validator, issuer.token())

    assert issuer.asked_for_keys() == 1


def test_concurrent_first_requests_ask_once(issuer: Issuer) -> None:
    validator, token = validator_of(issuer), issuer.token()
    issuer.released.clear()
    with ThreadPoolExecutor(8) as pool:
        loading = [pool.submit(validator.load_keys, token) for _ in range(8)]
        wait_for(lambda: issuer.requests)
        issuer.released.set()
        for each in loading:
            each.result()

    assert issuer.asked_for_keys() == 1
    assert validator.validate(token)["sub"] == "ada"


def test_a_request_that_hangs_keeps_nobody_whose_key_is_known(issuer: Issuer, clock: Clock) -> None:
    validator, token = validator_of(issuer, now=clock), issuer.token()
    check(validator, token)
    clock.seconds += PAUSE_SECONDS
    issuer.released.clear()
    hanging = threading.Thread(target=validator.load_keys, args=(issuer.token(kid="second"),))
    hanging.start()
    wait_for(lambda: len(issuer.requests) == 3)

    assert not validator.needs_keys(token)
    assert validator.validate(token)["sub"] == "ada"

    issuer.released.set()
    hanging.join()


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"{"),
        (200, b"[]"),
        (200, b"null"),
        (200, b'{"keys": []}'),
        (200, b'{"keys": 7}'),
        (200, b'{"keys": [{"kty": "oct", "k": "eA", "kid": "first"}]}'),
        (200, b"[" * 100_000),
        (200, b" " * 1_100_000),
        (302, b"/elsewhere"),
        (404, b""),
        (500, b""),
    ],
    ids=lambda answer: f"{answer[0]}-{answer[1][:20]!r}",
)
def test_what_are_no_keys_does_not_replace_those_that_are_known(
    issuer: Issuer, clock: Clock, answer: tuple[int, bytes]
) -> None:
    validator = validator_of(issuer, now=clock)
    check(validator, issuer.token())
    issuer.broken["/keys"] = answer
    clock.seconds += FRESH_SECONDS

    assert check(validator, issuer.token())["sub"] == "ada"
    assert issuer.asked_for_keys() == 2


def test_an_issuer_that_describes_another_is_refused(issuer: Issuer, clock: Clock) -> None:
    issuer.metadata["issuer"] = f"{issuer.url}/"

    with pytest.raises(KeysUnavailableError, match=r"is of the issuer .*http\.auth"):
        check(validator_of(issuer, now=clock), issuer.token())


def test_an_issuer_without_a_description_is_named(issuer: Issuer) -> None:
    issuer.place = "/elsewhere"

    with pytest.raises(KeysUnavailableError, match=r"correct http\.auth\.issuer"):
        check(validator_of(issuer), issuer.token())


@pytest.mark.parametrize(
    "issuer_url, keys_url",
    [
        ("https://id.example.com", "https://id.example.com/keys"),
        ("https://id.example.com", "https://keys.example.com/?p=1"),
        ("http://127.0.0.1:1", "http://localhost:1/keys"),
        ("http://127.0.0.1:1", "http://[::1]:1/keys"),
    ],
)
def test_keys_come_by_tls_or_from_this_machine(issuer_url: str, keys_url: str) -> None:
    document = {"issuer": issuer_url, "jwks_uri": keys_url}

    assert parse_url(document, "jwks_uri", issuer_url, "there") == keys_url


@pytest.mark.parametrize(
    "issuer_url, keys_url",
    [
        ("https://id.example.com", "http://id.example.com/keys"),
        ("https://id.example.com", "http://127.0.0.1/keys"),
        ("https://id.example.com", "file:///etc/passwd"),
        ("https://id.example.com", "https:///keys"),
        ("https://id.example.com", "https://["),
        ("https://id.example.com", None),
        ("http://127.0.0.1:1", "http://id.example.com/keys"),
    ],
)
def test_keys_come_from_nowhere_else(issuer_url: str, keys_url: Any) -> None:
    document = {"issuer": issuer_url, "jwks_uri": keys_url}

    with pytest.raises(ProviderUnavailableError, match="names no https://"):
        parse_url(document, "jwks_uri", issuer_url, "there")


def test_keys_that_do_not_sign_are_left_out() -> None:
    fit = public_jwk(private_key("ES256"), "ES256", "fit")
    keys = [
        fit,
        {**fit, "kid": "encrypts", "use": "enc"},
        {name: value for name, value in fit.items() if name != "kid"},
        {**fit, "kid": "unknown", "kty": "new"},
        "no key",
    ]

    assert list(parse_keys({"keys": keys}, "there")) == ["fit"]


def test_a_slow_answer_ends(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_metadata, "TIMEOUT_SECONDS", 0.05)
    issuer.released.clear()

    with pytest.raises(KeysUnavailableError, match="cannot be reached"):
        check(validator_of(issuer), issuer.token())


def test_an_unknown_key_is_due_until_it_was_asked_for(clock: Clock) -> None:
    keys = SigningKeys("https://id.example.com", clock)

    assert keys.is_due("any")
    assert keys.find("any") is None
