import pytest

from skills_mcp.config import Embedding
from skills_mcp.embeddings.provider import derive_provider
from skills_mcp.errors import ConfigError
from tests.embeddings.embedding_server import KEY


def test_each_provider_has_an_address_a_model_and_a_variable_for_its_key() -> None:
    environment = {"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": "AIza"}

    openai = derive_provider(Embedding(provider="openai"), environment)
    gemini = derive_provider(Embedding(provider="gemini"), environment)

    assert openai.address == "https://api.openai.com/v1"
    assert openai.model == "text-embedding-3-small"
    assert openai.key == KEY
    assert gemini.address == "https://generativelanguage.googleapis.com/v1beta/openai"
    assert gemini.model == "gemini-embedding-001"
    assert gemini.key == "AIza"


def test_the_operator_may_name_another_address_model_and_variable() -> None:
    rules = Embedding(
        provider="openai",
        base_url="https://gateway.example/v1/",
        model="other",
        api_key_env="OUR_KEY",
    )

    provider = derive_provider(rules, {"OUR_KEY": "ours\n", "OPENAI_API_KEY": KEY})

    assert provider.address == "https://gateway.example/v1"
    assert provider.model == "other"
    assert provider.key == "ours"


def test_a_server_of_ones_own_needs_no_key() -> None:
    rules = Embedding(
        provider="openai-compatible", base_url="http://localhost:1/v1", model="bge"
    )

    provider = derive_provider(rules, {"OPENAI_API_KEY": KEY})

    assert provider.key == ""
    assert provider.find_fault() == ""


@pytest.mark.parametrize(
    "given, missing",
    [({"model": "bge"}, "base_url"), ({"base_url": "http://x"}, "model")],
)
def test_a_server_of_ones_own_needs_an_address_and_a_model(
    given: dict[str, str], missing: str
) -> None:
    rules = Embedding(provider="openai-compatible", **given)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=f"^embedding.{missing}: "):
        derive_provider(rules, {})


@pytest.mark.parametrize("key", ["", " ", "sk\nEvil: 1", "sk-ä", "two words"])
def test_what_can_be_no_key_is_named_by_its_variable_and_never_shown(key: str) -> None:
    provider = derive_provider(Embedding(provider="openai"), {"OPENAI_API_KEY": key})

    assert "OPENAI_API_KEY" in provider.find_fault()
    assert not key.strip() or key not in provider.find_fault()


def test_the_key_is_not_in_what_a_debugger_or_a_log_would_print() -> None:
    provider = derive_provider(Embedding(provider="openai"), {"OPENAI_API_KEY": KEY})

    assert KEY not in repr(provider)


def test_vectors_of_another_model_address_or_length_have_other_names() -> None:
    every = [
        derive_provider(Embedding(provider="openai", **more), {})
        for more in (
            {},
            {"model": "other"},
            {"dimensions": 256},
            {"base_url": "http://x"},
        )
    ]

    assert len({provider.digest("text") for provider in every}) == len(every)
    assert len({provider.space() for provider in every}) == len(every)
