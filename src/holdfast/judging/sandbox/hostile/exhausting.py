"""Candidates that try to outlive their test, to use up the machine, or to take the sandbox down. Forks are bounded."""

EXHAUSTING = r"""
### fork_bomb_bounded: exhaust
import os
def f(x):
    for _ in range(200):
        if os.fork() == 0:
            while True: pass

### double_fork: exhaust
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)
    return 0

### vfork_by_ctypes: exhaust
import ctypes, time
def f(x):
    if ctypes.CDLL(None).syscall(58) == 0:
        time.sleep(30)
    return 0

### clone_by_ctypes: exhaust
import ctypes, time
def f(x):
    if ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) == 0:
        time.sleep(30)
    return 0

### clone3_by_ctypes: exhaust
import ctypes, struct, time
def f(x):
    arguments = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", 0, 0, 0, 0, 17, 0, 0, 0))
    if ctypes.CDLL(None).syscall(435, arguments, 64) == 0:
        time.sleep(30)
    return 0

### daemon_by_posix_spawn: exhaust
import os
def f(x):
    os.posix_spawn("/bin/sleep", ["sleep", "30"], {})
    return 0

### multiprocessing_pool: exhaust
import multiprocessing
def f(x):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        return sum(pool.map(abs, range(10)))

### many_threads: exhaust
import threading, time
def f(x):
    threads = [threading.Thread(target=time.sleep, args=(30,)) for _ in range(500)]
    for thread in threads: thread.start()
    return 0

### endless_loop: exhaust
def f(x):
    while True: pass

### endless_loop_at_load: exhaust
while True: pass

### sleep_long: exhaust
import time
def f(x): time.sleep(1000)

### catch_everything_loop: exhaust
def f(x):
    while True:
        try:
            while True: pass
        except BaseException:
            pass

### ignore_signals: exhaust
import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError, RuntimeError):
        pass
def f(x):
    while True:
        try: time.sleep(1)
        except BaseException: pass

### block_signals: exhaust
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
def f(x):
    while True: pass

### kill_parent: exhaust
import os, signal
def f(x):
    os.kill(os.getppid(), signal.SIGKILL)

### stop_parent: exhaust
import os, signal
def f(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    return 0

### kill_everyone: exhaust
import os, signal
def f(x): os.kill(-1, signal.SIGKILL)

### kill_group: exhaust
import os, signal
def f(x): os.killpg(0, signal.SIGKILL)

### signal_by_descriptor_owner: exhaust
import ctypes, os
def f(x):
    reader, writer = os.pipe()
    libc = ctypes.CDLL(None)
    libc.fcntl(reader, 8, os.getppid())
    libc.fcntl(reader, 10, 9)
    libc.fcntl(reader, 4, 0o20000)
    os.write(writer, b"x")
    return 0

### memory_hog: exhaust
def f(x):
    hoard = []
    while True: hoard.append(bytearray(10_000_000))

### memory_hog_by_mmap: exhaust
import mmap
def f(x):
    hoard = []
    while True: hoard.append(mmap.mmap(-1, 1 << 28))

### huge_string: exhaust
def f(x): return "x" * (1 << 29)

### huge_result: exhaust
def f(x): return "x" * (1 << 22)

### huge_power: exhaust
def f(x): return 9 ** 9 ** 9

### huge_output: exhaust
def f(x):
    for _ in range(2000): print("x" * 100_000)
    return 0

### deep_recursion: exhaust
import sys
sys.setrecursionlimit(10**8)
def f(x): return f(x)

### deep_recursion_in_repr: exhaust
def f(x):
    value = []
    for _ in range(200_000): value = [value]
    return repr(value)

### crash_by_ctypes: exhaust
import ctypes
def f(x): ctypes.string_at(0)

### crash_by_abort: exhaust
import os
def f(x): os.abort()

### many_descriptors: exhaust
import os
def f(x):
    for _ in range(100_000): os.dup(0)

### fill_disk: exhaust
def f(x):
    for folder in ("/tmp", "/dev/shm", "."):
        try:
            with open(folder + "/fill", "wb") as file:
                for _ in range(100): file.write(b"x" * 1_000_000)
        except OSError:
            pass
    return 0

### raise_own_limits: exhaust
import resource
def f(x):
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return len(bytearray(1 << 30))

### catastrophic_regex: exhaust
import re
def f(x): return re.match(r"(a+)+$", "a" * 40 + "b")

### source_with_nul: exhaust
x = "\0"
def f(x): return eval("1\0")

### source_too_deep: exhaust
def f(x): return eval("(" * 100_000 + ")" * 100_000)
"""
