"""Secrets of the webhook."""

import base64
import binascii

from skills_mcp.http.forge_delivery import SIGNING_PREFIX
from skills_mcp.http.secret_file import SecretFile


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
