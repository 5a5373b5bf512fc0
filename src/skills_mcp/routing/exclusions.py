"""Removal of negative statements from descriptions."""

import re

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_REFUSAL = re.compile(
    r"(?:please )?(?:do not|don[\u2019']t|never) (?:use|trigger|invoke|activate|load)\b"
    r"|not (?:intended |meant )?for\b"
    r"|skip (?:this )?(?:when|if|for)\b",
    re.IGNORECASE,
)


def drop_exclusions(description: str) -> str:
    """Drop the sentences of a description with a refusal at the start.

    Authors delegate: "Do NOT use for flows (use acme-flow)". Indexed, these words would
    match the tasks of another skill. A pointer without a refusal stays: "For A/B tests,
    see cro" is near the subject. So does a description of nothing else.

    >>> drop_exclusions("Builds flows. DO NOT USE FOR: forms (use acme-form).")
    'Builds flows.'
    >>> drop_exclusions("Builds flows. For forms, see acme-form.")
    'Builds flows. For forms, see acme-form.'
    """
    if not _REFUSAL.search(description):
        return description
    sentences = _SENTENCES.split(description)
    statements = [sentence for sentence in sentences if not _REFUSAL.match(sentence)]
    return " ".join(statements) or description
