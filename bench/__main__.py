"""`python -m bench`: measure, and print one table. It judges nothing and never fails a build."""

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from bench.parts import PARTS, measure
from bench.table import FULL, Row, Scale, machine, rendered


def measure_all(parts: list[str], scale: Scale) -> list[Row]:
    """Return the rows of these parts, each measured in a new process."""
    found: list[Row] = []
    processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=processes, max_tasks_per_child=1) as pool:
        for part in parts:
            print(f"measuring: {part} …", file=sys.stderr, flush=True)
            found += pool.submit(measure, part, scale).result()
    return found


def parts_of(text: str) -> list[str]:
    """Return the parts of a list with commas.

    Raises:
        ArgumentTypeError: There is no such part.
    """
    found = [each.strip() for each in text.split(",")]
    if unknown := [each for each in found if each not in PARTS]:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}, but {', '.join(PARTS)}")
    return found


def chosen_parts(arguments: list[str]) -> list[str]:
    """Return the parts that these arguments ask for: all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        type=parts_of,
        action="extend",
        metavar="PART,PART",
        help=f"measure these alone: {', '.join(PARTS)}; may be repeated",
    )
    return parser.parse_args(arguments).only or list(PARTS)


def main() -> None:
    """Measure what was asked for and print it."""
    chosen = chosen_parts(sys.argv[1:])
    began = time.monotonic()
    print(machine())
    rows = measure_all(chosen, FULL)
    print(rendered(rows))
    print(f"Measured in {time.monotonic() - began:.0f} s; docs/speed.md says how.")


if __name__ == "__main__":
    main()
