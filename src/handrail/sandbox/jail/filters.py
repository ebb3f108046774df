"""The system calls that a jailed program does not get, as programs for the kernel.

`base_filter()`    from its first instruction on; bubblewrap installs it
`lockdown_filter()`   from when it is up; the program installs it on itself with `inside.lock`

They are lists of what is refused: Python and its libraries use most of the rest. What the kernel learned after the
lists were written does not exist for the program.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
from typing import Any

from handrail.core.errors import MissingExtra, SandboxUnavailable

NO_SECCOMP = "libseccomp was not found; install it (on Debian and Ubuntu: apt install libseccomp2)"

FORBIDDEN = {
    "other processes": "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd",
    "the kernel's own machines": "io_uring_setup io_uring_enter io_uring_register bpf userfaultfd perf_event_open",
    "keys": "keyctl add_key request_key",
    "mounts": "mount umount umount2 pivot_root chroot "
    "open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr",
    "namespaces": "setns unshare",
    "files behind the mounts": "name_to_handle_at open_by_handle_at fanotify_init quotactl quotactl_fd",
    "the kernel itself": "kexec_load kexec_file_load init_module finit_module delete_module create_module query_module "
    "get_kernel_syms reboot swapon swapoff acct syslog vhangup iopl ioperm nfsservctl _sysctl",
    "old ways": "personality modify_ldt vm86 vm86old uselib sysfs ustat lookup_dcookie",
    "the machine's name and time": "sethostname setdomainname settimeofday stime clock_settime clock_settime64 "
    "clock_adjtime clock_adjtime64 adjtimex",
    "memory RLIMIT_AS does not see": "memfd_create memfd_secret shmget shmat shmctl msgget semget mq_open vmsplice",
    "where memory lies": "mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node",
    "what the whole machine has little of": "io_setup io_submit io_getevents io_pgetevents inotify_init inotify_init1",
    "the machine's disks": "sync syncfs",
}

NUMBERS = {
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "set_mempolicy_home_node": 450,
}
"""The numbers of calls that an older libseccomp has no name for. From 424 on they are the same on every machine."""

UNHEARD_OF = range(453, 512)
"""What came after these lists: fchmodat2 (452) is the last that was looked at."""

NAMESPACES = {
    "CLONE_NEWNS": 0x00020000,
    "CLONE_NEWCGROUP": 0x02000000,
    "CLONE_NEWUTS": 0x04000000,
    "CLONE_NEWIPC": 0x08000000,
    "CLONE_NEWUSER": 0x10000000,
    "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}
CLONE_THREAD = 0x00010000
REQUESTS = (
    # call    argument  value
    ("ioctl", 1, 0x5412),  # TIOCSTI: type at a terminal
    ("ioctl", 1, 0x541C),  # TIOCLINUX
    ("ioctl", 1, 0x540E),  # TIOCSCTTY: take a terminal
    ("ioctl", 1, 0x5423),  # TIOCSETD
    ("fcntl", 1, 1024),  # F_SETLEASE: keep the host from writing to its own file for a while
    ("fcntl", 1, 1026),  # F_NOTIFY
    ("prctl", 0, 1),  # PR_SET_PDEATHSIG: outlive the host when that is killed
)
"""The refused requests of calls that are needed. The kernel reads 32 bits of each; so must the filter."""
NAMING = (socket.SOCK_DGRAM, socket.SOCK_RAW)
"""Kinds of unix sockets that send to any path. One is made in a pair and need not stay in it."""


@functools.cache
def base_filter() -> bytes:
    """What no jailed program may call.

    Raises:
        MissingExtra: There is no pyseccomp.
        SandboxUnavailable: There is no libseccomp.
    """
    kit = _kit()
    rules = kit.SyscallFilter(kit.ALLOW)
    rules.set_attr(kit.Attr.ACT_BADARCH, kit.KILL_PROCESS)  # 32-bit and x32 calls
    for names in FORBIDDEN.values():
        for name in names.split():
            _refuse(kit, rules, name)
    for number in UNHEARD_OF:
        rules.add_rule(kit.ERRNO(errno.ENOSYS), number)
    # Its flags lie behind a pointer, where no filter can read them. The C library then takes clone.
    _refuse(kit, rules, "clone3", code=errno.ENOSYS)
    for flag in NAMESPACES.values():
        _refuse(kit, rules, "clone", kit.Arg(0, kit.MASKED_EQ, flag, flag))
    for name in ("socket", "socketpair"):
        _refuse(kit, rules, name, kit.Arg(0, kit.NE, socket.AF_UNIX), code=errno.EAFNOSUPPORT)
    for name, argument, value in REQUESTS:
        _refuse(kit, rules, name, kit.Arg(argument, kit.MASKED_EQ, 0xFFFFFFFF, value))
    return _exported(rules)


@functools.cache
def lockdown_filter() -> bytes:
    """What a program gives up once it is up: to fork, to become another program, to open a socket.

    It keeps threads, and pairs of sockets that are connected to each other.

    Raises:
        MissingExtra: There is no pyseccomp.
        SandboxUnavailable: There is no libseccomp.
    """
    kit = _kit()
    rules = kit.SyscallFilter(kit.ALLOW)
    rules.set_attr(kit.Attr.ACT_BADARCH, kit.KILL_PROCESS)
    for name in ("fork", "vfork", "execve", "execveat", "socket"):
        _refuse(kit, rules, name)
    _refuse(kit, rules, "clone", kit.Arg(0, kit.MASKED_EQ, CLONE_THREAD, 0))
    for kind in NAMING:
        _refuse(kit, rules, "socketpair", kit.Arg(1, kit.MASKED_EQ, 0xF, kind))
    return _exported(rules)


def _kit() -> Any:
    try:
        import pyseccomp
    except ImportError as error:
        raise MissingExtra("the os sandbox", "sandbox") from error
    except (RuntimeError, OSError) as error:
        raise SandboxUnavailable(NO_SECCOMP) from error
    return pyseccomp


def _refuse(kit: Any, rules: Any, name: str, *when: Any, code: int = errno.EPERM) -> None:
    number = kit.resolve_syscall(kit.Arch.NATIVE, name)
    number = NUMBERS.get(name, number) if number < 0 else number
    if number >= 0:  # else this machine has no such call
        rules.add_rule(kit.ERRNO(code), number, *when)


def _exported(rules: Any) -> bytes:
    with open(os.memfd_create("seccomp"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
