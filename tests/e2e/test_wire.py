"""Lines that are no message of MCP, on the wire of a real server."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skills_mcp.server.wire import MAX_LINE_BYTES
from tests.clients import MODERN, ServerProcess
from tests.e2e.conftest import Start, opened_server
from tests.support import write_skill
from tests.windows import find_servers

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602

_DEEP = '{"a":' * 2_000 + "1" + "}" * 2_000
_CALL = '"method":"tools/call","params":{"name":"get_skill","arguments":%s}'

_REFUSED: dict[str, tuple[str, list[tuple[object, int]]]] = {
    "params as a list": (
        '{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[1]}',
        [(7, _INVALID_PARAMS)],
    ),
    "params as a text": (
        '{"jsonrpc":"2.0","id":"a","method":"tools/list","params":"x"}',
        [("a", _INVALID_PARAMS)],
    ),
    "a fractional id": (
        '{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{}}',
        [(1.5, _INVALID_REQUEST)],
    ),
    "an id beyond all numbers": (
        '{"jsonrpc":"2.0","id":1e999,"method":"tools/list"}',
        [(None, _INVALID_REQUEST)],
    ),
    "a boolean id": (
        '{"jsonrpc":"2.0","id":true,"method":"tools/list"}',
        [(None, _INVALID_REQUEST)],
    ),
    "an id that is an object": (
        '{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
        [(None, _INVALID_REQUEST)],
    ),
    "an id that is null": (
        '{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
        [(None, _INVALID_REQUEST)],
    ),
    "an integer method": (
        '{"jsonrpc":"2.0","id":7,"method":5}',
        [(7, _INVALID_REQUEST)],
    ),
    "a method that is null": (
        '{"jsonrpc":"2.0","id":7,"method":null}',
        [(7, _INVALID_REQUEST)],
    ),
    "no method": ('{"jsonrpc":"2.0","id":7}', [(7, _INVALID_REQUEST)]),
    "another version": (
        '{"jsonrpc":"1.0","id":7,"method":"tools/list"}',
        [(7, _INVALID_REQUEST)],
    ),
    "no version": ('{"id":7,"method":"tools/list"}', [(7, _INVALID_REQUEST)]),
    "deep arguments, id first": (
        '{"jsonrpc":"2.0","id":"]{",' + _CALL % _DEEP + "}",
        [("]{", _INVALID_REQUEST)],
    ),
    "deep arguments, id last": (
        "{" + _CALL % _DEEP + ',"jsonrpc":"2.0","id":7}',
        [(7, _INVALID_REQUEST)],
    ),
    "deep and never closed": ("[" * 100_000, [(None, _PARSE_ERROR)]),
    "a deep batch": ("[" * 2_000 + "]" * 2_000, [(None, _INVALID_REQUEST)]),
    "a batch": (
        (
            '[{"jsonrpc":"2.0","id":1,"method":"tools/list"},'
            '{"jsonrpc":"2.0","method":"notifications/cancelled"},'
            '{"jsonrpc":"2.0","id":9,"result":{}},'
            '{"jsonrpc":"2.0","id":"b","method":"ping"}]'
        ),
        [(1, _INVALID_REQUEST), ("b", _INVALID_REQUEST)],
    ),
    "an empty batch": ("[]", [(None, _INVALID_REQUEST)]),
    "a batch of numbers": ("[1, 2]", [(None, _INVALID_REQUEST)]),
    "a number": ("7", [(None, _INVALID_REQUEST)]),
    "an empty object": ("{}", [(None, _INVALID_REQUEST)]),
    "no JSON": ("this is no JSON", [(None, _PARSE_ERROR)]),
    "a line that was cut": ('{"jsonrpc":"2.0","id":7,"met', [(None, _PARSE_ERROR)]),
    "a number that is too long": (
        '{"jsonrpc":"2.0","id":' + "9" * 5_000 + ',"method":"ping"}',
        [(None, _PARSE_ERROR)],
    ),
}

_SILENT = {
    "a response": '{"jsonrpc":"2.0","id":7,"result":[1]}',
    "an unknown response": '{"jsonrpc":"2.0","id":7,"result":{}}',
    "an error": '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
    "an error that is none": '{"jsonrpc":"2.0","id":7,"error":5}',
    "a deep response": '{"jsonrpc":"2.0","id":7,"result":' + _DEEP + "}",
    "a notification": '{"jsonrpc":"2.0","method":"x","params":[1]}',
    "a deep notification": '{"jsonrpc":"2.0","method":"x","params":' + _DEEP + "}",
    "a batch of responses": '[{"jsonrpc":"2.0","id":7,"result":{}}]',
    "an empty line": "",
    "blanks": " \t ",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection of one era, whose requests have its envelope or none."""

    server: ServerProcess
    envelope: dict[str, Any]

    def ask(self, number: int) -> None:
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
        self.server.write(json.dumps(request | self.envelope))

    def receive(self) -> dict[str, Any]:
        """Return the next answer; a notification may stand before it."""
        while "method" in (message := self.server.receive()):
            pass
        return message


ERAS = ("2025-11-25", "2026-07-28")


def connect(server: ServerProcess, era: str) -> Connection:
    """Open the connection to a server in the way of an era."""
    if era == "2026-07-28":
        server.request("server/discover")
        return Connection(server, {"params": {"_meta": MODERN}})
    server.request(
        "initialize",
        protocolVersion=era,
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    server.notify("notifications/initialized")
    return Connection(server, {})


@pytest.fixture(scope="module", params=ERAS)
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """A connection of each era, which every test leaves ready for the next request."""
    with opened_server(tmp_path_factory.mktemp("server")) as server:
        yield connect(server, request.param)


def test_what_is_no_message_is_answered_with_the_id_that_can_be_read(
    connection: Connection,
) -> None:
    for what, (line, expected) in _REFUSED.items():
        connection.server.write(line)

        answers = [connection.receive() for _ in expected]

        found = [(answer["id"], answer["error"]["code"]) for answer in answers]
        assert found == expected, what
    connection.ask(100)
    assert "result" in connection.receive()
    assert "Traceback" not in connection.server.log


def test_responses_and_notifications_that_are_wrong_get_no_answer(
    connection: Connection,
) -> None:
    for line in _SILENT.values():
        connection.server.write(line)
    connection.ask(100)

    answer = connection.receive()

    assert answer["id"] == 100
    assert "result" in answer
    assert "Traceback" not in connection.server.log


def test_refusals_and_answers_do_not_mix_in_a_line(connection: Connection) -> None:
    for number in range(50):
        connection.server.write("garbage")
        connection.ask(100 + number)

    messages = [connection.receive() for _ in range(100)]

    answered = [each["id"] for each in messages if "result" in each]
    assert sorted(answered) == list(range(100, 150))
    assert sum("error" in each for each in messages) == 50


def test_no_line_has_a_separator_at_which_clients_split_it(start: Start, tmp_path: Path) -> None:
    body = "One\u2028two\u2029three\x85four."
    write_skill(tmp_path, "skills/odd.md", body=body, description="Odd\u2028\x85separators")
    server = start(HOME=str(tmp_path), SKILLS_DIR=str(tmp_path / "skills"))

    reply = server.call("get_skill", context="odd", skill_path="odd")
    server.request("resources/list")
    server.request("skills/list")
    server.request("prompts/get", name="skill", arguments={"task": "\u2029\x85odd"})
    server.call("get_skill", context="odd", skill_path="none\x85\u2028")

    assert body in reply["content"]
    assert [line for line in server.lines if len(line.splitlines()) > 1] == []


def test_a_message_of_the_greatest_length_is_answered(start: Start) -> None:
    server = start()
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    message["params"] = {"_meta": MODERN, "x": ""}
    free = MAX_LINE_BYTES - len(json.dumps(message)) - 1
    message["params"]["x"] = "x" * free

    server.write(json.dumps(message))
    answer = server.receive()
    server.write(json.dumps(message) + " ")
    refusal = server.receive()

    assert "result" in answer
    assert refusal["id"] is None
    assert refusal["error"]["code"] == _INVALID_REQUEST
    assert "16,777,216 bytes" in refusal["error"]["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("era", ERAS)
def test_a_line_that_is_too_long_is_refused_and_not_kept(start: Start, era: str) -> None:
    server = start()
    connection = connect(server, era)
    processes = [server.process.pid, *find_servers()]
    before = sum(map(_most_mebibytes, processes))
    assert server.process.stdin is not None

    for _ in range(100):
        server.process.stdin.write("x" * 2**20)
    server.write("")
    refusal = connection.receive()

    assert (refusal["id"], refusal["error"]["code"]) == (None, _INVALID_REQUEST)
    connection.ask(100)
    assert "result" in connection.receive()
    assert len(processes) == 2
    assert sum(map(_most_mebibytes, processes)) - before < 96  # both, of a line of 100


def _most_mebibytes(process: int) -> float:
    """Return the most memory that the process has had."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024
