"""Carries out the lines of the Dockerfile without a container engine: `python -m tests.rehearsal`.

In an empty folder that stands for the root of the image. Each RUN that needs no root runs, and so
do HEALTHCHECK and CMD, beside a Discord in this process. It needs the package index.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.discord.server import FakeDiscord

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "deploy/Dockerfile"
#: The comment above an instruction that is not carried out here.
NEEDS_ROOT = "# needs root"
#: The folders of the image that its instructions name.
FOLDERS = ("/opt/retinue", "/src", "/data")


@dataclass(frozen=True)
class Instruction:
    """One line of a Dockerfile."""

    word: str
    rest: str
    needs_root: bool = False


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile without continued lines."""
    above = ""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield Instruction(word, rest, above == NEEDS_ROOT)
        above = line


def command_of(rest: str) -> list[str]:
    """Return the list form of a command at the end of an instruction."""
    found: list[str] = json.loads(rest[rest.index("[") :])
    return found


@dataclass
class Rehearsal:
    """The folder that stands for an image."""

    root: Path
    environ: dict[str, str]
    workdir: str = "/src"

    def placed(self, text: str) -> str:
        """Return a text with the folders of the image below this root."""
        for folder in FOLDERS:
            text = re.sub(rf"(?<![\w.]){folder}(?![\w])", f"{self.root}{folder}", text)
        return text

    async def run(self, *command: str) -> None:
        """Run a command to its end, which must be good."""
        print("→", *command, flush=True)  # noqa: T201
        process = await self.start(*command)
        if code := await process.wait():
            sys.exit(f"This ended with {code}.")

    async def start(self, *command: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command, cwd=f"{self.root}{self.workdir}", env=self.environ
        )

    def set_variables(self, rest: str) -> None:
        """Carry out an ENV."""
        for word in rest.split():
            key, _, value = word.partition("=")
            self.environ[key] = self.placed(value).replace("$PATH", self.environ["PATH"])

    def configure(self, sections: dict[str, dict[str, str]]) -> None:
        """Write the bot's configuration."""
        (self.root / "data/config.yaml").write_text(json.dumps(sections))

    def copy(self, rest: str) -> None:
        """Carry out a COPY; what one stage takes from another lies there already."""
        if not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                path = Path(f"{self.root}{self.workdir}", target)
                if (ROOT / source).is_dir():
                    ignore = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / source, path, ignore=ignore)
                else:
                    shutil.copy(ROOT / source, path)


def prepared(root: Path) -> Rehearsal:
    """Return an empty image, with a Python called `python` and the settings of pip."""
    for folder in FOLDERS[1:]:
        (root / folder.lstrip("/")).mkdir(parents=True)
    tools = root / "tools"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)
    given = {key: os.environ[key] for key in os.environ if key.startswith(("PIP_", "SSL_"))}
    return Rehearsal(root, {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(root), **given})


async def rehearse(root: Path) -> None:
    """Carry out the Dockerfile below a folder."""
    done = prepared(root)
    health: list[str] = []
    entry: list[str] = []
    for each in instructions(DOCKERFILE.read_text("utf-8")):
        match each:
            case Instruction(needs_root=True):
                print("– needs root, not run:", each.word, each.rest)  # noqa: T201
            case Instruction("WORKDIR"):
                done.workdir = each.rest
            case Instruction("COPY"):
                done.copy(each.rest)
            case Instruction("ENV"):
                done.set_variables(each.rest)
            case Instruction("RUN"):
                await done.run("sh", "-c", done.placed(each.rest))
            case Instruction("HEALTHCHECK"):
                health = command_of(each.rest)
            case Instruction("ENTRYPOINT"):
                entry = command_of(each.rest)
            case Instruction("CMD"):
                await serve(done, [*entry, *command_of(each.rest)], health, entry)
            case Instruction(word):
                print("– nothing to run:", word, each.rest)  # noqa: T201


async def serve(done: Rehearsal, command: list[str], health: list[str], entry: list[str]) -> None:
    """Run the image's command until it is healthy, and end it; only /data may change."""
    async with FakeDiscord.open() as fake:
        section = {"api_url": fake.api_url, "gateway_url": fake.gateway_url}
        done.configure({"discord": section})
        done.environ |= {"DISCORD_TOKEN": fake.token}
        await done.run(*entry, "--version")
        await done.run(*entry, "migrate")
        before = state(done.root / "opt")
        print("→", *command, flush=True)  # noqa: T201
        process = await done.start(*command)
        try:
            async with asyncio.timeout(60):
                while True:
                    check = await done.start(*health)
                    if await check.wait() == 0:
                        break
                    await asyncio.sleep(1)
                await fake.until(lambda: fake.gateway.connections, "a connection", seconds=50)
            process.terminate()
            async with asyncio.timeout(15):
                code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        if code or state(done.root / "opt") != before:
            sys.exit(f"It ended with {code}, or wrote beside /data.")
    print("✓ It was healthy, connected, ended with 0, and wrote to /data only.")  # noqa: T201


def state(folder: Path) -> dict[str, int]:
    """Return the time of the last change of each file."""
    return {str(each): each.lstat().st_mtime_ns for each in folder.rglob("*")}


def main() -> None:
    """Rehearse in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(rehearse(Path(folder)))


if __name__ == "__main__":
    main()
