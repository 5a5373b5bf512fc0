"""The secrets of the webhook: a file, with one in each line.

Rule: a file that cannot be used lets nothing in. A secret that was taken out of it is
refused from the next delivery on.
"""

import base64
import binascii

from skills_mcp.http.forge_delivery import SIGNING_PREFIX
from skills_mcp.http.secret_file import SecretFile


class WebhookSecrets(SecretFile):
    """The secrets that forges sign deliveries with."""

    setting = "http.webhook_secret_file"
    purpose = "the secret of the webhook"
    refused = "The webhook refuses all deliveries"

    def find_fault(self, secret: str) -> str:
        """Return what is wrong with a secret; empty if nothing is."""
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
