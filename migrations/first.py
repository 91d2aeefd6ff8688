"""Write the first version anew from `db/tables.py`: `python -m migrations.first`.

Only as long as there is no release. From then on a change of the tables is a version of its own:
`alembic revision --autogenerate`.
"""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from db.tables import SCHEMA_VERSION, metadata
from migrations.compare import render
from migrations.run import connection_for_versions

FILE = Path(__file__).parent / "versions" / f"{SCHEMA_VERSION}_first.py"
BEGIN, END = "    # tables: begin\n", "    # tables: end\n"


def code_of_all_tables(connection: Connection) -> str:
    """Return the operations that create every table in an empty database."""
    operations = produce_migrations(MigrationContext.configure(connection), metadata).upgrade_ops
    assert operations is not None
    code = render_python_code(operations, render_item=render)
    # Alembic forgets the prefix of a type inside a type.
    code = re.sub(r"(?<!\.)\bText\(\)", "sa.Text()", code)
    return re.sub(r"^\s*# ###.*\n?", "", code, flags=re.MULTILINE).strip("\n")


async def main() -> None:
    """Replace what stands between the two marks of the first version."""
    with TemporaryDirectory() as folder:
        async with connection_for_versions(f"sqlite:///{folder}/empty.db") as connection:
            code = await connection.run_sync(code_of_all_tables)
    head, _, rest = FILE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    FILE.write_text(f"{head}{BEGIN}    {code.lstrip()}\n{END}{tail}")
    subprocess.run([sys.executable, "-m", "ruff", "format", str(FILE)], check=True)  # noqa: ASYNC221, S603


if __name__ == "__main__":
    asyncio.run(main())
