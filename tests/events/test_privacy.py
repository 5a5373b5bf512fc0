import re
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.config import Analytics
from skills_mcp.config.values import Disclosure, Identity
from skills_mcp.events.privacy import HASH_PREFIX, Privacy, UserText
from skills_mcp.text.redaction import register_secret
from tests.support import write

TASK = (
    "mail ada@example.com what is in /home/ada/plan.md, "
    "key ghp_0123456789abcdefghij0123456789abcdef"
)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "ours" / "analytics.key"


def hidden(key_file: Path, disclosure: Disclosure, **data: Any) -> dict[str, Any]:
    privacy = Privacy(key_file, {"USER": "ada", "HOME": "/home/ada"})
    return privacy.redact_fields(data, Analytics(enabled=True, context=disclosure))


def named(key_file: Path, identity: Identity, **environment: str) -> str:
    rules = Analytics(enabled=True, identity=identity)
    return Privacy(key_file, environment).user_pseudonym(rules)


@pytest.mark.spec("10.2")
def test_full_keeps_every_text_as_it_is(key_file: Path) -> None:
    fields = {"context": TASK, "comment": TASK, "candidates": ["a", "b"], "score": 0.5}

    assert hidden(key_file, "full", **fields) == fields
    assert not key_file.exists()


@pytest.mark.parametrize("disclosure", ["full", "redacted", "hashed", "none"])
def test_a_secret_of_ours_is_in_no_field_ever(disclosure: Disclosure, key_file: Path) -> None:
    register_secret("our-own-token")
    text = "the token is our-own-token"

    data = hidden(key_file, disclosure, context=text, comment=text, file=text, names=[text])

    assert "our-own-token" not in repr(data)


def test_redacted_takes_out_secrets_addresses_and_the_home(key_file: Path) -> None:
    data = hidden(key_file, "redacted", context=TASK, comment=TASK)

    expected = "mail ***@*** what is in ~/plan.md, key ***"
    assert data == {"context": expected, "comment": expected}


@pytest.mark.parametrize(
    "text, kept",
    [
        ("log in with password=hunter2hunter2", "log in with password=***"),
        ("password: S3cr3t!Passw0rd", "password: ***"),
        ('the DB_PASSWORD="two words" fails', "the DB_PASSWORD=*** fails"),
        ("api_key => abc, then", "api_key => ***, then"),
        ("curl -u ada:Sup3r! https://x.example", "curl -u ada:*** https://x.example"),
        ("rotate the token of the build", "rotate the token of the build"),
        ("a tokenizer: what is it", "a tokenizer: what is it"),
    ],
)
def test_redacted_takes_out_whatever_is_called_a_secret(
    text: str, kept: str, key_file: Path
) -> None:
    data = hidden(key_file, "redacted", context=text)

    assert data == {"context": kept}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("/home/ada", "~"),
        ("/home/ada/", "~/"),
        ("file:///home/ada/x", "file://~/x"),
        ("/home/adam/x", "/home/adam/x"),
        ("(/home/ada)", "(~)"),
        ("a.b+c@mail.example.co.uk, d@e", "***@***, d@e"),
        ("größe@beispiel.example", "***@***"),
    ],
)
def test_what_counts_as_home_and_as_address(text: str, expected: str, key_file: Path) -> None:
    assert hidden(key_file, "redacted", context=text) == {"context": expected}


@pytest.mark.parametrize("home", ["", "/", "C:"])
def test_a_home_that_is_the_top_of_the_disk_hides_nothing(home: str, key_file: Path) -> None:
    privacy = Privacy(key_file, {"HOME": home})

    data = privacy.redact_fields({"context": "read /etc"}, Analytics(context="redacted"))

    assert data == {"context": "read /etc"}


@pytest.mark.parametrize("letter", ["a", "a@", "a.", "@a.", "/"])
def test_a_long_text_takes_no_longer_for_its_letters(letter: str, key_file: Path) -> None:
    text = letter * 10_000

    assert hidden(key_file, "redacted", context=text)["context"]


@pytest.mark.parametrize("disclosure", ["full", "redacted"])
def test_of_a_long_task_both_ends_are_kept_without_their_secrets(
    key_file: Path, disclosure: Disclosure
) -> None:
    secret = "c0ffee-" * 5
    register_secret(secret)
    text = f"first {'x ' * 2_480}{secret}{'y ' * 95_000} last"

    kept = hidden(key_file, disclosure, context=text)["context"]

    assert len(kept) <= 10_000
    assert kept.startswith("first x")
    assert kept.endswith("y  last")
    assert "[…]" in kept
    assert "c0ffee" not in kept
    hashes = {
        hidden(key_file, "hashed", context=task)["context"]
        for task in (text, text.replace("y y", "y z", 1))
    }
    assert len(hashes) == 2


def test_hashed_tells_tasks_apart_and_counts_their_words(key_file: Path) -> None:
    one = hidden(key_file, "hashed", context="add a login", comment="of no use")
    same = hidden(key_file, "hashed", context="add a login")
    other = hidden(key_file, "hashed", context="add a logout")

    assert re.fullmatch(HASH_PREFIX + "[0-9a-f]{64}", one["context"])
    assert one["context"] == same["context"] != other["context"]
    assert one["context_tokens"] == 3
    assert one["comment"] is None


def test_another_installation_has_other_hashes(key_file: Path, tmp_path: Path) -> None:
    here = hidden(key_file, "hashed", context="add a login")
    there = hidden(tmp_path / "elsewhere", "hashed", context="add a login")

    assert here["context"] != there["context"]


def test_none_leaves_texts_out(key_file: Path) -> None:
    data = hidden(key_file, "none", context="add a login", comment="of no use", n=1)

    assert data == {"context": "", "comment": None, "n": 1}


@pytest.mark.parametrize("disclosure", ["full", "redacted", "hashed", "none"])
def test_no_task_and_no_comment_stay_none(disclosure: Disclosure, key_file: Path) -> None:
    data = hidden(key_file, disclosure, context="", comment=None)

    assert data == {"context": "", "comment": None}


@pytest.mark.parametrize(
    "disclosure, expected",
    [
        ("full", re.escape(TASK)),
        ("redacted", r"mail \*\*\*@\*\*\* .*"),
        ("hashed", HASH_PREFIX + ".*"),
        ("none", ""),
    ],
)
def test_text_in_another_field_is_text(
    disclosure: Disclosure, expected: str, key_file: Path
) -> None:
    data = hidden(key_file, disclosure, skill_path=UserText(TASK))

    assert re.fullmatch(expected, data["skill_path"])
    assert list(data) == ["skill_path"]


def test_half_a_surrogate_pair_has_a_hash_too(key_file: Path) -> None:
    assert hidden(key_file, "hashed", context="\ud800")["context"]


@pytest.mark.spec("10.1")
@pytest.mark.parametrize(
    "environment, server_id",
    [
        ({"USER": "ada"}, "dev-ada"),
        ({"USERNAME": "grace"}, "dev-grace"),
        ({"USER": "ada", "USERNAME": "grace"}, "dev-ada"),
        ({"USER": "", "USERNAME": "grace"}, "dev-grace"),
        ({}, "dev-unknown"),
    ],
)
def test_the_server_is_named_after_its_user(
    environment: dict[str, str], server_id: str, key_file: Path
) -> None:
    assert named(key_file, "user", **environment) == server_id


def test_a_hash_tells_people_apart_and_nobody_needs_a_name(key_file: Path) -> None:
    ada, grace = (named(key_file, "hash", USER=user) for user in ("ada", "grace"))

    assert re.fullmatch("dev-[0-9a-f]{12}", ada)
    assert ada == named(key_file, "hash", USER="ada") != grace
    assert named(key_file, "none", USER="ada") == "dev"


def test_the_hash_of_a_name_is_not_that_of_a_task(key_file: Path) -> None:
    task = hidden(key_file, "hashed", context="ada")["context"]
    name = named(key_file, "hash", USER="ada")

    assert name.removeprefix("dev-") not in task


def test_a_key_that_cannot_be_kept_lasts_as_long_as_the_process(
    tmp_path: Path,
) -> None:
    blocked = write(tmp_path / "blocked", "a file, no folder") / "analytics.key"
    privacy = Privacy(blocked, {"USER": "ada"})

    names = {privacy.user_pseudonym(Analytics(identity="hash")) for _ in range(3)}

    assert len(names) == 1
    assert names != {Privacy(blocked, {"USER": "ada"}).user_pseudonym(Analytics())}
