"""The script `dev`: its set-up, its messages, its jobs.

Most tests run a copy of it in a folder of its own with a pretended Python, a shell script that
writes down what it was asked to do; so the whole set-up takes no time and no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]

JOBS = ("demo", "test", "check", "bench", "fuzz", "suite", "prove", "mutate", "stubs")

PRETENDED_PYTHON = """#!/bin/sh
printf '%s' "$(basename "$0")" >>"$ASKED"
printf ' [%s]' "$@" >>"$ASKED"
echo >>"$ASKED"
case "$*" in
  "-c import sys"*) echo "${VERSION:-3.11.0}" ;;
  "-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m ensurepip"*) [ -z "${NO_ENSUREPIP:-}" ] ;;
  "-m pip --version") [ -z "${NO_PIP:-}" ] ;;
  *" install "*) [ -z "${PIP_SAYS:-}" ] || { echo "$PIP_SAYS"; exit 1; } ;;
  "-m pytest"*) echo "pytest runs"; exit "${TEST_STATUS:-0}" ;;
  "-m ruff check"*) exit "${LINT_STATUS:-0}" ;;
esac
"""


@dataclass
class Checkout:
    """A folder with the script, where `python3` is pretended."""

    root: Path
    tools: Path

    def dev(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script, from another folder than its own."""
        path = f"{self.tools}:/usr/bin:/bin"
        return subprocess.run(
            [str(self.root / "dev"), *arguments],
            cwd=self.tools,
            env={"PATH": path, "ASKED": str(self.asked_file), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    @property
    def asked_file(self) -> Path:
        return self.tools / "asked"

    def asked(self) -> list[str]:
        """What Python was asked to do since the last question."""
        lines = self.asked_file.read_text().splitlines() if self.asked_file.exists() else []
        self.asked_file.unlink(missing_ok=True)
        return lines

    def installs(self) -> list[str]:
        return [line for line in self.asked() if "[install]" in line]


def copy_of_the_script(folder: Path) -> Path:
    folder.mkdir()
    for name in ("dev", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    tools = tmp_path / "tools"
    tools.mkdir()
    python = tools / "python3"
    python.write_text(PRETENDED_PYTHON)
    python.chmod(0o755)
    return Checkout(copy_of_the_script(tmp_path / "a folder with spaces"), tools)


# -- help and mistakes -----------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("help",), ("-h",), ("--help",)])
def test_help_lists_every_job(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    done = checkout.dev(*arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ./dev JOB")
    assert all(f"\n  {job} " in done.stdout for job in JOBS)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_job_has_help_that_sets_nothing_up(checkout: Checkout, job: str, flag: str) -> None:
    done = checkout.dev(job, flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: ./dev {job}")
    assert checkout.asked() == []


def test_an_unknown_job_is_an_error(checkout: Checkout) -> None:
    done = checkout.dev("tset")
    assert done.returncode == 2
    assert done.stderr.startswith("dev: error: there is no job 'tset'\n  why: The jobs are demo,")
    assert checkout.asked() == []


@pytest.mark.parametrize(("job", "folder"), [("bench", "benchmarks"), ("fuzz", "fuzz")])
def test_names_are_listed_when_one_is_missing_or_unknown(
    checkout: Checkout, job: str, folder: str
) -> None:
    assert "Names: (there are none yet)" in checkout.dev(job).stderr
    (checkout.root / folder).mkdir()
    for name in ("__init__.py", "engine.py", "rules.py"):
        (checkout.root / folder / name).touch()
    for arguments in ((job,), (job, "motor")):
        done = checkout.dev(*arguments)
        assert done.returncode == 2
        assert "Names: engine rules\n" in done.stderr
    assert "Names: engine rules\n" in checkout.dev(job, "--help").stdout
    assert checkout.asked() == []


# -- what is missing -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.10.13", "3.9.2", "2.7.18"])
def test_python_too_old(checkout: Checkout, version: str) -> None:
    done = checkout.dev("test", VERSION=version)
    assert done.returncode == 2
    assert f"dev: error: 'python3' is Python {version}\n" in done.stderr
    assert "why: Porism needs Python 3.11 or newer." in done.stderr
    assert "PYTHON=" in done.stderr
    assert not (checkout.root / ".venv").exists()


def test_python_missing(checkout: Checkout) -> None:
    done = checkout.dev("test", PYTHON="no-such-python")
    assert done.returncode == 2
    assert "dev: error: cannot run 'no-such-python'" in done.stderr


def test_pip_missing(checkout: Checkout) -> None:
    for name in ("pip", "pip3"):
        (checkout.tools / name).write_text("#!/bin/sh\nexit 1\n")
        (checkout.tools / name).chmod(0o755)
    done = checkout.dev("test", NO_ENSUREPIP="1", NO_PIP="1")
    assert done.returncode == 2
    assert "dev: error: there is no pip" in done.stderr
    assert "python3-pip" in done.stderr


@pytest.mark.parametrize(
    ("pip_says", "why"),
    [
        ("Retrying (Retry(total=4)): Connection refused", "no network"),
        ("Temporary failure in name resolution", "no network"),
        ("OSError: [Errno 28] No space left on device", "The disk is full."),
        (
            "ERROR: No matching distribution found for z3",
            "no such version for this Python (3.11.0)",
        ),
        ("something else", "pip stopped with the message above."),
    ],
)
def test_a_failed_install_says_why(checkout: Checkout, pip_says: str, why: str) -> None:
    done = checkout.dev("test", PIP_SAYS=pip_says)
    assert done.returncode == 2
    assert f"  | {pip_says}\n" in done.stderr
    assert f"(pip's log: {checkout.root}/.venv/set-up.log)" in done.stderr
    assert why in done.stderr
    assert "pytest runs" not in done.stdout
    assert not (checkout.root / ".venv.lock").exists()


@pytest.mark.slow
def test_no_network_for_real(tmp_path: Path) -> None:
    root = copy_of_the_script(tmp_path / "checkout")
    unreachable = "http://127.0.0.1:9/simple"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
    environment |= {
        "PYTHON": sys.executable,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": unreachable,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "1",
    }
    done = subprocess.run(
        [str(root / "dev"), "test"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "dev: error: could not install pip and setuptools" in done.stderr
    assert "there seems to be no network" in done.stderr
    assert unreachable not in done.stderr.partition("dev: error")[2]
    assert (root / ".venv" / "set-up.log").stat().st_size > 0


# -- set-up ----------------------------------------------------------------------------------------


def test_the_first_run_sets_up_and_the_second_does_not(checkout: Checkout) -> None:
    first = checkout.dev("test")
    assert first.returncode == 0
    assert first.stdout == "pytest runs\n"
    assert "making .venv with Python 3.11.0" in first.stderr
    assert "dev: set-up took " in first.stderr
    assert "dev: test took " in first.stderr
    assert checkout.installs() == [
        "python [-m] [pip] [install] [-c] [constraints.txt] [pip] [setuptools]",
        "python [-m] [pip] [install] [-c] [constraints.txt] [--no-build-isolation] [-e] [.[dev]]",
    ]
    second = checkout.dev("test")
    assert second.returncode == 0
    assert "set-up" not in second.stderr
    assert checkout.asked() == [
        "python [-c] []",
        "python [-m] [pytest] [-n] [auto] [-m] [not slow]",
    ]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_file_brings_the_set_up_up_to_date(checkout: Checkout, name: str) -> None:
    checkout.dev("test")
    with (checkout.root / name).open("a") as file:
        file.write("# changed\n")
    checkout.asked()
    done = checkout.dev("test")
    assert "bringing .venv up to date" in done.stderr
    asked = checkout.asked()
    assert not any("[venv]" in line for line in asked)
    assert sum("[install]" in line for line in asked) == 2


def test_a_broken_venv_is_made_again(checkout: Checkout) -> None:
    checkout.dev("test")
    (checkout.root / ".venv/bin/python").unlink()
    done = checkout.dev("test")
    assert done.returncode == 0
    assert "making .venv" in done.stderr


def test_a_half_made_venv_is_made_again(checkout: Checkout) -> None:
    assert checkout.dev("test", PIP_SAYS="Connection refused").returncode == 2
    (checkout.root / ".venv/left-over").touch()
    done = checkout.dev("test")
    assert done.returncode == 0
    assert "making .venv" in done.stderr
    assert not (checkout.root / ".venv/left-over").exists()


def test_a_moved_checkout_is_set_up_again(checkout: Checkout) -> None:
    checkout.dev("test")
    checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    assert "making .venv" in checkout.dev("test").stderr


def test_another_python_is_set_up_again(checkout: Checkout) -> None:
    checkout.dev("test")
    shutil.copy(checkout.tools / "python3", checkout.tools / "python3.14")
    done = checkout.dev("test", PYTHON="python3.14", VERSION="3.14.1")
    assert "making .venv with Python 3.14.1" in done.stderr


def test_without_ensurepip_a_pip_from_outside_is_used(checkout: Checkout) -> None:
    assert checkout.dev("test", NO_ENSUREPIP="1").returncode == 0
    expected = (
        "python3 [-m] [pip] [--python] [.venv/bin/python] [install] [-c] [constraints.txt] [pip]"
    )
    assert checkout.installs()[0] == expected


def test_the_lock_of_a_dead_set_up_is_taken_over(checkout: Checkout) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = checkout.root / ".venv.lock"
    lock.mkdir()
    (lock / "pid").write_text(f"{dead.pid}\n")
    assert checkout.dev("test").returncode == 0
    assert not lock.exists()


# -- jobs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("demo",), "[-m] [porism] [demo]"),
        (
            ("test", "-k", "two words"),
            "[-m] [pytest] [-n] [auto] [-m] [not slow] [-k] [two words]",
        ),
        (("test", "--all", "-x"), "[-m] [pytest] [-n] [auto] [-x]"),
        (("check",), "[-m] [mypy] [--strict] [src] [tests]"),
        (("bench", "engine", "--json", "a b"), "[-m] [benchmarks.engine] [--json] [a b]"),
        (("fuzz", "text", "--minutes", "1"), "[-m] [fuzz.text] [--minutes] [1]"),
        (("prove", "div", "mod"), "[-m] [tools.prove] [div] [mod]"),
        (("mutate", "div", "--list"), "[-m] [tools.mutate] [div] [--list]"),
        (("suite", "array-api", "a b"), "[-m] [tools.suite.array_api] [a b]"),
        (("stubs", "--check"), "[-m] [tools.stubs] [--check]"),
    ],
)
def test_jobs(checkout: Checkout, arguments: tuple[str, ...], asked: str) -> None:
    for name in ("benchmarks/engine.py", "fuzz/text.py", "tools/suite/array_api.py"):
        (checkout.root / name).parent.mkdir(parents=True)
        (checkout.root / name).touch()
    done = checkout.dev(*arguments)
    assert done.returncode == 0
    assert checkout.asked()[-1] == f"python {asked}"


def test_the_exit_status_of_the_job_is_passed_on(checkout: Checkout) -> None:
    done = checkout.dev("test", TEST_STATUS="5")
    assert done.returncode == 5
    assert done.stderr.endswith(", exit status 5\n")


def test_check_runs_all_gates_and_names_those_that_fail(checkout: Checkout) -> None:
    done = checkout.dev("check", LINT_STATUS="1")
    assert done.returncode == 1
    assert "dev: check found faults in: lint\n" in done.stderr
    assert checkout.asked()[-3:] == [
        "python [-m] [ruff] [check] [.]",
        "python [-m] [ruff] [format] [--check] [.]",
        "python [-m] [mypy] [--strict] [src] [tests]",
    ]
