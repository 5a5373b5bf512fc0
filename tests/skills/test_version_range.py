"""Ranges of versions: what is in them, and whether two have anything in common."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.skills.version_range import MAX_RANGE_CHARACTERS, parse_range

PARTS = range(4)
VERSIONS = [".".join(map(str, parts)) for parts in product(range(6), repeat=3)]

versions = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)
comparators = st.tuples(st.sampled_from(["", "^", "~", ">", ">=", "<", "<=", "="]), versions)
ranges = st.lists(
    st.lists(comparators.map("".join), min_size=1, max_size=2).map(" ".join),
    min_size=1,
    max_size=2,
).map(" || ".join)


@given(one=ranges, other=ranges)
def test_two_ranges_overlap_if_a_version_is_in_both(one: str, other: str) -> None:
    first, second = parse_range(one), parse_range(other)
    assert first
    assert second

    common = [v for v in VERSIONS if first.contains(v) and second.contains(v)]

    assert first.overlaps(second) == second.overlaps(first) == bool(common)


@given(text=st.text(max_size=300))
def test_any_text_is_a_range_or_none(text: str) -> None:
    for ecosystem in ("npm", "pypi", "cargo", "maven"):
        found = parse_range(text, ecosystem)

        assert found is None or len(found.text) <= MAX_RANGE_CHARACTERS


@given(text=st.text(alphabet="0123456789.<>=^~|,[]()xv*- \n", max_size=60))
def test_no_range_raises(text: str) -> None:
    for ecosystem in ("npm", "pypi", "cargo", "nuget"):
        if found := parse_range(text, ecosystem):
            found.contains("1.2.3")
            found.overlaps(found)
