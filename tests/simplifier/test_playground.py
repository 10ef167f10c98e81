"""The playground: a server for this machine alone, whose answers are bounded."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from porism.base.errors import PorismError
from porism.simplifier.playground import playground_server, playground_worker
from porism.simplifier.playground.playground_server import ADDRESS, MAX_QUESTION


@pytest.fixture
def port() -> Iterator[int]:
    server = playground_server.new_server(0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))  # it ends soon
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


def request(
    port: int, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=30)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, names)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, content, dict(response.getheaders())


def ask(port: int, question: Any) -> Any:
    body = json.dumps(question).encode()
    status, content, _ = request(port, "POST", "/ask", body, Content_Type="application/json")
    assert status == 200
    return json.loads(content)


def test_an_expression_is_simplified_step_by_step(port: int) -> None:
    answer = ask(port, {"expression": "(r*8 + v) % 7", "bounds": "r=0..3 v=0..2"})
    assert answer["text"] == "r + v"
    assert answer["divisions"] == 0
    assert answer["steps"]
    assert all(step["rule"] and step["before"] != step["after"] for step in answer["steps"])
    assert any(step["established"] == "proved" for step in answer["steps"])
    assert all(step["theorem"] for step in answer["steps"])


def test_a_wrong_rule_gets_a_counterexample(port: int) -> None:
    assert "c1 = -1" in ask(port, {"rule": "x//c0//c1 -> x//(c0*c1)"})["verdict"]
    proved = ask(port, {"rule": "x//c0//c1 -> x//(c0*c1) when c1 > 0"})
    assert proved["proved"] is True


def test_the_examples_of_the_page_have_answers() -> None:
    page = Path(playground_server.__file__).with_name("page") / "playground.html"
    found = re.findall(r'data-(expression|bounds|rule)="([^"]*)"', page.read_text(encoding="utf-8"))
    expressions = [text for name, text in found if name == "expression"]
    bounds = [text for name, text in found if name == "bounds"]
    assert len(expressions) == len(bounds) > 2
    for expression, limits in zip(expressions, bounds, strict=True):
        answer = playground_worker.answer({"expression": expression, "bounds": limits})
        assert answer["steps"], expression
    verdicts = [playground_worker.answer({"rule": text}) for name, text in found if name == "rule"]
    assert {verdict["proved"] for verdict in verdicts} == {True, False}


def test_mistakes_are_messages(port: int) -> None:
    assert "error" in ask(port, {"expression": "(x", "bounds": ""})
    assert "error" in ask(port, {"expression": "x", "bounds": "x=3..1"})
    assert "error" in ask(port, {"rule": "x"})
    assert "error" in ask(port, {})
    assert ask(port, [1])["error"] == "this is no question in JSON"


def test_the_page_comes_with_a_policy(port: int) -> None:
    for path in ("/", "/playground.js", "/playground.css"):
        status, content, headers = request(port, "GET", path)
        assert status == 200
        assert content
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert request(port, "GET", "/../playground_server.py")[0] == 404
    assert b"innerHTML" not in request(port, "GET", "/playground.js")[1]


def test_other_hosts_and_large_questions_are_refused(port: int) -> None:
    assert request(port, "GET", "/", Host="example.org:80")[0] == 403
    large = b"x" * (MAX_QUESTION + 1)
    assert request(port, "POST", "/ask", large, Content_Type="application/json")[0] == 413
    assert request(port, "POST", "/ask", b"{}", Content_Type="text/plain")[0] == 404


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:80"])
def test_a_host_may_have_no_port(port: int, host: str) -> None:
    assert request(port, "GET", "/", Host=host)[0] == 200


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-1", "1_0", ""])
def test_a_length_that_is_no_number_is_refused(port: int, length: str) -> None:
    head = "POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection((ADDRESS, port), timeout=30) as connection:
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n{{}}".encode("latin-1"))
        assert connection.recv(100).startswith(b"HTTP/1.0 413")


def test_deeply_nested_json_is_no_question(port: int) -> None:
    deep = b"[" * MAX_QUESTION
    status, content, _ = request(port, "POST", "/ask", deep, Content_Type="application/json")
    assert (status, json.loads(content)) == (200, {"error": "this is no question in JSON"})


def test_a_silent_connection_is_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground_server.Handler, "timeout", 0.2)
    head = b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection((ADDRESS, port), timeout=30) as connection:
        connection.sendall(head + b"Content-Length: 50\r\n\r\n{")
        assert connection.recv(100) == b""


def test_it_is_not_seen_from_outside(port: int) -> None:
    address = playground_server.new_server(0)
    with address:
        assert address.server_address[0] == "127.0.0.1"


def test_a_question_that_takes_too_long_is_given_up() -> None:
    answer = playground_server.ask(b'{"expression": "x", "bounds": "x=0..9"}', seconds=0.01)
    assert answer == {"error": "no answer was found in 0.01 seconds"}


def test_a_port_in_use_is_an_error_with_a_fix() -> None:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        with pytest.raises(PorismError, match="cannot be used") as caught:
            playground_server.new_server(taken.getsockname()[1])
    assert caught.value.fix


def test_long_answers_are_cut() -> None:
    expression = " + ".join(f"(x{k}*8 + y{k}) // 8" for k in range(40))
    bounds = " ".join(f"x{k}=0..9 y{k}=0..7" for k in range(40))
    answer = playground_worker.answer({"expression": expression, "bounds": bounds})
    assert len(answer["steps"]) <= playground_worker.MAX_STEPS
