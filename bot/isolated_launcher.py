"""Limits its own process, and then runs a script in it: started by `bot.isolated`."""

import resource
import runpy
import sys
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    for limit, most in (
        (resource.RLIMIT_CPU, int(sys.argv[2])),
        (resource.RLIMIT_DATA, int(sys.argv[1]) * 1024**2),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # Not every system supports all of these limits.
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    del sys.argv[:3]
    # Neither the current folder nor that of the script is searched for modules; the bot's is.
    sys.path.append(str(Path(__file__).parents[1]))
    runpy.run_path(sys.argv[0], run_name="__main__")
