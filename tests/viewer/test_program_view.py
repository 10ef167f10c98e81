"""A view of a program: its data, its page, and the lines of the user."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import porism
from porism import cli
from porism.base.errors import PorismError
from porism.viewer import kernel_report, program_report, report_page
from porism.viewer.column_packing import unpacked


def values(*sizes: int) -> porism.Tensor:
    return porism.asarray(np.random.default_rng(0).normal(size=sizes).astype(np.float32))


class Elements(HTMLParser):
    """The elements of a page, with the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "input", "link", "br"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data


def parsed(text: str) -> Elements:
    elements = Elements()
    elements.feed(text)
    elements.close()
    assert elements.open == []
    return elements


def embedded(text: str) -> Any:
    ((_, data),) = [s for s in parsed(text).scripts if s[0].get("type") == "application/json"]
    report = json.loads(data)
    for program in report["programs"]:
        program |= {key: unpacked(program[key]) for key in ("steps", "buffers")}
    return report


def test_a_tensor_is_described_and_stays_lazy() -> None:
    x = values(8, 64).softmax()
    data = porism.view(x, runs=2).data
    assert "lazy" in repr(x)
    (program,) = data["programs"]
    (step,) = program["steps"]
    assert step["runs"] == 2
    assert 0 < step["seconds"] <= step["total"]
    assert step["flops"] > 8 * 64
    assert step["bytes"] == 2 * 8 * 64 * 4
    assert step["roofline"] > 0
    assert step["why"] == "it is an output"
    kernel = data["kernels"][step["kernel"]]
    stages = [stage["stage"] for stage in kernel["stages"]]
    assert stages[0] == "kernels"
    assert {"schedule loops", "decompose", "linearize"} <= set(stages)
    assert kernel["actions"]
    assert list(kernel["texts"]) == ["loops", "instructions", "llvm", "assembly"]
    assert len(data["events"]) == 2
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_rules_that_fired_have_a_theorem_and_a_proof() -> None:
    def function() -> porism.Tensor:
        return (values(3, 5) + 0.5).exp()

    data = porism.view(function, runs=1).data
    fired = {rule for kernel in data["kernels"] for s in kernel["stages"] for rule, _ in s["rules"]}
    assert fired & set(data["rules"])
    for name, row in data["rules"].items():
        assert row["theorem"].endswith(".") or row["before"] is None
        assert row["established"] in ("proved", "evaluated", "not recorded")
        assert row["proof"].endswith(f"porism prove {name}")
    polynomial = data["rules"]["exp-polynomial"]
    assert polynomial["kind"] == "procedure"


def test_every_loop_has_lines_in_every_text() -> None:
    data = porism.view(values(8, 64).softmax()).data
    (kernel,) = data["kernels"]
    for name, text in kernel["texts"].items():
        assert {loop for _, loop in text["loops"]} >= set(range(len(kernel["loops"]))), name
        starts = [line for line, _ in text["loops"]]
        assert starts == sorted(set(starts))
        assert starts[-1] < len(text["text"].split("\n"))


def test_instructions_are_linked_to_lines_of_llvm() -> None:
    data = porism.view(values(8, 64).softmax()).data
    texts = data["kernels"][0]["texts"]
    llvm, assembly = (texts[name]["text"].split("\n") for name in ("llvm", "assembly"))
    assert texts["llvm"]["numbers"] == list(range(1, len(llvm) + 1))
    numbers = texts["assembly"]["numbers"]
    assert len(numbers) == len(assembly)
    linked = [(line.strip(), llvm[n - 1]) for line, n in zip(assembly, numbers, strict=True) if n]
    assert len(linked) > len(assembly) / 2
    returns = [source for line, source in linked if line in ("retq", "ret")]
    assert returns
    assert all(source.strip().startswith(("ret ", "call ", "tail call")) for source in returns)


def test_long_texts_keep_their_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_report, "MAX_LINES", 4)
    text = kernel_report.Text([f"line {k}" for k in range(1, 9)], [0] * 8, range(1, 9)).row()
    assert text["text"].split("\n")[1:4] == ["line 2", "… 4 lines are left out …", "line 7"]
    assert text["numbers"] == [1, 2, 0, 7, 8]
    assert text["loops"] == [[0, 0], [2, -1], [3, 0]]


def test_a_kernel_knows_the_line_of_the_user() -> None:
    def function(x: porism.Tensor, w: porism.Tensor) -> porism.Tensor:
        y = x @ w  # the first line
        return y.softmax()  # the second line

    for program in (function, porism.jit(function)):
        data = porism.view(program, arguments=[values(300, 200), values(200, 300)], runs=2).data
        lines = [step["line"]["text"] for p in data["programs"] for step in p["steps"]]
        assert any("the first line" in line for line in lines)
        assert any("the second line" in line for line in lines)
        assert all(
            step["line"]["file"] == Path(__file__).name
            for p in data["programs"]
            for step in p["steps"]
        )


def test_what_is_recorded_is_computed_each_time() -> None:
    x = values(300, 200)

    def function() -> porism.Tensor:
        return (x @ x.T).softmax()

    data = porism.view(function, runs=4).data
    assert [step["runs"] for p in data["programs"] for step in p["steps"]] == [4, 4]
    with porism.profile(show=False) as profile:
        for _ in range(5):
            (x + 1).realize()
    assert [row.runs for row in profile.rows] == [5]


def test_a_kernel_with_several_results() -> None:
    x = values(20, 30)
    data = porism.view(lambda: {"sum": x + 1, "product": [x * 2]}, runs=1).data
    (step,) = data["programs"][0]["steps"]
    roles = [data["programs"][0]["buffers"][b]["role"] for b in step["buffers"]]
    assert (step["writes"], roles) == (2, ["output", "output", "input"])
    assert step["line"]["asked"] is False


def test_a_gradient_is_shown_where_it_is_asked_for() -> None:
    x = values(20, 30)
    data = porism.view(lambda: porism.grad(lambda a: (a.softmax() ** 2).sum())(x), runs=1).data
    lines = [step["line"]["text"] for p in data["programs"] for step in p["steps"]]
    assert lines
    assert all("porism.grad" in line for line in lines)


def test_layers_are_named_by_their_attributes() -> None:
    class Network(porism.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = porism.nn.Linear(30, 40)
            self.second = porism.nn.Linear(40, 20)

        def forward(self, x: porism.Tensor) -> porism.Tensor:
            y: porism.Tensor = self.second(self.first(x).relu())
            return y

    data = porism.view(Network(), arguments=[values(50, 30)], runs=1).data
    paths = [step["path"] for p in data["programs"] for step in p["steps"]]
    assert ["Network", "second"] in paths
    assert any(path[0] == "Network" for path in paths)


def test_a_layer_with_parameters_has_the_line_that_calls_it() -> None:
    class Network(porism.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = porism.nn.Linear(300, 400)
            self.norm = porism.nn.LayerNorm(400)
            self.second = porism.nn.Linear(400, 200)

        def forward(self, x: porism.Tensor) -> porism.Tensor:
            y = self.first(x).relu()  # line of the first product
            y = self.norm(y)  # line of the normalization
            z: porism.Tensor = self.second(y)  # line of the second product
            return z

    data = porism.view(Network(), arguments=[values(256, 300)], runs=1).data
    steps = [step for program in data["programs"] for step in program["steps"]]
    lines = [step["line"]["text"].partition("# line of the ")[2] for step in steps]
    assert lines[0] == "first product"
    assert lines[-1] == "second product"
    assert not any(step["line"]["asked"] for step in steps)


def test_temporaries_lie_in_the_arena() -> None:
    x = values(256, 256)
    data = porism.view(((x @ x) @ x) @ x).data
    (program,) = data["programs"]
    kept = [buffer for buffer in program["buffers"] if buffer["offset"] is not None]
    assert len(kept) == 2
    for buffer in kept:
        assert buffer["offset"] + buffer["bytes"] <= program["arena"]["peak"]
        assert buffer["first"] < buffer["last"] < len(program["steps"])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (1, 1, 7)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    data = porism.view(values(*shape) + 1, runs=1).data
    assert embedded(report_page.page(data)) == data


def test_a_program_without_kernels_has_a_page() -> None:
    data = porism.view(lambda: None, runs=1).data
    assert data["programs"] == []
    assert embedded(porism.view(lambda: 3, runs=1).html)["title"] == "function"


# -- the page --------------------------------------------------------------------------------------


def test_names_are_data_and_never_markup() -> None:
    evil = "</script><script>alert(1)</script><!-- <script> \u2028 & \" ' ]]>"
    shown = porism.view(values(4) * 2, runs=1)
    shown.data["title"] = evil
    shown.data["programs"][0]["steps"][0]["why"] = evil
    page = shown.html
    scripts = parsed(page).scripts
    assert [attributes.get("type") for attributes, _ in scripts] == ["application/json", None]
    assert embedded(page)["title"] == evil
    assert embedded(page)["programs"][0]["steps"][0]["why"] == evil
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def test_the_page_needs_nothing_else_and_allows_nothing_else() -> None:
    page = porism.view(values(4) * 2, runs=1).html
    elements = parsed(page)
    assert elements.links == []
    assert not re.search(
        r"(https?:)?//[a-z0-9.]+\.[a-z]{2,}", re.sub(r"http://www.w3.org/\S+", "", page)
    )
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1].replace("&#x27;", "'")
    (_, script) = elements.scripts[1]
    assert report_page._digest(script) in policy[1]
    for call in ("innerHTML", "document.write", "eval(", "outerHTML", "insertAdjacentHTML"):
        assert call not in script


def test_what_repeats_is_in_the_page_once() -> None:
    shown = porism.view(values(4) * 2, runs=1)
    (program,) = shown.data["programs"]
    once = len(shown.html)
    (step,) = program["steps"]
    program["steps"] = [{**step, "seconds": 1e-6 * k} for k in range(1000)]
    assert embedded(shown.html) == shown.data
    assert len(shown.html) - once < 90 * 1000


def test_a_report_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_report, "MAX_BYTES", 40_000)
    monkeypatch.setattr(program_report, "LEAST_FULL_BYTES", 0)
    x = values(64, 48)
    kernels = porism.view(
        lambda: [((x * k).softmax() @ x.T).sum() for k in range(12)], runs=1
    ).data["kernels"]
    full = [kernel for kernel in kernels if kernel["stages"]]
    assert len(full) < len(kernels)
    assert len(report_page.embedded_json(full)) < 40_000
    assert all(kernel["texts"]["loops"]["text"] for kernel in kernels)


def test_a_notebook_shows_it_in_a_frame() -> None:
    text = porism.view(values(4) * 2, runs=1)._repr_html_()
    assert text.startswith('<iframe sandbox="allow-scripts"')
    assert "<script" not in text


def not_a_program() -> Any:
    return 3


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: porism.view(values(3)), "nothing is left to be computed"),
        (lambda: porism.view(not_a_program()), "a int cannot be viewed"),
        (lambda: porism.view(values(3) + 1, runs=0), "a program is to run 0 times"),
    ],
)
def test_errors_say_what_where_why_and_how(wrong: Any, what: str) -> None:
    with pytest.raises(PorismError) as caught:
        wrong()
    error = caught.value
    assert error.what == what
    assert Path(__file__).name in str(error.where)
    assert error.why
    assert error.fix


# -- whole programs --------------------------------------------------------------------------------

SCRIPT = """
import sys, porism
x = porism.ones((8, 8)) * len(sys.argv)
print((x @ x).softmax().sum().item())
"""


def test_the_command_runs_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, page = tmp_path / "program.py", tmp_path / "page.html"
    script.write_text(SCRIPT)
    before = list(sys.path), list(sys.argv)
    assert cli.main(["view", "--output", str(page), str(script), "argument"]) == 0
    assert (list(sys.path), list(sys.argv)) == before
    assert capsys.readouterr().out == f"8.0\nwrote {page}\n"
    data = embedded(page.read_text(encoding="utf-8"))
    assert data["title"] == "program.py"
    lines = {step["line"]["line"] for p in data["programs"] for step in p["steps"] if step["line"]}
    assert lines == {4}


@pytest.mark.parametrize("words", [["view"], ["view", "no such file.py"]])
def test_the_command_asks_for_a_program(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert "fix: name a file of Python" in capsys.readouterr().err


def test_a_program_that_fails_has_a_page(tmp_path: Path) -> None:
    script, page = tmp_path / "program.py", tmp_path / "page.html"
    script.write_text(SCRIPT + "sys.exit(3)\n")
    assert cli.main(["view", "--output", str(page), str(script)]) == 3
    assert embedded(page.read_text(encoding="utf-8"))["programs"]


def test_what_a_program_says_at_its_end_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, page = tmp_path / "program.py", tmp_path / "page.html"
    script.write_text("raise SystemExit('no data')\n")
    assert cli.main(["view", "--output", str(page), str(script)]) == 1
    assert capsys.readouterr().err == "no data\n"


def test_the_setting_writes_a_page_at_the_end(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PORISM_VIEW": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "wrote porism-view.html" in done.stderr
    assert embedded((tmp_path / "porism-view.html").read_text(encoding="utf-8"))["programs"]


def test_what_is_not_viewed_does_not_pay_for_it() -> None:
    code = (
        "import sys, porism; (porism.ones(3) + 1).numpy(); "
        "print([m for m in sys.modules if m.startswith('porism.viewer')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
