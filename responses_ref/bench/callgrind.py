"""Counting instructions from inside: switches callgrind on for some responses, and off again.

A server under ``valgrind --tool=callgrind --instr-atstart=no`` starts and runs at a usable
speed; only what is counted is slow.  Valgrind is asked by a sequence of machine
instructions that does nothing elsewhere (valgrind.h); Python cannot utter it, so it lies
in a page of its own. x86-64 only.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import shutil

import attrs

REQUEST = bytes.fromhex(
    "4889f8"  # mov rax, rdi: the arguments
    "31d2"  # xor edx, edx: the answer outside of Valgrind
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi, 3, 13, 61, 51
    "4887db"  # xchg rbx, rbx
    "4889d0 c3"  # mov rax, rdx; ret
)
DUMP, START, STOP = 0x43540000, 0x43540004, 0x43540005  # callgrind.h
OPTIONS = ("--tool=callgrind", "--instr-atstart=no", "-q")


def program() -> str | None:
    """Where valgrind is, if it can be used here."""
    return shutil.which("valgrind") if platform.machine() in ("x86_64", "AMD64") else None


class Counter:
    """Asks the valgrind that this process runs under; does nothing without one."""

    def __init__(self) -> None:
        self.page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.page.write(REQUEST)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.call = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_void_p)(address)

    def ask(self, request: int) -> None:
        """Make one of the requests of callgrind.h that have no arguments."""
        arguments = (ctypes.c_ulong * 6)(request)
        self.call(ctypes.addressof(arguments))


@attrs.define
class Responses:
    """Counts responses with these numbers (the first is 1), each into a dump of its own."""

    counted: frozenset[int]
    ended: int = 0
    counter: Counter = attrs.Factory(Counter)

    def end(self) -> None:
        """One more response has ended."""
        before, after = self.ended + 1 in self.counted, self.ended + 2 in self.counted
        self.ended += 1
        if before:
            self.counter.ask(DUMP)
        if before != after:
            self.counter.ask(START if after else STOP)
