"""Runs scripts that read hostile input, each in a process of its own.

Such a process has no data of the bot: not its memory, not its environment. Its CPU time and memory
are limited, it may write no files, and it is killed after a timeout.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

#: CPU time of a script that has no limit of its own.
CPU_SECONDS = 15

_LAUNCHER = Path(__file__).with_name("isolated_launcher.py")


async def run_isolated(
    script: Path,
    *arguments: str,
    given: bytes | Sequence[bytes],
    seconds: float,
    megabytes: int,
    cpu_seconds: int = CPU_SECONDS,
) -> bytes:
    """Return the standard output of a Python script.

    Args:
        script: The file of the script.
        arguments: Its command line.
        given: Its standard input; pieces of it may be large.
        seconds: Timeout, including the start of the process.
        megabytes: Limit of its memory.
        cpu_seconds: Limit of its CPU time.

    Raises:
        TimeoutError: It took too long.
        ChildProcessError: It failed.
    """
    with await asyncio.to_thread(_stored, (given,) if isinstance(given, bytes) else given) as file:
        # Isolated: neither the current folder nor the environment affects imports.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-EP", "-W", "ignore", str(_LAUNCHER), str(megabytes), str(cpu_seconds)),
            *(str(script), *arguments),
            stdin=file,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ChildProcessError(f"{script.name} ended with {process.returncode}")
    return out


def _stored(pieces: Sequence[bytes]) -> IO[bytes]:
    """Return an open file in memory with this content.

    The event loop would have to feed a pipe, and would wait for each copy of large content.
    """
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("given"), "r+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    for each in pieces:
        file.write(each)
    file.seek(0)
    return file
