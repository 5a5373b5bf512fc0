"""Deliveries of forges: which are genuine, and what they say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.http.webhook_endpoint import (
    WebhookDelivery,
    has_signature,
    parse_push,
    verify_delivery,
)
from skills_mcp.library import Push
from tests.http.forge import (
    BITBUCKET_PUSH,
    BITBUCKET_SERVER_PUSH,
    GITHUB_MERGE,
    GITHUB_PUSH,
    GITLAB_MERGE,
    GITLAB_PUSH,
    OTHER_SECRET,
    SECRET,
    SIGNING_SECRET,
    bitbucket,
    digits,
    encode,
    forgejo,
    gitea,
    github,
    gitlab,
    gitlab_signed,
    gogs,
)

NOW = 1614265330.0
BODY = encode(GITHUB_PUSH)
SECRETS = (SECRET, SIGNING_SECRET)

Sign = Callable[..., dict[str, str]]
FORGES: tuple[Sign, ...] = (github, forgejo, gitea, gogs, bitbucket, gitlab)


def opened(
    headers: Mapping[str, str],
    body: bytes = BODY,
    secrets: Sequence[str] = SECRETS,
    now: float = NOW,
) -> WebhookDelivery | None:
    return verify_delivery(headers, body, secrets, now)


@pytest.mark.parametrize("sign", [*FORGES, gitlab_signed])
def test_a_delivery_of_each_forge_is_known(sign: Sign) -> None:
    delivery = opened(sign(BODY))

    assert has_signature(sign(BODY))
    assert delivery
    assert delivery.push
    assert delivery.push.ref == "refs/heads/main"


def test_the_example_of_github_is_right() -> None:
    signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": f"sha256={signature}"}

    assert opened(headers, b"Hello, World!", ("It's a Secret to Everybody",))


def test_the_example_of_standard_webhooks_is_right() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }

    assert opened(headers, b'{"test": 2432232314}')


@pytest.mark.parametrize("sign", FORGES)
def test_another_secret_is_refused(sign: Sign) -> None:
    assert opened(sign(BODY, OTHER_SECRET)) is None


@pytest.mark.parametrize("sign", [github, forgejo, gitea, gogs, bitbucket, gitlab_signed])
def test_a_signature_of_another_body_is_refused(sign: Sign) -> None:
    assert opened(sign(BODY), BODY + b" ") is None


@pytest.mark.parametrize("sign", FORGES)
def test_with_two_secrets_each_of_them_is_enough(sign: Sign) -> None:
    both = (SECRET, OTHER_SECRET)

    assert opened(sign(BODY, SECRET), secrets=both)
    assert opened(sign(BODY, OTHER_SECRET), secrets=both)


@pytest.mark.parametrize("sign", [*FORGES, gitlab_signed])
def test_without_a_secret_nothing_is_let_in(sign: Sign) -> None:
    assert opened(sign(BODY), secrets=()) is None
    assert opened(sign(BODY) | {"x-gitlab-token": ""}, secrets=()) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-hub-signature": f"sha1={digits(SECRET, BODY, 'sha1')}"},
        {"x-hub-signature-256": f"sha1={digits(SECRET, BODY, 'sha1')}"},
        {"x-hub-signature-256": f"sha256={digits(SECRET, BODY, 'sha1')}"},
        {"x-hub-signature-256": digits(SECRET, BODY)},
        {"x-hub-signature-256": f"sha256={digits(SECRET, BODY)[:-1]}"},
        {"x-hub-signature-256": f"sha256={digits(SECRET, BODY)[:8]}"},
        {"x-hub-signature-256": f"sha256={digits(SECRET, BODY)}0"},
        {"x-hub-signature-256": f"sha256={digits(SECRET, BODY).upper()}"},
        {"x-hub-signature-256": "sha256="},
        {"x-hub-signature-256": ""},
        {"x-hub-signature-256": "sha256=é\xff\x80"},
        {"x-gitea-signature": f"sha256={digits(SECRET, BODY)}"},
        {"x-gitea-signature": ""},
        {"x-gitea-signature": "\xe9" * 64},
        {"x-gitlab-token": ""},
        {"x-gitlab-token": SECRET[:-1]},
        {"x-gitlab-token": SECRET + "x"},
        {"x-gitlab-token": SECRET.upper()},
        {"x-gitlab-token": SECRET + "\x00"},
        {"x-gitlab-token": "\xe9" * len(SECRET)},
        {"x-gitlab-token": digits(SECRET, BODY)},
    ],
)
def test_a_forgery_is_refused(headers: dict[str, str]) -> None:
    assert opened(headers) is None


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "msg_another"},
        {"webhook-id": ""},
        {"webhook-timestamp": "1614265331"},
        {"webhook-timestamp": "1614265330.0"},
        {"webhook-timestamp": "-1614265330"},
        {"webhook-timestamp": "²"},
        {"webhook-timestamp": "9" * 400},
        {"webhook-timestamp": ""},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,\xe9"},
        {"webhook-signature": f"v1,{digits(SECRET, BODY)}"},
    ],
)
def test_a_forgery_of_a_signed_delivery_is_refused(change: dict[str, str]) -> None:
    assert opened(gitlab_signed(BODY) | change) is None


def test_one_of_several_signatures_is_enough() -> None:
    headers = gitlab_signed(BODY)
    right = headers["webhook-signature"]

    headers["webhook-signature"] = f"v1,old {right} v2,new"

    assert opened(headers)


@pytest.mark.parametrize("seconds, is_known", [(299, True), (-299, True), (301, False)])
def test_a_signed_delivery_expires(seconds: int, *, is_known: bool) -> None:
    delivery = opened(gitlab_signed(BODY), now=NOW + seconds)

    assert (delivery is not None) is is_known


def test_a_signing_token_is_no_key_of_another_kind() -> None:
    assert opened(gitlab_signed(BODY), secrets=(SECRET,)) is None


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "x-hub-signature-256",
                "x-gitea-signature",
                "x-forgejo-signature",
                "x-gitlab-token",
                "webhook-signature",
                "webhook-id",
                "webhook-timestamp",
            ]
        ),
        st.text(st.characters(max_codepoint=255), max_size=80),
    ),
    st.binary(max_size=200),
)
def test_no_header_that_is_made_up_is_let_in(headers: dict[str, str], body: bytes) -> None:
    assert opened(headers, body) is None


@pytest.mark.parametrize("sign", [github, forgejo, gitea, gogs])
def test_a_delivery_is_known_again_by_its_body(sign: Sign) -> None:
    first, other = opened(sign(BODY)), opened(sign(b"{}"), b"{}")
    again = opened(sign(BODY) | {"x-github-delivery": "forged"})

    assert first
    assert again
    assert other
    assert first.identity == again.identity != other.identity


def test_two_equal_pushes_of_gitlab_are_told_apart_by_their_ids() -> None:
    first, again, second = (opened(gitlab(BODY, uuid=uuid)) for uuid in ("1", "1", "2"))

    assert first
    assert again
    assert second
    assert first.identity == again.identity != second.identity


@pytest.mark.parametrize(
    "sign, event",
    [(github, "ping"), (forgejo, "ping"), (gitea, "ping"), (bitbucket, "diagnostics:ping")],
)
def test_a_ping_is_no_push(sign: Sign, event: str) -> None:
    assert opened(sign(BODY, event=event)) == WebhookDelivery(
        identity=opened(sign(BODY)).identity,  # type: ignore[union-attr]
        is_ping=True,
    )


def test_a_form_holds_the_same() -> None:
    body = urlencode({"payload": BODY.decode()}).encode()
    form = {"content-type": "application/x-www-form-urlencoded"}

    delivery = opened(github(body) | form, body)

    assert delivery
    assert delivery.push == opened(github(BODY)).push  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b"7" * 5000),
        b'{"ref": 7, "repository": []}',
    ],
)
def test_what_cannot_be_parsed_may_be_any_push(body: bytes) -> None:
    delivery = opened(github(body), body)

    assert delivery
    assert delivery.push == Push()


def test_a_form_without_a_payload_may_be_any_push() -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}

    for body in (b"", b"payload=", b"other=1", b"\xff", b"&".join([b"a=1"] * 99)):
        delivery = opened(github(body) | form, body)
        assert delivery
        assert delivery.push == Push()


@pytest.mark.parametrize(
    "event, payload",
    [
        ("push", GITHUB_PUSH),
        ("push hook", GITLAB_PUSH),
        ("system hook", GITLAB_PUSH),
        ("pull_request", GITHUB_MERGE),
        ("merge request hook", GITLAB_MERGE),
        ("system hook", GITLAB_MERGE),
    ],
)
def test_pushes_and_merges_name_branch_and_repository(event: str, payload: dict[str, Any]) -> None:
    push = parse_push(event, payload)

    assert push
    assert push.ref == "refs/heads/main"
    assert push.default_branch == "main"
    assert any(each.endswith("/acme/skills.git") for each in push.addresses)


@pytest.mark.parametrize(
    "event, payload",
    [
        ("issues", GITHUB_PUSH),
        ("star", {}),
        ("pull_request", GITHUB_MERGE | {"action": "opened"}),
        ("pull_request", {"action": "closed", "pull_request": {"merged": False}}),
        ("pull_request", {"action": "closed", "pull_request": {"merged": "yes"}}),
        ("pull_request", None),
        ("merge request hook", {"object_attributes": {"action": "open"}}),
        ("note hook", GITLAB_PUSH),
        ("repo:fork", BITBUCKET_PUSH),
        ("system hook", {"event_name": "user_create"}),
    ],
)
def test_what_moves_no_branch_is_no_push(event: str, payload: object) -> None:
    assert parse_push(event, payload) is None


@pytest.mark.parametrize(
    "event, payload, address",
    [
        ("repo:push", BITBUCKET_PUSH, "https://bitbucket.org/acme/skills"),
        (
            "repo:refs_changed",
            BITBUCKET_SERVER_PUSH,
            "https://git.acme.com/scm/acme/skills.git",
        ),
    ],
)
def test_a_push_of_bitbucket_names_branch_and_repository(
    event: str, payload: dict[str, Any], address: str
) -> None:
    push = parse_push(event, payload)

    assert push
    assert push.ref == "refs/heads/main"
    assert address in push.addresses


def test_of_several_refs_of_bitbucket_any_may_be_meant() -> None:
    changes = [{"new": {"type": "branch", "name": name}} for name in ("a", "b")]

    push = parse_push("repo:push", BITBUCKET_PUSH | {"push": {"changes": changes}})

    assert push
    assert push.ref == ""


def test_of_a_long_push_the_head_is_read() -> None:
    commits = [{"message": "é" * 1_000}] * 10_000
    body = encode(GITHUB_PUSH | {"commits": commits})
    form = urlencode({"payload": body.decode()}).encode()
    as_form = {"content-type": "application/x-www-form-urlencoded"}
    short = opened(github(BODY))

    for headers, sent in ((github(body), body), (github(form) | as_form, form)):
        delivery = opened(headers, sent)
        assert delivery
        assert short
        assert delivery.push == short.push


def test_a_tag_is_a_push() -> None:
    tag = GITLAB_PUSH | {"object_kind": "tag_push", "ref": "refs/tags/v2"}

    for event in ("tag push hook", "system hook"):
        push = parse_push(event, tag)
        assert push
        assert push.ref == "refs/tags/v2"


def test_a_delivery_without_an_event_is_a_push() -> None:
    signed = {"x-hub-signature-256": f"sha256={digits(SECRET, b'')}"}

    delivery = opened(signed, b"")

    assert delivery
    assert delivery.push == Push()
