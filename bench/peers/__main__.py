"""`python -m bench.peers`: ours, the bare loop on the SDK, and other libraries, side by side.

`make bench-peers` makes the environments of the others first, below `build/peers`. All send the
same prompt and the same tools to the same fake server; each repetition measures all in turn.
"""

import argparse
import asyncio
import os
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.beside import Batch, Load, open_process, written
from bench.cpu import measure_ours, ratios_of, spread_of
from bench.stage import ROOT, RUNS_PER_PERSON, open_server, open_stage
from bench.table import Row, machine, rendered

PINS = Path(__file__).parent
ENVIRONMENTS = ROOT / "build" / "peers"
FLOOR = "bare loop on the anthropic SDK, stores nothing"
OURS = "ours, every step stored in SQLite"
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Peer:
    """A library that does the same work; named as its pins and its environment are."""

    name: str

    @property
    def pins(self) -> Path:
        """The compiled requirements."""
        return PINS / f"{self.name}.txt"

    @property
    def version(self) -> str:
        """The version that is pinned.

        Raises:
            ValueError: It is not pinned.
        """
        pins = self.pins.read_text("utf-8")
        found = re.search(rf"^{self.name}(?:-slim)?==(\S+)", pins, re.MULTILINE)
        if found is None:
            raise ValueError(f"{self.pins} does not pin {self.name}.")
        return found[1]

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ENVIRONMENTS / self.name / "bin" / "python"

    @property
    def module(self) -> str:
        """The program that runs there."""
        return f"bench.peers.{self.name.replace('-', '_')}_peer"


PEERS = (Peer("langgraph"), Peer("pydantic-ai"), Peer("openai-agents"))


@dataclass(frozen=True, slots=True)
class Asked:
    """The measurements that the command makes."""

    peers: Sequence[Peer]
    load: Load


def asked(arguments: Sequence[str]) -> Asked:
    """Return the measurements that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="runs at once (100)")
    parser.add_argument("--times", type=int, default=5, help="repetitions (5)")
    names = {each.name: each for each in PEERS}
    parser.add_argument(
        "--only", action="append", choices=list(names), help="this peer alone; may be repeated"
    )
    found = parser.parse_args(arguments)
    return Asked([names[each] for each in found.only or names], Load(found.runs, found.times))


async def measure(wanted: Asked) -> dict[str, list[float]]:
    """Return the milliseconds of CPU per model call of each kind, one for each repetition."""
    load = wanted.load
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(open_server())
        stage = await enter(open_stage(server, people=load.count // RUNS_PER_PERSON + 2))

        async def ours(load: Load) -> float:
            return await measure_ours(stage, server, load)

        await ours(Load(1, 1))
        sent = stack.enter_context(written(await server.newest()))
        kinds: dict[str, Batch] = {
            FLOOR: await enter(open_process("bench.floor", server, sent)),
            OURS: ours,
        }
        for peer in wanted.peers:
            opening = open_process(peer.module, server, sent, python=str(peer.python))
            kinds[f"{peer.name} {peer.version}, stores nothing"] = await enter(opening)
        for kind in kinds.values():
            await kind(Load(min(WARM_UP, load.count), 1))
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(load.repetitions):
            for name, kind in kinds.items():
                found[name].append(await kind(load))
        return found


def rows(found: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the table of what was measured: each kind ÷ the floor."""
    return [
        Row(
            name,
            "",
            f"{spread_of(ratios_of(each, found[FLOOR]))}; {statistics.median(each):.2f} ms a call",
        )
        for name, each in found.items()
    ]


def main() -> None:
    """Measure and print."""
    wanted = asked(sys.argv[1:])
    if missing := [each.name for each in wanted.peers if not each.python.exists()]:
        sys.exit(f"There is no environment for {', '.join(missing)}: run `make bench-peers`.")
    print(machine())
    print(f"CPU per model call ÷ SDK loop, {wanted.load}:")
    print(rendered(rows(asyncio.run(measure(wanted)))))
    print(f"Load {os.getloadavg()[0]:.1f} at the end.")


if __name__ == "__main__":
    main()
