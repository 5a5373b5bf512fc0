"""What a skill costs, and how tokens are counted."""

import sys
from hashlib import sha1
from pathlib import Path
from types import SimpleNamespace

import pytest

from skills_mcp.skills.composition import derive_cost
from skills_mcp.text import tokens
from tests.skills.contents import take
from tests.support import write, write_skill


def test_a_skill_costs_its_own_text_the_inherited_one_and_files_if_they_are_fetched(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "_root.md", body="r" * 400)
    write_skill(tmp_path, "api.md", body="a" * 200, assets=[{"file": "big.txt"}])
    write(tmp_path / "api/big.txt", "x" * 8000)
    index = take(tmp_path).index

    cost = derive_cost(index, index.require("api"))

    assert (cost.tokens.own, cost.characters.own) == (50, 200)
    assert cost.tokens.inherited > 100  # with headers
    assert (cost.tokens.assets, cost.characters.assets) == (2000, 8000)


def test_a_tokenizer_counts_where_it_has_its_encoding_and_fetches_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding = SimpleNamespace(encode=lambda text, **_: text.split())
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=lambda _: encoding))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    counts = []

    for name in ("other", sha1(tokens._ENCODING_URL.encode(), usedforsecurity=False).hexdigest()):
        write(tmp_path / name, "")
        tokens._open_tokenizer.cache_clear()
        counts.append(tokens.count_tokens("one two three"))
    tokens._open_tokenizer.cache_clear()

    assert counts == [4, 3]
