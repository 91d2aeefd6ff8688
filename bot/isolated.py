"""Runs scripts that read hostile input, each in a process of its own.

Such a process has no data of the bot: not its memory, not its environment. Its CPU time and memory
are limited, it may write no files, and it is killed after a timeout.
"""

import asyncio
import sys
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("isolated_launcher.py")


async def run_isolated(
    script: Path, *arguments: str, given: bytes, seconds: float, megabytes: int
) -> bytes:
    """Return the standard output of a Python script.

    Args:
        script: The file of the script.
        arguments: Its command line.
        given: Its standard input.
        seconds: Timeout, including the start of the process.
        megabytes: Limit of its memory.

    Raises:
        TimeoutError: It took too long.
        ChildProcessError: It failed.
    """
    # Isolated: neither the current folder nor the environment affects imports.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-EP", "-W", "ignore", str(_LAUNCHER), str(megabytes), str(script), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ChildProcessError(f"{script.name} ended with {process.returncode}")
    return out
