"""Every setting of how a task finds its skill (001 §5, 000 §3.2)."""

from pydantic import Field

from skills_mcp.config.section import Section
from skills_mcp.config.values import (
    PLAIN_ADDRESS,
    VARIABLE_NAME,
    Algorithm,
    Count,
    Dimensions,
    EmbeddingProvider,
    Patience,
    Ratio,
)


class Matching(Section):
    """How a task finds its skill (001 §5)."""

    algorithm: Algorithm = Field(
        default="auto",
        description="auto: keyword if every skill declares keywords, else ranked, "
        "which looks at all words.",
    )
    min_score: Ratio = Field(
        default=0.2, description="Skills that score below this are not considered."
    )
    max_results: Count = Field(
        default=3, description="The most candidates that an ambiguous answer lists."
    )
    ambiguity_threshold: Ratio = Field(
        default=0.1,
        description="If the best two scores differ by less, the answer is ambiguous.",
    )


class Search(Section):
    """What `search_skills` returns (000 §3.2)."""

    limit: Count = Field(default=10, description="The most skills in one answer.")
    threshold: Ratio = Field(
        default=0.2,
        description="Of more than five hits, those below this share of the best score "
        "are left out.",
    )


class Embedding(Section):
    """Whether a model compares meanings beside the words (000 §6.3)."""

    provider: EmbeddingProvider = Field(
        default="none",
        description="Who turns texts into vectors. none: nobody, and nothing leaves "
        "this machine.",
    )
    model: str = Field(
        default="",
        description="The model; without one, `text-embedding-3-small` of openai or "
        "`gemini-embedding-001` of gemini.",
    )
    base_url: str = Field(
        default="",
        pattern=PLAIN_ADDRESS,
        description="The address above `/embeddings`; without one, the provider's own.",
    )
    api_key_env: str = Field(
        default="",
        pattern=VARIABLE_NAME,
        description="The environment variable that holds the key; without one, "
        "`OPENAI_API_KEY` or `GEMINI_API_KEY`.",
    )
    dimensions: Dimensions = Field(
        default=0, description="How long a vector is; 0 leaves it to the model."
    )
    timeout_seconds: Patience = Field(
        default=2.0,
        description="Seconds that an agent waits for the vector of its task; later the "
        "words decide alone.",
    )
    batch_size: Count = Field(
        # To read the reply of 64 long vectors takes 10 ms, in which nothing else runs.
        default=32,
        description="The most skills in one request.",
    )
    weight: Ratio = Field(
        default=0.3,
        description="The share of the meaning in a score; the words have the rest.",
    )
