"""Settings: every environment variable `PORISM_*`, in one typed table.

The class `Settings` is the table: a line there is a variable, its type, its default, its allowed
values and its page in the documentation. The environment is read once, at the first use.

>>> with settings.override(debug=2, check=False):
...     settings.debug, settings.check
(2, False)
>>> settings.read({"PORISM_DEBUG": "loud"})
Traceback (most recent call last):
    ...
porism.base.errors.SettingsError: PORISM_DEBUG is 'loud'
  where: the environment
  why: allowed is a whole number from 0 to 4
  fix: set it to an allowed value, or unset it (the default is 0)
"""

from __future__ import annotations

import contextlib
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Final

from porism.base.device_use import HOST, note_device
from porism.base.errors import SettingsError, TargetError
from porism.base.machines.machine import Machine

PREFIX: Final = "PORISM_"

Value = int | str
"""What a setting can be."""


class Setting(ABC):
    """One row of the table: an attribute of `settings` whose value is the one in force."""

    name: str
    """The name of the attribute, set by the class that holds it."""

    def __init__(self, default: Value, doc: str) -> None:
        self.default = default
        self.doc = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def variable(self) -> str:
        """Return the name of the environment variable."""
        return PREFIX + self.name.upper()

    @property
    @abstractmethod
    def allowed(self) -> str:
        """Return the allowed values, in words."""

    @abstractmethod
    def parse(self, text: str) -> Value | None:
        """Return the value of a text, or None where the text is no allowed value."""

    def text(self, value: Value) -> str:
        """Return a value as it is written in the environment."""
        return value if isinstance(value, str) else str(int(value))

    def value(self) -> Value:
        """Return the value in force: that of the innermost override, else of the environment."""
        overrides = _overrides.get()
        return overrides[self.name] if self.name in overrides else _environment()[self.name]


class Integer(Setting):
    """A whole number from `low` to `high`, both included."""

    def __init__(self, default: int, doc: str, *, low: int, high: int) -> None:
        super().__init__(default, doc)
        self.low = low
        self.high = high

    def __get__(self, instance: object, owner: type) -> int:
        return int(self.value())

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, text: str) -> int | None:
        digits = text.removeprefix("-")
        # Twenty digits hold every value allowed, and int() refuses thousands of them.
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
            return None
        value = int(text)
        return value if self.low <= value <= self.high else None


class Flag(Setting):
    """A boolean, written as 0 or 1, off or on, false or true."""

    WORDS: Final = {"0": False, "1": True, "off": False, "on": True, "false": False, "true": True}

    def __get__(self, instance: object, owner: type) -> bool:
        return bool(self.value())

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.WORDS)

    def parse(self, text: str) -> bool | None:
        return self.WORDS.get(text.lower())


class Choice(Setting):
    """One word of a fixed list."""

    def __init__(self, default: str, doc: str, *, words: tuple[str, ...]) -> None:
        super().__init__(default, doc)
        self.words = words

    def __get__(self, instance: object, owner: type) -> str:
        return str(self.value())

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

    def parse(self, text: str) -> str | None:
        word = text.lower()
        return word if word in self.words else None


class Folder(Setting):
    """A folder; the empty text stands for the default one."""

    USUAL: Final = "default"

    def __get__(self, instance: object, owner: type) -> str:
        return str(self.value())

    @property
    def allowed(self) -> str:
        return f"the full path of a folder, one that begins with ~, or {self.USUAL}"

    def text(self, value: Value) -> str:
        return str(value) or self.USUAL

    def parse(self, text: str) -> str | None:
        if text in ("", self.USUAL):
            return ""
        full = os.path.isabs(text) or text == "~" or text.startswith(("~/", "~" + os.sep))
        return text if full and "\0" not in text else None


class DeviceName(Setting):
    """The name of a device, with a number where there are several: cpu, cuda, cuda:1."""

    def __get__(self, instance: object, owner: type) -> str:
        return str(self.value())

    @property
    def allowed(self) -> str:
        return "cpu, cuda, or cuda: and a number"

    def parse(self, text: str) -> str | None:
        kind, colon, number = text.lower().partition(":")
        digits = number.isascii() and number.isdigit() and len(number) <= 3
        if not (kind.isascii() and kind.isidentifier()) or (colon and not digits):
            return None
        return f"{kind}:{int(number)}" if colon and int(number) else kind


class Quantities(Setting):
    """Values of a machine's quantities by name, such as `l2_bandwidth=48,fma_bits=256`."""

    def __get__(self, instance: object, owner: type) -> str:
        return str(self.value())

    @property
    def allowed(self) -> str:
        return "numbers by name, such as `l2_bandwidth=48,fma_bits=256` (`docs/machine.md`)"

    def parse(self, text: str) -> str | None:
        try:
            Machine().override(text)
        except (ValueError, TargetError):
            return None
        return text


class Settings:
    """The table. A setting is added by a line here; `docs/settings.md` follows from it."""

    __slots__ = ()

    debug = Integer(
        0, "What is written to the standard error: nothing at 0; at 1 every kernel that runs, with "
        "its time and speed, and why functions are traced; at 2 also the loops of new kernels, at "
        "3 the steps of compiling and cache hits on disk, at 4 the source of new kernels.",
        low=0, high=4,
    )  # fmt: skip
    progress = Flag(
        True, "Show a progress bar on a terminal when compiling takes more than a second."
    )
    trace = Flag(
        False, "Write every rewrite to the standard error: the stage, the node before and after, "
        "and the rule. Read when Porism is imported.",
    )  # fmt: skip
    view = Flag(
        False, "Write `porism-view.html` when the process ends: a page about every kernel that ran "
        "(`docs/view.md`). Read at the first use of Porism.",
    )  # fmt: skip
    rewrite_limit = Integer(
        1000, "Rewrites per node of the input before a rewrite is reported as a runaway.",
        low=1, high=1_000_000_000,
    )  # fmt: skip
    check = Flag(False, "Check after every stage that the graph has only what its level allows.")
    verify = Integer(
        0, "Verify each compilation: at 1 prove indices after every stage, bounds, writes of "
        "parallel loops and the memory plan; at 2 also compare the values of every kernel with the "
        "evaluator, at 3 also those of its machine code.",
        low=0, high=3,
    )  # fmt: skip
    verify_ms = Integer(
        300, "Time limit of the solver for one query of `verify`, in milliseconds.",
        low=1, high=3_600_000,
    )  # fmt: skip
    nan = Flag(
        False, "Check every result for NaNs, and raise an error that names the first operation "
        "that made one, with its line. Read when Porism is imported.",
    )  # fmt: skip
    backend = Choice(
        "llvm", "What runs kernels: machine code from LLVM in this process, C and the compiler "
        "of the system, or the evaluator, which is slow and checks every access.",
        words=("llvm", "c", "reference"),
    )  # fmt: skip
    device = DeviceName(
        HOST,
        "The device of tensors that are made without one: the processor, or a GPU.",
    )
    cpu = Choice(
        "native", "The processor that LLVM compiles for: this machine's with all of its features, "
        "or a level of the x86-64 ABI. Read at the first use of Porism.",
        words=("native", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    )  # fmt: skip
    threads = Integer(
        0, "Threads that run a kernel; 0 for as many as there are cores.",
        low=0, high=4096,
    )  # fmt: skip
    machine = Quantities(
        "", "Quantities of the processor that replace those detected or measured: what the choice "
        "of loop schedules is computed from.",
    )  # fmt: skip
    pool_megabytes = Integer(
        1024, "Freed memory that is kept for new arrays, in megabytes.",
        low=0, high=1_000_000_000,
    )  # fmt: skip
    jit_signatures = Integer(
        64, "Signatures for which a jitted function keeps programs; the oldest are dropped.",
        low=1, high=1_000_000,
    )  # fmt: skip
    constants_megabytes = Integer(
        2048, "Memory of a jitted program for folded constants and pre-packed weights, which it "
        "computes once from the tensors that the function captures, in megabytes.",
        low=0, high=1_000_000_000,
    )  # fmt: skip
    beam = Integer(
        0, "Beam width of tuning: the candidates (lists of actions) kept in each round; 0 for no "
        "tuning.",
        low=0, high=1000,
    )  # fmt: skip
    beam_seconds = Integer(
        60, "Time limit for tuning all new kernels of a computation, in seconds.",
        low=1, high=1_000_000,
    )  # fmt: skip
    kernel_nodes = Integer(
        600, "About how many operations one kernel has at most: longer programs are split.",
        low=1, high=1_000_000,
    )  # fmt: skip
    kernel_buffers = Integer(
        128, "Buffers that one kernel may read; a value of more buffers is computed in steps.",
        low=2, high=1_000_000,
    )  # fmt: skip
    kernel_uses = Integer(
        32, "Different indices at which a kernel may use one value before the value is stored.",
        low=1, high=1_000_000,
    )  # fmt: skip
    buffer_level = Integer(
        1, "Which stored values are recomputed where they are read instead: none at 0, cheap ones "
        "at 1, all without a reduction at 2, at 3 also reductions larger than their input.",
        low=0, high=3,
    )  # fmt: skip
    buffer_ratio = Integer(
        10, "For buffer level 3: least ratio of the size of a reduction's result to its input.",
        low=1, high=1_000_000,
    )  # fmt: skip
    fast_math = Flag(
        False, "Let rules change float results: sums and products are reassociated, and 0 * x and "
        "x / x are 0 and 1 for every x. `docs/fast_math.md` states what each rule changes.",
    )  # fmt: skip
    cache = Flag(True, "Keep compiled kernels on disk, for later processes.")
    cache_dir = Folder(
        "", "The folder of these kernels; by default `porism` in the user's cache folder, on Linux "
        "`$XDG_CACHE_HOME` or `~/.cache`. A folder that other users can write to is not used.",
    )  # fmt: skip
    cache_mb = Integer(
        512, "The limit of that folder in megabytes; least recently used kernels are removed.",
        low=1, high=1_000_000,
    )  # fmt: skip

    @contextlib.contextmanager
    def override(self, **values: Value) -> Iterator[None]:
        """Give settings other values inside a `with` block, in this thread or task alone."""
        by_name = {setting.name: setting for setting in TABLE}
        checked = dict(_overrides.get())
        for name, value in values.items():
            if name not in by_name:
                raise SettingsError(
                    f"there is no setting {name!r}",
                    why="the settings are " + ", ".join(by_name),
                    fix=f"use a known name; {_closest_text(name, by_name)}",
                )
            setting = by_name[name]
            parsed = setting.parse(str(value))
            if parsed is None:
                raise _not_allowed(setting, f"the setting {name}", value, "settings.override()")
            checked[name] = parsed
        _note(checked)
        token = _overrides.set(checked)
        try:
            yield
        finally:
            _overrides.reset(token)

    def read(self, environment: Mapping[str, str]) -> dict[str, Value]:
        """Return the values of all settings in an environment; empty variables count as unset."""
        values: dict[str, Value] = {}
        for setting in TABLE:
            text = environment.get(setting.variable, "").strip()
            value = setting.parse(text) if text else setting.default
            if value is None:
                raise _not_allowed(setting, setting.variable, text, "the environment")
            values[setting.name] = value
        known = [setting.variable for setting in TABLE]
        for variable in sorted(environment):
            if variable.startswith(PREFIX) and variable not in known:
                warnings.warn(
                    f"unknown environment variable {variable}; {_closest_text(variable, known)}",
                    stacklevel=2,
                )
        return values

    def reload(self) -> None:
        """Drop the values that were read; the environment is read again at the next use."""
        global _values
        _values = None

    def page(self) -> str:
        """Return the text of `docs/settings.md`."""
        rows = [
            f"| `{setting.variable}` | {setting.text(setting.default)} | {setting.allowed} "
            f"| {setting.doc} |"
            for setting in TABLE
        ]
        return "\n".join(
            (
                "# Settings",
                "",
                "<!-- Written by `python -m porism settings --page`; edit the table in",
                "     src/porism/base/settings.py instead. -->",
                "",
                "Porism reads these environment variables once, at the first use. A value that is",
                "not allowed is an error; an unknown `PORISM_*` variable is a warning that names",
                "the closest known one. `porism settings` prints the values in force.",
                "",
                "| variable | default | allowed | meaning |",
                "|---|---|---|---|",
                *rows,
                "",
                "In Python, `settings.override(debug=2)` from `porism.base.settings` gives a",
                "setting another value inside a `with` block, for the current thread or task.",
                "",
            )
        )


def _not_allowed(setting: Setting, what: str, value: object, where: str) -> SettingsError:
    return SettingsError(
        f"{what} is {value!r}",
        where=where,
        why=f"allowed is {setting.allowed}",
        fix="set it to an allowed value, or unset it "
        f"(the default is {setting.text(setting.default)})",
    )


def _closest_text(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"the closest known one is {close[0]}"


def _environment() -> dict[str, Value]:
    global _values
    values = _values  # kept in hand: another thread may reload
    if values is None:
        values = _values = settings.read(os.environ)
        _note(values)
    return values


def _note(values: Mapping[str, Value]) -> None:
    """Note what makes rare paths needed: debug output, and other devices than the processor."""
    global _was_debugging
    _was_debugging = _was_debugging or bool(values.get("debug"))
    note_device(values.get("device"))


def is_debugging() -> bool:
    """Return whether `debug` was ever more than 0 in this process, at the cost of one global.

    If so, `settings.debug` is the level in force.
    """
    return _was_debugging


def unoverridden() -> Mapping[str, Value] | None:
    """Return all values if none is overridden; None if one is, or if they were not read yet.

    Each reading of the environment gives a new object: the same object means the same values.
    """
    return None if _overrides.get() else _values


def renew_values() -> None:
    """Make the values another object, so that what was kept for them is looked at again."""
    global _values
    values = _values
    if values is not None:
        _values = dict(values)


TABLE: Final[tuple[Setting, ...]] = tuple(
    row for row in vars(Settings).values() if isinstance(row, Setting)
)
"""The settings in the order of their declaration."""

settings: Final = Settings()
"""What the rest of Porism reads: `settings.debug`, `settings.trace`, ..."""

_values: dict[str, Value] | None = None
_was_debugging = False
_overrides: ContextVar[Mapping[str, Value]] = ContextVar("overrides", default={})  # noqa: B039
