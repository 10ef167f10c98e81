"""Thread shares: the parts of a kernel's parallel loop that each thread ran, and when.

The pool runs a kernel by calling a function with an argument block and some of the iterations. Here
it calls a function that reads the clock, calls the kernel, and notes the time and the thread. A run
that is not observed does not pay for it.
"""

from __future__ import annotations

import ctypes
import functools
import time
from dataclasses import dataclass
from typing import Any, Final

from porism.backends.llvm.llvm_compiler import attributes
from porism.backends.llvm.object_linking import compile_and_link
from porism.backends.llvm.thread_pool import ThreadPool

SHARES_PER_THREAD: Final = 64
"""Shares of a loop that are kept for each thread; a thread halves its part a few times."""

_HEADER_WORDS, _SHARE_WORDS = 4, 4
_CLOCK: Final = getattr(time, "CLOCK_UPTIME_RAW", getattr(time, "CLOCK_MONOTONIC", 0))
"""The clock of `time.perf_counter`: on macOS the first, on other systems the second."""

_CODE: Final = f"""
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()

define private i64 @now() #0 {{
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 {_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}

define void @porism_timed_share(ptr %block, i64 %begin, i64 %end) #0 {{
entry:
  %arguments.at = getelementptr i64, ptr %block, i64 1
  %capacity.at = getelementptr i64, ptr %block, i64 2
  %count.at = getelementptr i64, ptr %block, i64 3
  %function = load ptr, ptr %block
  %arguments = load ptr, ptr %arguments.at
  %capacity = load i64, ptr %capacity.at
  %start = call i64 @now()
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  %stop = call i64 @now()
  %number = atomicrmw add ptr %count.at, i64 1 monotonic
  %fits = icmp slt i64 %number, %capacity
  br i1 %fits, label %note, label %done
note:
  %scaled = mul i64 %number, {_SHARE_WORDS}
  %word = add i64 %scaled, {_HEADER_WORDS}
  %share = getelementptr i64, ptr %block, i64 %word
  %start.at = getelementptr i64, ptr %share, i64 1
  %stop.at = getelementptr i64, ptr %share, i64 2
  %size.at = getelementptr i64, ptr %share, i64 3
  %thread = call i64 @pthread_self()
  %size = sub i64 %end, %begin
  store i64 %thread, ptr %share
  store i64 %start, ptr %start.at
  store i64 %stop, ptr %stop.at
  store i64 %size, ptr %size.at
  br label %done
done:
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class Share:
    """Some iterations of a kernel's parallel loop, run by one thread."""

    thread: int
    """The thread, as `threading.get_ident` returns it."""
    begin: float
    """When it began, in seconds of `time.perf_counter`."""
    seconds: float
    iterations: int


def run_timed(pool: ThreadPool, job: int) -> tuple[Share, ...]:
    """Run the job at an address on all threads; return who ran which part, in order of time."""
    function, arguments, iterations = (ctypes.c_int64 * 3).from_address(job)
    capacity = SHARES_PER_THREAD * (1 + len(pool.threads))
    block = (ctypes.c_int64 * (_HEADER_WORDS + _SHARE_WORDS * capacity))(
        function, arguments, capacity
    )
    timed_job = (ctypes.c_int64 * 3)(timed_function(), ctypes.addressof(block), iterations)
    pool.run(ctypes.addressof(timed_job), 1)
    shares = []
    for number in range(min(block[_HEADER_WORDS - 1], capacity)):
        first = _HEADER_WORDS + _SHARE_WORDS * number
        thread, start, stop, size = block[first : first + _SHARE_WORDS]
        shares.append(Share(thread, start / 1e9, (stop - start) / 1e9, size))
    return tuple(sorted(shares, key=lambda share: share.begin))


def timed_function() -> int:
    """Return the address of the function that times a kernel; compiled at the first call."""
    return int(_timed_code().addresses["porism_timed_share"])


@functools.cache
def _timed_code() -> Any:
    return compile_and_link(_CODE + attributes(), ["porism_timed_share"])
