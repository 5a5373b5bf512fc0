import json
from typing import Any

import pytest

from skills_mcp.server.windows.forwarder import LOST_CODE, ONCE, Conversation
from tests.clients import TOOLS
from tests.support import PROJECT


def request(number: object, method: str = "tools/list", **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


def call(number: object, tool: str, **meta: Any) -> bytes:
    more = {"_meta": meta} if meta else {}
    return request(number, "tools/call", name=tool, arguments={}, **more)


def response(number: object) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":{}}\n' % json.dumps(number).encode()


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def send(conversation: Conversation, *lines: bytes) -> int:
    """Send lines and return the number of their bytes."""
    sent = 0
    for line in lines:
        sent += len(line)
        assert conversation.send(line, sent) == line
    return sent


def lose(conversation: Conversation, sent: int) -> list[Any]:
    return [json.loads(line) for line in conversation.lose_server(sent)]


def test_the_tools_that_are_not_repeated_are_those_that_change_something() -> None:
    changing = {
        tool.name
        for tool in TOOLS
        if not (tool.annotations.read_only_hint or tool.annotations.idempotent_hint)
    }

    assert changing == ONCE


def test_the_code_of_a_lost_call_is_documented() -> None:
    page = (PROJECT / "docs/reference/errors.md").read_text(encoding="utf-8")

    assert f"`{LOST_CODE}`" in page


def test_what_is_not_answered_is_asked_again() -> None:
    conversation = Conversation()
    sent = send(conversation, request(1), request("two"), request(3))
    conversation.receive(response(1))

    told = lose(conversation, sent)

    assert told == []
    assert conversation.resume() == [request("two"), request(3)]


@pytest.mark.parametrize("tool", sorted(ONCE))
def test_a_call_that_changes_something_is_answered_instead(tool: str) -> None:
    conversation = Conversation()
    sent = send(conversation, call(7, tool))

    [told] = lose(conversation, sent)

    assert (told["id"], told["result"]["isError"]) == (7, True)
    assert "resultType" not in told["result"]
    error = json.loads(told["result"]["content"][0]["text"])["error"]
    assert error["code"] == "SERVER_LOST"
    assert conversation.resume() == []


def test_a_client_of_2026_gets_a_complete_result() -> None:
    conversation = Conversation()
    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    sent = send(conversation, call(7, "run_script", **version))

    [told] = lose(conversation, sent)

    assert told["result"]["resultType"] == "complete"


def test_a_call_whose_line_was_not_sent_whole_is_sent_again() -> None:
    conversation = Conversation()
    sent = send(conversation, call(7, "run_script"))

    told = lose(conversation, sent - 1)

    assert told == []
    assert conversation.resume() == [call(7, "run_script")]


def test_a_request_that_has_ended_three_servers_is_given_up() -> None:
    conversation = Conversation()
    send(conversation, request(1), call(2, "get_skill"))
    sent = 1000
    for is_last in (False, True):
        assert lose(conversation, sent) == []
        assert conversation.may_end_servers is is_last
        for line in conversation.resume():
            conversation.note_end(line, 500)

    told = lose(conversation, sent)

    assert [message["id"] for message in told] == [1, 2]
    assert "error" in told[0]
    assert told[1]["result"]["isError"] is True
    assert conversation.resume() == []
    assert not conversation.may_end_servers


def test_a_subscription_outlives_any_number_of_servers() -> None:
    conversation = Conversation()
    listen = request(5, "subscriptions/listen")
    sent = send(conversation, listen)

    for _ in range(5):
        assert lose(conversation, sent) == []
        assert conversation.resume() == [listen]
        conversation.note_end(listen, sent)

    assert not conversation.may_end_servers


def test_a_cancelled_call_is_not_asked_again() -> None:
    conversation = Conversation()
    cancel = request(None, "notifications/cancelled", requestId=1)
    sent = send(conversation, request(1), cancel)

    lose(conversation, sent)

    assert conversation.resume() == []


def test_a_handshake_is_repeated_and_its_answer_swallowed() -> None:
    conversation = Conversation()
    hello = request(0, "initialize")
    sent = send(conversation, hello)
    assert conversation.receive(response(0)) == response(0)
    sent = send(conversation, INITIALIZED, request(1))
    lose(conversation, sent)

    first = conversation.resume()
    swallowed = conversation.receive(response(0))
    rest = conversation.continue_()

    assert first == [hello]
    assert swallowed is None
    assert rest == [INITIALIZED, request(1)]
    assert conversation.receive(response(1)) == response(1)


def test_a_handshake_without_an_answer_is_repeated_for_the_client() -> None:
    conversation = Conversation()
    hello = request(0, "initialize")
    sent = send(conversation, hello)
    lose(conversation, sent)

    assert conversation.resume() == [hello]
    assert conversation.receive(response(0)) == response(0)


def test_an_answer_of_the_user_never_reaches_a_question_of_another_server() -> None:
    conversation = Conversation()
    asked = request(0, "elicitation/create")
    assert conversation.receive(asked) == asked
    lose(conversation, 0)
    again = conversation.receive(asked)
    assert again is not None
    number = json.loads(again)["id"]

    late = conversation.send(response(0), 0)
    own = conversation.send(response(number), 0)

    assert number != 0
    assert late is None
    assert own is not None
    assert json.loads(own)["id"] == 0


def test_a_subscription_is_acknowledged_once() -> None:
    conversation = Conversation()
    sent = send(conversation, request(5, "subscriptions/listen"))
    meta = {"io.modelcontextprotocol/subscriptionId": 5}
    told = {"method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}}
    line = json.dumps({"jsonrpc": "2.0", **told}).encode() + b"\n"
    assert conversation.receive(line) == line
    assert not conversation.is_waiting

    lose(conversation, sent)

    assert conversation.resume() == [request(5, "subscriptions/listen")]
    assert conversation.receive(line) is None


@pytest.mark.parametrize("number", [0, 17, "a", 'a"b', "\\", "é", "result", ',"result":'])
def test_an_answer_is_recognised_by_every_kind_of_id(number: object) -> None:
    conversation = Conversation()
    send(conversation, request(number))

    conversation.receive(response(number))

    assert conversation.requests == {}


@pytest.mark.parametrize("number", [None, True, 1.5, {}, []])
def test_a_request_whose_id_is_refused_is_not_waited_for(number: object) -> None:
    conversation = Conversation()
    send(conversation, request(1))

    send(conversation, request(number))

    assert [*conversation.requests] == [1]
    assert conversation.requests[1].line == request(1)


@pytest.mark.parametrize("line", [b"no json\n", b"[]\n", b"7\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_what_is_no_message_is_passed_on(line: bytes) -> None:
    conversation = Conversation()

    assert conversation.send(line, 0) == line
    assert conversation.receive(line) == line
    assert conversation.requests == {}
