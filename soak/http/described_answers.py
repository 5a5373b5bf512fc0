"""What schemathesis asks of each answer: the same as of those to drawn requests.

It loads this module by the variable `SCHEMATHESIS_HOOKS`.
"""

import json
import os
from typing import Any

import schemathesis

from soak.http.attacked_server import FORBIDDEN_VARIABLE
from soak.http.raw_http import RawAnswer, find_fault


@schemathesis.check
def answered_well(
    ctx: schemathesis.CheckContext,
    response: schemathesis.Response,
    case: schemathesis.Case[Any],
) -> None:
    """Refuse an answer that shows a fault of the server.

    Raises:
        AssertionError: It does; the message says how.
    """
    del ctx
    given = json.loads(os.environ[FORBIDDEN_VARIABLE])
    forbidden = {name: bytes.fromhex(value) for name, value in given.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
    start = f"HTTP/1.1 {response.status_code} \r\n{head}\r\n".encode()
    answer = RawAnswer(start + response.content, response.elapsed, is_silent=False)
    sent = repr(case.as_transport_kwargs()).encode()
    if fault := find_fault(answer, sent, forbidden):
        raise AssertionError(fault)
