"""A run's own view of the file system, in a mount namespace: shared memory of its own, and no sockets of others.

Nothing of it is seen outside, and it is gone with the run's last process.  A process in the sandbox can undo none of
it: Landlock forbids every change of mounts, and the capability for them is given up.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Sequence

# include/uapi/linux/mount.h
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT = 1, 2, 4, 8, 32
BIND, REC, PRIVATE, DETACH = 4096, 16384, 1 << 18, 2

OF_LIBRARIES = ("torch_", "sem.", "psm_", "pymp-", "nccl-", "sm_segment", "vader_")
"""Prefixes of names in shared memory that belong to programs at work, and are of no use to others."""
MOST_ENTRIES = 64
"""Folders and files of others in shared memory that a run gets to see, data sets say."""
MOST_SOCKETS = 256
ACCEPTS = 0x10000
"""Flag of a socket in /proc/net/unix that somebody listens on."""
DATAGRAM = "0002"


def make_private(libc: ctypes.CDLL, shared: str, size: int, sockets: Sequence[str]) -> None:
    """Give this mount namespace shared memory of its own at *shared*, of *size* bytes (0: half of the machine's).

    The *sockets* of other processes are covered.  Where a mount fails, the rest is left as it is.
    """
    if libc.mount(b"none", b"/", None, REC | PRIVATE, None) != 0:
        return  # mounts made here could be seen outside
    cover_sockets(libc, sockets)
    own_shared_memory(libc, shared, size)


def own_shared_memory(libc: ctypes.CDLL, shared: str, size: int) -> None:
    """Mount an empty folder in memory at *shared*, and show the files of other processes in it, to be read only."""
    try:
        before = os.open(shared, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        limit = f"size={size}" if size else "size=50%"
        options = f"{limit},nr_inodes=100k,mode=1777".encode()
        if libc.mount(b"tmpfs", os.fsencode(shared), b"tmpfs", NOSUID | NODEV, options) != 0:
            return
        for name in sorted(os.listdir(f"/proc/self/fd/{before}"))[:MOST_ENTRIES]:
            if not name.startswith(OF_LIBRARIES):
                with contextlib.suppress(OSError):
                    show(libc, f"/proc/self/fd/{before}/{name}", os.path.join(shared, name))
    finally:
        os.close(before)


def show(libc: ctypes.CDLL, source: str, target: str) -> None:
    """Let *source*, a folder or file, be read at *target*, and not written.  Raises :class:`OSError`."""
    mode = os.lstat(source).st_mode
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    elif stat.S_ISREG(mode):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    else:
        return
    place = os.fsencode(target)
    if libc.mount(os.fsencode(source), place, None, BIND, None) == 0:
        # In a user namespace a mount keeps the restrictions that it has outside.
        kept = os.statvfs(target).f_flag & (NOSUID | NODEV | NOEXEC)
        if libc.mount(None, place, None, BIND | REMOUNT | RDONLY | kept, None) == 0:
            return
        libc.umount2(place, DETACH)
    (os.rmdir if stat.S_ISDIR(mode) else os.unlink)(target)


def cover_sockets(libc: ctypes.CDLL, sockets: Sequence[str]) -> None:
    """Put an empty device over each of the *sockets* (paths), Docker's, say, so that nobody can connect to it."""
    for path in sockets[:MOST_SOCKETS]:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                libc.mount(b"/dev/null", os.fsencode(path), None, BIND, None)


def listening() -> list[str]:
    """The paths of sockets that receive connections or datagrams, as the network namespace of this process has them."""
    found = []
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.rstrip("\n").split(None, 7)
            if len(words) == 8 and words[7].startswith("/"):
                if int(words[3], 16) & ACCEPTS or words[4] == DATAGRAM:
                    found.append(words[7])
    return found
