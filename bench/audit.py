"""Measures the audit log: recording, sealing and verifying many entries on SQLite."""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from bot.values import Place, utc_now
from db import audit, audit_chain
from db.audit import AuditEntry
from db.audit_chain import AuditKey
from db.settings import DatabaseSettings
from migrations.run import open_database


async def measure(entries: int) -> None:
    """Print the times for so many entries, in seconds."""
    key = AuditKey(b"a key for a measurement, nothing else")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "audit.db"
        async with open_database(DatabaseSettings(url=f"sqlite+aiosqlite:///{file}")) as database:
            began = time.perf_counter()
            for at in range(0, entries, 1_000):
                async with database.transaction() as tx:
                    for number in range(at, min(at + 1_000, entries)):
                        entry = AuditEntry(
                            actor="discord::1234567890",
                            action="spawn",
                            owner="discord::1234567890",
                            place=Place("discord", "11", "22", "33"),
                            subject=f"run {number}",
                            effect="general",
                            created_at=utc_now(),
                        )
                        await audit.record(tx, entry)
            recorded = time.perf_counter()
            longest, more = 0.0, True
            while more:
                start = time.perf_counter()
                more = (await database.write(audit_chain.seal, key)).more
                longest = max(longest, time.perf_counter() - start)
            sealed = time.perf_counter()
            async with database.snapshot() as tx:
                found = await audit_chain.verify(tx, [key])
            verified = time.perf_counter()
            await database.checkpoint()
            size = file.stat().st_size
    assert (found.entries, found.first_bad) == (entries, None), found
    print(f"{entries:,} entries, {size / entries:.0f} bytes each in the file")
    print(f"recorded in {recorded - began:.1f} s")
    print(f"sealed in {sealed - recorded:.1f} s, the longest transaction {longest * 1_000:.0f} ms")
    print(f"verified in {verified - sealed:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    asyncio.run(measure(parser.parse_args().entries))
