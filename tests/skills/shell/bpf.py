"""Runs a program of the system-call filter, as the kernel does."""

import struct
from collections.abc import Sequence

ALLOWED = 0x7FFF0000
KILLED = 0x80000000
_ERROR = 0x00050000


def verdict(program: bytes, number: int, architecture: int, arguments: Sequence[int] = ()) -> int:
    """Return what becomes of a call: `ALLOWED`, `KILLED`, or the number of an error."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    accumulator = position = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * position)
        position += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                position += if_true if accumulator == value else if_false
            case 0x35:
                position += if_true if accumulator >= value else if_false
            case 0x06:
                return int(value & 0xFFFF if value & 0xFFFF0000 == _ERROR else value)
            case _:
                raise AssertionError(f"The kernel would not take the instruction {code:#x}.")
