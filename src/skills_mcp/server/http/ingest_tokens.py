"""The tokens with which machines send events, without an identity provider."""

import hmac

from skills_mcp.server.http.secret_file import SecretFile


class IngestTokens(SecretFile):
    """The tokens of `events.ingest_token_file`."""

    setting = "events.ingest_token_file"
    purpose = "a token for the senders of events"
    refused = "No event is taken with a token"

    def accept(self, token: str) -> bool:
        """Whether a token is one of them, without telling how much of it is right."""
        given = token.encode()
        # A list, not `any` over a generator: each one is compared.
        same = [hmac.compare_digest(given, each.encode()) for each in self.current()]
        return bool(token) and any(same)
