"""OAuth protected resource metadata and challenges (RFC 9728, RFC 6750)."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http.error_responses import error_response
from skills_mcp.skills.access import SCOPES

MCP_PATH = "/mcp"

EVENTS_PATH = "/events"

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_NAME = "Skills of this organisation"
_REALM = "skills-mcp"

# What a quoted text of a header cannot hold (RFC 9110, section 5.6.4).
_UNQUOTABLE = re.compile(r"[^ !#-\[\]-~]")

_PUBLIC_FOR_AN_HOUR = {"Cache-Control": "public, max-age=3600"}


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """This server as an OAuth protected resource."""

    http: Http

    def url(self, scope: Scope) -> str:
        """URL of the MCP endpoint, the resource identifier.

        Args:
            scope: ASGI scope, used only without `http.base_url`; proxy headers only if
            trusted.
                Its host is already checked.
        """
        return f"{self._base(scope)}{MCP_PATH}"

    def _base(self, scope: Scope) -> str:
        if self.http.base_url:
            return self.http.base_url.rstrip("/")
        headers = Headers(scope=scope)
        scheme, host = scope.get("scheme", "http"), headers.get("host", "")
        if self.http.trust_proxy_headers:
            scheme = _nearest_value(headers.get("x-forwarded-proto")) or scheme
            host = _nearest_value(headers.get("x-forwarded-host")) or host
        return f"{scheme if scheme == 'https' else 'http'}://{host}"

    def metadata_url(self, scope: Scope) -> str:
        parts = urlsplit(self.url(scope))
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"

    def paths(self) -> frozenset[str]:
        """Paths where clients look for the metadata."""
        prefix = urlsplit(self.http.base_url).path.rstrip("/")
        return frozenset({WELL_KNOWN, WELL_KNOWN + MCP_PATH, WELL_KNOWN + prefix + MCP_PATH})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the metadata document."""
        if scope["method"] in {"GET", "HEAD"}:
            answer = JSONResponse(self.describe(scope), headers=_PUBLIC_FOR_AN_HOUR)
        else:
            answer = error_response(
                405,
                "METHOD_NOT_ALLOWED",
                "This address is for GET.",
                {"Allow": "GET, HEAD"},
            )
        await answer(scope, receive, send)

    def describe(self, scope: Scope) -> Mapping[str, Any]:
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
        """`WWW-Authenticate` header.

        `error` is a code of RFC 6750, empty for a request without token. `scopes`
        default to
        the configured ones.
        """
        requested = self.http.auth.requested_scopes if scopes is None else scopes
        fields = {
            "realm": _REALM,
            "scope": " ".join(self._named(requested)),
            "resource_metadata": self.metadata_url(scope),
            "error": error,
            "error_description": description,
        }
        parameters = ", ".join(
            f'{name}="{_UNQUOTABLE.sub("?", value)}"' for name, value in fields.items() if value
        )
        return {"WWW-Authenticate": f"Bearer {parameters}"}

    def _named(self, scopes: Iterable[str]) -> list[str]:
        """Scopes in the notation of the identity provider."""
        prefix = self.http.auth.scope_prefix
        return [f"{prefix}{name}" if name in SCOPES else name for name in scopes]


def _nearest_value(values: str | None) -> str:
    return (values or "").partition(",")[0].strip()
