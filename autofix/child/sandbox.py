"""Closes a run off: no writing outside its scratch folder, no network, limits of memory and files.

Writing is held back by Landlock (Linux 5.13 and later); changes of mode, owner and times, which Landlock lets through,
are skipped with an answer of success.  The run has a network of its own (a namespace) with nothing in it but the
loopback interface, so that processes of one training find each other and nobody else; where the system grants none, a
seccomp filter refuses internet sockets altogether.  Root gives up its capabilities but those over files, and nobody
changes the limits, the priority or the processors of processes outside.  All of that works without privileges, holds
for all processes that the script starts, and cannot be taken back.  Where the kernel has none of it, the run goes on,
and ``close`` says so.

Data loader workers hand their tensors over through shared memory and Unix sockets, so that neither can be forbidden.
Where the system grants a mount namespace, /dev/shm and System V's memory are the run's own and bounded, and the sockets
with a path that somebody listens on are covered (``mounts``); sockets without a path are closed towards processes
outside from Landlock's version 6 on.  docs/sandbox.md lists what stays open.

All of it goes through ctypes: the child runs in the user's interpreter, which has the standard library and torch alone.
Neither of the libraries could be imported there, nor would they do: ``landlock`` (1.0.0.dev5) is an alpha release that
knows rules for files alone, no scopes; ``pyseccomp`` (0.1.2, of 2021) wants the system's libseccomp.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import os
import platform
import resource
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from . import mounts

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1
LANDLOCK_CREATE_RULESET_VERSION = 1

# include/uapi/linux/landlock.h
WRITE_FILE, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE = 1 << 13, 1 << 14
SCOPES = 0b11
CHANGES = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE
    | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM
)  # fmt: skip
ON_FILES = WRITE_FILE | TRUNCATE

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")
ACCELERATORS = ("/dev/nvidia*", "/dev/kfd", "/dev/dri/*")
SHARED_MEMORY = "/dev/shm"
"""Data loader workers hand their tensors over in shared memory."""
THREADS = "/proc/self/task"
"""Folder in which a process names its threads: CUDA's driver does not start (error 304) where it may not."""

LARGEST_FILE = 4 * 2**30
MOST_TASKS = 1024
"""Processes and threads that a run may add to those of the machine."""

# include/uapi/linux/{filter,seccomp,audit}.h
LD, JEQ, JGE, RET = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
ENETUNREACH, ENOSYS = 101, 38
AF_UNIX, AF_NETLINK = 1, 16
IO_URING_SETUP = 425


# include/uapi/linux/{sched,sockios,if}.h
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x08000000, 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
LOOPBACK = "lo"
INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that tell process groups the interface to use; the host's name leads outside."""


# include/uapi/linux/capability.h
PR_CAPBSET_DROP = 24
CAPABILITY_VERSION = 0x20080522
LAST_CAPABILITY = 63
KEPT_CAPABILITIES = (0, 1, 2, 3, 4, 14)
"""Files of other owners (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID), which Landlock bounds, and IPC_LOCK."""

EPERM = 1
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1


@dataclass(frozen=True)
class Machine:
    """Numbers of system calls on one kind of processor."""

    architecture: int
    """Its number in the audit subsystem."""
    socket: int
    attributes: tuple[int, ...]
    """Changes of mode, owner, times and extended attributes, which Landlock does not hold back."""
    limits: int
    """``prlimit64``."""
    priorities: tuple[tuple[int, int], ...]
    """``setpriority`` and ``ioprio_set``, with the number by which each means a process."""
    scheduling: tuple[int, ...]
    """Changes of a process's processors, policy and its parameters."""
    second_table: int = 0xFFFFFFFF
    """Number at which a second table begins, for another calling convention."""


MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        41,
        (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452),
        302,
        ((141, PRIO_PROCESS), (251, IOPRIO_WHO_PROCESS)),
        (142, 144, 203, 314),
        0x40000000,
    ),
    "aarch64": Machine(
        0xC00000B7,
        198,
        (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452),
        261,
        ((140, PRIO_PROCESS), (30, IOPRIO_WHO_PROCESS)),
        (118, 119, 122, 274),
    ),
}


def close(writable: Sequence[str], *, network: bool, memory: int) -> list[str]:
    """Restrict this process and all that it starts, for good.

    ``writable`` are the folders that may be written to, ``network`` whether the network stays open, ``memory`` the most
    bytes of data for one process (0 for no limit).  Returns what could not be closed, in words.
    """
    limit(memory)
    if not sys.platform.startswith("linux"):
        return ["writing and the network are not closed off: only Linux can"]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return ["writing and the network are not closed off: the kernel refuses"]
    open_ends = []
    granted = namespaces_of_its_own(libc, network=network, memory=memory)  # before files are closed: it writes to /proc
    own = not network and granted
    if reason := close_files(libc, writable):
        open_ends.append(f"writing outside the scratch folder is not closed off: {reason}")
    with contextlib.suppress(AttributeError):  # a C library without these calls
        drop_capabilities(libc)
    if reason := filter_calls(libc, network or own):
        what = "changes of mode and owner are" if network or own else "the network is"
        open_ends.append(f"{what} not closed off: {reason}")
    return open_ends


def namespaces_of_its_own(libc: ctypes.CDLL, *, network: bool, memory: int) -> bool:
    """Move this process into namespaces: mounts, System V's memory, and, unless *network*, one with loopback alone.

    Returns whether the process got a network namespace.  A process without the privilege takes a user namespace around
    them, which is tried in a child process first: half of it, a user that is nobody or an interface that is down, is of
    no use.
    """
    of_network = 0 if network else CLONE_NEWNET
    sockets = [] if network else mounts.listening()  # another network namespace knows nothing of them
    for flags in dict.fromkeys((CLONE_NEWNS | CLONE_NEWIPC | of_network, of_network)):
        if not flags:
            return False
        if libc.unshare(flags) == 0:
            break
        if enter_user_namespace(libc, flags):
            break
    else:
        return False
    if flags & CLONE_NEWNS:
        mounts.make_private(libc, SHARED_MEMORY, memory, sockets)
    if network:
        return False
    with contextlib.suppress(OSError):
        raise_loopback()
    os.environ.update(dict.fromkeys(INTERFACES, LOOPBACK))
    return True


def enter_user_namespace(libc: ctypes.CDLL, flags: int) -> bool:
    """Enter the namespaces of *flags* within a user namespace, if that works in a child process."""
    child = os.fork()
    if child == 0:
        works = False
        with contextlib.suppress(BaseException):
            works = become_its_user(libc, flags)
        os._exit(0 if works else 1)
    return os.waitpid(child, 0)[1] == 0 and become_its_user(libc, flags)


def become_its_user(libc: ctypes.CDLL, flags: int) -> bool:
    """Enter a user namespace, in which the user stays who it is, with the namespaces of *flags*."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | flags) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    if flags & CLONE_NEWNET:
        raise_loopback()
    return True


def raise_loopback() -> None:
    """Bring the loopback interface up.  Raises :class:`OSError`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh14x", LOOPBACK.encode(), IFF_UP))


def limit(memory: int) -> None:
    """Set limits of memory, file size and processes, never above the limits that hold already."""
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, LARGEST_FILE)
    lower(resource.RLIMIT_NPROC, tasks() + MOST_TASKS)  # the kernel exempts root, for which the caller watches
    if memory:
        lower(resource.RLIMIT_DATA, memory)


def tasks() -> int:
    """Number of processes and threads on this machine; :data:`MOST_TASKS` where the system does not tell it."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return MOST_TASKS


def lower(kind: int, value: int) -> None:
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY and hard <= value:
        return
    soft = value if soft == resource.RLIM_INFINITY else min(soft, value)
    resource.setrlimit(kind, (soft, value))


def close_files(libc: ctypes.CDLL, writable: Sequence[str]) -> str:
    """Forbid every change outside of *writable*, of shared memory and of harmless devices.  Returns why not, if not."""
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    if version < 1:
        return "this kernel has no Landlock"
    handled = CHANGES | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    # The last word keeps signals and abstract sockets within the sandbox, from version 6 on.
    words = (handled, 0, SCOPES) if version >= 6 else (handled,)
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(words)}Q", *words))
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, 8 * len(words), 0)
    if ruleset < 0:
        return os.strerror(ctypes.get_errno())
    try:
        for folder in (*writable, SHARED_MEMORY):
            allow(libc, ruleset, folder, handled)
        for pattern in (*DEVICES, *ACCELERATORS):
            for device in glob.glob(pattern):
                allow(libc, ruleset, device, handled & ON_FILES)
        allow(libc, ruleset, THREADS, handled & ON_FILES)
        # While it is open, its inode, which the rule is for, is not replaced by another one.
        with contextlib.suppress(OSError):
            os.open(THREADS, os.O_PATH | os.O_CLOEXEC)
        if libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:
            return os.strerror(ctypes.get_errno())
    finally:
        os.close(ruleset)
    return ""


def allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Let *path*, and all that lies beneath it, be changed."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= ON_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
        libc.syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up root's privileges over the machine, for this process and all that it starts.

    Another user has none to give up, but for those that a user namespace has granted within itself.
    """
    kept = sum(1 << number for number in KEPT_CAPABILITIES)
    for number in range(LAST_CAPABILITY + 1):
        if not kept >> number & 1:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION, 0))
    held = ctypes.create_string_buffer(24)  # effective, permitted, inheritable; twice, for the low half and the high
    if libc.capget(header, held) != 0:
        return
    words = [word & kept for word in struct.unpack("=6I", held.raw)]
    libc.capset(header, ctypes.create_string_buffer(struct.pack("=6I", *words[:3], 0, 0, 0)))


def filter_calls(libc: ctypes.CDLL, network: bool) -> str:
    """Skip changes of files' attributes, and refuse internet sockets unless *network*.  Returns why not, if not."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return f"unknown machine {platform.machine()}"
    steps = filter_steps(machine, network, os.getpid())
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(instructions)))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        return os.strerror(ctypes.get_errno())
    return ""


def filter_steps(machine: Machine, network: bool, own: int) -> list[tuple[int, int, int, int]]:
    """The filter as (code, jump if true, jump if false, operand); jumps count the steps that are left out.

    Of the data that it sees, the call's number lies at offset 0, the architecture at 4, the first argument at 16, the
    second at 24.  *own* is the process that the limits and the scheduling of may be changed, beside the one that asks.
    """
    steps = [
        (LD, 0, 0, 4),
        (JEQ, 1, 0, machine.architecture),
        (RET, 0, 0, REFUSE | ENOSYS),  # a foreign instruction set has numbers of its own
        (LD, 0, 0, 0),
        (JGE, 0, 1, machine.second_table),
        (RET, 0, 0, REFUSE | ENOSYS),
    ]
    for number in machine.attributes:
        steps += [(JEQ, 0, 1, number), (RET, 0, 0, REFUSE)]  # refused with error 0: success
    steps += [
        (JEQ, 0, 5, machine.limits),
        (LD, 0, 0, 16),
        (JEQ, 2, 0, 0),
        (JEQ, 1, 0, own),
        (RET, 0, 0, REFUSE | EPERM),
        (RET, 0, 0, ALLOW),
    ]
    for number in machine.scheduling:  # skipped with success: threads are placed by their numbers, which are others
        steps += [
            (JEQ, 0, 5, number),
            (LD, 0, 0, 16),
            (JEQ, 2, 0, 0),
            (JEQ, 1, 0, own),
            (RET, 0, 0, REFUSE),
            (RET, 0, 0, ALLOW),
        ]
    for number, process in machine.priorities:  # of a process, and neither of a group nor of all that the user runs
        steps += [
            (JEQ, 0, 7, number),
            (LD, 0, 0, 16),
            (JEQ, 0, 3, process),
            (LD, 0, 0, 24),
            (JEQ, 2, 0, 0),
            (JEQ, 1, 0, own),
            (RET, 0, 0, REFUSE),
            (RET, 0, 0, ALLOW),
        ]
    if not network:
        steps += [
            (JEQ, 0, 1, IO_URING_SETUP),  # it opens sockets behind the filter's back
            (RET, 0, 0, REFUSE | ENOSYS),
            (JEQ, 0, 4, machine.socket),
            (LD, 0, 0, 16),
            (JEQ, 2, 0, AF_UNIX),
            (JEQ, 1, 0, AF_NETLINK),
            (RET, 0, 0, REFUSE | ENETUNREACH),
        ]
    return [*steps, (RET, 0, 0, ALLOW)]
