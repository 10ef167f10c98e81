"""Thread pool: native threads that share the iterations of a kernel's outermost loop.

The pool is written in LLVM IR, so that a parallel loop starts in about a microsecond, without
Python. Its threads are Python threads that stay inside one native call: they spin for a while and
then sleep on a condition variable. A thread that wakes up too late for a loop is not waited for.

Each thread owns a contiguous part of the iterations, the same part in every loop of equal extent,
so that it finds in its caches what it accessed before. It repeatedly takes half of what is left of
its part; when its part is empty, it steals from the parts of the others in the same way.

A caller that finds the pool busy, such as a second Python thread, runs its loop alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Final

from porism.backends.llvm.llvm_compiler import attributes, target_machine
from porism.backends.llvm.object_linking import compile_and_link

SPINS_BEFORE_SLEEP: Final = 20_000
"""Polls of an idle thread before it sleeps: about 50 microseconds."""

MIN_CHUNK_DIVISOR: Final = 8
"""A thread takes at least its part divided by this; chosen by hand."""

ORDER_WORDS: Final = 2
"""Words of 8 bytes before the jobs of an order: the address of the pool, and the job count."""

BATCH_JOB_WORDS: Final = 5
"""Words of 8 bytes of a job in a batch: function, arguments, iterations, first unit, and units."""

_EPOCH, _FUNCTION, _ARGUMENTS, _COUNT, _LEAST, _THREADS = 0, 64, 72, 80, 88, 96
_INSIDE, _SLEEPERS, _STOP, _BUSY, _WORKERS = 192, 256, 320, 384, 392
_MUTEX, _CONDITION, _NEXT = 448, 576, 704

_CACHE_LINE: Final = 64
"""Bytes between the atomic counters of the threads: a cache line each."""

_CLOSED: Final = 1 << 32
"""Added to the number of threads inside a loop when no more may enter."""


def _field(name: str, offset: int) -> str:
    return f"  %{name} = getelementptr i8, ptr %pool, i64 {offset}\n"


_CODE: Final = f"""
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define void @porism_pool_begin(ptr %pool) #0 {{
{_field("mutex", _MUTEX)}{_field("condition", _CONDITION)}
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}}

define private void @share(ptr %pool, i64 %me) #0 {{
entry:
{_field("function.at", _FUNCTION)}{_field("arguments.at", _ARGUMENTS)}{_field("count.at", _COUNT)}
{_field("least.at", _LEAST)}{_field("threads.at", _THREADS)}{_field("nexts", _NEXT)}
  %function = load ptr, ptr %function.at
  %arguments = load ptr, ptr %arguments.at
  %count = load i64, ptr %count.at
  %least = load i64, ptr %least.at
  %threads = load i64, ptr %threads.at
  br label %part
part:
  %others = phi i64 [ 0, %entry ], [ %further, %empty ]
  %sum = add i64 %me, %others
  %owner = urem i64 %sum, %threads
  %line = mul i64 %owner, {_CACHE_LINE}
  %next.at = getelementptr i8, ptr %nexts, i64 %line
  %after.owner = add i64 %owner, 1
  %scaled = mul i64 %after.owner, %count
  %last = udiv i64 %scaled, %threads
  br label %look
look:
  %first = load atomic i64, ptr %next.at monotonic, align 8
  br label %take
take:
  %begin = phi i64 [ %first, %look ], [ %moved, %size ]
  %left = sub i64 %last, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %size, label %empty
size:
  %rounded = add i64 %left, 1
  %half = lshr i64 %rounded, 1
  %enough = icmp ugt i64 %half, %least
  %chunk = select i1 %enough, i64 %half, i64 %least
  %after = add i64 %begin, %chunk
  %less = icmp slt i64 %after, %last
  %end = select i1 %less, i64 %after, i64 %last
  %pair = cmpxchg ptr %next.at, i64 %begin, i64 %end monotonic monotonic
  %moved = extractvalue {{ i64, i1 }} %pair, 0
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %work, label %take
work:
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  br label %look
empty:
  %further = add i64 %others, 1
  %more = icmp ult i64 %further, %threads
  br i1 %more, label %part, label %done
done:
  ret void
}}

define void @porism_pool_work(ptr %pool, i64 %me, i64 %spins) #0 {{
entry:
{_field("epoch.at", _EPOCH)}{_field("inside.at", _INSIDE)}{_field("sleepers.at", _SLEEPERS)}
{_field("stop.at", _STOP)}{_field("mutex", _MUTEX)}{_field("condition", _CONDITION)}
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %found, %finished ]
  br label %look
look:
  %tries = phi i64 [ 0, %idle ], [ %more, %again ]
  %now = load atomic i64, ptr %epoch.at acquire, align 8
  %new = icmp ne i64 %now, %seen
  br i1 %new, label %go, label %again
again:
  call void @rest()
  %more = add i64 %tries, 1
  %patient = icmp slt i64 %more, %spins
  br i1 %patient, label %look, label %sleep
sleep:
  call i32 @pthread_mutex_lock(ptr %mutex)
  atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  br label %check
check:
  %later = load atomic i64, ptr %epoch.at seq_cst, align 8
  %same = icmp eq i64 %later, %seen
  br i1 %same, label %wait, label %awake
wait:
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
awake:
  atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %go
go:
  %found = phi i64 [ %now, %look ], [ %later, %awake ]
  %stop = load atomic i64, ptr %stop.at acquire, align 8
  %over = icmp ne i64 %stop, 0
  br i1 %over, label %leave, label %enter
enter:
  %inside = load atomic i64, ptr %inside.at monotonic, align 8
  %closed = icmp sge i64 %inside, {_CLOSED}
  br i1 %closed, label %finished, label %try
try:
  %one.more = add i64 %inside, 1
  %pair = cmpxchg ptr %inside.at, i64 %inside, i64 %one.more acquire monotonic
  %entered = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %entered, label %work, label %enter
work:
  call void @share(ptr %pool, i64 %me)
  atomicrmw sub ptr %inside.at, i64 1 release
  br label %finished
finished:
  br label %idle
leave:
  ret void
}}

define private void @wake(ptr %pool) #0 {{
entry:
{_field("epoch.at", _EPOCH)}{_field("sleepers.at", _SLEEPERS)}
{_field("mutex", _MUTEX)}{_field("condition", _CONDITION)}
  atomicrmw add ptr %epoch.at, i64 1 seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %some = icmp sgt i64 %sleepers, 0
  br i1 %some, label %call, label %done
call:
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}}

define void @porism_pool_stop(ptr %pool) #0 {{
{_field("stop.at", _STOP)}
  store atomic i64 1, ptr %stop.at release, align 8
  call void @wake(ptr %pool)
  ret void
}}

define void @porism_pool_run(ptr %pool, ptr %function, ptr %arguments, i64 %count) #0 {{
entry:
{_field("function.at", _FUNCTION)}{_field("arguments.at", _ARGUMENTS)}{_field("count.at", _COUNT)}
{_field("least.at", _LEAST)}{_field("threads.at", _THREADS)}{_field("nexts", _NEXT)}
{_field("inside.at", _INSIDE)}{_field("busy.at", _BUSY)}{_field("workers.at", _WORKERS)}
  %workers = load i64, ptr %workers.at
  %alone = icmp eq i64 %workers, 0
  %single = icmp slt i64 %count, 2
  %serial = or i1 %alone, %single
  br i1 %serial, label %alone.run, label %ask
ask:
  %pair = cmpxchg ptr %busy.at, i64 0, i64 1 acquire monotonic
  %ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %ours, label %share.it, label %alone.run
alone.run:
  call void %function(ptr %arguments, i64 0, i64 %count)
  ret void
share.it:
  %threads = add i64 %workers, 1
  %most = mul i64 %threads, {MIN_CHUNK_DIVISOR}
  %few = udiv i64 %count, %most
  %none = icmp eq i64 %few, 0
  %least = select i1 %none, i64 1, i64 %few
  store ptr %function, ptr %function.at
  store ptr %arguments, ptr %arguments.at
  store i64 %count, ptr %count.at
  store i64 %least, ptr %least.at
  store i64 %threads, ptr %threads.at
  br label %part
part:
  %owner = phi i64 [ 0, %share.it ], [ %following, %part ]
  %scaled = mul i64 %owner, %count
  %begin = udiv i64 %scaled, %threads
  %line = mul i64 %owner, {_CACHE_LINE}
  %next.at = getelementptr i8, ptr %nexts, i64 %line
  store atomic i64 %begin, ptr %next.at monotonic, align 8
  %following = add i64 %owner, 1
  %others = icmp ult i64 %following, %threads
  br i1 %others, label %part, label %start
start:
  store atomic i64 0, ptr %inside.at release, align 8
  call void @wake(ptr %pool)
  call void @share(ptr %pool, i64 0)
  atomicrmw add ptr %inside.at, i64 {_CLOSED} acquire
  br label %join
join:
  %tries = phi i64 [ 0, %start ], [ %more, %pause ], [ %more, %yield ]
  %inside = load atomic i64, ptr %inside.at acquire, align 8
  %left = icmp ne i64 %inside, {_CLOSED}
  br i1 %left, label %hold, label %done
hold:
  call void @rest()
  %more = add i64 %tries, 1
  %patient = icmp slt i64 %more, 1000
  br i1 %patient, label %pause, label %yield
pause:
  br label %join
yield:
  call i32 @sched_yield()
  br label %join
done:
  store atomic i64 0, ptr %busy.at release, align 8
  ret void
}}

define void @porism_pool_all(ptr %pool, ptr %jobs, i64 %many) #0 {{
entry:
  %none = icmp slt i64 %many, 1
  br i1 %none, label %done, label %job
job:
  %k = phi i64 [ 0, %entry ], [ %following, %job ]
  %at = getelementptr [3 x i64], ptr %jobs, i64 %k
  %arguments.at = getelementptr i64, ptr %at, i64 1
  %count.at = getelementptr i64, ptr %at, i64 2
  %function = load ptr, ptr %at
  %arguments = load ptr, ptr %arguments.at
  %count = load i64, ptr %count.at
  call void @porism_pool_run(ptr %pool, ptr %function, ptr %arguments, i64 %count)
  %following = add i64 %k, 1
  %more = icmp slt i64 %following, %many
  br i1 %more, label %job, label %done
done:
  ret void
}}

define void @porism_pool_batch(ptr %table, i64 %begin, i64 %end) #0 {{
entry:
  %many = load i64, ptr %table
  %jobs = getelementptr i64, ptr %table, i64 1
  br label %test
test:
  %k = phi i64 [ 0, %entry ], [ %following, %next ]
  %more = icmp slt i64 %k, %many
  br i1 %more, label %job, label %done
job:
  %at = getelementptr [{BATCH_JOB_WORDS} x i64], ptr %jobs, i64 %k
  %arguments.at = getelementptr i64, ptr %at, i64 1
  %count.at = getelementptr i64, ptr %at, i64 2
  %first.at = getelementptr i64, ptr %at, i64 3
  %units.at = getelementptr i64, ptr %at, i64 4
  %first = load i64, ptr %first.at
  %units = load i64, ptr %units.at
  %from = sub i64 %begin, %first
  %to = sub i64 %end, %first
  %early = icmp slt i64 %from, 0
  %late = icmp sgt i64 %to, %units
  %low = select i1 %early, i64 0, i64 %from
  %high = select i1 %late, i64 %units, i64 %to
  %some = icmp slt i64 %low, %high
  br i1 %some, label %scale, label %next
scale:
  %count = load i64, ptr %count.at
  %low.scaled = mul i64 %low, %count
  %high.scaled = mul i64 %high, %count
  %own.begin = udiv i64 %low.scaled, %units
  %own.end = udiv i64 %high.scaled, %units
  %work = icmp ult i64 %own.begin, %own.end
  br i1 %work, label %call, label %next
call:
  %function = load ptr, ptr %at
  %arguments = load ptr, ptr %arguments.at
  call void %function(ptr %arguments, i64 %own.begin, i64 %own.end)
  br label %next
next:
  %following = add i64 %k, 1
  br label %test
done:
  ret void
}}

define void @porism_pool_nothing(ptr %arguments, i64 %begin, i64 %end) #0 {{
  ret void
}}

define void @porism_pool_go(ptr %order) #0 {{
  %many.at = getelementptr i64, ptr %order, i64 1
  %jobs = getelementptr i64, ptr %order, i64 {ORDER_WORDS}
  %pool = load ptr, ptr %order
  %many = load i64, ptr %many.at
  call void @porism_pool_all(ptr %pool, ptr %jobs, i64 %many)
  ret void
}}
"""


def batch_function() -> int:
    """Return the address of a kernel function that runs jobs that do not wait for each other.

    Its arguments are the number of jobs and `BATCH_JOB_WORDS` words for each. Its iterations are
    the *units* of all jobs, which measure work: a job's first unit comes after those of the job
    before it, and u of its n units are u / n of its iterations.
    """
    return int(_pool_functions()["code"].addresses["porism_pool_batch"])


class ThreadPool:
    """Native threads that run parallel loops."""

    def __init__(self, threads: int) -> None:
        self.code = code = _pool_functions()
        self.memory = ctypes.create_string_buffer(_NEXT + _CACHE_LINE * threads + 64)
        start = ctypes.addressof(self.memory)
        self.address = start + -start % 64
        self.process = os.getpid()
        self.go = code["porism_pool_go"]
        """Run the order at an address: `ORDER_WORDS` words, then jobs as `run` takes them."""
        self.nothing = code["code"].addresses["porism_pool_nothing"]
        """The address of a kernel function that does nothing."""
        code["porism_pool_begin"](self.address)
        ctypes.c_int64.from_address(self.address + _WORKERS).value = threads - 1
        ctypes.c_int64.from_address(self.address + _INSIDE).value = _CLOSED
        self.threads = [
            threading.Thread(
                target=code["porism_pool_work"],
                args=(self.address, k, SPINS_BEFORE_SLEEP),
                name=f"porism-{k}",
                daemon=True,
            )
            for k in range(1, threads)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, jobs: int, count: int) -> None:
        """Run jobs one after the other, each on all threads.

        `jobs` is the address of triples: a function of (arguments, begin, end), its arguments, and
        the number of iterations to share.
        """
        _pool_functions()["porism_pool_all"](self.address, jobs, count)

    def stop(self) -> None:
        """End the threads, and wait for them."""
        _pool_functions()["porism_pool_stop"](self.address)
        for thread in self.threads:
            thread.join()


_PAUSES: Final = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""The declaration and call of the spin-wait hint, by architecture."""


def _pause_function() -> str:
    declaration, call = _PAUSES.get(target_machine().triple.split("-")[0], ("", ""))
    return f"{declaration}\ndefine private void @rest() #0 {{\n  {call}\n  ret void\n}}\n"


_functions: dict[str, Any] = {}


def _pool_functions() -> dict[str, Any]:
    """Return the functions of the pool by name; compiled at the first call."""
    if not _functions:
        argument_types: dict[str, list[Any]] = {
            "porism_pool_begin": [ctypes.c_void_p],
            "porism_pool_work": [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64],
            "porism_pool_stop": [ctypes.c_void_p],
            "porism_pool_run": [ctypes.c_void_p] * 3 + [ctypes.c_int64],
            "porism_pool_all": [ctypes.c_void_p] * 2 + [ctypes.c_int64],
            "porism_pool_go": [ctypes.c_void_p],
        }
        code = compile_and_link(
            _CODE + _pause_function() + attributes(),
            [*argument_types, "porism_pool_nothing", "porism_pool_batch"],
        )
        for name, types in argument_types.items():
            _functions[name] = ctypes.CFUNCTYPE(None, *types)(code.addresses[name])
        _functions["code"] = code
    return _functions
