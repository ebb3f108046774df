"""What code tries that has a whole CPython and wants out of its jail, as data.

Each attack is the text of a small program. It finds `host`, what it is told of the host (`Facts`), and leaves in `got`
what it got hold of. It is contained if that is empty, or if it raised; an attack that `ends` may also end its
interpreter. What is in `AFTER_LOCK` is held only from when the program has given up to fork (`sandbox.jail.lock`).

Outside of a jail they would do what they try, as root even to the kernel's settings and to the machine's Python. So
each begins with `GUARD`, and ends there anywhere else. Only those that a program might do anyway go without it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TypedDict

CANARY = "HANDRAIL_ESCAPE_CANARY"
"""The host has it in its environment while it is attacked."""


class Facts(TypedDict):
    file: str
    """A file of the host with a secret."""
    folder: str
    """The project."""
    pid: int
    port: int
    """Somebody listens on loopback."""
    abstract: str
    """Somebody listens on this abstract unix socket."""
    memory_bytes: int
    disk_bytes: int
    open_files: int


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    code: str


GUARD = """
import os
with open('/proc/self/status') as status:
    filtered = 'Seccomp:\\t2' in status.read()
if (os.uname().nodename, os.getpid(), os.getuid(), filtered) != ('jail', 1, 1000, True):
    raise SystemExit('this is no jail: nothing was tried')
"""

HELP = """
import ctypes, errno, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
REFUSED = (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT)

def call(number, *arguments):
    # None if it was refused before the kernel looked at the arguments
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    code = ctypes.get_errno()
    return None if result == -1 and code in REFUSED else (number, result, code)

def tried(do, *arguments):
    try:
        result = do(*arguments)
    except (OSError, ValueError, MemoryError, RuntimeError):
        return None
    return (getattr(do, '__name__', ''), str(arguments)[:80], str(result)[:80])

def every(do, *those):
    return [found for one in those if (found := tried(do, one))]

def read(path):
    with open(path, 'rb') as file:
        return file.read(100)

def write(path):
    with open(path, 'ab', buffering=0) as file:
        file.write(b'1')

got = None
"""


def _attack(name: str, code: str) -> Attack:
    return Attack(name, GUARD + HELP + code)


def _harmless(name: str, code: str) -> Attack:
    """Without the guard, so that a test can see that it has teeth where there is no jail."""
    return Attack(name, HELP + code)


READING = (
    _attack(
        "the environment of any process",
        """
mark = b'HANDRAIL_ESCAPE' + b'_CANARY'
paths = [f'/proc/{pid}/environ' for pid in os.listdir('/proc') if pid.isdigit() or pid == 'self']
got = [path for path in paths if mark in open(path, 'rb').read()] + [key for key in os.environ if mark.decode() in key]
""",
    ),
    _attack(
        "the arguments of the host's processes",
        """
marks = (b'bw' + b'rap', b'py' + b'test', b'--ro-' + b'bind')
lines = [open(f'/proc/{pid}/cmdline', 'rb').read() for pid in os.listdir('/proc') if pid.isdigit()]
got = [line for line in lines if any(mark in line for mark in marks)]
""",
    ),
    _attack("other processes in sight", "got = [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) > 2]"),
    _attack("/etc", "got = every(read, '/etc/passwd', '/etc/shadow', '/etc/hostname', '/etc/resolv.conf')"),
    _harmless("a file of the host", "got = tried(read, host['file'])"),
    _attack("the project", "got = every(os.listdir, host['folder'], host['folder'] + '/src')"),
    _attack("home and root", "got = every(os.listdir, '/home', '/var', '/run', '/mnt', '/root/.ssh', '/srv', '/opt')"),
    _attack(
        "root's files",
        "names = os.listdir('/root') if os.path.exists('/root') else ()\n"
        "got = [name for name in names if not sys.base_prefix.startswith('/root/' + name)]",
    ),
    _attack("/sys and control groups", "got = every(os.listdir, '/sys', '/sys/fs/cgroup', '/sys/kernel')"),
    _attack(
        "devices",
        "got = every(read, '/dev/mem', '/dev/kmem', '/dev/kvm', '/dev/kmsg', '/dev/tty', '/dev/ptmx', '/dev/fuse') "
        "or [n for n in os.listdir('/dev') if n not in ('null', 'zero', 'full', 'random', 'urandom', 'fd')]",
    ),
    _attack(
        "what /proc tells of the kernel",
        "names = 'kcore kallsyms keys kmsg cmdline modules kpageflags kpagecount slabinfo vmallocinfo iomem'.split()\n"
        "got = every(read, *(f'/proc/{name}' for name in names))",
    ),
    _attack(
        "a link out of /tmp",
        """
os.symlink(host['file'], '/tmp/link')
got = tried(read, '/tmp/link')
os.unlink('/tmp/link')
""",
    ),
    _attack(
        "ways around the root",
        """
up = '/..' * 20
got = every(read, *(f'/proc/{way}{up}{host["file"]}' for way in ('1/root', '1/cwd', 'self/root', 'self/cwd')))
""",
    ),
    _attack(
        "inherited descriptors",
        """
def target(fd):
    try:
        return os.readlink(f'/proc/self/fd/{fd}')
    except OSError:
        return ''
def ours(where):
    return not where.startswith('/') or where in ('/dev/null', '/dev/zero') or where.startswith(('/proc/', '/dev/pts'))
got = [where for fd in os.listdir('/proc/self/fd') if not ours(where := target(fd))]
""",
    ),
)

WRITING = (
    _attack(
        "the Python installation",
        "import json; got = every(write, os.__file__, json.__file__, sys.executable) "
        "or every(os.mkdir, os.path.dirname(os.__file__) + '/x') or every(os.unlink, json.__file__)",
    ),
    _attack(
        "anything outside of /tmp",
        "got = every(write, '/x', '/dev/x', '/dev/shm/x', '/usr/lib/x', '/usr/x', '/etc/x', '/proc/x', '/root/x')",
    ),
    _attack(
        "settings of the kernel",
        "names = ('kernel/hostname', 'kernel/core_pattern', 'vm/overcommit_memory', 'user/max_user_namespaces')\n"
        "got = every(write, '/proc/sysrq-trigger', *(f'/proc/sys/{name}' for name in names))",
    ),
    _attack(
        "its own standing in /proc",
        "names = ('oom_score_adj', 'uid_map', 'setgroups', 'mem', 'attr/exec')\n"
        "got = every(write, *(f'/proc/self/{name}' for name in names))",
    ),
    _attack("the memory of the first process", "got = tried(write, '/proc/1/mem')"),
    _attack("a device of its own", "got = tried(os.mknod, '/tmp/mem', 0o20666, os.makedev(1, 1))"),
)

RIGHTS = (
    _attack("another user", "got = every(os.setuid, 0, 1, 65534) or every(os.setgid, 0) or tried(os.setgroups, [0])"),
    _attack(
        "capabilities",
        """
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
got = [name for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb') if int(status[name], 16)]
got += [status['NoNewPrivs']] if status['NoNewPrivs'].strip() != '1' else []
got += [status['Seccomp']] if status['Seccomp'].strip() != '2' else []
got += ['root'] if os.getuid() == 0 else []
""",
    ),
    _attack(
        "higher limits",
        """
which = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)
got = every(lambda one: resource.setrlimit(one, (1 << 40, 1 << 40)), *which)
""",
    ),
    _attack("a core dump", "got = [n for n in resource.getrlimit(resource.RLIMIT_CORE) if not 0 <= n <= 1]"),
    _attack("another root", "got = tried(os.chroot, '/tmp')"),
    _attack(
        "mounts",
        "got = [libc.mount(b'x', b'/tmp', kind, 0, None) for kind in (b'tmpfs', b'proc', b'sysfs', b'overlay')] "
        "+ [libc.umount2(b'/proc', 2), libc.umount2(b'/usr/lib', 2)]\ngot = [r for r in got if r != -1]",
    ),
    _attack(
        "new namespaces",
        """
flags = (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80)
got = [flag for flag in flags if libc.unshare(flag) != -1]
""",
    ),
    _attack(
        "another's namespace",
        """
fds = [os.open(f'/proc/self/ns/{name}', os.O_RDONLY) for name in ('user', 'mnt', 'net', 'pid')]
got = [fd for fd in fds if libc.setns(fd, 0) != -1 or ctypes.get_errno() != errno.EPERM]
for fd in fds:
    os.close(fd)
""",
    ),
    _attack("a life after its host's", "got = [n for n in (0, 18) if libc.prctl(1, n, 0, 0, 0) != -1]"),
    _attack(
        "a hold on a file of the host",
        """
import fcntl
with open(os.__file__) as file:
    got = every(lambda request: fcntl.fcntl(file, request, fcntl.F_RDLCK), 1024, 1026)
""",
    ),
    _attack("the machine's name", "got = tried(socket.sethostname, 'mine')"),
    _attack("the machine's time", "import time; got = tried(time.clock_settime, time.CLOCK_REALTIME, time.time())"),
    _attack(
        "the host's processes",
        "own = os.listdir('/proc/self/task')\n"
        "got = every(lambda pid: os.kill(pid, 0), host['pid'], next(n for n in range(1, 99) if str(n) not in own))",
    ),
    _attack(
        "keys pressed at the terminal",
        """
import fcntl
def push(request):
    try:
        return fcntl.ioctl(0, request, b'x') or 'pushed'
    except OSError as error:
        return None if error.errno == errno.EPERM else error.errno
got = [found for request in (0x5412, 0x541C) if (found := push(request))]
""",
    ),
)

NETWORK = (
    _harmless("the host's loopback", "got = tried(socket.create_connection, ('127.0.0.1', host['port']), 2)"),
    _attack(
        "families of sockets",
        """
families = {'INET': 2, 'INET6': 10, 'NETLINK': 16, 'PACKET': 17, 'ALG': 38, 'VSOCK': 40, 'KEY': 15, 'BLUETOOTH': 31,
            'XDP': 44, 'TIPC': 30, 'CAN': 29, 'RDS': 21, 'IB': 27, 'QIPCRTR': 42, 'SMC': 43}
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
got = [name for name, number in families.items() for kind in kinds if libc.socket(number, kind, 0) != -1]
""",
    ),
    _attack(
        "abstract sockets of the host",
        """
def connect(name):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(2)
        one.connect('\\0' + name)
got = tried(connect, host['abstract'])
""",
    ),
    _attack("names of hosts", "got = tried(socket.getaddrinfo, 'localhost.localdomain', 80)"),
)

KERNEL = (
    _attack(
        "system calls that it does not need, by number",
        """
numbers = {'ptrace': 101, 'personality': 135, 'modify_ldt': 154, 'pivot_root': 155, 'chroot': 161, 'acct': 163,
           'mount': 165, 'umount2': 166, 'swapon': 167, 'sethostname': 170, 'iopl': 172, 'ioperm': 173,
           'init_module': 175, 'delete_module': 176, 'quotactl': 179, 'settimeofday': 164, 'syslog': 103,
           'kexec_load': 246, 'add_key': 248, 'request_key': 249, 'keyctl': 250, 'unshare': 272, 'vmsplice': 278,
           'perf_event_open': 298, 'fanotify_init': 300, 'open_by_handle_at': 304, 'setns': 308,
           'process_vm_readv': 310, 'process_vm_writev': 311, 'kcmp': 312, 'finit_module': 313, 'memfd_create': 319,
           'kexec_file_load': 320, 'bpf': 321, 'userfaultfd': 323, 'io_uring_setup': 425, 'io_uring_enter': 426,
           'io_uring_register': 427, 'open_tree': 428, 'move_mount': 429, 'fsopen': 430, 'fsconfig': 431,
           'fsmount': 432, 'fspick': 433, 'clone3': 435, 'pidfd_getfd': 438, 'process_madvise': 440,
           'mount_setattr': 442, 'quotactl_fd': 443, 'memfd_secret': 447, 'shmget': 29, 'shmat': 30, 'msgget': 68,
           'semget': 64, 'mq_open': 240, 'mbind': 237, 'move_pages': 279, 'io_setup': 206, 'inotify_init1': 294,
           'syncfs': 306}
got = [name for name, number in numbers.items() if call(number, -1, -1, -1, -1, -1, -1)]
""",
    ),
    _attack("system calls that nobody knew", "got = [n for n in range(453, 512) if call(n, -1, -1, -1, -1, -1, -1)]"),
    _attack(
        "a process in new namespaces",
        """
def copy(flags):
    result = libc.syscall(56, ctypes.c_long(flags | 17), 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    return result
got = [flags for flags in (0x10000000, 0x20000, 0x20000000, 0x40000000) if copy(flags) != -1]
""",
    ),
    _attack("a request to a process with more bits than are read", "got = call(157, 0x100000001, 0, 0, 0, 0)"),
    _attack("a terminal request with more bits than are read", "got = call(16, 0, 0x100005412, ctypes.c_char_p(b'x'))"),
    _attack(
        "a socket with more bits than are read", "got = [n for n in (0x100000002, 0x10000000A) if call(41, n, 1, 0)]"
    ),
)
"""Numbers of x86_64."""

USING_UP = (
    _attack("memory", "got = tried(lambda: len(bytearray(host['memory_bytes'] * 2)))"),
    _attack(
        "memory in pieces",
        """
held = []
try:
    while len(held) < host['memory_bytes'] * 2 >> 20:
        held.append(bytearray(1 << 20))
    got = len(held)
except MemoryError:
    pass
finally:
    held.clear()
""",
    ),
    _attack(
        "memory in no process",
        "got = tried(os.memfd_create, 'x') or [n for n in [libc.shmget(0, 99, 0o1600)] if n != -1]",
    ),
    _attack(
        "disk",
        """
names, written = [], 0
try:
    while written < host['disk_bytes'] * 2:
        names.append(f'/tmp/fill{len(names)}')
        with open(names[-1], 'wb', buffering=0) as file:
            for _ in range(4):
                written += file.write(bytes(1 << 20))
except OSError as error:
    full = error.errno
finally:
    for name in names:
        os.unlink(name)
got = written if written > host['disk_bytes'] else None
""",
    ),
    _attack(
        "one huge file",
        """
with open('/tmp/huge', 'wb') as file:
    os.unlink('/tmp/huge')
    got = tried(os.posix_fallocate, file.fileno(), 0, host['disk_bytes'] * 2) or tried(file.truncate, 1 << 40)
""",
    ),
    _attack(
        "open files",
        """
held = []
try:
    while len(held) <= host['open_files']:
        held.append(os.open('/dev/null', os.O_RDONLY))
    got = len(held)
except OSError:
    pass
finally:
    for fd in held:
        os.close(fd)
""",
    ),
    _attack(
        "threads",
        """
import threading
stop, started = threading.Event(), []
try:
    while len(started) < 2000:
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
        started.append(thread)
    got = len(started)
except (RuntimeError, MemoryError):
    pass
finally:
    stop.set()
    for thread in started:
        thread.join()
""",
    ),
)

AFTER_LOCK = (
    _attack(
        "forks",
        """
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid
got = every(lambda _: fork(), *range(50))
""",
    ),
    _attack(
        "another program",
        """
import subprocess
run = [sys.executable, '-I', '-S', '-c', '']
got = tried(subprocess.run, run) or tried(os.posix_spawn, run[0], run, {})
""",
    ),
    _attack(
        "becoming another program",
        "got = every(lambda path: os.execv(path, [path, '-c', '']), '/bin/sh', sys.executable)",
    ),
    _attack(
        "a program of its own making",
        """
import shutil
shutil.copy(os.path.realpath(sys.executable), '/tmp/own')
os.chmod('/tmp/own', 0o755)
try:
    got = tried(os.execv, '/tmp/own', ['/tmp/own', '-c', ''])
finally:
    os.unlink('/tmp/own')
""",
    ),
    _attack(
        "a socket of a pair that sends to others",
        "got = every(lambda kind: socket.socketpair(socket.AF_UNIX, kind), socket.SOCK_DGRAM, socket.SOCK_RAW)",
    ),
    _attack("sockets at all", "got = every(lambda family: socket.socket(family), socket.AF_UNIX, socket.AF_INET)"),
)

_MACHINE_CODE = """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write({code!r})
here = ctypes.addressof(ctypes.c_char.from_buffer(page))
got = ctypes.CFUNCTYPE(ctypes.c_int)(here)()
"""

ENDS = (
    *(
        (
            # mov eax, 20; int 0x80; ret: getpid as a 32-bit program asks for it
            _attack("a 32-bit system call", _MACHINE_CODE.format(code=b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")),
            _attack("an x32 system call", "got = call(0x40000000 + 39)"),
        )
        if platform.machine() == "x86_64"
        else ()
    ),
    _attack("a crash", "os.abort()"),
    _attack("a wild pointer", "ctypes.string_at(1)"),
    _attack("time on the processor", "while True: pass"),
)
"""Each needs an interpreter of its own. The last takes all the time that it is given."""

CALM = (*READING, *WRITING, *RIGHTS, *NETWORK, *(KERNEL if platform.machine() == "x86_64" else ()), *USING_UP)
"""Each leaves its interpreter as it was, so that one can take them all."""
