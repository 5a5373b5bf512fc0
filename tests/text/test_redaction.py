"""Secrets are taken out of every text, in whatever form they stand there."""

import base64
import json
import uuid
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.text.redaction import REDACTED, redact, register_secret

SECRET = f"can/ary+{uuid.uuid4().hex}=ü"  # the bird that must not be heard


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "in an address": lambda secret: quote(secret, safe=""),
    "in a path": quote,
    "in lower-case escapes": lambda secret: quote(secret, safe="").lower(),
    "in JSON": json.dumps,
    "as Python shows it": repr,
    "in base64": encode,
    "in base64 for addresses": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "in base64 with GitHub's user": lambda secret: encode(f"x-access-token:{secret}"),
    "in base64 with a user": lambda secret: encode(f"ada:{secret}"),
    "in base64 with a longer user": lambda secret: encode(f"deploy-7:{secret}"),
    "in hexadecimal": lambda secret: secret.encode().hex(),
}


@pytest.mark.spec("9.2")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_taken_out_in_every_form(form: Callable[[str], str]) -> None:
    register_secret(SECRET)
    written = form(SECRET)

    shown = redact(f"before {written} after")

    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert REDACTED in shown
    assert len(shown) < len("before  after") + len(written) / 2


@given(st.text("abcXYZ019-_.+/=", min_size=9, max_size=60), st.text(max_size=9))
def test_no_secret_is_left_beside_whatever_stands_around_it(secret: str, around: str) -> None:
    register_secret(secret)

    for text in (secret, quote(secret, safe="")):
        assert text not in redact(f"{around} {text} {around}")


@pytest.mark.parametrize("secret", ["", "a", "abc"])
def test_a_secret_that_is_in_every_word_is_not_looked_for(secret: str) -> None:
    register_secret(secret)

    assert redact("an abc of abacuses") == "an abc of abacuses"


def test_the_longer_of_two_secrets_is_taken_out_whole() -> None:
    register_secret("hunter22")
    register_secret("hunter22-and-more")

    assert redact("it is hunter22-and-more") == f"it is {REDACTED}"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("https://ada:pw@example.com/x", "https://***@example.com/x"),
        ("http://tok@proxy:3128", "http://***@proxy:3128"),
        ("'https://a:b@c@example.com/'", "'https://***@example.com/'"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("ssh://git@example.com/a", "ssh://git@example.com/a"),
        ("ssh://git:pw@example.com/a", "ssh://git:***@example.com/a"),
        ("git@example.com:a/b", "git@example.com:a/b"),
        ("Authorization: Basic eHg6eXk=", "Authorization: ***"),
        ("authorization: bearer abc.def", "authorization: ***"),
        ("{'Authorization': 'token abc'}", "{'Authorization': '***'}"),
        ("Proxy-Authorization=Basic eHg6eXk= then", "Proxy-Authorization=*** then"),
        ("with ghp_0123456789abcdef it", "with *** it"),
        ("gho_aaaa ghs_bbbb ghu_cccc ghr_dddd", "*** *** *** ***"),
        ("github_pat_11ABC_def", "***"),
        ("glpat-abc_DEF-12", "***"),
        ("xoxb-123-abc xoxp-9-zyx", "*** ***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("nothing to hide: a/b.md, 3 skills", "nothing to hide: a/b.md, 3 skills"),
    ],
)
def test_what_shows_that_it_is_a_secret_needs_nobody_to_say_so(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("piece", ["://", "a", "://a", "@", "x:", "Authorization:"])
def test_a_long_text_is_redacted_in_linear_time(piece: str) -> None:
    text = piece * 200_000

    assert redact(text)
