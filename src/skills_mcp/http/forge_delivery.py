"""Webhook `POST /hooks/git`: signature verification, replay cache, refresh.

The signature is verified over the raw body before any parsing. GitHub, Gitea and
Forgejo sign the body alone. GitLab follows Standard Webhooks
(https://www.standardwebhooks.com), with id and timestamp, or sends the secret itself.

A delivery only triggers a fetch, so a replay costs one superfluous fetch: GitHub and
Gitea sign no timestamp, and only a cache of digests detects repetitions. No push is
lost: one during a fetch triggers one more, shared by all pushes until then.
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
"""Prefix of Standard Webhooks secrets: a base64 key follows."""

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
_SYSTEM_HOOK = "system hook"  # the body says which
_PUSHES = frozenset(("", "push", "push hook", "tag push hook", "tag_push", "repository_update"))
_MERGES = frozenset(("pull_request", "merge request hook", "merge_request"))

_ADDRESSES = (
    *("clone_url", "ssh_url", "html_url", "git_http_url", "git_ssh_url", "web_url"),
    *("git_url", "homepage", "url"),
)


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """Delivery with a valid signature."""

    identity: bytes
    """Digest for the detection of replays."""
    is_ping: bool = False
    push: Push | None = None
    """None for other events."""


def has_signature(headers: Mapping[str, str]) -> bool:
    """Any signature header is present; header names are in lower case."""
    return any(name in headers for name in (*_BODY_SIGNATURES, *_OTHER_SIGNATURES))


_OTHER_SIGNATURES = (_STANDARD_SIGNATURE, _TOKEN)


def verify_delivery(
    headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> WebhookDelivery | None:
    """Verify the signature, then parse; None if no secret matches.

    Args:
        headers: With names in lower case.
        body: Raw bytes as received.
        secrets: Any one may match.
        now: Seconds since the epoch.
    """
    identity = (
        _verify_body_signature(headers, body, secrets)
        or _verify_standard_webhook(headers, body, secrets, now)
        or _verify_gitlab_token(headers, body, secrets)
    )
    if identity is None:
        return None
    event = next((headers[name].lower() for name in _EVENTS if name in headers), "")
    if event == "ping":
        return WebhookDelivery(identity, is_ping=True)
    return WebhookDelivery(identity, push=parse_push(event, _parse_payload(headers, body)))


def _verify_body_signature(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> bytes | None:
    """Verify the HMAC of the body; delivery ids are unsigned."""
    signatures = [
        (headers[name].encode("latin-1"), prefix)
        for name, prefix in _BODY_SIGNATURES.items()
        if name in headers
    ]
    for secret in secrets:
        digits = hmac.digest(secret.encode(), body, "sha256").hex()
        if any(
            hmac.compare_digest(f"{prefix}{digits}".encode(), signature)
            for signature, prefix in signatures
        ):
            return hashlib.sha256(body).digest()
    return None


def _verify_standard_webhook(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: float
) -> bytes | None:
    """Verify a Standard Webhooks signature over id, timestamp and body."""
    sent_at = headers.get("webhook-timestamp", "")
    is_fresh = (
        sent_at.isascii() and sent_at.isdigit() and abs(now - float(sent_at)) <= _MAX_AGE_SECONDS
    )
    if not is_fresh:
        return None
    name = headers.get("webhook-id", "")
    signed = f"{name}.{sent_at}.".encode("latin-1") + body
    signatures = headers.get(_STANDARD_SIGNATURE, "").encode("latin-1").split(b" ")
    for secret in secrets:
        if not secret.startswith(SIGNING_PREFIX):
            continue
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX))
        signature = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
        if any(hmac.compare_digest(signature, candidate) for candidate in signatures):
            return hashlib.sha256(signed).digest()
    return None


def _verify_gitlab_token(
    headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> bytes | None:
    """Compare GitLab's plain token; hashing hides the length of the secret."""
    digest = hashlib.sha256(headers.get(_TOKEN, "").encode("latin-1")).digest()
    expected = (hashlib.sha256(secret.encode()).digest() for secret in secrets)
    if not any(hmac.compare_digest(digest, candidate) for candidate in expected):
        return None
    # The bodies of two pushes to and fro are the same, but not the ids. An id that is
    # forged needs the secret, with which a body can be forged just as well.
    name = headers.get("x-gitlab-event-uuid", "") or headers.get("idempotency-key", "")
    return hashlib.sha256(name.encode("latin-1") + b"\0" + body).digest()


def _parse_payload(headers: Mapping[str, str], body: bytes) -> object:
    """JSON of a body or its form field; None if invalid."""
    try:
        if headers.get("content-type", "").startswith("application/x-www-form"):
            fields = parse_qs(body.decode("ascii"), max_num_fields=10)
            return json.loads(fields["payload"][0])
        return json.loads(body)
    except (ValueError, KeyError, RecursionError):
        return None


def parse_push(event: str, payload: object) -> Push | None:
    """Push or merge in a payload; None for other events.

    Args:
        event: Event header of the forge, in lower case; a push if empty.
        payload: JSON of any shape; missing fields stay empty.
    """
    if event == _SYSTEM_HOOK:
        event = _get_text(payload, "object_kind") or _get_text(payload, "event_name")
    if event in _PUSHES:
        return _compose_push(payload, _get_text(payload, "ref"))
    branch = _find_merged_branch(payload) if event in _MERGES else ""
    return _compose_push(payload, f"refs/heads/{branch}") if branch else None


def _find_merged_branch(payload: object) -> str:
    if _get_text(payload, "object_attributes", "action") == "merge":
        return _get_text(payload, "object_attributes", "target_branch")
    if _get_path(payload, "pull_request", "merged") is True:
        is_closed = _get_text(payload, "action") == "closed"
        return _get_text(payload, "pull_request", "base", "ref") if is_closed else ""
    return ""


def _compose_push(payload: object, ref: str) -> Push:
    keys = ("repository", "project")
    addresses = (_get_text(payload, at, name) for at in keys for name in _ADDRESSES)
    defaults = (_get_text(payload, at, "default_branch") for at in keys)
    return Push(tuple(filter(None, addresses)), ref, next(filter(None, defaults), ""))


def _get_path(payload: object, *names: str) -> Any:
    for name in names:
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return payload


def _get_text(payload: object, *names: str) -> str:
    found = _get_path(payload, *names)
    return found if isinstance(found, str) else ""
