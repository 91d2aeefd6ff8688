"""`python -m bench.mutants`: break important lines one at a time, and see the tests nearby fail.

Each mutant is tried in a copy of the source code. The command prints those that no test nearby
notices, and ends with 1 if there are any.
"""

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house import BESIDE, INSIDE, ROOT

#: Seconds for the tests of one mutant.
PATIENCE = 300
#: Exit code of pytest if it has run no test.
NO_TESTS = 5


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line that is broken.

    Attributes:
        path: The file.
        text: A part of the line that occurs once in the file.
        broken: The text in its place.
        tests: The tests nearby, separated by spaces.
    """

    path: str
    text: str
    broken: str
    tests: str


MUTANTS = tuple(
    Mutant(**each)
    for each in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["mutants"]
)


def problem_of(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the reason why a mutant cannot be made; empty if it can."""
    path = root / mutant.path
    if not path.exists():
        return f"{mutant.path} does not exist"
    count = path.read_text("utf-8").count(mutant.text)
    if count != 1:
        return f"{mutant.path} holds {mutant.text!r} {count} times"
    missing = [each for each in mutant.tests.split() if not (root / each).exists()]
    return f"{missing[0]} does not exist" if missing else ""


def survives(mutant: Mutant, root: Path) -> bool:
    """Break a line in a copy of the code, run the tests nearby, and mend the line."""
    path = root / mutant.path
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(mutant.text, mutant.broken), "utf-8")
    marks = "" if "tests/stories/" in mutant.tests else "not long"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", marks, "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *mutant.tests.split()],
            cwd=root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(whole, "utf-8")
    return done.returncode in {0, NO_TESTS}


def tried(mutants: tuple[Mutant, ...] = MUTANTS) -> Iterator[str]:
    """Try mutants, and yield a line for each that survives or cannot be made."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for top in (*INSIDE, *BESIDE, "agents", "docs"):
            shutil.copytree(ROOT / top, root / top, symlinks=True)
        for file in ("pyproject.toml", "README.md", "config.example.yaml"):
            shutil.copy(ROOT / file, root / file)
        for number, mutant in enumerate(mutants, 1):
            print(f"{number} of {len(mutants)}: {mutant.path}", file=sys.stderr, flush=True)
            if problem := problem_of(mutant, root):
                yield problem
            elif survives(mutant, root):
                yield f"No test nearby noticed {mutant.broken!r} for {mutant.text!r}: {mutant.path}"


def main() -> None:
    """Try all mutants, and print what is wrong."""
    found = list(tried())
    print("\n".join([*found, f"{len(MUTANTS) - len(found)} of {len(MUTANTS)} are caught nearby."]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
