"""The ranked algorithm: everything that a skill says counts."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import fsum, log1p
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skills_mcp.config import Matching
from skills_mcp.routing.decision import (
    answered_candidates,
    estimate_probabilities,
    score_and_decide,
)
from skills_mcp.routing.matcher import Candidate, Evidence
from skills_mcp.routing.ranked_matcher import RERANK_LIMIT
from skills_mcp.skills.model import Skill
from tests.routing.matchers import matcher_of, ranked_matcher, ranking, scores, silent
from tests.support import make_skill


@pytest.mark.parametrize(
    "field",
    [
        {"name": "kafka-topics"},
        {"keywords": ("stream", "kafka")},
        {"category": "kafka"},
        {"description": "About Kafka."},
        {"body": "# Kafka\n\nText."},
        {"body": "Text with Kafka in it."},
    ],
)
def test_every_field_can_find_a_skill(field: dict[str, Any]) -> None:
    skills = [silent("a", **field), silent("b", description="About something.")]

    assert ranking(skills, "a task for Kafka") == ["a"]


def test_a_field_counts_the_more_the_shorter_it_usually_is() -> None:
    word = "kafka"
    skills = [
        silent("e-name", name=word),
        silent("d-keyword", keywords=(word,)),
        silent("c-description", description=word),
        silent("b-heading", body=f"# {word}"),
        silent("a-body", body=word),
    ]

    found = ranking(skills, word)

    assert found == [skill.path for skill in skills]


def test_a_category_counts_as_much_as_a_keyword() -> None:
    skills = [silent("a", category="kafka"), silent("b", keywords=("kafka",))]

    [a, b] = scores(skills, "kafka").values()

    assert a == b


@pytest.mark.parametrize(
    "path, task, expected",
    [
        ("ui/react/_index", "react", True),
        ("ui/react/_index", "index", False),
        ("_root", "root", False),
        ("db/_index-tuning", "index", True),
    ],
)
def test_the_rules_of_a_folder_are_called_like_the_folder(
    path: str,
    task: str,
    expected: bool,  # noqa: FBT001
) -> None:
    skill = silent(path, name=path.rsplit("/", 1)[-1])

    assert bool(scores([skill], task)) is expected


def test_the_score_is_the_share_of_the_task_that_a_skill_explains() -> None:
    skills = [silent("a", description="kafka"), silent("b", description="react")]

    [(alone, _)] = scores(skills, "kafka").values()
    [(half, _)] = scores(skills, "kafka xylophone").values()

    # One word is 1/40 of the usual description, so it counts 1 / (0.25 + 0.75/40).
    frequency = 1 / (0.25 + 0.75 / 40)
    share = frequency / (2.5 + frequency) / 1.75
    # Of few skills with a word of the task, a word counts as among thirty.
    known, unknown = log1p(29.5 / 1.5) ** 0.8, log1p(30.5 / 0.5) ** 0.8
    evidence = 1 * share**2, 2 * (share * known / (known + unknown)) ** 2
    enough = 0.17 * (500 / 12_000) ** 0.3  # there is hardly any text
    expected = [each / (each + enough) for each in evidence]
    assert [float(alone), float(half)] == pytest.approx(expected, abs=1e-5)


def test_a_technology_of_which_the_best_skill_says_nothing_makes_it_unlikely() -> None:
    skills = [
        silent("django", description="Class-based views and forms of Django"),
        silent("react", description="React hooks"),
    ]

    right = scores(skills, "class-based views in Django")["django"][0]
    wrong = scores(skills, "class-based views in Laravel")["django"][0]
    neither = scores(skills, "class-based views in zebras")["django"][0]

    assert right > neither > wrong > 0


def test_all_skills_of_a_task_are_as_unlikely_and_keep_their_order() -> None:
    skills = [
        silent("a", description="Rollback of a database migration"),
        silent("b", description="Database migration"),
        silent("c", description="Database backups"),
    ]
    task = "rollback of a database migration"

    assert ranking(skills, f"{task} in laravel") == ranking(skills, task)


def test_another_name_of_a_technology_is_as_good() -> None:
    skills = [silent("a", description="Rollout on Kubernetes"), silent("b")]

    found = matcher_of(skills).explain("rollout k8s", skills[0])

    assert [each.where for each in found if each.where == "missing"] == []


def test_what_the_task_names_in_vain_is_a_reason() -> None:
    skills = [silent("a", description="Rollout on Kubernetes"), silent("b")]

    [missing] = [
        each
        for each in matcher_of(skills).explain("rollout on nomad with helm", skills[0])
        if each.where == "missing"
    ]

    assert missing.word == "helm"
    assert missing.worth < 0


def test_the_same_evidence_says_less_among_more_text_about_the_task() -> None:
    skill = silent("a", description="kafka broker")
    other = silent("b", body=" ".join(f"word{number}" for number in range(5000)))
    more = [silent(f"c{n}", body=other.body.replace("word", f"w{n}x")) for n in range(9)]
    about = [replace(each, body=f"{each.body} broker") for each in more]

    few = scores([skill, other], "kafka broker zebras")["a"][0]
    unrelated = scores([skill, other, *more], "kafka broker zebras")["a"][0]
    many = scores([skill, other, *about], "kafka broker zebras")["a"][0]

    assert many < few == unrelated


def test_a_rare_word_says_more_than_a_common_one() -> None:
    skills = [silent(name, description="react") for name in "abc"]
    rare = silent("rare", description="kafka")

    assert ranking([*skills, rare], "react kafka")[0] == "rare"


def test_a_word_of_the_task_counts_once() -> None:
    skills = [silent("a", description="react"), silent("b", description="kafka")]

    assert scores(skills, "react kafka kafka Kafka") == scores(skills, "react kafka")


@pytest.mark.spec("5.2")
@pytest.mark.parametrize(
    "priority, added", [(0, "0"), (10, "0.01"), (-10, "-0.01"), (-100, "-0.1")]
)
def test_a_priority_adds_a_thousandth_of_itself(priority: int, added: str) -> None:
    [(plain, _)] = scores([silent("a", name="kafka")], "kafka").values()

    skill = silent("a", name="kafka", priority=priority)

    assert scores([skill], "kafka") == {"a": (plain + Fraction(added), ("kafka",))}


@pytest.mark.parametrize("priority, score", [(1000, 1), (-1000, 0)])
def test_no_priority_takes_a_score_out_of_its_range(priority: int, score: int) -> None:
    [(found, _)] = scores([silent("a", name="x1", priority=priority)], "x1").values()

    assert found == score


@pytest.mark.spec("5.2")
def test_a_priority_without_a_word_is_no_candidate() -> None:
    skill = silent("a", name="kafka", priority=1000)

    assert scores([skill], "react") == {}


@pytest.mark.parametrize("task", ["", "  ", "the of and", "?!"])
def test_a_task_that_says_nothing_finds_nothing(task: str) -> None:
    assert scores([silent("a", name="the", body="the of and ?!")], task) == {}
    assert matcher_of([]).score("react") == ()


def test_the_words_that_matched_are_shown_as_typed_and_the_most_telling_first() -> None:
    skills = [
        silent("a", description="create queries for kafka"),
        silent("b", description="create a react page"),
        silent("c", description="create a query"),
    ]

    found = scores(skills, "Créer: query, Queries or CREATE with KafkaStreams")

    assert found["a"][1] == ("kafka", "query", "create")
    assert found["b"][1] == ("create",)


def test_no_more_than_ten_matched_words_are_shown() -> None:
    words = [f"word{number}" for number in range(12)]
    skill = silent("a", description=" ".join(words))

    [(_, shown)] = scores([skill], " ".join(words)).values()

    assert list(shown) == words[:10]


@pytest.mark.parametrize(
    "text, task",
    [
        ("Créer un écran", "creer"),
        ("creer", "Créer"),
        ("ログイン画面に認証を実装する", "認証"),
        ("认证", "给页面添加认证"),
        ("로그인 추가", "로그인을"),
        ("добавить вход", "ВХОД"),
        ("Call useEffect once", "effects"),
        ("effects", "why does useEffect run twice"),
        ("The C++ rules", "c++"),
        ("The C# rules", "C#"),
        ("Port it to .NET", ".net"),
        ("full width: \uff32\uff45\uff41\uff43\uff54", "react"),
        ("l'authentification", "authentification"),
    ],
)
def test_tasks_in_any_script_and_form_find_their_skill(text: str, task: str) -> None:
    skills = [silent("a", description=text), silent("b", description="C code, again")]

    assert ranking(skills, task) == ["a"]


def test_a_least_score_is_compared_to_the_last_digit() -> None:
    matcher = matcher_of([silent("a", name="kafka")])
    [only] = matcher.score("kafka")

    assert matcher.score("kafka", min_score=only.exact_score) == (only,)
    assert matcher.score("kafka", min_score=only.exact_score + Fraction(1, 10**9)) == ()


# --- a second look ---------------------------------------------------------------


def test_words_that_stand_together_count_more_than_words_far_apart() -> None:
    between = " ".join(f"word{number}" for number in range(20))
    skills = [
        silent("a", body=f"message {between} broker {between}"),
        silent("b", body=f"message broker {between} {between}"),
    ]

    assert ranking(skills, "a message broker") == ["b", "a"]


def test_a_name_that_the_task_has_as_a_whole_counts_more() -> None:
    skills = [
        silent("a", name="kafka-migration", description="broker"),
        silent("b", name="kafka-broker", description="migration"),
    ]

    assert ranking(skills, "a new kafka broker")[0] == "b"


def test_another_word_for_the_same_is_found() -> None:
    skills = [
        silent("a", description="kubernetes cluster"),
        silent("b", description="docker image"),
    ]

    assert ranking(skills, "k8s")[0] == "a"
    assert scores(skills, "k8s")["a"][1] == ("k8s",)
    assert scores(skills, "k8s")["a"] < scores(skills, "kubernetes")["a"]


def test_of_many_words_those_count_that_say_most_wherever_they_stand() -> None:
    noise = [f"noise{number}" for number in range(600)]
    skills = [
        silent("kafka", description="Kafka topics."),
        *(silent(f"s{n}", description="Some service.") for n in range(9)),
    ]

    found = matcher_of(skills).score(" ".join((*noise, "service", "kafka", "topics")))

    assert found[0].skill.path == "kafka"
    assert found[0].matched_keywords == ("kafka", "topics")


def test_those_who_only_get_a_first_look_stand_behind_the_others() -> None:
    skills = [silent(f"s{n:03}", description=f"kafka {'x' * n}") for n in range(99)]

    found = matcher_of(skills).score("kafka broker message")

    assert len(found) == 99
    assert [c.exact_score for c in found] == sorted((c.exact_score for c in found), reverse=True)


@pytest.mark.parametrize("most", [1, 4, RERANK_LIMIT - 1, RERANK_LIMIT, RERANK_LIMIT + 1, 50])
def test_so_many_as_are_wanted_are_the_best_of_all(most: int) -> None:
    skills = [
        silent(f"s{n:03}", description=f"kafka {'x ' * (n % 7)}", priority=n % 3) for n in range(80)
    ]
    matcher = matcher_of(skills)

    assert matcher.score("kafka", limit=most) == matcher.score("kafka")[:most]


def test_the_best_of_many_that_are_as_good_as_can_be_are_the_first_by_path() -> None:
    skills = [
        silent(f"s{n:03}", description=f"kafka {'x ' * (80 - n)}", priority=2000) for n in range(80)
    ]

    found = matcher_of(skills).score("kafka", limit=3)

    assert [c.skill.path for c in found] == ["s000", "s001", "s002"]


def test_a_priority_brings_a_skill_among_the_first() -> None:
    skills = [silent(f"s{n:03}", description="kafka broker") for n in range(99)]
    skills.append(silent("z", body="kafka " + "and more words " * 99, priority=1000))

    [best] = matcher_of(skills).score("kafka broker", limit=1)

    assert best.skill.path == "z"


def test_who_ties_with_its_own_ancestor_comes_first() -> None:
    skills = [silent(p, description="kafka") for p in ("_root", "ui/_index", "ui/a", "z")]

    assert ranking(skills, "kafka") == ["ui/a", "ui/_index", "z", "_root"]


def test_what_may_not_be_found_is_left_out_before_ranking() -> None:
    skills = [silent(f"s{n:03}", description="kafka broker") for n in range(99)]
    skills[90] = silent("s090", body="kafka " + "and more words " * 99)
    matcher = matcher_of(skills)
    within = np.zeros(99, np.bool_)
    within[[90, 91]] = True

    found = matcher.score("kafka broker", within=within)
    every = {str(c.skill.path): c for c in matcher.score("kafka broker")}

    assert [c.skill.path for c in found] == ["s091", "s090"]
    # How rare a word is, is a matter of the library, whoever is looked at.
    assert found[0].exact_score == every["s000"].exact_score


# --- names ------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["db/kafka", "Kafka Topics", "$kafka", "kaf"])
def test_a_task_that_only_names_a_skill_is_answered_by_it_alone(task: str) -> None:
    skills = [
        make_skill("a/other", description="kafka kafka topics db"),
        make_skill("db/kafka", name="kafka-topics", priority=-5),
    ]

    [only] = ranked_matcher(skills).score(task)

    assert (only.skill, only.exact_score) == (skills[1], Fraction(1))
    assert only.matched_keywords == (task.removeprefix("$"),)
    [reason] = ranked_matcher(skills).explain(task, skills[1])
    assert (reason.where, reason.worth) == ("name", 1)
    assert ranked_matcher(skills).explain(task, skills[0]) == ()


@pytest.mark.parametrize("task", ["kafka topics for me", "ka", "topics"])
def test_a_task_that_says_more_than_a_name_is_ranked(task: str) -> None:
    skills = [
        make_skill("a/other", description="kafka topics ka"),
        make_skill("db/kafka", name="kafka-topics", description="ka"),
    ]

    assert len(ranked_matcher(skills).score(task)) == 2


def test_names_can_be_left_to_somebody_else() -> None:
    skills = [make_skill("a", name="kafka"), make_skill("b", description="kafka")]

    found = ranked_matcher(skills).without_names().score("kafka")

    assert [c.skill.path for c in found] == ["a", "b"]
    assert found[0].exact_score < 1


def test_a_named_skill_that_may_not_be_found_is_not_found() -> None:
    skills = [make_skill("a", name="kafka"), make_skill("b", description="kafka")]

    found = ranked_matcher(skills).score("kafka", within=np.array([False, True]))

    assert [c.skill.path for c in found] == ["b"]
    assert ranked_matcher(skills).score("kafka", min_score=Fraction(2)) == ()


@pytest.mark.parametrize("task", ["the", "For", "help", "use"])
def test_a_word_that_says_nothing_is_the_beginning_of_no_name(task: str) -> None:
    names = ("theming", "formats", "help-desk", "use-effect")
    skills = [make_skill(name) for name in sorted(names)]

    assert ranked_matcher(skills).score(task) == ()


# --- why ----------------------------------------------------------------------------


def test_the_words_of_a_task_are_weighed() -> None:
    skills = [silent("a", description="react"), silent("b", description="react kafka")]

    words = matcher_of(skills).weigh_terms("the React, kafka react of xylophones")

    assert [(w.typed, w.term, w.skills) for w in words] == [
        ("react", "react", 2),
        ("kafka", "kafka", 1),
        ("xylophones", "xylophon", 0),
    ]
    assert fsum(word.weight for word in words) == pytest.approx(1)
    assert words[0].weight < words[1].weight < words[2].weight
    assert matcher_of(skills).weigh_terms("the of") == ()


def test_every_word_is_explained_by_the_place_that_counts_most() -> None:
    skill = silent(
        "a",
        name="kafka-broker",
        keywords=("stream",),
        description="Reads kubernetes logs",
        body=f"# Retention\n\nMore kafka zebras.{' Filling' * 200} Tigers.",
        priority=3,
    )
    task = "kafka stream logs retention zebras tigers k8s xylophone"

    reasons = matcher_of([skill]).explain(task, skill)

    assert [(reason.word, reason.where) for reason in reasons] == [
        ("kafka", "name"),
        ("stream", "keywords"),
        ("logs", "description"),
        ("retention", "headings"),
        ("zebras", "opening"),
        ("tigers", "body"),
        ("k8s", "synonym"),
        ("kafka", "name"),
        *pairs_of(reasons),
        ("", "priority"),
    ]


def pairs_of(reasons: Sequence[Evidence]) -> list[tuple[str, str]]:
    return [(r.word, r.where) for r in reasons if r.where == "pair"]


def test_what_is_no_candidate_has_nothing_that_speaks_for_it() -> None:
    skills = [silent("a", description="react"), silent("b", description="kafka")]
    matcher = matcher_of(skills)

    assert matcher.explain("kafka", skills[0]) == ()
    assert matcher.explain("kafka", silent("other", description="kafka")) == ()


# --- what always holds --------------------------------------------------------

TEXTS = st.lists(
    st.sampled_from(
        [
            *("react", "hooks", "kafka", "query", "queries", "the", "useEffect"),
            *("C++", "認証", "# react", "\n# kafka", "créer", "data-fetching"),
        ]
    ),
    max_size=6,
).map(" ".join)
SKILLS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=2), TEXTS, TEXTS), max_size=6).map(
    lambda rows: [
        silent(f"s{number}", name=name, keywords=words, description=text, body=body)
        for number, (name, words, text, body) in enumerate(rows)
    ]
)


@given(SKILLS, TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_the_skills_changes_no_score(
    skills: list[Skill], task: str, random: Random
) -> None:
    shuffled = random.sample(skills, len(skills))

    assert scores(shuffled, task) == scores(skills, task)


UNRELATED = st.lists(st.sampled_from(["hotel", "booking", "react", "kafka"]), min_size=1)


@given(SKILLS, st.lists(UNRELATED.map(" ".join), min_size=1, max_size=9), st.booleans())
def test_a_skill_without_a_word_of_the_task_changes_no_chance(
    skills: list[Skill],
    bodies: list[str],
    is_about_names: bool,  # noqa: FBT001
) -> None:
    task = "query hooks 認証 créer"
    skills = [replace(each, body=f"{each.body} {task}") for each in skills]
    more = [
        silent(f"x{number}", body=body if is_about_names else f"booking {number}")
        for number, body in enumerate(bodies)
    ]

    few = [estimate_probabilities([score for score, _ in scores(skills, task).values()])]
    many = [estimate_probabilities([score for score, _ in scores([*skills, *more], task).values()])]

    assert np.allclose(few, many, atol=0.02 if is_about_names else 0)


@given(SKILLS, TEXTS, st.fractions(min_value=-1, max_value=2))
def test_a_least_score_leaves_out_exactly_what_is_below_it(
    skills: list[Skill], task: str, least: Fraction
) -> None:
    matcher = matcher_of(skills)

    def enough(candidate: Candidate) -> bool:
        return candidate.exact_score >= least

    assert matcher.score(task, min_score=least) == tuple(filter(enough, matcher.score(task)))


@given(SKILLS, st.sampled_from(["name", "keywords", "description", "body"]), st.data())
def test_a_word_that_only_one_skill_has_finds_it_first(
    skills: list[Skill], field: str, data: st.DataObject
) -> None:
    assume(skills)
    number = data.draw(st.integers(0, len(skills) - 1))
    texts: dict[str, Any] = {"name": "", "keywords": (), "description": "", "body": ""}
    texts |= {key: getattr(skills[number], key) for key in texts}
    rare = "xylophone"
    texts[field] = (rare,) if field == "keywords" else f"{texts[field]} {rare}"
    skills[number] = silent(skills[number].path, **texts)

    found = ranking(skills, rare)

    assert found == [skills[number].path]


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=4), st.text())
def test_any_text_can_be_a_skill_and_any_text_a_task(
    texts: list[tuple[str, str, str]], task: str
) -> None:
    skills = [
        silent(f"s{number}", name=name, description=description, body=body)
        for number, (name, description, body) in enumerate(texts)
    ]

    for context in (task, *(text for row in texts for text in row)):
        for candidate in matcher_of(skills).score(context):
            assert 0 < candidate.exact_score < 1
            assert candidate.matched_keywords


@given(SKILLS, TEXTS, st.sampled_from([0, 5, 1000, -1000]))
def test_all_reasons_add_up_to_the_score(skills: list[Skill], task: str, priority: int) -> None:
    skills = [replace(skill, priority=priority) for skill in skills]
    matcher = matcher_of(skills)
    found = {candidate.skill.path: candidate.exact_score for candidate in matcher.score(task)}

    for skill in skills:
        reasons = matcher.explain(task, skill)
        score = float(found.get(skill.path, 0))
        assert fsum(reason.worth for reason in reasons) == pytest.approx(score, abs=2e-6)


@given(SKILLS, TEXTS, st.lists(st.booleans(), min_size=9, max_size=9), st.booleans())
def test_they_do_so_among_some_of_the_skills(
    skills: list[Skill],
    task: str,
    allowed: list[bool],
    is_named: bool,  # noqa: FBT001 - what is tried
) -> None:
    ordered = sorted(skills, key=lambda skill: skill.path)
    within = np.resize(np.array(allowed), len(ordered))
    matcher = ranked_matcher(ordered) if is_named else matcher_of(ordered)

    found = {c.skill.path: c.exact_score for c in matcher.score(task, within=within)}

    for skill in ordered:
        reasons = matcher.explain(task, skill, within=within)
        score = float(found.get(skill.path, 0))
        assert fsum(reason.worth for reason in reasons) == pytest.approx(score, abs=2e-6)


def test_what_may_not_be_found_takes_no_reason_from_the_others() -> None:
    skills = [
        make_skill("a", name="kafka", description="terraform"),
        make_skill("b", description="about kafka"),
    ]
    within = np.array([False, True])
    matcher = ranked_matcher(skills)

    for task in ("kafka", "kafka with terraform"):
        [only] = matcher.score(task, within=within)
        reasons = matcher.explain(task, skills[1], within=within)
        whole = fsum(reason.worth for reason in reasons)
        assert whole == pytest.approx(float(only.exact_score), abs=2e-6)
        assert matcher.explain(task, skills[0], within=within) == ()


def test_contractions_typed_in_a_hurry_say_nothing() -> None:
    skills = [silent("a", description="waiting for a review"), silent("b")]

    assert scores(skills, "whats waiting, ive no review") == scores(
        skills, "what's waiting, I've no review"
    )


def test_a_product_in_mixed_case_is_not_two_other_words() -> None:
    skills = [
        make_skill("hub", description="Run a hub with git"),
        make_skill("pipelines", description="Run pipelines on GitHub"),
    ]

    [best, *_] = ranked_matcher(skills).score("start it on GitHub")

    assert best.skill.path == "pipelines"
    assert [w.typed for w in ranked_matcher(skills).weigh_terms("on GitHub")] == ["github"]


def test_a_name_in_mixed_case_that_no_skill_has_is_still_one_word() -> None:
    skills = [silent("press", description="Press releases, word by word")]

    assert scores(skills, "press words")
    assert not scores(skills, "WordPress")


def test_what_a_skill_is_not_for_does_not_find_it() -> None:
    refusal = "Build the graph. DO NOT USE FOR: deploying to a cluster (use acme-ship)."
    skills = [
        silent("acme-graph", description=refusal),
        silent("acme-ship", description="Deploying to a cluster"),
    ]

    assert [*scores(skills, "deploying to a cluster")] == ["acme-ship"]


def test_who_asks_why_looks_for_a_cause() -> None:
    skills = [
        silent("a", description="Write a slow query"),
        silent("b", description="Debug a slow query"),
    ]

    assert ranking(skills, "why is this query slow") == ["b", "a"]


@pytest.mark.parametrize(
    "task",
    [
        "Wie richte ich das Routing mit Expo für die Startseite ein?",
        "Comment configurer les écrans avec Expo dans notre projet ?",
        "Quiero una estructura de carpetas para la aplicación con Expo",
        "アプリの画面遷移をExpoで設定したい",
        "请帮我配置应用的页面跳转和 Expo",
        "Quero criar um componente com estado e navegação para Expo",
    ],
)
def test_a_task_in_another_language_finds_what_it_names(task: str) -> None:
    skills = [
        silent("expo", description="Build screens with Expo"),
        silent("rails", description="Build pages with Rails"),
        *(silent(f"other-{n}", description=f"Something else {n}") for n in range(9)),
    ]

    decision = score_and_decide(matcher_of(skills), task, Matching())

    assert [found.skill.path for found in answered_candidates(decision)] == ["expo"]


@pytest.mark.parametrize(
    "task",
    [
        "Reactのコンポーネントをテストする",
        "Como faço um teste com o React?",
        "在项目里怎么使用React组件",
    ],
)
def test_a_technology_that_all_matching_skills_name_is_found_in_any_language(task: str) -> None:
    skills = [silent(f"react/{n}", description=f"React, part {n}") for n in range(40)]

    decision = score_and_decide(matcher_of(skills), task, Matching())

    assert len(answered_candidates(decision)) > 1


def test_function_characters_are_no_evidence_in_chinese() -> None:
    skills = [
        silent("report", description="写一个很好的事故报告"),
        silent("deploy", description="我们的部署流程和检查"),
    ]

    assert ranking(skills, "我们想写一个很好的流程") == ["deploy", "report"]
    assert ranking(skills, "这是我们的") == []


def test_one_spelling_of_several_languages_finds_the_other() -> None:
    skills = [
        silent("translations", description="Make a multilingual site"),
        silent("other", description="Make a language model"),
    ]

    assert ranking(skills, "a multi-language site")[0] == "translations"


def test_a_skill_named_as_such_is_served_alone_unless_the_task_negates_it() -> None:
    skills = [
        make_skill("q/code-review", description="Use the skill for a code review"),
        make_skill("q/code-reviewer", description="Lists risks"),
        make_skill("q/tests", description="Write tests"),
    ]
    matcher = ranked_matcher(skills)

    [named] = matcher.score("use the code-reviewer skill for my changes")
    negated = matcher.score("write tests, do not use the code-reviewer skill")

    assert (named.skill, named.exact_score) == (skills[1], Fraction(1))
    [reason] = matcher.explain("use the code-reviewer skill for my changes", skills[1])
    assert (reason.word, reason.worth) == ("code-reviewer", 1)
    assert negated[0].skill == skills[2]


def test_in_a_library_of_that_language_an_unknown_word_counts_in_full() -> None:
    skills = [
        silent("a", description="Datenbank sichern und wieder herstellen"),
        silent("b", description="Rechnungen prüfen und mit dem Kunden klären"),
    ]
    known = "Wie kann ich die Datenbank sichern und wieder herstellen?"
    mixed = "Wie kann ich die Datenbank sichern und wieder herstellen, Gartenzaun?"

    assert scores(skills, mixed)["a"][0] < scores(skills, known)["a"][0] * Fraction(99, 100)
