"""`python -m bench.shrinking COMMIT`: print the lines of code that later commits took out.

Counts the commits since that one that left less code in `bot`, `db`, `migrations` and `skills` than
they found, by the rules of `bench.measures`. Commits that add code are not counted, however much
they take out as well.
"""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from bench.measures import lines_of_code
from tests.house import INSIDE, ROOT, Source


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@cache
def _lines(blob: str) -> int:
    """Return the lines of code of a version of a file; 0 for none.

    Raises:
        SyntaxError: It is no Python.
    """
    if not blob.strip("0"):
        return 0
    return lines_of_code(Source("", "", _git("cat-file", "blob", blob)))


def changes(since: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that each commit added (negative for fewer), with its title, newest first."""
    log = _git(
        *("log", "--no-merges", "--raw", "--no-abbrev", "--no-renames", "--format=@%s"),
        *(f"{since}..HEAD", "--", *INSIDE),
    )
    for commit in log.split("\n@"):
        title, *files = filter(None, commit.removeprefix("@").splitlines())
        versions = [each.split()[2:4] for each in files if each.endswith(".py")]
        try:
            yield sum(_lines(new) - _lines(old) for old, new in versions), title
        except SyntaxError:
            continue  # a version with a mark of a conflict


def main() -> None:
    """Print each commit that took out code, the largest first, and the sum."""
    fewer = sorted(each for each in changes(sys.argv[1]) if each[0] < 0)
    for lines, title in fewer:
        print(f"{lines:>6,} {title}")
    print(f"{sum(lines for lines, _ in fewer):>6,} in {len(fewer)} commits")


if __name__ == "__main__":
    main()
