"""The general agent does its job on real files, with a program that runs in the sandbox.

Its scripted model decides from what the tools returned: see `tests.stories.farm`.
"""

import csv
import io
import re
from pathlib import Path

from bot.values import RunStatus
from skills.shell.settings import ShellSettings
from tests.fakes.anthropic_server import Reply
from tests.stories.farm import FILES, Cast, Work, farm
from tests.stories.stage import call

DRAFT = "# Eggs\n\nTOTAL\n"


def works(work: Work) -> Reply:
    """Read a table, write a report of it, put the sum in, and let a program count and sort."""
    match work.results:
        case ():
            return call("file_read", path="data/eggs.csv")
        case (table,):
            rows = csv.DictReader(io.StringIO(table.partition("\n\n")[2]))
            lines = [f"- {row['hen']}: {row['eggs']}" for row in rows]
            return call("file_write", path="out/eggs.md", text=DRAFT + "\n".join(lines) + "\n")
        case (table, _):
            total = sum(int(number) for number in re.findall(r",(\d+)$", table, re.MULTILINE))
            return call("file_edit", path="out/eggs.md", old="TOTAL", new=f"Total: {total}")
        case (_, _, _):
            sort = "grep '^- ' out/eggs.md | sort > out/sorted.txt && wc -l < out/sorted.txt"
            return call("shell", command=sort)
        case (*_, counted):
            return Reply(text=f"out/eggs.md is written. {counted}")
    raise AssertionError(work.results)


async def test_general_reads_writes_edits_and_runs_a_program_and_the_files_are_as_told(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with farm(sqlite_url, tmp_path, Cast(works), shell=ShellSettings()) as it:
        run, told = await it.spawn("general", "Write up who laid how many eggs")

        assert (run.agent, run.status, run.tool_call_count) == ("general", RunStatus.COMPLETED, 4)
        assert told.split() == ["out/eggs.md", "is", "written.", "Exit", "code", "0.", "3"]
        report = (it.folder / "out/eggs.md").read_text()
        assert report == "# Eggs\n\nTotal: 12\n- Berta: 4\n- Alma: 7\n- Cilla: 1\n"
        assert (it.folder / "out/sorted.txt").read_text() == "- Alma: 7\n- Berta: 4\n- Cilla: 1\n"
        assert (it.folder / "data/eggs.csv").read_text() == FILES["data/eggs.csv"]
