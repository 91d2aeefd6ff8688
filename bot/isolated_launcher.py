"""Limits its own process, and then runs a script in it: started by `bot.isolated`."""

import resource
import runpy
import sys
from contextlib import suppress

CPU_SECONDS = 15


if __name__ == "__main__":
    for limit, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_DATA, int(sys.argv[1]) * 1024**2),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # Not every system supports all of these limits.
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
