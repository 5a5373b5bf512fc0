"""What clients are told about how to sign in (RFC 9728, RFC 6750)."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http.refusals import refuse
from skills_mcp.skills.principal import SCOPES

PATH = "/mcp"
"""Where clients find MCP."""

EVENTS_PATH = "/events"
"""Where other servers send their events."""

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_NAME = "Skills of this organisation"
_REALM = "skills-mcp"

# What a quoted text of a header cannot hold (RFC 9110, section 5.6.4).
_UNQUOTABLE = re.compile(r"[^ !#-\[\]-~]")

_PUBLIC_FOR_AN_HOUR = {"Cache-Control": "public, max-age=3600"}


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """This server as clients and identity providers know it."""

    http: Http

    def url(self, scope: Scope) -> str:
        """Return the URL of MCP, which is the identifier of the resource.

        Args:
            scope: A request. It counts only without `http.base_url`, and its headers of
                proxies only if they are trusted; its hosts have been checked.
        """
        return f"{self._base(scope)}{PATH}"

    def _base(self, scope: Scope) -> str:
        if self.http.base_url:
            return self.http.base_url.rstrip("/")
        headers = Headers(scope=scope)
        scheme, host = scope.get("scheme", "http"), headers.get("host", "")
        if self.http.trust_proxy_headers:
            scheme = _first(headers.get("x-forwarded-proto")) or scheme
            host = _first(headers.get("x-forwarded-host")) or host
        return f"{scheme if scheme == 'https' else 'http'}://{host}"

    def metadata_url(self, scope: Scope) -> str:
        """Return where the description of this resource is."""
        parts = urlsplit(self.url(scope))
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"

    def paths(self) -> frozenset[str]:
        """Return the paths under which clients look for the description."""
        prefix = urlsplit(self.http.base_url).path.rstrip("/")
        return frozenset({WELL_KNOWN, WELL_KNOWN + PATH, WELL_KNOWN + prefix + PATH})

    def describe(self, scope: Scope) -> Mapping[str, Any]:
        """Return the description of this resource."""
        return {
            "resource": self.url(scope),
            "authorization_servers": [self.http.auth.issuer],
            "scopes_supported": self._named(self.http.auth.requested_scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": _NAME,
        }

    def challenge(
        self,
        scope: Scope,
        error: str = "",
        description: str = "",
        scopes: Collection[str] | None = None,
    ) -> Mapping[str, str]:
        """Return the header that tells a client how to go on.

        Args:
            scope: The request.
            error: The code of RFC 6750; none if the request had no token.
            description: Why the token was refused.
            scopes: What the next token needs; without any, what clients are told to
                ask for.
        """
        asked = self.http.auth.requested_scopes if scopes is None else scopes
        fields = {
            "realm": _REALM,
            "scope": " ".join(self._named(asked)),
            "resource_metadata": self.metadata_url(scope),
            "error": error,
            "error_description": description,
        }
        said = ", ".join(
            f'{name}="{_UNQUOTABLE.sub("?", value)}"'
            for name, value in fields.items()
            if value
        )
        return {"WWW-Authenticate": f"Bearer {said}"}

    def _named(self, scopes: Iterable[str]) -> list[str]:
        """Return scopes as the identity provider calls them."""
        prefix = self.http.auth.scope_prefix
        return [f"{prefix}{each}" if each in SCOPES else each for each in scopes]


class ResourceMetadata:
    """Answers who asks how to sign in; all else goes to the application.

    Args:
        app: The application behind it.
        resource: What is described.
    """

    def __init__(self, app: ASGIApp, resource: ProtectedResource) -> None:
        self._app = app
        self._resource = resource
        self._paths = resource.paths()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] not in self._paths:
            await self._app(scope, receive, send)
            return
        if scope["method"] in {"GET", "HEAD"}:
            answer = JSONResponse(
                self._resource.describe(scope), headers=_PUBLIC_FOR_AN_HOUR
            )
        else:
            answer = refuse(
                405,
                "METHOD_NOT_ALLOWED",
                "This address is for GET.",
                {"Allow": "GET, HEAD"},
            )
        await answer(scope, receive, send)


def _first(values: str | None) -> str:
    """Return what the proxy that is nearest to the client has written."""
    return (values or "").partition(",")[0].strip()
