"""Words that mean the same, and words that say little."""

from collections.abc import Iterator
from importlib import resources
from itertools import pairwise

import pytest

from skills_mcp.routing import lexicon
from skills_mcp.routing.lexicon import (
    Synonym,
    SynonymGroup,
    analyze_token,
    build_thesaurus,
    common_word_weight,
    stem,
)

_PACKAGE = resources.files("skills_mcp.routing")
_SYNONYMS = (_PACKAGE / "synonyms.txt").read_text(encoding="utf-8")
_COMMON = (_PACKAGE / "common_words.txt").read_text(encoding="utf-8")

expand = build_thesaurus().expand

_GROUPS = tuple(lexicon.parse_groups(_SYNONYMS))
_TIERS = tuple(lexicon.parse_tiers(_COMMON))


def _members(group: SynonymGroup) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group.sources + group.targets))


def _analyse(member: str) -> tuple[str, ...]:
    return tuple(word.term for part in member.split() for word in analyze_token(part))


def _stand_ins(term: str, *others: str) -> set[tuple[str, ...]]:
    return {each.terms for each in expand([term, *others]).get(term, ())}


def _sections(text: str) -> Iterator[list[str]]:
    for section in text.split("\n\n"):
        yield [line for line in section.splitlines() if line and line[0] not in "#["]


# --- The grammar


def test_a_line_is_a_group_whose_members_are_the_same_near_or_directed() -> None:
    text = "# a remark\n\nk8s = kubernetes\nfilm, motion picture # another\nx, y > z\n"

    same, near, leads = lexicon.parse_groups(text)

    assert same == SynonymGroup("same", ("k8s", "kubernetes"), ("k8s", "kubernetes"))
    assert near == SynonymGroup("near", ("film", "motion picture"), ("film", "motion picture"))
    assert leads == SynonymGroup("leads", ("x", "y"), ("z",))


def test_a_tier_begins_with_its_name() -> None:
    text = "# a remark\n[filler]\nable actually\nalmost\n\n[general]\nweekend\n"

    tiers = list(lexicon.parse_tiers(text))

    assert tiers == [
        ("able", "filler"),
        ("actually", "filler"),
        ("almost", "filler"),
        ("weekend", "general"),
    ]


def test_a_sharp_that_belongs_to_a_word_begins_no_remark() -> None:
    (group,) = lexicon.parse_groups("csharp = c# # both are typed\n")

    assert group.targets == ("csharp", "c#")
    assert ("c#",) in _stand_ins("csharp")


# --- The thesaurus


def test_every_member_survives_the_analyser() -> None:
    # A stop word, a capital or a hyphen in it: no task would ever find the member.
    lost = [
        member
        for group in _GROUPS
        for member in _members(group)
        if not member or _analyse(member) != tuple(map(stem, member.split()))
    ]

    assert lost == []


def test_every_group_has_members_of_different_stems() -> None:
    merged = [
        group
        for group in _GROUPS
        if len({_analyse(member) for member in _members(group)}) < max(2, len(_members(group)))
    ]

    assert merged == []


def test_no_group_stands_there_twice() -> None:
    lines = [line for section in _sections(_SYNONYMS) for line in section]
    groups = [(g.relation, frozenset(g.sources), frozenset(g.targets)) for g in _GROUPS]

    assert len(lines) == len(set(lines)) == len(groups)
    assert len(groups) == len(set(groups))


def test_the_lines_of_a_section_are_sorted() -> None:
    sections = list(_sections(_SYNONYMS))

    assert all(section == sorted(section) for section in sections)


def test_phrases_are_short_enough_to_be_met() -> None:
    longest = max(len(member.split()) for group in _GROUPS for member in _members(group))

    assert longest <= 3


# --- What stands for the words of a task


@pytest.mark.parametrize(
    "term, stand_in",
    [
        ("k8s", "kubernet"),
        ("kubernet", "k8s"),
        ("spreadsheet", "xlsx"),
        ("except", "failur"),
        ("login", "authent"),
        ("slow", "perform"),
    ],
)
def test_a_word_has_what_means_the_same(term: str, stand_in: str) -> None:
    assert (stand_in,) in _stand_ins(term)


def test_a_directed_group_leads_only_one_way() -> None:
    assert ("debug",) in _stand_ins("crash")
    assert ("crash",) not in _stand_ins("debug")


def test_every_directed_group_leads_to_its_targets() -> None:
    for group in _GROUPS:
        if group.relation == "leads":
            for source in group.sources:
                first, *rest = map(stem, source.split())
                found = _stand_ins(first, *rest)
                assert found >= {tuple(map(stem, each.split())) for each in group.targets}


def test_an_abbreviation_is_nearer_than_a_neighbour_in_meaning() -> None:
    near = {each.terms: each.weight for each in expand(["postgr"])["postgr"]}

    assert near[("postgresql",)] > near[("databas",)] > 0


def test_what_stands_for_a_spelling_stands_for_the_other_one_too() -> None:
    british = _stand_ins(stem("optimise"))

    assert {("optim",), ("perform",)} <= british


def test_a_phrase_is_found_by_its_neighbouring_terms() -> None:
    together = expand(["explain", "machin", "learn"])
    apart = expand(["machin", "explain", "learn"])

    assert Synonym(("ml",), 0.7) in together["machin"]
    assert Synonym(("ml",), 0.7) in together["learn"]
    assert all(each.terms != ("ml",) for each in apart.get("machin", ()))


def test_a_stand_in_may_be_a_phrase() -> None:
    assert ("machin", "learn") in _stand_ins("ml")


def test_no_term_stands_for_itself() -> None:
    terms = {stem(word) for g in _GROUPS for m in _members(g) for word in m.split()}

    found = expand(sorted(terms))

    assert all((term,) != each.terms for term in found for each in found[term])


def test_stand_ins_come_nearest_first_and_in_one_order() -> None:
    terms = ["pull", "request", "test", "design"]

    found = expand(terms)

    assert found == expand(terms)
    assert list(found) == list(expand(terms))
    for stand_ins in found.values():
        ranks = [(-each.weight, each.terms) for each in stand_ins]
        assert all(one < other for one, other in pairwise(ranks))


def test_weights_are_shares() -> None:
    found = expand([stem(group.sources[0].split()[0]) for group in _GROUPS])

    assert all(0 < each.weight <= 1 for relatives in found.values() for each in relatives)


def test_words_without_relatives_are_left_out() -> None:
    assert expand([]) == {}
    assert expand(["qwertz"]) == {}


# --- Verbs whose particle is a stop word


def test_common_words_survive_the_analyser() -> None:
    lost = [word for word, _ in _TIERS if _analyse(word) != (stem(word),)]

    assert lost == []


def test_a_stem_is_in_one_tier() -> None:
    stems = [stem(word) for word, _ in _TIERS]

    assert len(stems) == len(set(stems))


def test_common_words_are_sorted() -> None:
    for name in ("filler", "ordinary", "general"):
        words = [word for word, tier in _TIERS if tier == name]
        assert words
        assert words == sorted(words)


def test_a_word_with_stand_ins_has_a_topic_and_is_not_common() -> None:
    # Mostly another word with the same stem: excellent and Excel, apart and apartment.
    alone = {stem(member) for group in _GROUPS for member in _members(group) if " " not in member}

    assert sorted(word for word, _ in _TIERS if stem(word) in alone) == []


@pytest.mark.parametrize(
    "word",
    [
        *("go", "c", "r", "js", "api", "rust", "next", "spring", "swift"),
        *("node", "test", "type", "class", "error", "ai", "rest", "dart", "flask"),
        *("express", "react", "excel", "word", "access", "teams", "spark"),
    ],
)
def test_a_technical_term_is_not_common(word: str) -> None:
    assert common_word_weight(stem(word)) == 1


def test_the_less_a_word_says_the_less_it_weighs() -> None:
    filler, ordinary, general, topic = map(
        common_word_weight, ("good", "easier", "weekend", "kubernet")
    )

    assert 0 < filler < ordinary < general < topic == 1


def test_technologies_are_sorted_and_none_is_an_ordinary_word() -> None:
    text = (resources.files("skills_mcp.routing") / "technologies.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    words = " ".join(lines).split()

    assert words == sorted(set(words))
    assert [word for word in words if lexicon.common_word_weight(stem(word)) < 1] == []
    assert lexicon.is_technology_name("laravel")
    assert lexicon.is_technology_name("c#")
    assert not lexicon.is_technology_name("electronics"), "only its stem is electron"
    assert not lexicon.is_technology_name("spring")
    assert not lexicon.is_technology_name("#")


# --- The words of an organisation


@pytest.mark.parametrize(
    "line, task, found",
    [
        ("rfc = request for change", ["rfc"], ("request", "chang")),
        ("rfc = request for change", ["request", "chang"], ("rfc",)),
        ("Cobalt > Billing, invoices", ["cobalt"], ("invoic",)),
        ("post-mortem, Nachlese", ["post", "mortem"], ("nachles",)),
        ("k8s = plattform", ["k8s"], ("kubernet",)),
    ],
)
def test_an_organisation_adds_its_own_words(
    line: str, task: list[str], found: tuple[str, ...]
) -> None:
    own = build_thesaurus((line,)).expand(task)

    assert found in {each.terms for each in own[task[0]]}


def test_the_words_of_one_organisation_are_not_those_of_another() -> None:
    build_thesaurus(("cobalt > billing",))

    assert "cobalt" not in expand(["cobalt"])


def test_a_line_of_stop_words_is_harmless() -> None:
    assert "the" not in build_thesaurus(("the = a", "of > and, or")).expand(["the"])
