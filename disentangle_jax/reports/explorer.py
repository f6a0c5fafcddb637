"""The latent explorer: a local page with a slider per latent and live decoding.

The server answers this machine only: it listens on 127.0.0.1, its addresses contain a
random token, it refuses requests that name another host or come from another site's
page (which could otherwise reach it by rebinding its own name), and it limits the size
of requests. The page loads nothing from elsewhere.
"""

import base64
import contextlib
import dataclasses
import functools
import http.server
import importlib.resources
import json
import re
import secrets
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from disentangle_jax import evaluation, sampling, training
from disentangle_jax.reports.grids import latent_labels, png
from disentangle_jax.reports.requests import (
    Refusal,
    bad,
    parse_code,
    parse_image,
    parse_json,
    parse_place,
)

_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_MAX_JSON = 64 * 1024
_MAX_UPLOAD = 8 * 1024 * 1024
_PICKS = 12
_SECONDS = 10.0  # How long a client may keep the server waiting.
_DRAINED = 64 * 1024 * 1024
_UPLOADS = 4  # Uploads that are held in memory at once; others wait.


@dataclasses.dataclass(eq=False)
class Subject:
    """A model to explore.

    Attributes:
      name: shown to the user; distinguishes lanes.
      encode: uint8 images ``[B, H, W, C]`` to codes ``[B, D]``.
      decode: codes ``[B, D]`` to uint8 images.
      groups: sizes of the latent variables, adding up to D.
      images: ``[n, H, W, C]`` uint8 images to pick from.
      stored_codes: returns the codes ``[N, D]`` that hybrids recombine; called once,
        when they are needed.
      discrete: number of discrete variables, the last of `groups`: one-hot vectors.
      values: ``[D, V]`` values of latents that take no others, ascending; None for
        latents that take any value.
    """

    name: str
    encode: Callable[[np.ndarray], np.ndarray]
    decode: Callable[[np.ndarray], np.ndarray]
    groups: tuple[int, ...]
    images: np.ndarray
    stored_codes: Callable[[], np.ndarray]
    discrete: int = 0
    values: np.ndarray | None = None

    @functools.cached_property
    def bank(self) -> np.ndarray:
        """``[N, D]`` stored codes."""
        return np.asarray(self.stored_codes())

    @property
    def dims(self) -> int:
        return sum(self.groups)


def explore(models: Iterable[evaluation.Trained], port: int = 0) -> None:
    """Serves the explorer until Ctrl-C or SIGTERM; port 0 takes a free one."""
    try:
        with Explorer([_subject(model) for model in models], port) as server:
            port = server.server_port
            print(f"explorer: {server.url}", flush=True)
            print(
                "Open this address in a browser here. On a remote machine, run\n"
                f"  ssh -L {port}:127.0.0.1:{port} REMOTE_MACHINE\n"
                "where the browser is, and open the same address there. Another port "
                f"can replace the first {port} and that of the address. Ctrl-C stops "
                "the explorer.",
                flush=True,
            )
            server.serve_forever()
    except (KeyboardInterrupt, training.Interrupted):
        print("\nexplorer: ended", flush=True)


def _subject(model: evaluation.Trained) -> Subject:
    run, seed = model.run, model.run.config.eval.seed
    rng = np.random.default_rng(seed)
    lane = run.workdir.name if run.workdir.parent.name == "lanes" else ""
    values = run.method.codebook_values(model.state)
    return Subject(
        ", ".join(filter(None, (run.config.model.name, lane))),
        model.encode,
        model.decode,
        tuple(run.method.latent_groups),
        run.test_set.images(rng.choice(run.test_set.indices, _PICKS)),
        functools.partial(
            evaluation.training_codes, model, np.random.default_rng(seed)
        ),
        len(run.method.discrete),
        None if values is None else np.asarray(values),
    )


class Explorer(http.server.ThreadingHTTPServer):
    """Serves the page and the models; ``with`` closes it, ``url`` is its address.

    Args:
      models: at least one; all take images of one size.
      port: port to listen on; 0 for a free one.
    """

    daemon_threads = True
    request_queue_size = 128  # Connections that may wait to be accepted.

    def __init__(self, models: Sequence[Subject], port: int = 0):
        self.models = models
        self.token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self.uploads = threading.BoundedSemaphore(_UPLOADS)
        self._draws = 0
        self._key = jax.random.key(secrets.randbits(32))
        # Compiles what a slider, an upload and a button need before the page opens.
        self.hybrid(models[0], self.encode(models[0], models[0].images[0]), 0)
        self.decode(models[0], models[0].bank[0])
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ValueError(
                f"explore: port {port} cannot be used ({error.strerror}); choose "
                "another --port, or none."
            ) from None

    def server_bind(self) -> None:
        # HTTPServer's own method would ask the name service for the address's name.
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    # One call at a time: a model uses all cores, and there are several threads.

    def decode(self, model: Subject, code: np.ndarray) -> np.ndarray:
        """Returns the image ``[H, W, C]`` of a code ``[D]``."""
        with self._lock:
            return np.asarray(model.decode(code[None]))[0]

    def encode(self, model: Subject, image: np.ndarray) -> np.ndarray:
        """Returns the code ``[D]`` of an image ``[H, W, C]``."""
        with self._lock:
            return np.asarray(model.encode(image[None]))[0]

    def hybrid(
        self, model: Subject, code: np.ndarray, variable: int | None
    ) -> np.ndarray:
        """Returns `code` with one variable, or all, taken from stored codes."""
        with self._lock:
            self._draws += 1
            key = jax.random.fold_in(self._key, self._draws)
            bank = jnp.asarray(model.bank)
            drawn = np.asarray(sampling.hybrid(key, bank, 1, groups=model.groups))[0]
        if variable is None:
            return drawn
        own = np.repeat(np.arange(len(model.groups)), model.groups) == variable
        return np.where(own, drawn, code)


class _Handler(http.server.BaseHTTPRequestHandler):
    """``GET /TOKEN/`` returns the page; ``POST /TOKEN/LANE/ACTION`` calls a model."""

    server: Explorer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "disentangle_jax", ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        self._unread = True
        try:
            self._check_sender()
            kind, content = self._route(method)
        except Refusal as refusal:
            self._refuse(refusal.status, str(refusal))
            return
        except Exception as error:
            # The traceback goes to the terminal; the page gets its last line.
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"server: {error!r}")
            raise
        self._send(HTTPStatus.OK, kind, content)

    def _check_sender(self) -> None:
        # Any port: an SSH tunnel may begin at another one than it ends at.
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            raise Refusal(HTTPStatus.FORBIDDEN, "host: must be 127.0.0.1 or localhost.")
        if self.headers.get("Origin") not in (None, f"http://{hosts[0]}"):
            raise Refusal(HTTPStatus.FORBIDDEN, "origin: another site's page may not.")

    def _route(self, method: str) -> tuple[str, bytes]:
        path = self.path.partition("?")[0].removeprefix("/")
        token, *rest = path.split("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "token: is wrong; open the address that the command printed.",
            )
        actions = {
            "model": self._model,
            "decode": self._decode,
            "pick": self._pick,
            "encode": self._encode,
            "hybrid": self._hybrid,
        }
        if rest == [""]:
            wanted = "GET"
        elif len(rest) == 2 and rest[1] in actions:
            wanted = "POST"
        else:
            raise Refusal(HTTPStatus.NOT_FOUND, "address: there is nothing here.")
        if method != wanted:
            raise Refusal(
                HTTPStatus.METHOD_NOT_ALLOWED, f"method: must be {wanted} here."
            )
        if method == "GET":
            return self._page()
        lane, action = rest
        if not (lane.isdecimal() and len(lane) < 6):
            raise Refusal(HTTPStatus.NOT_FOUND, "lane: must be a number.")
        if int(lane) >= len(self.server.models):
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"lane: must be below {len(self.server.models)}, got {lane}.",
            )
        return actions[action](self.server.models[int(lane)])

    def _page(self) -> tuple[str, bytes]:
        self._nonce = secrets.token_urlsafe(16)
        text = importlib.resources.files(__package__).joinpath("explorer.html")
        page = text.read_text(encoding="utf-8").replace("NONCE", self._nonce)
        return "text/html; charset=utf-8", page.encode()

    def _model(self, model: Subject) -> tuple[str, bytes]:
        parse_json(self._body(_MAX_JSON))
        labels = iter(latent_labels(model.groups))
        return _json(
            lanes=[one.name for one in self.server.models],
            groups=[[next(labels) for _ in range(size)] for size in model.groups],
            discrete=model.discrete,
            low=_numbers(model.bank.min(axis=0)),
            high=_numbers(model.bank.max(axis=0)),
            values=None if model.values is None else [*map(_numbers, model.values)],
            picks=[_data_url(image) for image in model.images],
            max_upload=_MAX_UPLOAD,
        )

    def _decode(self, model: Subject) -> tuple[str, bytes]:
        asked = parse_json(self._body(_MAX_JSON))
        code = parse_code(asked.get("code"), model.dims)
        return "image/png", _png(self.server.decode(model, code))

    def _pick(self, model: Subject) -> tuple[str, bytes]:
        asked = parse_json(self._body(_MAX_JSON))
        image = model.images[
            parse_place(asked.get("image"), "image", len(model.images))
        ]
        return self._encoded(model, image)

    def _encode(self, model: Subject) -> tuple[str, bytes]:
        if not self.server.uploads.acquire(timeout=_SECONDS):
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE, "image: too many uploads; try again."
            )
        try:
            image = parse_image(self._body(_MAX_UPLOAD), model.images.shape[1:])
        finally:
            self.server.uploads.release()
        return self._encoded(model, image)

    def _encoded(self, model: Subject, image: np.ndarray) -> tuple[str, bytes]:
        code = self.server.encode(model, image)
        return _json(code=_numbers(code), image=_data_url(image))

    def _hybrid(self, model: Subject) -> tuple[str, bytes]:
        asked = parse_json(self._body(_MAX_JSON))
        code = parse_code(asked.get("code"), model.dims)
        variable = asked.get("variable")
        if variable is not None:
            variable = parse_place(variable, "variable", len(model.groups))
        return _json(code=_numbers(self.server.hybrid(model, code, variable)))

    def _body(self, limit: int) -> bytes:
        length = self.headers.get("Content-Length")
        if length is None or "Transfer-Encoding" in self.headers:
            raise Refusal(
                HTTPStatus.LENGTH_REQUIRED, "body: needs a Content-Length, no chunks."
            )
        if not (length.isascii() and length.isdecimal()):
            raise bad("body: its Content-Length must be a number.")
        if len(length) > 12 or int(length) > limit:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"body: must have at most {limit} bytes, got {length[:20]}.",
            )
        body = bytearray()
        end = time.monotonic() + _SECONDS
        with contextlib.suppress(TimeoutError):
            while len(body) < int(length) and time.monotonic() < end:
                part = self.rfile.read1(int(length) - len(body))
                if not part:
                    break
                body += part
        self._unread = False
        if len(body) < int(length):
            self.close_connection = True
            raise bad("body: ended before its Content-Length, or came too slowly.")
        return bytes(body)

    def _refuse(self, status: HTTPStatus, line: str) -> None:
        if self._unread:
            self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{line}\n".encode())
        if self._unread:
            self._drain()

    def _drain(self) -> None:
        """Reads what a refused client still sends: a reset would hide the answer."""
        end, left = time.monotonic() + _SECONDS, _DRAINED
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal() and len(length) < 13):
            return
        left = min(left, int(length))
        while left > 0 and time.monotonic() < end:
            part = self.rfile.read1(min(left, 1 << 16))
            if not part:
                return
            left -= len(part)

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        nonce = getattr(self, "_nonce", "none")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src "
            f"'nonce-{nonce}'; img-src data: blob:; connect-src 'self'; base-uri "
            "'none'; form-action 'none'; frame-ancestors 'none'",
        )
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Answers requests that http.server itself refuses, in one line too."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            code, message = HTTPStatus.METHOD_NOT_ALLOWED, "method: must be GET or POST"
        self.close_connection = True
        status = HTTPStatus(code)
        line = f"{message or status.phrase}.\n"
        self._send(status, "text/plain; charset=utf-8", line.encode("ascii", "replace"))

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps the terminal quiet: a slider makes many requests."""


def _json(**values: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(values).encode()


def _numbers(values: np.ndarray) -> list[float]:
    """Returns float32 values as their shortest decimal representations."""
    return [float(str(value)) for value in np.asarray(values, np.float32)]


def _png(image: np.ndarray) -> bytes:
    return png(Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image))


def _data_url(image: np.ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(_png(image)).decode()
