"""Webhook: signed deliveries of a forge, which refresh the content."""

import base64
import binascii
import hashlib
import hmac
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from skills_mcp.config import Http
from skills_mcp.http.error_responses import error_response
from skills_mcp.http.routes import WEBHOOK_PATH
from skills_mcp.http.secret_file import SecretFile, find_secret_file
from skills_mcp.library import Push, SkillLibrary
from skills_mcp.server.callers import RateLimit

SIGNING_PREFIX = "whsec_"
"""Prefix of Standard Webhooks secrets: a base64 key follows."""

# Of the body alone: each header, and what stands before the hexadecimal digits.
_BODY_SIGNATURES = {
    "x-hub-signature-256": "sha256=",
    "x-hub-signature": "sha256=",  # of Bitbucket; GitHub's has another hash
    "x-forgejo-signature": "",
    "x-gitea-signature": "",
    "x-gogs-signature": "",
}
_STANDARD_SIGNATURE = "webhook-signature"
_TOKEN = "x-gitlab-token"  # noqa: S105 - the name of a header

# What Standard Webhooks recommends: clocks differ, and a captured delivery expires.
_MAX_AGE_SECONDS = 5 * 60

# A push of many commits has megabytes; what was pushed stands in front of them.
_MAX_PARSED_BYTES = 262_144

_EVENTS = (
    *("x-github-event", "x-forgejo-event", "x-gitea-event", "x-gitlab-event"),
    *("x-event-key", "x-gogs-event"),
)
_PINGS = frozenset(("ping", "diagnostics:ping"))
_SYSTEM_HOOK = "system hook"  # the body says which
_PUSHES = frozenset(
    (
        *("", "push", "push hook", "tag push hook", "tag_push", "repository_update"),
        *("repo:push", "repo:refs_changed"),
    )
)
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
    return any(name in headers for name in (*_BODY_SIGNATURES, _STANDARD_SIGNATURE, _TOKEN))


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
    if event in _PINGS:
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
    """JSON of a body or its form field, of a long one its head; None if invalid."""
    head: bytes | str = body[:_MAX_PARSED_BYTES]
    try:
        if headers.get("content-type", "").startswith("application/x-www-form"):
            fields = parse_qs(body[:_MAX_PARSED_BYTES].decode("ascii"), max_num_fields=10)
            head = fields["payload"][0]
        return from_json(head, allow_partial=len(body) > _MAX_PARSED_BYTES)
    except (ValueError, KeyError):
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
        return _compose_push(payload, _get_text(payload, "ref") or _find_changed_ref(payload))
    branch = _find_merged_branch(payload) if event in _MERGES else ""
    return _compose_push(payload, f"refs/heads/{branch}") if branch else None


def _find_merged_branch(payload: object) -> str:
    if _get_text(payload, "object_attributes", "action") == "merge":
        return _get_text(payload, "object_attributes", "target_branch")
    if _get_path(payload, "pull_request", "merged") is True:
        is_closed = _get_text(payload, "action") == "closed"
        return _get_text(payload, "pull_request", "base", "ref") if is_closed else ""
    return ""


def _find_changed_ref(payload: object) -> str:
    """Ref in a push of Bitbucket; empty for several."""
    changes = _get_path(payload, "push", "changes") or _get_path(payload, "changes")
    if not isinstance(changes, list) or len(changes) != 1:
        return ""
    [change] = changes
    kind, name = _get_text(change, "new", "type"), _get_text(change, "new", "name")
    folder = {"branch": "heads", "tag": "tags"}.get(kind)
    return f"refs/{folder}/{name}" if folder else _get_text(change, "ref", "id")


def _list_links(payload: object) -> Iterator[str]:
    """Addresses in the `links` of Bitbucket, each alone or in a list."""
    links = _get_path(payload, "repository", "links")
    for value in links.values() if isinstance(links, Mapping) else ():
        for entry in value if isinstance(value, list) else [value]:
            yield _get_text(entry, "href")


def _compose_push(payload: object, ref: str) -> Push:
    keys = ("repository", "project")
    named = (_get_text(payload, at, name) for at in keys for name in _ADDRESSES)
    addresses = (*named, *_list_links(payload))
    defaults = (_get_text(payload, at, "default_branch") for at in keys)
    return Push(tuple(filter(None, addresses)), ref, next(filter(None, defaults), ""))


def _get_path(payload: object, *names: str) -> Any:
    for name in names:
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return payload


def _get_text(payload: object, *names: str) -> str:
    found = _get_path(payload, *names)
    return found if isinstance(found, str) else ""


class WebhookSecrets(SecretFile):
    """Signing secrets; a removed one is rejected from the next delivery on."""

    setting = "http.webhook_secret_file"
    purpose = "the secret of the webhook"
    refused = "The webhook refuses all deliveries"

    def find_fault(self, secret: str) -> str:
        key = secret.removeprefix(SIGNING_PREFIX)
        if fault := super().find_fault(key):
            return fault
        if key == secret:
            return ""
        try:
            base64.b64decode(key, validate=True)
        except binascii.Error:
            return f"begins with {SIGNING_PREFIX}, but the rest is no base64"
        return ""


logger = logging.getLogger(__name__)

# A captured delivery is known for as long as this many others come; one is 32 bytes.
_MAX_SEEN = 4096

# An organisation whose repositories all report here stays below it.
_BURST = 120
_PER_SECOND = 2.0

# Between two fetches, so that a flood of pushes does not become one of fetches.
_PAUSE_SECONDS = 1.0


class Webhook:
    """Endpoint for deliveries; refreshes the content in the background.

    Args:
        refresh: Fetches the newest content, and logs its own failures.
        may_move: Whether a push affects a configured source.
        clock: Seconds since the epoch.
        pause_seconds: Pause between two fetches.
    """

    def __init__(
        self,
        secrets: WebhookSecrets,
        refresh: Callable[[], Awaitable[object]],
        may_move: Callable[[Push], bool],
        *,
        clock: Callable[[], float] = time.time,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._secrets = secrets
        self._refresh = refresh
        self._may_move = may_move
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._limit = RateLimit(_BURST, _PER_SECOND, clock)
        self._seen: dict[bytes, None] = {}
        self._is_refusing = False
        self._refresh_requested = anyio.Event()

    @property
    def route(self) -> Route:
        return Route(WEBHOOK_PATH, self.answer, methods=["POST"])

    async def run(self) -> None:
        while True:
            await self._refresh_requested.wait()
            self._refresh_requested = anyio.Event()  # a push from here on needs another refresh
            try:
                await self._refresh()
            except Exception:
                logger.exception("The refresh after a push has failed")
            await anyio.sleep(self._pause_seconds)

    async def answer(self, request: Request) -> Response:
        """Respond without waiting for the refresh; names of sources stay in the log."""
        if not has_signature(request.headers):
            return self._refuse("it has no signature")
        body = await request.body()  # `BodyBuffer` bounds it
        delivery = await anyio.to_thread.run_sync(
            lambda: verify_delivery(request.headers, body, self._secrets.current(), self._clock())
        )
        if delivery is None:
            return self._refuse("its signature is wrong, or too old")
        self._is_refusing = False
        return self._take(delivery)

    def _take(self, delivery: WebhookDelivery) -> Response:
        if delivery.is_ping:
            return JSONResponse({"status": "pong"})
        if delivery.identity in self._seen:
            return _status_response("repeated")
        self._remember(delivery.identity)
        if wait_seconds := self._limit.take():
            self._refresh_requested.set()  # one fetch covers all that are turned away
            after = {"Retry-After": str(math.ceil(wait_seconds))}
            return error_response(429, "TOO_MANY_DELIVERIES", _TOO_MANY, after)
        if delivery.push is None:
            return _status_response("ignored")
        if self._may_move(delivery.push):
            self._refresh_requested.set()
        else:
            logger.info("A push that the webhook reports is of no source: ignored")
        return _status_response("accepted")

    def _remember(self, identity: bytes) -> None:
        self._seen[identity] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def _refuse(self, reason: str) -> Response:
        """Reject a delivery; log only the first of consecutive rejections."""
        if not self._is_refusing:
            logger.warning("A delivery to the webhook was refused: %s", reason)
        self._is_refusing = True
        return error_response(403, "DELIVERY_REFUSED", _REFUSED)


def open_webhook(library: SkillLibrary, http: Http) -> Webhook | None:
    """Webhook of a library; None without a configured secret.

    Raises:
        ConfigError: The secret cannot be used.
    """
    if not http.webhook_secret_file:
        return None
    file = find_secret_file(WebhookSecrets.setting, http.webhook_secret_file)
    secrets = WebhookSecrets(file)
    secrets.load()
    return Webhook(secrets, library.refresh, library.may_move)


def _status_response(status: str) -> Response:
    return JSONResponse({"status": status}, status_code=202)


_REFUSED = (
    "The delivery has no signature, or none that this server accepts. Write the same "
    "secret into the webhook of your forge and into http.webhook_secret_file."
)
_TOO_MANY = (
    "More deliveries than this server takes. Nothing is lost: what was pushed is "
    "fetched once for all of them."
)
