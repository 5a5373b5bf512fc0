from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.usage.charts import (
    Chart,
    derive_ceiling,
    describe_period,
    draw_answers,
    sparkline,
)
from skills_mcp.usage.span import Period
from skills_mcp.usage.summary import Answers, PeriodAnswers, Release

FIRST = date(2026, 11, 1)

counts = st.integers(0, 10**9)
answers = st.builds(Answers, counts, counts, counts)


def days(*each: Answers) -> list[PeriodAnswers]:
    return [
        PeriodAnswers(FIRST + timedelta(days=n), one, 1) for n, one in enumerate(each)
    ]


def drawn(*each: Answers, releases: tuple[Release, ...] = ()) -> Chart:
    chart = draw_answers(days(*each), releases)
    assert chart is not None
    return chart


@given(st.lists(answers, min_size=1, max_size=60))
def test_everything_is_inside_of_the_drawing(each: list[Answers]) -> None:
    chart = draw_answers(days(*each), ())

    if chart is None:
        assert not any(one.tasks for one in each)
        return
    for bar in chart.bars:
        assert chart.left <= bar.x
        assert bar.x + bar.width <= chart.width + 0.1
        assert all(chart.top - 0.1 <= piece.y for piece in bar.pieces)
    assert len(chart.days) <= 8


def test_pieces_stand_on_each_other_in_proportion() -> None:
    [bar] = drawn(Answers(4, 2, 2)).bars

    served, ambiguous, no_match = bar.pieces
    assert served.height == pytest.approx(2 * ambiguous.height, abs=0.1)
    assert served.y == pytest.approx(ambiguous.y + ambiguous.height, abs=0.1)
    assert ambiguous.y == pytest.approx(no_match.y + no_match.height, abs=0.1)


@given(st.integers(1, 10**12))
def test_an_axis_is_high_enough_and_not_much_higher(highest: int) -> None:
    assert highest <= derive_ceiling(highest) <= 2 * highest


def test_new_content_is_marked_and_what_was_there_is_not() -> None:
    seen = [Release(commit=f"{n}" * 40, first_seen=FIRST) for n in range(2)]
    later = Release(commit="c" * 40, first_seen=FIRST + timedelta(days=1))

    chart = drawn(Answers(1, 0, 0), Answers(1, 0, 0), releases=(seen[0], later))

    [mark] = chart.releases
    assert (mark.text, mark.at) == ("cccccccc", chart.bars[1].x)


def test_so_many_marks_that_nothing_else_is_seen_are_none() -> None:
    many = tuple(Release(commit=f"{n}", first_seen=FIRST) for n in range(20))

    assert drawn(Answers(1, 0, 0), releases=many).releases == ()


def test_a_commit_from_before_the_first_bar_stands_at_it() -> None:
    early = FIRST - timedelta(days=3)
    two = tuple(Release(commit=f"{n}", first_seen=early) for n in range(2))

    chart = drawn(Answers(1, 0, 0), releases=two)

    assert [mark.at for mark in chart.releases] == [chart.bars[0].x]


def test_a_small_chart_has_a_height_for_each_period() -> None:
    second, third = FIRST + timedelta(days=1), FIRST + timedelta(days=2)

    heights = sparkline(((second, 2), (third, 4)), (FIRST, second, third))

    assert heights == (0, 0.5, 1)
    assert sparkline((), (FIRST,)) == (0,)


@pytest.mark.parametrize(
    "period, words",
    [
        ("day", "Sun 1 Nov 2026"),
        ("week", "the week of 1 Nov 2026"),
        ("month", "November 2026"),
    ],
)
def test_a_period_has_a_name(period: Period, words: str) -> None:
    assert describe_period(FIRST, period) == words
