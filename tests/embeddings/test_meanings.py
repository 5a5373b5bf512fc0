import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.embeddings.meanings import MILLION, Meanings, find_nearest
from skills_mcp.embeddings.reply import EmbeddingError, Matrix, Vector
from skills_mcp.skills.model import SkillPath


def meanings(vectors: Matrix) -> Meanings:
    return Meanings.of([SkillPath(f"s{n}") for n in range(len(vectors))], vectors)


def unit(*numbers: float) -> Vector:
    vector: Vector = np.array(numbers, np.float32)
    normal: Vector = vector / np.linalg.norm(vector)
    return normal


def test_the_same_direction_is_a_million_and_the_average_is_nothing() -> None:
    vectors = np.eye(20, dtype=np.float32)

    likeness = meanings(vectors).compare(vectors[3])

    assert likeness[3] == MILLION
    assert likeness.sum() == MILLION


def test_a_model_that_finds_everything_alike_is_read_like_one_that_does_not() -> None:
    plain = np.eye(20, dtype=np.float32)
    alike = np.stack([unit(*(row + 0.5)) for row in plain])
    task = unit(*(plain[0] + plain[1]))
    cosines = alike @ unit(*(task + 0.5))

    likeness = meanings(alike).compare(unit(*(task + 0.5)))

    assert cosines.min() > 0.6
    assert likeness[2:].max() < 100_000
    assert likeness[:2].min() > 200_000


def test_a_single_skill_can_be_like_a_task() -> None:
    likeness = meanings(np.stack([unit(1, 0)])).compare(unit(1, 1))

    assert likeness[0] > 500_000


def test_a_vector_of_another_model_is_refused_and_the_remedy_named() -> None:
    with pytest.raises(EmbeddingError, match=r"3 dimensions.*2.*delete cache/emb"):
        meanings(np.eye(2, dtype=np.float32)).compare(unit(1, 2, 3))


LIKENESS = st.lists(st.integers(0, 5), min_size=1, max_size=30)


@given(
    numbers=LIKENESS, most=st.integers(1, 8), least=st.integers(0, 4), data=st.data()
)
def test_the_nearest_are_those_of_a_plain_sort(
    numbers: list[int], most: int, least: int, data: st.DataObject
) -> None:
    size = len(numbers)
    within = data.draw(
        st.none() | st.lists(st.booleans(), min_size=size, max_size=size)
    )
    mask = None if within is None else np.array(within)

    found = find_nearest(np.array(numbers), most, least, mask)

    eligible = [
        n for n in range(size) if numbers[n] >= least and (within is None or within[n])
    ]
    assert found == sorted(eligible, key=lambda n: (-numbers[n], n))[:most]
