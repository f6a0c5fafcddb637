"""The explorer answers its own page, and refuses everything else in one line."""

import base64
import dataclasses
import http.client
import io
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent import futures

import numpy as np
import pytest
from PIL import Image

from disentangle_jax.reports import explorer
from disentangle_jax.reports.explorer import Explorer, Subject
from disentangle_jax.reports.requests import Refusal, parse_code, parse_image
from tests.evaluation.made import SHAPE, decode
from tests.reports.pages import Page

GROUPS = (1, 2)
CODE = [0.5, -1.0, 2.0]
BANK = np.random.default_rng(3).integers(0, 256, (6, *SHAPE), dtype=np.uint8)


def encode(images):
    return np.asarray(images, np.float32).reshape(len(images), -1)[:, :3] / 255.0


@pytest.fixture(scope="module")
def server():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, *SHAPE), dtype=np.uint8)

    def stored():
        return encode(BANK)

    models = [
        Subject("seed=0", encode, decode, GROUPS, images, stored),
        Subject("seed=1", encode, lambda z: decode(-z), GROUPS, images, stored),
    ]
    with Explorer(models) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


def request(server, path, body=None, *, method=None, headers=None, token=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    token = server.token if token is None else token
    if isinstance(body, dict | list):
        body = json.dumps(body)
    method = method or ("GET" if body is None else "POST")
    connection.request(method, f"/{token}/{path}", body, headers or {})
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def image_of(content):
    return np.asarray(Image.open(io.BytesIO(content)))


def test_it_listens_on_this_machine_alone_with_an_own_token(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    assert len(server.token) >= 32
    other = Explorer(server.models)
    other.server_close()
    assert other.token != server.token


def test_page_loads_nothing_and_may_run_only_its_own_script(server):
    answer = request(server, "")
    assert answer.status == 200
    text = answer.body.decode()
    page = Page(text)
    assert page.sources == ["data:,"]
    assert "http" not in text
    nonces = {value for _, name, value in page.attributes if name == "nonce"}
    policy = answer.headers["Content-Security-Policy"]
    assert len(nonces) == 1 and f"script-src 'nonce-{nonces.pop()}'" in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert request(server, "").body != answer.body  # A nonce is used once.


def test_model_tells_sliders_by_variable_and_their_ranges(server):
    told = request(server, "1/model", {}).json()
    assert told["lanes"] == ["seed=0", "seed=1"]
    assert told["groups"] == [["z1"], ["z2.1", "z2.2"]]
    codes = encode(BANK)
    np.testing.assert_allclose(told["low"], codes.min(axis=0), rtol=1e-6)
    np.testing.assert_allclose(told["high"], codes.max(axis=0), rtol=1e-6)
    shown = base64.b64decode(told["picks"][1].partition(",")[2])
    np.testing.assert_array_equal(image_of(shown), server.models[1].images[1])


def test_sliders_of_quantised_latents_get_the_values_of_their_codebooks(server):
    assert request(server, "0/model", {}).json()["values"] is None
    values = np.float32([[-0.5, 0.1, 0.5], [-1, 0, 1], [0.25, 0.5, 0.75]])
    one = dataclasses.replace(server.models[0], values=values)
    with Explorer([one]) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        told = request(other, "0/model", {}).json()
        other.shutdown()
        thread.join()
    # Decimals that stand for the float32 exactly, as those of codes do.
    np.testing.assert_array_equal(np.float32(told["values"]), values)


def test_slider_shows_what_the_decoder_of_the_lane_makes(server):
    for lane, sign in ((0, 1.0), (1, -1.0)):
        answer = request(server, f"{lane}/decode", {"code": CODE})
        assert answer.headers["Content-Type"] == "image/png"
        expected = decode(sign * np.asarray([CODE], np.float32))[0]
        np.testing.assert_array_equal(image_of(answer.body), expected)


def test_picked_and_uploaded_images_are_encoded(server):
    image = server.models[0].images[1]
    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG")
    uploaded = request(server, "0/encode", file.getvalue()).json()
    assert request(server, "0/pick", {"image": 1}).json() == uploaded
    # Decimals that stand for the float32 exactly.
    code = np.asarray(uploaded["code"], np.float32)
    np.testing.assert_array_equal(code, encode(image[None])[0])


def test_upload_is_cut_to_its_middle_and_made_grey():
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = (255, 0, 0)
    file = io.BytesIO()
    Image.fromarray(wide).save(file, format="PNG")
    middle = parse_image(file.getvalue(), (4, 4, 3))
    assert middle.shape == (4, 4, 3) and (middle == (255, 0, 0)).all()
    grey = parse_image(file.getvalue(), (4, 4, 1))
    assert grey.shape == (4, 4, 1) and (grey == 76).all()  # Luma of pure red.


def test_one_variable_is_resampled_from_the_bank_and_the_others_stay(server):
    bank = encode(BANK)
    seen = set()
    for _ in range(20):
        asked = {"code": CODE, "variable": 1}
        code = request(server, "0/hybrid", asked).json()["code"]
        assert code[0] == CODE[0]
        row = np.flatnonzero((bank[:, 1:] == np.float32(code[1:])).all(axis=1))
        assert len(row) == 1  # Both dimensions come from one stored code.
        seen.add(int(row[0]))
    assert len(seen) > 1
    every = request(server, "0/hybrid", {"code": CODE, "variable": None}).json()["code"]
    assert np.float32(every[0]) in bank[:, 0]


BAD_CODES = [
    ([1, 2], "code: must hold 3 numbers, got 2."),
    ([1, 2, 3, 4], "code: must hold 3 numbers, got 4."),
    (None, "code: must be a list of 3 numbers."),
    ({"0": 1}, "code: must be a list of 3 numbers."),
    ([1, 2, "3"], "code: must hold numbers, got text at place 3."),
    ([1, True, 3], "code: must hold numbers, got true at place 2."),
    ([1, [2], 3], "code: must hold numbers, got [2] at place 2."),
    ([1, 2, 10**400], "code: numbers must be finite, which place 3 is not."),
    ([1e39, 2, 3], "code: numbers must be finite, which place 1 is not."),
    ([float("nan"), 2, 3], "code: numbers must be finite, which place 1 is not."),
]


@pytest.mark.parametrize("value, line", BAD_CODES, ids=range(len(BAD_CODES)))
def test_bad_codes_are_told_apart(value, line):
    with pytest.raises(Refusal) as refused:
        parse_code(value, 3)
    assert str(refused.value) == line and refused.value.status == 400


PNG = "image: must be a whole file of PNG, JPEG, WEBP, GIF, BMP."
MANY = b"x" * (8 * 1024 * 1024 + 1)


@pytest.mark.parametrize(
    "path, body, status, line",
    [
        ("0/decode", {"code": [1, 2]}, 400, "code: must hold 3 numbers, got 2."),
        ("0/decode", b'{"code": [1, 2, NaN]}', 400, "body: numbers must be finite"),
        ("0/decode", b'{"code": [1, 2, 1e400]}', 400, "code: numbers must be finite"),
        ("0/decode", b"{", 400, "body: must be JSON."),
        ("0/decode", b"[" * 60_000, 400, "body: must be JSON."),
        ("0/decode", b"\xff\xfe\x00", 400, "body: must be JSON."),
        ("0/decode", [1], 400, "body: must be a JSON object."),
        ("0/decode", b" " * 70_000, 413, "body: must have at most 65536 bytes"),
        ("0/hybrid", {"code": CODE, "variable": 2}, 400, "variable: must be a whole"),
        ("0/hybrid", {"code": CODE, "variable": True}, 400, "variable: must be a"),
        ("0/hybrid", {"code": CODE, "variable": -1}, 400, "variable: must be a whole"),
        ("0/pick", {"image": 2}, 400, "image: must be a whole number from 0 to 1."),
        ("0/pick", {}, 400, "image: must be a whole number from 0 to 1."),
        ("0/encode", b"no image", 415, PNG),
        ("0/encode", b"", 415, PNG),
        ("0/encode", MANY, 413, "body: must have at most 8388608 bytes, got 8388609."),
        ("2/decode", {"code": CODE}, 404, "lane: must be below 2, got 2."),
        ("x/decode", {"code": CODE}, 404, "lane: must be a number."),
        ("0/eval", {"code": CODE}, 404, "address: there is nothing here."),
        ("0/decode", None, 405, "method: must be POST here."),
        ("", {"code": CODE}, 405, "method: must be GET here."),
        ("../../etc/passwd", None, 404, "address: there is nothing here."),
    ],
)
def test_bad_requests_get_one_clear_line(server, path, body, status, line):
    answer = request(server, path, body)
    assert answer.status == status
    assert answer.body.decode().startswith(line)
    assert answer.body.count(b"\n") == 1
    assert request(server, "0/decode", {"code": CODE}).status == 200  # Still there.


def test_damaged_and_enormous_pictures_are_refused(server):
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, format="PNG")
    assert request(server, "0/encode", file.getvalue()[:60]).status == 415
    file = io.BytesIO()
    Image.new("1", (5000, 5000)).save(file, format="PNG")  # Some kilobytes.
    answer = request(server, "0/encode", file.getvalue())
    assert answer.status == 413
    assert (
        answer.body == b"image: must have at most 16 million pixels, got 5000 x 5000.\n"
    )


@pytest.mark.parametrize("token", ["", "x", "%C3%A9", "A" * 32])
def test_wrong_token_is_refused(server, token):
    answer = request(server, "0/decode", {"code": CODE}, token=token)
    assert answer.status == 403
    assert answer.body == (
        b"token: is wrong; open the address that the command printed.\n"
    )


def test_other_hosts_and_other_sites_are_refused(server):
    port = server.server_port
    rebound = request(server, "", headers={"Host": f"evil.example:{port}"})
    assert (rebound.status, rebound.body) == (
        403,
        b"host: must be 127.0.0.1 or localhost.\n",
    )
    assert request(server, "", headers={"Host": f"localhost:{port}"}).status == 200
    asked = {"code": CODE}
    for origin in ("https://evil.example", "null"):
        answer = request(server, "0/decode", asked, headers={"Origin": origin})
        assert (answer.status, answer.body[:7]) == (403, b"origin:")
    own = {"Origin": f"http://127.0.0.1:{port}"}
    assert request(server, "0/decode", asked, headers=own).status == 200
    other = {"Host": f"localhost:{port}", "Origin": "http://localhost:9000"}
    assert request(server, "0/decode", asked, headers=other).status == 403


@pytest.mark.parametrize(
    "host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000", "localhost"]
)
def test_an_ssh_tunnel_may_begin_at_another_port(server, host):
    """Browsers name the port where the tunnel begins, unless it is 80."""
    own = {"Host": host, "Origin": f"http://{host}"}
    page = request(server, "", headers={"Host": host})
    assert page.status == 200
    assert str(server.server_port) not in page.body.decode()  # Addresses are relative.
    for action, body in (
        ("model", {}),
        ("pick", {"image": 0}),
        ("decode", {"code": CODE}),
        ("hybrid", {"code": CODE, "variable": 0}),
    ):
        assert request(server, f"0/{action}", body, headers=own).status == 200


def test_a_chosen_port_is_used_and_a_taken_one_refused(server):
    with pytest.raises(ValueError, match=f"port {server.server_port} cannot be used"):
        Explorer(server.models, server.server_port)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = Explorer(server.models, port)
    other.server_close()
    assert other.server_port == port


def test_no_image_is_shown_before_the_first_answer(server):
    page = Page(request(server, "").body.decode())
    hidden = [tag for tag, name, _ in page.attributes if name == "hidden"]
    assert hidden.count("figure") == 2 and "Loading" in page.text


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "9" * 30}, 413),
        ({}, 411),
    ],
)
def test_bodies_of_unknown_or_absurd_length_are_refused(server, headers, status):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.putrequest("POST", f"/{server.token}/0/decode")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = Answer(connection.getresponse())
    connection.close()
    assert answer.status == status and answer.body.count(b"\n") == 1


@pytest.mark.parametrize("ending", ["closed", "silent"])
def test_short_bodies_get_400(server, monkeypatch, ending):
    monkeypatch.setattr(explorer, "_SECONDS", 0.3)
    monkeypatch.setattr(explorer._Handler, "timeout", 0.3)
    with socket.create_connection(("127.0.0.1", server.server_port), 20) as client:
        client.sendall(
            f"POST /{server.token}/0/decode HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        if ending == "closed":
            client.shutdown(socket.SHUT_WR)
        answer = client.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ") and b"body: ended before" in answer


def test_a_burst_of_100_requests_is_served(server):
    with futures.ThreadPoolExecutor(100) as pool:
        answers = pool.map(
            lambda _: request(server, "0/decode", {"code": CODE}), range(100)
        )
        assert [answer.status for answer in answers] == [200] * 100


def test_few_uploads_are_in_memory_at_once(server, monkeypatch):
    inside, most = [], []

    def parse(content, shape):
        inside.append(0)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return np.zeros(shape, np.uint8)

    monkeypatch.setattr(explorer, "parse_image", parse)
    with futures.ThreadPoolExecutor(20) as pool:
        answers = pool.map(lambda _: request(server, "0/encode", b"x"), range(20))
        assert {answer.status for answer in answers} == {200}
    assert max(most) <= 4
    monkeypatch.setattr(explorer, "_SECONDS", 0.05)
    taken = [server.uploads.acquire() for _ in range(4)]
    assert all(taken) and request(server, "0/encode", b"x").status == 503
    for _ in taken:
        server.uploads.release()


def test_unknown_method_gets_one_line_too(server):
    answer = request(server, "", method="DELETE")
    assert (answer.status, answer.body) == (405, b"method: must be GET or POST.\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_each_lane_until_it_is_stopped(number, tiny_lanes):
    command = [sys.executable, "-m", "disentangle_jax.main", "explore"]
    process = subprocess.Popen(
        [*command, str(tiny_lanes.workdir)], stdout=subprocess.PIPE, text=True
    )
    try:
        lines = iter(process.stdout.readline, "")
        line = next(line for line in lines if line.startswith("explorer: "))
        url = line.removeprefix("explorer: ").strip()
        with urllib.request.urlopen(f"{url}0/model", data=b"{}") as answer:
            told = json.loads(answer.read())
        assert told["lanes"] == ["fc1200, beta=1,seed=0", "fc1200, beta=8,seed=0"]
        code = json.dumps({"code": told["low"]}).encode()
        drawn = []
        for lane in range(2):
            with urllib.request.urlopen(f"{url}{lane}/decode", data=code) as answer:
                drawn.append(image_of(answer.read()))
        assert drawn[0].shape == (64, 64, 3)
        assert not (drawn[0] == drawn[1]).all()
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
        assert "explorer: ended" in process.stdout.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
