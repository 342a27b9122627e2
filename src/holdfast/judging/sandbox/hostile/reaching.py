"""Candidates that try to bring back a canary: from a file, the environment, memory, or an earlier candidate. ``f(path)``."""

REACHING = r"""
### open_canary: read
def f(path): return open(path).read()

### os_open_canary: read
import os
def f(path): return os.read(os.open(path, os.O_RDONLY), 4096)

### canary_by_symlink: read
import os
def f(path):
    os.symlink(path, "/tmp/link")
    return open("/tmp/link").read()

### canary_by_hard_link: read
import os
def f(path):
    os.link(path, "/tmp/link")
    return open("/tmp/link").read()

### canary_by_dot_dot: read
import os
def f(path):
    return open(os.getcwd() + "/../" * 20 + path).read()

### canary_by_proc_root: read
def f(path): return open("/proc/1/root" + path).read() + open("/proc/self/root" + path).read()

### canary_by_proc_cwd: read
import os
def f(path):
    for process in ("self", "1", str(os.getppid())):
        try:
            return open(f"/proc/{process}/cwd" + path).read()
        except OSError:
            pass

### canary_by_mmap: read
import mmap, os
def f(path): return bytes(mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ))

### canary_by_ctypes_open: read
import ctypes
def f(path):
    libc = ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(4096)
    descriptor = libc.open(path.encode(), 0)
    libc.read(descriptor, buffer, 4096)
    return buffer.value

### canary_by_raw_syscall: read
import ctypes
def f(path):
    libc = ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(4096)
    descriptor = libc.syscall(257, -100, path.encode(), 0)
    libc.syscall(0, descriptor, buffer, 4096)
    return buffer.value

### canary_by_openat2: read
import ctypes, struct
def f(path):
    libc = ctypes.CDLL(None)
    how = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, 0))
    descriptor = libc.syscall(437, -100, path.encode(), how, 24)
    buffer = ctypes.create_string_buffer(4096)
    libc.read(descriptor, buffer, 4096)
    return buffer.value

### canary_by_32_bit_call: read
import ctypes, mmap
def f(path):
    code = bytes([0xB8, 5, 0, 0, 0, 0xCD, 0x80, 0xC3])  # int 0x80: the other architecture's open
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()

### canary_by_io_uring: read
import ctypes
def f(path):
    ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(256))
    return open(path).read()

### canary_by_file_handle: read
import ctypes
def f(path):
    libc = ctypes.CDLL(None)
    libc.syscall(304, -100, ctypes.create_string_buffer(64), 0)
    return open(path).read()

### canary_by_mount: read
import ctypes
def f(path):
    ctypes.CDLL(None).mount(b"/", b"/tmp", None, 4096, None)
    return open("/tmp" + path).read()

### canary_by_user_namespace: read
import ctypes
def f(path):
    ctypes.CDLL(None).unshare(0x10000000 | 0x20000)
    return open(path).read()

### canary_by_becoming_root: read
import os
def f(path):
    os.setuid(0)
    return open(path).read()

### canary_by_shell: read
import subprocess
def f(path): return subprocess.run(["cat", path], capture_output=True).stdout

### canary_by_os_popen: read
import os
def f(path): return os.popen(f"cat {path}").read()

### canary_by_exec: read
import os
def f(path):
    os.dup2(3, 1)
    os.execv("/bin/cat", ["cat", path])

### environment_here: read
import os
def f(path): return str(dict(os.environ)) + str(os.environb)

### environment_of_parent: read
import os
def f(path):
    found = b""
    for process in ("self", "1", "2", str(os.getppid()), "thread-self"):
        try:
            found += open(f"/proc/{process}/environ", "rb").read()
        except OSError:
            pass
    return found

### command_line_of_others: read
import os
def f(path):
    found = b""
    for process in os.listdir("/proc"):
        try:
            found += open(f"/proc/{process}/cmdline", "rb").read()
        except OSError:
            pass
    return found

### environment_by_memory: read
import ctypes
def f(path):
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found, index = [], 0
    while environ[index]:
        found.append(environ[index])
        index += 1
    return found

### memory_of_parent: read
import os
def f(path):
    with open(f"/proc/{os.getppid()}/mem", "rb") as memory:
        memory.seek(0x400000)
        return memory.read(1 << 16)

### memory_by_process_vm: read
import ctypes, os
def f(path):
    ctypes.CDLL(None).syscall(310, os.getppid(), None, 0, None, 0, 0)
    return open(path).read()

### trace_parent: read
import ctypes, os
def f(path):
    ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)
    return open(path).read()

### steal_descriptor: read
import ctypes, os
def f(path):
    libc = ctypes.CDLL(None)
    other = libc.syscall(434, os.getppid(), 0)
    stolen = libc.syscall(438, other, 3, 0)
    return os.read(stolen, 4096)

### leftover_descriptors: read
import os
def f(path):
    found = b""
    for descriptor in range(4, 256):
        try:
            found += os.read(descriptor, 4096)
        except OSError:
            pass
    return found

### leave_a_file: read
import os
def f(path):
    found = ""
    for folder in ("/tmp", "/dev/shm", "/var/tmp", "/", "/sandbox", "."):
        try:
            found += open(folder + "/left-behind").read()
        except OSError:
            pass
        try:
            open(folder + "/left-behind", "w").write(str(os.environ))
        except OSError:
            pass
    return found

### ask_the_network: read
import socket
def f(path):
    connection = socket.create_connection(("192.0.2.1", 9), timeout=0.2)
    return connection.recv(100)

### ask_by_datagram: read
import socket
def f(path):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.7", 9))
    return open(path).read()

### ask_by_unix_socket: read
import socket
def f(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0holdfast-canary")
    return connection.recv(4096)

### datagram_on_a_pair: read
import socket
def f(path):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"canary?", "\0holdfast-canary")
    return one.recv(4096)

### resolve_a_name: read
import socket
def f(path): return socket.gethostbyname("canary.example.invalid")

### ask_by_netlink: read
import socket
def f(path):
    connection = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    return connection.recv(4096)
"""
