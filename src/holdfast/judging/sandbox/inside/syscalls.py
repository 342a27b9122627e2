"""Numbers of system calls: name, x86_64, aarch64 (- where there is none).

From the kernel's headers (asm/unistd_64.h, asm-generic/unistd.h); a number never changes once it has been given.
"""

from __future__ import annotations

import platform

COMPUTING = """
read 0 63, write 1 64, close 3 57, fstat 5 80, lseek 8 62, mmap 9 222, mprotect 10 226, munmap 11 215,
brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, pread64 17 67, readv 19 65,
writev 20 66, access 21 -, pipe 22 -, select 23 -, sched_yield 24 124, mremap 25 216, madvise 28 233,
dup 32 23, dup2 33 -, nanosleep 35 101, getpid 39 172, getppid 110 173, uname 63 160,
ftruncate 77 46, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, readlink 89 -,
gettimeofday 96 169, getrusage 98 165, sysinfo 99 179, times 100 153, getuid 102 174, getgid 104 176,
geteuid 107 175, getegid 108 177, getpgrp 111 -, getpgid 121 155, getsid 124 156, getgroups 115 158,
getresuid 118 148, getresgid 120 150, sigaltstack 131 132, statfs 137 43, fstatfs 138 44, gettid 186 178,
futex 202 98, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
epoll_create 213 -, epoll_wait 232 -, epoll_ctl 233 21, set_tid_address 218 96, clock_gettime 228 113,
clock_getres 229 114, clock_nanosleep 230 115, exit 60 93, exit_group 231 94, openat 257 56, open 2 -,
stat 4 -, lstat 6 -, poll 7 -, ppoll 271 73, pselect6 270 72, newfstatat 262 79, readlinkat 267 78,
faccessat 269 48, faccessat2 439 439, statx 332 291, set_robust_list 273 99, epoll_pwait 281 22,
eventfd2 290 19, epoll_create1 291 20, dup3 292 24, pipe2 293 59, getrlimit 97 163, getrandom 318 278,
rseq 334 293, recvfrom 45 207, shutdown 48 210, getitimer 36 102, setitimer 38 103, alarm 37 -, pause 34 -,
time 201 -, rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, getcpu 309 168,
restart_syscall 219 128, epoll_pwait2 441 441, futex_waitv 449 449
"""
"""What Python needs to compute, read its library, use threads and talk over descriptors it was given."""

BY_ARGUMENT = """
ioctl 16 29, prlimit64 302 261, socketpair 53 199, sendto 44 206, tgkill 234 131, clone 56 220, fcntl 72 25
"""
"""Allowed or not by their arguments: see seccomp.py."""

CAPABILITIES = """
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, socket 41 198, connect 42 203, accept 43 202,
accept4 288 242, bind 49 200, listen 50 201, sendmsg 46 211, recvmsg 47 212, sendmmsg 307 269, kill 62 129,
tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424,
pidfd_open 434 434, pidfd_getfd 438 438, ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271,
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, unshare 272 97, setns 308 268, bpf 321 280,
perf_event_open 298 241, keyctl 250 219, add_key 248 217, request_key 249 218, init_module 175 105,
finit_module 313 273, delete_module 176 106, kexec_load 246 104, io_uring_setup 425 425,
io_uring_enter 426 426, io_uring_register 427 427, userfaultfd 323 282, open_by_handle_at 304 265,
name_to_handle_at 303 264, setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143,
setresuid 117 147, setresgid 119 149, setgroups 116 159, capset 126 91, personality 135 92, reboot 169 142,
swapon 167 224
"""
"""Reaching for processes, the network, other processes' memory or the kernel ends the process: that is evidence."""

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the tables, and the kernel's name for the architecture."""


def architecture() -> int:
    """What seccomp compares the caller's architecture with."""
    return MACHINES[_machine()][1]


def numbers(table: str) -> dict[str, int]:
    """Name -> number on this machine; names that it does not have are left out."""
    column = MACHINES[_machine()][0]
    rows = [entry.split() for entry in table.replace("\n", " ").split(",")]
    return {name: int(columns[column]) for name, *columns in rows if columns[column] != "-"}


def _machine() -> str:
    machine = platform.machine()
    if machine not in MACHINES:
        raise OSError(f"no table of system calls for {machine}")
    return machine
