"""A real identity provider: clients find it, and it rotates its keys and goes."""

from pathlib import Path

from soak.http.sign_in import sign_in
from tests.faults.promises import find_missed


def test_only_valid_tokens_sign_in_whatever_the_provider_does(tmp_path: Path) -> None:
    missed = find_missed(sign_in, tmp_path)

    assert missed == []
