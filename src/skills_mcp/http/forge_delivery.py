"""A delivery of a webhook: who has signed it, and what it says was pushed.

The signatures of GitHub, Gitea and Forgejo are of the body alone.  GitLab signs as
Standard Webhooks (https://www.standardwebhooks.com) has it, with an id and the time, or
sends the secret itself.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from skills_mcp.library import Push

SIGNING_PREFIX = "whsec_"
"""How a secret begins that is the key of Standard Webhooks, in base64."""

# Of the body alone: each header, and what stands before the hexadecimal digits.
_BODY_SIGNATURES = {
    "x-hub-signature-256": "sha256=",
    "x-forgejo-signature": "",
    "x-gitea-signature": "",
}
_STANDARD_SIGNATURE = "webhook-signature"
_TOKEN = "x-gitlab-token"  # noqa: S105 - the name of a header

# What Standard Webhooks recommends: clocks differ, and a captured delivery expires.
_MAX_AGE_SECONDS = 5 * 60

_EVENTS = ("x-github-event", "x-forgejo-event", "x-gitea-event", "x-gitlab-event")
_ANY_OF_GITLAB = "system hook"  # the body says which
_PUSHES = frozenset(
    ("", "push", "push hook", "tag push hook", "tag_push", "repository_update")
)
_MERGES = frozenset(("pull_request", "merge request hook", "merge_request"))

_ADDRESSES = (
    *("clone_url", "ssh_url", "html_url", "git_http_url", "git_ssh_url", "web_url"),
    *("git_url", "homepage", "url"),
)


@dataclass(frozen=True, slots=True)
class ForgeDelivery:
    """A delivery whose signature is right."""

    identity: bytes
    """A hash that is the same if the delivery is repeated."""
    is_ping: bool = False
    push: Push | None = None
    """None if it says that something else has happened."""


def has_signature(headers: Mapping[str, str]) -> bool:
    """Whether there is any signature to check.

    Args:
        headers: With names in lower case.
    """
    return any(name in headers for name in (*_BODY_SIGNATURES, *_OTHER_SIGNATURES))


_OTHER_SIGNATURES = (_STANDARD_SIGNATURE, _TOKEN)


def open_delivery(
    headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> ForgeDelivery | None:
    """Verify a delivery, and only then parse it; None if no secret has signed it.

    Args:
        headers: With names in lower case.
        body: As it was received, to the byte.
        secrets: Any one of them is enough.
        now: In seconds since the epoch.
    """
    identity = (
        _verify_body(headers, body, secrets)
        or _verify_standard(headers, body, secrets, now)
        or _verify_token(headers, body, secrets)
    )
    if identity is None:
        return None
    event = next((headers[name].lower() for name in _EVENTS if name in headers), "")
    if event == "ping":
        return ForgeDelivery(identity, is_ping=True)
    return ForgeDelivery(
        identity, push=parse_push(event, _parse_payload(headers, body))
    )


def _verify_body(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> bytes | None:
    """Check the HMAC of the body; the id of a delivery is not signed."""
    given = [
        (headers[name].encode("latin-1"), prefix)
        for name, prefix in _BODY_SIGNATURES.items()
        if name in headers
    ]
    for secret in secrets:
        digits = hmac.digest(secret.encode(), body, "sha256").hex()
        if any(
            hmac.compare_digest(f"{prefix}{digits}".encode(), signature)
            for signature, prefix in given
        ):
            return hashlib.sha256(body).digest()
    return None


def _verify_standard(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: float
) -> bytes | None:
    """Check the HMAC of id, time and body; one of several signatures is enough."""
    sent_at = headers.get("webhook-timestamp", "")
    is_fresh = (
        sent_at.isascii()
        and sent_at.isdigit()
        and abs(now - float(sent_at)) <= _MAX_AGE_SECONDS
    )
    if not is_fresh:
        return None
    name = headers.get("webhook-id", "")
    signed = f"{name}.{sent_at}.".encode("latin-1") + body
    given = headers.get(_STANDARD_SIGNATURE, "").encode("latin-1").split(b" ")
    for secret in secrets:
        if not secret.startswith(SIGNING_PREFIX):
            continue
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX))
        signature = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
        if any(hmac.compare_digest(signature, each) for each in given):
            return hashlib.sha256(signed).digest()
    return None


def _verify_token(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> bytes | None:
    """Compare the secret that GitLab sends; the hashes hide how long it is."""
    given = hashlib.sha256(headers.get(_TOKEN, "").encode("latin-1")).digest()
    wanted = (hashlib.sha256(secret.encode()).digest() for secret in secrets)
    if not any(hmac.compare_digest(given, each) for each in wanted):
        return None
    # The bodies of two pushes to and fro are the same, but not the ids. An id that is
    # forged needs the secret, with which a body can be forged just as well.
    name = headers.get("x-gitlab-event-uuid", "") or headers.get("idempotency-key", "")
    return hashlib.sha256(name.encode("latin-1") + b"\0" + body).digest()


def _parse_payload(headers: Mapping[str, str], body: bytes) -> object:
    """Return the JSON of a body or of its form field; None if there is none."""
    try:
        if headers.get("content-type", "").startswith("application/x-www-form"):
            fields = parse_qs(body.decode("ascii"), max_num_fields=10)
            return json.loads(fields["payload"][0])
        return json.loads(body)
    except (ValueError, KeyError, RecursionError):
        return None


def parse_push(event: str, payload: object) -> Push | None:
    """Return what was pushed or merged; None if something else has happened.

    Args:
        event: What the header of the forge names, in lower case; without one, a push.
        payload: JSON of any shape; what cannot be found in it is not known.
    """
    if event == _ANY_OF_GITLAB:
        event = _text(payload, "object_kind") or _text(payload, "event_name")
    if event in _PUSHES:
        return _compose(payload, _text(payload, "ref"))
    branch = _find_merged_branch(payload) if event in _MERGES else ""
    return _compose(payload, f"refs/heads/{branch}") if branch else None


def _find_merged_branch(payload: object) -> str:
    """Return the branch that something was merged into; empty if nothing was."""
    if _text(payload, "object_attributes", "action") == "merge":
        return _text(payload, "object_attributes", "target_branch")
    if _find(payload, "pull_request", "merged") is True:
        is_closed = _text(payload, "action") == "closed"
        return _text(payload, "pull_request", "base", "ref") if is_closed else ""
    return ""


def _compose(payload: object, ref: str) -> Push:
    places = ("repository", "project")
    addresses = (_text(payload, at, name) for at in places for name in _ADDRESSES)
    defaults = (_text(payload, at, "default_branch") for at in places)
    return Push(tuple(filter(None, addresses)), ref, next(filter(None, defaults), ""))


def _find(payload: object, *names: str) -> Any:
    """Return what stands at a path; None if there is nothing."""
    for name in names:
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return payload


def _text(payload: object, *names: str) -> str:
    found = _find(payload, *names)
    return found if isinstance(found, str) else ""
