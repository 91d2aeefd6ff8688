"""The table that the command prints."""

import os
import platform
import statistics
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured.

    Attributes:
        at_once: Numbers of runs at once for the CPU figures, each with its repetitions.
        postgres: The same for PostgreSQL; empty leaves it out.
        spread: The same for runs whose starts are spread over time, on both databases.
        spread_seconds: That time, and what one answer of the model takes then.
        many: Runs that are all going in the memory figure.
        latency_seconds: What one answer of the model takes in that figure.
        going: Runs that are going while others are spawned.
        samples: How often each of the short times is measured.
        starts: How often the program is started.
        shared: Runs that several processes share.
        kills: Processes that are killed, one after another.
        counted: Runs and messages whose statements are counted.
        settling: Seconds before an idle process is measured.
        idle: Seconds for which it is measured.
        messages: Stored ones over which the regular duties are done.
        conversations: Stored ones beside which the cost of a message is measured.
    """

    at_once: dict[int, int]
    postgres: dict[int, int]
    spread: dict[int, int]
    spread_seconds: float
    many: int
    latency_seconds: float
    going: int
    samples: int
    starts: int
    shared: int
    kills: int
    counted: int
    settling: float
    idle: float
    messages: int
    conversations: int


FULL = Scale(
    at_once={1: 15, 100: 5, 500: 3},
    postgres={100: 5},
    spread={100: 5},
    spread_seconds=2.0,
    many=1000,
    latency_seconds=0.2,
    going=100,
    samples=100,
    starts=7,
    shared=200,
    kills=10,
    counted=20,
    settling=70,
    idle=30,
    messages=100_000,
    conversations=10_000,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        reach: What it should be; empty where it is only reported.
        known: What others need for the same.
    """

    figure: str
    reach: str
    measured: str
    known: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The figure as a line of the table."""
        return (self.figure, self.reach, self.measured, self.known)


HEAD = Row("figure", "reach", "measured", "known of others")


def rendered(rows: Sequence[Row]) -> str:
    """Return the table as Markdown whose columns stand in line."""
    lines = [row.cells for row in (HEAD, *rows)]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(HEAD.cells))]
    head, *body = ("| " + " | ".join(map(_padded, line, widths)) + " |" for line in lines)
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join((head, rule, *body))


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def machine() -> str:
    """Return what was measured on, and how busy it was with other things."""
    load = os.getloadavg()[0]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, load {load:.1f} at the start; {python}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that so many percent of the values do not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def spread(seconds: Sequence[float]) -> str:
    """Return the middle and the end of what was measured, in milliseconds."""
    middle, late = statistics.median(seconds), percentile(seconds, 99)
    return f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms"
