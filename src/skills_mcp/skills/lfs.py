"""Files whose content is somewhere else: pointers of Git LFS.

Nothing of ours fetches what they point to, so a reader has to be told, or it would
take three lines about a template for the template.
"""

_BEGINNING = b"version https://git-lfs.github.com/spec/"

MAX_POINTER_BYTES = 1023
"""Of a pointer, as the specification of Git LFS has it."""

HINT = "keep it in Git itself: git lfs migrate export"
"""What its author can do."""


def is_pointer(data: bytes) -> bool:
    """Whether this is a whole file that says where its content is."""
    return len(data) <= MAX_POINTER_BYTES and data.startswith(_BEGINNING)
