"""What a description says that its skill is not for, so that it is not found by that.

Authors delegate: "Do NOT use for flows (use acme-flow)". These words describe another
skill. Counted for this skill, they would make it match the tasks that it refuses.
"""

import re

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_EXCLUDES = re.compile(
    r"(?:please )?(?:do not|don[\u2019']t|never) (?:use|trigger|invoke|activate|load)\b"
    r"|not (?:intended |meant )?for\b"
    r"|skip (?:this )?(?:when|if|for)\b",
    re.IGNORECASE,
)


def drop_exclusions(description: str) -> str:
    """Return a description without the sentences that begin with what it is not for.

    A pointer without a refusal stays: "For A/B tests, see cro" is near the subject.
    A description that consists of nothing else stays as it is.

    >>> drop_exclusions("Builds flows. DO NOT USE FOR: forms (use acme-form).")
    'Builds flows.'
    >>> drop_exclusions("Builds flows. For forms, see acme-form.")
    'Builds flows. For forms, see acme-form.'
    """
    if not _EXCLUDES.search(description):
        return description
    sentences = _SENTENCES.split(description)
    kept = [each for each in sentences if not _EXCLUDES.match(each)]
    return " ".join(kept) or description
