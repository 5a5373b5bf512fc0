"""The HTML page: complete, safe and well formed."""

import re
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.month import LAST_DAY, simulate
from skills_mcp.events.received_event import MAX_FIELD_LENGTH
from skills_mcp.features.report.event_rows import clean_line
from skills_mcp.features.report.figure_queries import CurrentSkill, CurrentSkills
from skills_mcp.features.report.report_page import (
    MAX_ROWS,
    VISIBLE_ROWS,
    Chart,
    derive_axis_maximum,
    derive_cards,
    describe_period,
    draw_answers,
    render_report_page,
    sparkline,
)
from skills_mcp.features.report.report_text import (
    derive_report_notes,
    divide_feedback,
    restrict_report,
    select_area,
)
from skills_mcp.features.report.usage_report import (
    Answers,
    Period,
    PeriodAnswers,
    Release,
    Span,
    UsageReport,
    parse_since,
)
from tests.features.report.happenings import (
    aggregate,
    event,
    judged,
    missed,
    ran,
    served,
    torn,
)
from tests.support import PROJECT

VOID = {"meta", "br", "wbr", "link", "img", "hr", "input", "base"}
FETCHING = {"src", "srcset", "href", "xlink:href", "action", "data", "poster", "style"}

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</style><script>x</script>",
    "</title></svg><script>x</script>",
    "{{ 7 * 191 }}{% include 'x' %}",
    "]]><!--",
    "\u202egnp.exe\u2066",
    "a\0b\x1b[31m\x08c\x85\u2028d",
    "\ud800",
    "Z" + "\u0301" * 400,
    "x" * 100_000,
    "&lt;b&gt;&#60;",
)

FIRST = date(2026, 11, 1)

counts = st.integers(0, 10**9)
answers = st.builds(Answers, counts, counts, counts)


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def rendered(report: UsageReport, reason: str = "") -> Page:
    return Page(render_report_page(report, derive_report_notes(report, without_skills=reason)))


@pytest.fixture(scope="module")
def month() -> UsageReport:
    """A month of use, with the skills of that month."""
    since = parse_since("30d", LAST_DAY)
    skill = CurrentSkill("ui/never", "Nobody asked for it", ("never",))
    current = CurrentSkills((skill,), lambda _: ("ui/never",))
    return aggregate(simulate(), current, Span(since, LAST_DAY))


def test_a_month_is_a_page_with_every_section(month: UsageReport) -> None:
    page = rendered(month)

    for said in (
        "What agents asked for, and what they got",
        "24 Oct 2026 to 22 Nov 2026, 30 days in UTC",
        "send a push notification to the driver app",
        "api/auth",
        "failing since this commit",
        "I had to look up the validation messages myself.",
        "Nobody asked for it",
        "removed",
    ):
        assert said in page.text, said
    assert page.tags["section"] == 7


def test_a_chart_says_in_words_what_it_shows(month: UsageReport) -> None:
    page = rendered(month)

    drawings = [each for each in page.attributes if each[:2] == ("svg", "viewbox")]
    hidden = [each for each in page.attributes if each[1] == "aria-hidden"]
    named = [
        each
        for each in page.attributes
        if each[0] == "svg" and each[1] in {"aria-label", "aria-labelledby"}
    ]
    assert len(drawings) == len(named) + len(hidden)
    day = month.periods[2]
    assert f"{day.answers.served} served, {day.answers.ambiguous} ambiguous" in page.text


def test_the_page_fetches_nothing_and_runs_nothing(month: UsageReport) -> None:
    page = rendered(month)

    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert [
        each for each in page.attributes if each[1] in FETCHING and not each[2].startswith("#")
    ] == []
    assert not [each for each in page.attributes if each[1].startswith("on")]
    place = page.attributes.index(("meta", "http-equiv", "Content-Security-Policy"))
    assert page.attributes[place + 1] == ("meta", "content", POLICY)
    assert "url(" not in (PAGE / "page.css").read_text()
    assert "@import" not in (PAGE / "page.css").read_text()


def test_links_lead_to_sections_that_are_there(month: UsageReport) -> None:
    page = rendered(month)

    names = {value for _, name, value in page.attributes if name == "id"}
    links = {value[1:] for tag, name, value in page.attributes if (tag, name) == ("a", "href")}
    assert links <= names
    assert links == {
        *("over-time", "gaps", "rivalries", "feedback"),
        *("scripts", "skills", "unserved"),
    }


def test_the_near_misses_of_a_task_are_shown() -> None:
    report = aggregate([missed("write a post-mortem", near=["ops/incidents"])])

    assert "ops/incidents" in rendered(report).text


def everywhere(text: str) -> UsageReport:
    """Return a report that has a text wherever an event or a skill may have one."""
    events = [
        missed(text, near=[text]),
        torn(text, text, "b", matched_keywords=[[text], [text]]),
        served(text or "x", context=text, commit=text, person=text),
        judged(text or "x", useful=False, comment=text, commit=text),
        ran(text or "x", skill_path=text or "x", success=False, commit=text),
        event("asset_served", skill_path=text, file=text),
    ]
    shown = clean_line(text, MAX_FIELD_LENGTH)  # as `derive_offer` does
    skill = CurrentSkill(shown, shown, (shown,))
    return aggregate(events, CurrentSkills((skill,), lambda _: (shown, shown)))


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_no_text_becomes_part_of_the_page_itself(text: str) -> None:
    plain, hostile = rendered(everywhere("word")), rendered(everywhere(text), text)

    assert hostile.tags["script"] == hostile.tags["img"] == 0
    assert set(hostile.tags) <= set(plain.tags) | {"wbr", "ul", "li"}
    names = {(tag, name) for tag, name, _ in plain.attributes}
    allowed = names | {("ul", "class"), ("ul", "aria-label")}
    assert {(tag, name) for tag, name, _ in hostile.attributes} <= allowed
    assert not re.search(r"[\0\x1b\x08\u202e\u2066\u2028\ud800]", hostile.text)
    assert "1337" not in hostile.text


@given(st.text())
def test_any_text_leaves_the_page_well_formed(text: str) -> None:
    page = rendered(everywhere(text))

    assert page.tags["script"] == 0
    assert render_report_page(everywhere(text), ()).encode("utf-8")


def test_a_huge_text_does_not_make_a_huge_page() -> None:
    assert len(render_report_page(everywhere("x" * 1_000_000), ())) < 60_000


def test_a_long_table_ends_and_says_what_is_left_out() -> None:
    page = rendered(aggregate(missed(f"task number{n} of it") for n in range(MAX_ROWS + 7)))

    assert page.text.count("task number") == MAX_ROWS
    assert f"{MAX_ROWS - VISIBLE_ROWS} more tasks" in page.text
    assert f"ends after {MAX_ROWS} tasks; those with smaller numbers" in page.text


def test_skills_that_nearly_always_help_are_folded() -> None:
    report = aggregate(
        [
            *(judged("good", useful=True) for _ in range(9)),
            judged("good", useful=False, comment="once"),
            judged("poor", useful=True),
            judged("poor", useful=False, comment="it lacks a step"),
        ]
    )
    doubtful, helpful = divide_feedback(report)

    assert [each.skill for each in doubtful] == ["poor"]
    assert [each.skill for each in helpful] == ["good"]
    text = rendered(report).text
    assert text.index("it lacks a step") < text.index("1 skill that nearly always")


def test_a_card_says_how_its_figure_changed_and_leads_to_more() -> None:
    before = [served("a", 9), served("a", 10), missed("x", 10), missed("y", 10)]
    now = [served("a", 12), judged("a", useful=True, day=12)]
    span = Span(date(2026, 11, 11), date(2026, 11, 12))

    report = aggregate([*before, *now], span=span)

    tasks, share, *_ = derive_cards(report)
    assert (tasks.figure, tasks.change, tasks.section) == (
        *("1", "4 before"),
        "over-time",
    )
    assert (share.figure, share.change, share.section) == (
        *("100 %", "up from 50 %"),
        "skills",
    )


def test_a_number_has_no_trend_if_the_record_begins_in_between() -> None:
    span = Span(date(2026, 11, 11), date(2026, 11, 12))

    report = aggregate([missed("x", 10), served("a", 12)], span=span)

    tasks, share, *_ = derive_cards(report)
    assert (tasks.change, share.change) == ("", "up from 0 %")


def test_one_day_is_not_a_bar_as_wide_as_the_page() -> None:
    chart = drawn(Answers(1, 0, 0))

    assert chart.bars[0].width < chart.width / 10


def test_an_empty_report_is_a_page_that_says_so() -> None:
    page = rendered(aggregate([]))

    assert page.tags["section"] == 1
    assert "no event was recorded from 1 Nov 2026 to 30 Nov 2026" in page.text
    assert "Choose other days, or turn analytics on." in page.text


def test_the_same_report_is_the_same_page(month: UsageReport) -> None:
    assert render_report_page(month, ()) == render_report_page(month, ())


PAGE = files("skills_mcp.features.report") / "templates"


def test_the_templates_are_part_of_the_package() -> None:
    names = {each.name for each in PAGE.iterdir()}

    assert names == {
        "page.html",
        "body.html",
        "tables.html",
        "page.css",
        "frame.css",
        "charts.html",
    }
    assert all(len(each.read_text("utf-8").splitlines()) <= 320 for each in PAGE.iterdir())


def test_no_rule_keeps_the_templates_out_of_what_is_built() -> None:
    folder = PROJECT / "src" / "skills_mcp" / "features" / "report" / "templates"

    done = subprocess.run(
        ["git", "check-ignore", *folder.iterdir()],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == ""


def days(*each: Answers) -> list[PeriodAnswers]:
    return [PeriodAnswers(FIRST + timedelta(days=n), one, 1) for n, one in enumerate(each)]


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
    assert highest <= derive_axis_maximum(highest) <= 2 * highest


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


def test_one_is_not_called_many() -> None:
    span = Span(date(2026, 11, 2), date(2026, 11, 2))
    one = aggregate([served("a", 2)], span=span)
    gap = aggregate([missed("x", 2), missed("y", 3)], span=span)
    pair = aggregate([torn("x", "a", "b", day=2)], span=span)

    assert "1 day in UTC. 1 event of 1 person." in rendered(one).text
    pages = "".join(render_report_page(each, ()) for each in (one, gap, pair))
    assert re.findall(r"<title>(1 \w+)", pages) == ["1 time"] * 3
    assert "1 event of another day is not in these figures." in rendered(gap).text


def test_labels_of_commits_do_not_touch_each_other_and_stay_inside() -> None:
    starts = [date(2026, 11, day) for day in range(1, 31)]
    periods = [PeriodAnswers(start, Answers(1, 0, 0), 1) for start in starts]
    commits = {1: "0" * 40, 9: "a" * 40, 10: "b" * 40, 18: "c" * 40, 29: "d" * 40}
    releases = [Release(commit=name, first_seen=starts[day]) for day, name in commits.items()]
    report = replace(aggregate([served("a")]), periods=tuple(periods), releases=tuple(releases))

    page = render_report_page(report, ())

    labels = re.findall(
        r'<text class="axis" x="([\d.]+)" y="16.0"( text-anchor="end")?>(\w+)<', page
    )
    assert [name[0] for _, _, name in labels] == ["a", "c", "d"]
    assert [bool(end) for _, end, _ in labels] == [False, False, True]
    assert all(f"<title>{name[:8]}</title>" in page for name in list(commits.values())[1:])


def test_a_report_of_some_skills_compares_ratings_of_all_with_those_of_all() -> None:
    events = [
        *(judged(path, useful=useful, day=day) for day in (9, 12) for path, useful in RATINGS),
        served("ui/a", 12),
    ]
    report = aggregate(events, span=Span(date(2026, 11, 11), date(2026, 11, 13)))

    area, some = select_area(report, "ui"), restrict_report(report, {"ui/a"})

    for part in (report, area, some):
        *_, rating = derive_cards(part)
        assert (rating.figure, rating.text) == ("75 %", "useful, of 4 ratings")
        assert rating.change == "as before"
    assert {row.skill for row in area.feedback} == {row.skill for row in some.feedback} == {"ui/a"}


RATINGS = (("ui/a", False), ("api/b", True), ("api/c", True), ("api/d", True))


def test_commits_that_are_kept_from_a_person_are_not_called_none() -> None:
    report = aggregate([served("a")])

    assert "1 commit was served" in rendered(report).text
    assert "served." not in rendered(restrict_report(report, {"a"})).text.partition("refresh")[2]
