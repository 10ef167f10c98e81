"""Settings come from the environment, are checked, and are documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from porism.base.errors import SettingsError
from porism.base.settings import TABLE, Setting, settings
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts from an environment without settings, and leaves none read."""
    for variable in list(os.environ):
        if variable.startswith("PORISM_"):
            monkeypatch.delenv(variable)
    settings.reload()
    yield
    monkeypatch.undo()
    settings.reload()


def test_defaults() -> None:
    assert (settings.debug, settings.trace) == (0, False)
    assert (settings.rewrite_limit, settings.check) == (1000, False)
    assert type(settings.trace) is bool


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORISM_DEBUG", "3")
    assert settings.debug == 3
    monkeypatch.setenv("PORISM_DEBUG", "1")
    assert settings.debug == 3
    settings.reload()
    assert settings.debug == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("4", 4), (" 2 ", 2), ("", 0), ("03", 3), ("-0", 0)],
)
def test_numbers(text: str, value: int) -> None:
    assert settings.read({"PORISM_DEBUG": text})["debug"] == value


@pytest.mark.parametrize("text", ["-1", "5", "1.0", "x", "1e0", "0x1", "١", "--1", "-", "9" * 9999])
def test_a_bad_number_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings.read({"PORISM_DEBUG": text})
    message = str(caught.value)
    assert message.startswith(f"PORISM_DEBUG is {text[:50]!r}"[:60])
    assert "allowed is a whole number from 0 to 4" in message
    assert "the default is 0" in message
    assert len(message) < 3000


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("0", False), ("on", True), ("OFF", False), ("True", True), ("", False)],
)
def test_flags(text: str, value: bool) -> None:
    assert settings.read({"PORISM_CHECK": text})["check"] is value


@pytest.mark.parametrize("text", ["2", "yess", "-1"])
def test_a_bad_flag_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="one of 0, 1, off, on, false, true"):
        settings.read({"PORISM_TRACE": text})


@pytest.mark.parametrize(
    ("text", "value"), [("c", "c"), ("LLVM", "llvm"), (" reference ", "reference"), ("", "llvm")]
)
def test_choices(text: str, value: str) -> None:
    assert settings.read({"PORISM_BACKEND": text})["backend"] == value


@pytest.mark.parametrize("text", ["cc", "1", "llvm,c"])
def test_a_bad_choice_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="allowed is one of llvm, c, reference") as caught:
        settings.read({"PORISM_BACKEND": text})
    assert "the default is llvm" in str(caught.value)


def test_override_of_a_choice() -> None:
    with settings.override(backend="reference"):
        assert settings.backend == "reference"
    assert settings.backend == "llvm"
    with pytest.raises(SettingsError, match="the setting backend is 'gpu'"):
        settings.override(backend="gpu").__enter__()


def test_a_bad_value_is_an_error_at_every_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORISM_DEBUG", "loud")
    for _ in range(2):
        with pytest.raises(SettingsError, match="PORISM_DEBUG is 'loud'"):
            _ = settings.check


def test_an_unknown_variable_is_a_warning_with_the_closest_name() -> None:
    with pytest.warns(UserWarning, match="PORISM_DEBG; the closest known one is PORISM_DEBUG"):
        settings.read({"PORISM_DEBG": "1", "OTHER": "x"})


def test_override_nests_and_ends() -> None:
    with settings.override(debug=2, trace=True):
        with settings.override(debug=4):
            assert (settings.debug, settings.trace) == (4, True)
        assert (settings.debug, settings.trace) == (2, True)
    assert (settings.debug, settings.trace) == (0, False)


def test_override_ends_after_an_exception() -> None:
    with pytest.raises(KeyError), settings.override(debug=2):
        raise KeyError
    assert settings.debug == 0


def test_override_comes_before_a_reload() -> None:
    with settings.override(debug=2):
        settings.reload()
        assert settings.debug == 2


@pytest.mark.parametrize("value", [5, -1, "loud", 1.5, None, True])
def test_override_checks_values(value: int) -> None:
    with pytest.raises(SettingsError, match=r"allowed is a whole number"):
        settings.override(debug=value).__enter__()
    assert settings.debug == 0


def test_override_checks_names() -> None:
    with pytest.raises(SettingsError, match="no setting 'debgu'") as caught:
        settings.override(debgu=1).__enter__()
    assert "the closest known one is debug" in str(caught.value)


def test_override_is_seen_by_its_own_thread_alone() -> None:
    seen = []
    with settings.override(debug=2):
        thread = threading.Thread(target=lambda: seen.append(settings.debug))
        thread.start()
        thread.join()
    assert seen == [0]


def test_settings_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        settings.debug = 3  # type: ignore[misc]


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_each_row_is_sound(setting: Setting) -> None:
    assert setting.parse(setting.text(setting.default)) == setting.default
    assert setting.doc.endswith(".")
    assert setting.variable in settings.page()


def test_the_page_is_in_step() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings.page(), "run: python -m porism settings --page > docs/settings.md"


def run(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "porism", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


def test_the_command_prints_the_values_in_force() -> None:
    done = run(["settings"], PORISM_DEBUG="2", PORISM_BACKEND="c")
    assert done.returncode == 0
    assert re.search(r"^PORISM_DEBUG += 2$", done.stdout, re.MULTILINE)
    assert re.search(r"^PORISM_BACKEND += c$", done.stdout, re.MULTILINE)


def test_the_command_prints_a_bad_value_without_a_traceback() -> None:
    done = run(["settings"], PORISM_DEBUG="loud")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("porism: error: PORISM_DEBUG is 'loud'\n")
    assert "Traceback" not in done.stderr
