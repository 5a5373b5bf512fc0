"""A forge, as far as its webhooks go: it signs what it sends."""

import base64
import hashlib
import hmac
import json
from typing import Any

SECRET = "a-secret-of-enough-characters"  # noqa: S105 - of these tests
OTHER_SECRET = "another-secret-of-enough-characters"  # noqa: S105
SIGNING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105

GITHUB_PUSH = {
    "ref": "refs/heads/main",
    "after": "1" * 40,
    "repository": {
        "full_name": "acme/skills",
        "clone_url": "https://github.com/acme/skills.git",
        "ssh_url": "git@github.com:acme/skills.git",
        "html_url": "https://github.com/acme/skills",
        "default_branch": "main",
    },
}

GITLAB_PUSH = {
    "object_kind": "push",
    "event_name": "push",
    "ref": "refs/heads/main",
    "project": {
        "git_http_url": "https://gitlab.example.com/acme/skills.git",
        "git_ssh_url": "git@gitlab.example.com:acme/skills.git",
        "web_url": "https://gitlab.example.com/acme/skills",
        "default_branch": "main",
    },
}

GITLAB_MERGE = {
    "object_kind": "merge_request",
    "project": GITLAB_PUSH["project"],
    "object_attributes": {"action": "merge", "target_branch": "main"},
}

GITHUB_MERGE = {
    "action": "closed",
    "pull_request": {"merged": True, "base": {"ref": "main"}},
    "repository": GITHUB_PUSH["repository"],
}


BITBUCKET_PUSH = {
    "push": {"changes": [{"new": {"type": "branch", "name": "main"}, "old": None}]},
    "repository": {
        "type": "repository",
        "full_name": "acme/skills",
        "links": {
            "html": {"href": "https://bitbucket.org/acme/skills"},
            "self": {"href": "https://api.bitbucket.org/2.0/repositories/acme/skills"},
        },
    },
}

BITBUCKET_SERVER_PUSH = {
    "eventKey": "repo:refs_changed",
    "repository": {
        "slug": "skills",
        "links": {
            "clone": [
                {"href": "ssh://git@git.acme.com:7999/acme/skills.git", "name": "ssh"},
                {"href": "https://git.acme.com/scm/acme/skills.git", "name": "http"},
            ],
            "self": [{"href": "https://git.acme.com/projects/ACME/repos/skills/browse"}],
        },
    },
    "changes": [{"ref": {"id": "refs/heads/main", "type": "BRANCH"}, "type": "UPDATE"}],
}


def encode(payload: Any) -> bytes:
    return json.dumps(payload).encode()


def digits(secret: str, body: bytes, how: str = "sha256") -> str:
    return hmac.new(secret.encode(), body, getattr(hashlib, how)).hexdigest()


def github(body: bytes, secret: str = SECRET, event: str = "push") -> dict[str, str]:
    """Return the headers of a delivery of GitHub."""
    return {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "x-hub-signature": f"sha1={digits(secret, body, 'sha1')}",
        "x-hub-signature-256": f"sha256={digits(secret, body)}",
    }


def forgejo(body: bytes, secret: str = SECRET, event: str = "push") -> dict[str, str]:
    """Return the headers of a delivery of Forgejo, with its older names."""
    signature = digits(secret, body)
    return {
        "content-type": "application/json",
        "x-forgejo-event": event,
        "x-forgejo-signature": signature,
        "x-gitea-event": event,
        "x-gitea-signature": signature,
        "x-github-event": event,
        "x-hub-signature-256": f"sha256={signature}",
    }


def gitea(body: bytes, secret: str = SECRET, event: str = "push") -> dict[str, str]:
    """Return what Gitea has of its own."""
    return {
        "content-type": "application/json",
        "x-gitea-event": event,
        "x-gitea-signature": digits(secret, body),
    }


def gogs(body: bytes, secret: str = SECRET, event: str = "push") -> dict[str, str]:
    """Return the headers of a delivery of Gogs."""
    return {
        "content-type": "application/json",
        "x-gogs-event": event,
        "x-gogs-signature": digits(secret, body),
    }


def bitbucket(body: bytes, secret: str = SECRET, event: str = "repo:push") -> dict[str, str]:
    """Return the headers of a delivery of Bitbucket, in the cloud or a server."""
    return {
        "content-type": "application/json",
        "x-event-key": event,
        "x-hub-signature": f"sha256={digits(secret, body)}",
    }


def gitlab(
    _: bytes, secret: str = SECRET, event: str = "Push Hook", uuid: str = "1"
) -> dict[str, str]:
    """Return the headers of a delivery of GitLab with a secret token."""
    return {
        "content-type": "application/json",
        "x-gitlab-event": event,
        "x-gitlab-event-uuid": uuid,
        "x-gitlab-token": secret,
    }


def gitlab_signed(
    body: bytes,
    secret: str = SIGNING_SECRET,
    *,
    sent_at: str = "1614265330",
    name: str = "msg_p5jXN8AQM9LWM0D4loKWxJek",
) -> dict[str, str]:
    """Return the headers of a delivery of GitLab with a signing token."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{name}.{sent_at}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return {
        "content-type": "application/json",
        "x-gitlab-event": "Push Hook",
        "webhook-id": name,
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{signature.decode()}",
    }
