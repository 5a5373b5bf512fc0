"""The tokens with which machines send events, without an identity provider."""

import hmac

from skills_mcp.http.secret_file import SecretFile


class IngestTokens(SecretFile):
    """The tokens of `events.ingest_token_file`."""

    setting = "events.ingest_token_file"
    purpose = "a token for the senders of events"
    refused = "No event is taken with a token"

    def find(self, token: str) -> int:
        """Return the place of a token among them from 1 on; 0 if it is none of them.

        The time of it does not say how much of a token is right.
        """
        given = token.encode()
        # A list, not `any` over a generator: each one is compared.
        same = [hmac.compare_digest(given, each.encode()) for each in self.current()]
        return same.index(True) + 1 if token and any(same) else 0
