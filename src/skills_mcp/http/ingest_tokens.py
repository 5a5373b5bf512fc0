"""Bearer tokens for senders of events."""

import hmac

from skills_mcp.http.secret_file import SecretFile


class IngestTokens(SecretFile):
    """Tokens of `events.ingest_token_file`, without an identity provider."""

    setting = "events.ingest_token_file"
    purpose = "a token for the senders of events"
    refused = "No event is taken with a token"

    def find(self, token: str) -> int:
        """Line number of a token, from 1; 0 if unknown. Constant time."""
        sent = token.encode()
        # A list, not `any` over a generator: each one is compared.
        matches = [hmac.compare_digest(sent, secret.encode()) for secret in self.current()]
        return matches.index(True) + 1 if token and any(matches) else 0
