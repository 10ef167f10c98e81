"""Object linking: code reaches its constants, wherever the system has memory left."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCATTERED = '''
import ctypes

from porism.backends.llvm.llvm_compiler import target_machine
from porism.backends.llvm.object_linking import compile_and_link

PAGE, PAGES, NO_RESERVE, PRIVATE_ANONYMOUS = 4096, 2000, 0x4000, 0x22
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def map_bytes(size):
    address = libc.mmap(None, size, 0, PRIVATE_ANONYMOUS | NO_RESERVE, -1, 0)
    assert address < 1 << 63
    return address


target_machine()
high = map_bytes(PAGES * PAGE)
between = map_bytes(8 << 30)
while map_bytes(2 * PAGE) > between:
    pass
for k in range(0, PAGES, 2):
    libc.munmap(high + k * PAGE, PAGE)  # above the 8 GB only single pages are free now

values = ", ".join(f"i32 {3 * k}" for k in range(4 * PAGE))
text = f"""
@table = private unnamed_addr constant [{4 * PAGE} x i32] [{values}]
define i32 @look_up(i64 %k) {{
  %p = getelementptr [{4 * PAGE} x i32], ptr @table, i64 0, i64 %k
  %v = load i32, ptr %p
  ret i32 %v
}}
"""
code = compile_and_link(text, ["look_up"])
look_up = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)(code.addresses["look_up"])
print([look_up(k) for k in (0, 1, 12345)])
'''


@pytest.mark.skipif(sys.platform != "linux", reason="maps memory with the constants of Linux")
def test_code_and_constants_are_near_each_other() -> None:
    """With gigabytes between its sections, code of the small model would read something else."""
    done = subprocess.run(
        [sys.executable, "-c", SCATTERED], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 3, 37035]"
