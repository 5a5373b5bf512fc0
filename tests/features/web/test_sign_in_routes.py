"""How people come in with a browser, and how others do not."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from skills_mcp.config import Grant
from tests.features.web.visiting import (
    begin,
    come_back,
    find_form_token,
    sign_in,
    visited,
)
from tests.issuer import Clock, Issuer, running_issuer

GRANTS = (
    Grant(allow=("*",)),
    Grant(when={"groups": ("payments",)}, allow=("pay/**",)),
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def browser(issuer: Issuer, clock: Clock) -> Iterator[httpx.Client]:
    with visited(issuer, clock, grants=GRANTS) as browser:
        yield browser


def test_a_person_signs_in_and_is_the_caller_that_tools_know(
    browser: httpx.Client, issuer: Issuer
) -> None:
    page = sign_in(browser, issuer, groups=["payments", "other"])

    who = page.json()
    assert who["subject"] == "ada"
    assert who["issuer"] == issuer.url
    assert who["name"] == "Ada"
    assert who["scopes"] == ["skills:read"]
    assert who["grants"] == [[["*"], []], [["pay/**"], []]]
    assert page.headers["Cache-Control"] == "no-store"


def test_a_person_of_no_group_sees_what_every_caller_sees(
    browser: httpx.Client, issuer: Issuer
) -> None:
    assert sign_in(browser, issuer).json()["grants"] == [[["*"], []]]


def test_a_person_comes_back_to_the_page_that_was_asked_for(
    browser: httpx.Client, issuer: Issuer
) -> None:
    back = come_back(browser, issuer, begin(browser, "/skills/ui/react?tab=a%20b"))

    assert back.headers["Location"] == "/skills/ui/react?tab=a%20b"


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "/%09//evil.example".replace("%09", "\t"),
        "javascript:alert(1)",
        "evil.example",
        "/sign-out",
        "/sign-in?next=/",
        "",
    ],
)
def test_nobody_is_sent_elsewhere_after_the_sign_in(
    browser: httpx.Client, issuer: Issuer, wanted: str
) -> None:
    sent = browser.get("/sign-in", params={"next": wanted}).headers["Location"]

    assert come_back(browser, issuer, sent).headers["Location"] == "/"


def test_two_tabs_sign_in_at_once(browser: httpx.Client, issuer: Issuer) -> None:
    one, other = begin(browser, "/one"), begin(browser, "/other")

    assert come_back(browser, issuer, one).headers["Location"] == "/one"
    assert come_back(browser, issuer, other).headers["Location"] == "/other"


def test_an_answer_to_another_browser_lets_nobody_in(browser: httpx.Client, issuer: Issuer) -> None:
    of_eve = begin(browser)
    browser.cookies.clear()

    back = come_back(browser, issuer, of_eve)

    assert back.status_code == 403
    assert "not begun in this browser" in back.text
    assert browser.get("/").status_code == 303


def test_an_answer_counts_once(browser: httpx.Client, issuer: Issuer) -> None:
    sent = begin(browser)
    come_back(browser, issuer, sent)

    assert come_back(browser, issuer, sent).status_code == 403


def test_an_answer_that_comes_too_late_lets_nobody_in(
    browser: httpx.Client, issuer: Issuer, clock: Clock
) -> None:
    sent = begin(browser)
    clock.seconds += 601

    assert come_back(browser, issuer, sent).status_code == 403


def test_a_refusal_of_the_provider_is_shown_as_text(browser: httpx.Client) -> None:
    sent = urlsplit(begin(browser))
    state = dict(each.split("=") for each in sent.query.split("&"))["state"]

    back = browser.get("/sign-in/callback", params={"state": state, "error": "access_denied"})

    assert back.status_code == 403
    assert "access_denied" in back.text


def test_a_session_ends_by_itself(browser: httpx.Client, issuer: Issuer, clock: Clock) -> None:
    sign_in(browser, issuer)
    assert browser.get("/").status_code == 200

    clock.seconds += 60 * 60

    assert browser.get("/").status_code == 303


def test_a_session_that_is_used_goes_on(
    browser: httpx.Client, issuer: Issuer, clock: Clock
) -> None:
    sign_in(browser, issuer)

    for _ in range(5):
        clock.seconds += 50 * 60
        assert browser.get("/").status_code == 200


@pytest.mark.parametrize("value", ["", "x", "e30.e30.e30"])
def test_a_forged_cookie_is_no_session(browser: httpx.Client, value: str) -> None:
    browser.cookies.set("skills_session", value)

    assert browser.get("/").status_code == 303


def test_no_script_and_no_other_site_gets_the_cookie(browser: httpx.Client, issuer: Issuer) -> None:
    sent = browser.get("/sign-in")
    back = come_back(browser, issuer, sent.headers["Location"])

    kept = [each for each in back.headers.get_list("Set-Cookie") if "session" in each]
    for cookie in (*sent.headers.get_list("Set-Cookie"), *kept):
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Domain" not in cookie
        assert "Secure" not in cookie  # on the loopback, without TLS
    assert len(kept) == 1


def test_over_tls_the_cookie_is_for_tls_and_this_host_alone(issuer: Issuer) -> None:
    with visited(issuer, base_url="https://skills.example.com") as browser:
        sent = browser.get("/sign-in")
        browser.cookies.clear()
        cookie = sent.headers["Set-Cookie"]
        browser.headers["Cookie"] = cookie.partition(";")[0]
        back = come_back(browser, issuer, sent.headers["Location"])

    [kept] = [each for each in back.headers.get_list("Set-Cookie") if "session" in each]
    assert "Secure" in cookie
    assert kept.startswith("__Host-skills_session=")
    assert "Secure" in kept
    assert "Path=/" in kept


def test_programs_are_told_how_they_sign_in(browser: httpx.Client, issuer: Issuer) -> None:
    token = issuer.token(aud="skills")

    asked = browser.get("/api/skills")
    with_token = browser.get("/", headers={"Authorization": f"Bearer {token}"})

    assert asked.status_code == 401
    assert asked.headers["WWW-Authenticate"].startswith("Bearer")
    assert with_token.json()["subject"] == "ada"


def test_a_session_does_not_make_a_wrong_token_right(browser: httpx.Client, issuer: Issuer) -> None:
    sign_in(browser, issuer)

    assert browser.get("/", headers={"Authorization": "Bearer x"}).status_code == 401


@pytest.mark.parametrize("path", ["/mcp", "/events", "/.well-known/x"])
def test_a_session_is_for_pages_alone(browser: httpx.Client, issuer: Issuer, path: str) -> None:
    sign_in(browser, issuer)

    assert browser.post(path).status_code == 401


@pytest.mark.parametrize("path", ["/add", "/api/skills/x/upload-install", "/sign-out"])
@pytest.mark.parametrize("data", [{}, {"form_token": ""}, {"form_token": "0" * 64}])
def test_a_form_that_no_page_of_ours_has_sent_is_refused(
    browser: httpx.Client, issuer: Issuer, path: str, data: dict[str, str]
) -> None:
    sign_in(browser, issuer)

    refused = browser.post(path, data=data)

    assert refused.status_code == 403
    assert "This form was not sent" in refused.text
    assert browser.get("/").status_code == 200


def test_a_form_of_our_page_arrives_whole(browser: httpx.Client, issuer: Issuer) -> None:
    sign_in(browser, issuer)
    token = find_form_token(browser)

    plain = browser.post("/add", data={"form_token": token, "word": "a" * 100_000})
    parts = browser.post(
        "/add",
        data={"form_token": token, "word": "b"},
        files={"archive": b"x" * 100_000},
    )
    header = browser.post("/add", data={"word": "c"}, headers={"X-Form-Token": token})

    assert plain.json()["sent"] == "a" * 100_000
    assert parts.json()["sent"] == "b"
    assert header.json()["sent"] == "c"


def test_the_token_of_another_persons_form_is_refused(issuer: Issuer) -> None:
    with visited(issuer) as browser:
        sign_in(browser, issuer)
        of_ada = find_form_token(browser)
        browser.cookies.clear()
        sign_in(browser, issuer, sub="eve")

        assert browser.post("/add", data={"form_token": of_ada}).status_code == 403


def test_a_form_that_comes_after_the_session_says_so(
    browser: httpx.Client, issuer: Issuer, clock: Clock
) -> None:
    sign_in(browser, issuer)
    token = find_form_token(browser)
    clock.seconds += 60 * 60

    written = {"form_token": token, "text": "My rules", "reason": "", "base": "0"}
    late = browser.post("/propose/ui/auth", data=written, files={"file": b""})

    assert late.status_code == 401
    assert "Your session has ended" in late.text
    assert 'href="/sign-in?next=/propose/ui/auth"' in late.text
    assert "('My rules',)" in late.text
    # To read a form that is not in parts takes long, and any stranger can send one.
    assert "My rules" not in browser.post("/propose/ui/auth", data=written).text


def test_a_long_field_does_not_hide_the_token_behind_it(
    browser: httpx.Client, issuer: Issuer
) -> None:
    sign_in(browser, issuer)
    data = {"text": "x" * 1_500_000, "form_token": find_form_token(browser)}

    sent = browser.post("/add", data=data, files={"archive": b"x"})

    assert "This form was not sent" not in sent.text


@pytest.mark.parametrize("address", ["http://127.0.0.1/catalogue?q=log", "http://[::1", "\\"])
def test_a_search_without_a_session_is_made_after_the_sign_in(
    browser: httpx.Client, address: str
) -> None:
    asked = [(b"HX-Request", b"true"), (b"HX-Current-URL", address.encode())]

    found = browser.get("/catalogue?q=login", headers=asked)

    assert found.status_code == 401
    assert found.headers["HX-Redirect"] == "/sign-in?next=/catalogue%3Fq%3Dlogin"


@pytest.mark.parametrize("charset", ["undefined", "idna", "punycode", "none"])
def test_a_form_of_an_unreadable_charset_is_refused(
    browser: httpx.Client, issuer: Issuer, charset: str
) -> None:
    sign_in(browser, issuer)
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--x--\r\n'
    kind = f"multipart/form-data; boundary=x; charset={charset}"

    refused = browser.post("/add", content=body, headers={"Content-Type": kind})

    assert refused.status_code == 403


def test_signing_out_ends_the_session_here_and_at_the_provider(
    browser: httpx.Client, issuer: Issuer
) -> None:
    sign_in(browser, issuer)

    page = browser.post("/sign-out", data={"form_token": find_form_token(browser)})

    assert page.status_code == 200
    assert f"url={issuer.url}/end?client_id=pages" in page.text
    assert browser.get("/").status_code == 303
    assert "You are signed out" in browser.get("/sign-out").text


@pytest.mark.parametrize("minutes", [0, 20])
def test_a_copied_cookie_ends_with_the_session(
    browser: httpx.Client, issuer: Issuer, clock: Clock, minutes: int
) -> None:
    sign_in(browser, issuer)
    copied, token = browser.cookies["skills_session"], find_form_token(browser)
    clock.seconds += minutes * 60  # after a while a cookie is renewed

    browser.post("/sign-out", data={"form_token": token})
    left = browser.cookies.get("skills_session")
    browser.cookies.set("skills_session", copied)
    page = browser.get("/")
    form = browser.post("/add", data={"form_token": token})
    program = browser.get("/api/skills")

    assert left is None
    assert (page.status_code, form.status_code, program.status_code) == (303, 401, 401)


def test_signing_out_ends_no_other_session_of_the_person(
    browser: httpx.Client, issuer: Issuer
) -> None:
    sign_in(browser, issuer)
    other = browser.cookies["skills_session"]
    browser.cookies.clear()
    sign_in(browser, issuer)

    browser.post("/sign-out", data={"form_token": find_form_token(browser)})
    browser.cookies.set("skills_session", other)

    assert browser.get("/").status_code == 200


def test_nobody_is_signed_out_by_a_link(browser: httpx.Client, issuer: Issuer) -> None:
    sign_in(browser, issuer)

    browser.get("/sign-out")

    assert browser.get("/").status_code == 200


def test_without_the_provider_nobody_comes_in_and_it_is_said() -> None:
    with running_issuer() as gone:
        pass
    with visited(gone) as browser:
        page = browser.get("/sign-in")

        assert page.status_code == 503
        assert "does not answer" in page.text


def test_groups_that_fit_no_cookie_are_said(issuer: Issuer) -> None:
    many = tuple(f"group-of-people-{number:04}" for number in range(500))
    grants = (Grant(when={"groups": many}, allow=("*",)),)
    with visited(issuer, grants=grants) as browser:
        back = come_back(browser, issuer, begin(browser), groups=list(many))

        assert back.status_code == 403
        assert "more groups than a cookie can hold" in back.text
