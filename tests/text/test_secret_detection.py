"""What looks like a secret is found without looking at every place of a text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.text.secret_detection import (
    _TOKEN_MARKS,
    ASSIGNMENT,
    TOKEN_KINDS,
    SecretKind,
    _find_assignment_starts,
    _match_assignments,
    find_secrets,
)

PIECES = st.sampled_from(
    (
        *("api", "_", "-", "key", "KEY", "Secret", "token", "tokens", "passwd"),
        *("password", "private", "accessauth", ":", "=", "=>", ":=", " ", "\n", '"'),
        *("'", "é", "x9K2q", "mQ7xLw4T", "9fK2mQ7xLw4Tz8Rb", "credentials", "pwd"),
        *("passphrase", "]"),
    )
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_looking_at_names_alone_finds_every_assignment(text: str) -> None:
    small = text.encode("ascii", "replace").lower()

    found = _match_assignments(text, sorted(_find_assignment_starts(small)))

    spans = [each.span("value") for each in found]
    assert spans == [each.span("value") for each in ASSIGNMENT.finditer(text)]


@pytest.mark.parametrize("kind", TOKEN_KINDS, ids=lambda kind: kind.name)
@given(st.data())
def test_every_token_has_a_mark(kind: SecretKind, data: st.DataObject) -> None:
    token = data.draw(st.from_regex(kind.pattern, fullmatch=True))

    assert any(mark in token for mark in _TOKEN_MARKS)


@pytest.mark.parametrize(
    "name",
    [
        *("PASSWORD", "pa\u017fsword", "to\u212aen", "passwd", "passphrase", "pwd"),
        *(
            "client_secret",
            "token",
            "credential",
            "api-key",
            "ACCESS_KEY",
            "privatekey",
        ),
        *("account_key", "auth-key", "signing_key", "encryption_key"),
    ],
)
def test_a_name_is_found_in_any_letters(name: str) -> None:
    found = [each.kind for each in find_secrets(f'{name} = "9fK2mQ7xLw4Tz8Rb"')]

    assert found == ["password or key"]


def test_an_address_with_a_password_is_found_behind_many_others() -> None:
    text = "See https://acme.dev/a:b@c, http://x.org:80 and ssh://ada:9fK2mQ7x@git.acme.dev."

    found = list(find_secrets(text))

    assert [each.kind for each in found] == ["password in an address"]
    assert re.match("9fK2mQ7x", text[found[0].start :])
