"""The schema of version 0.1.

Frozen: the tables stand as SQL in the file beside this one, apart from `db.tables`, which changes.
"""

from pathlib import Path
from string import Template

from alembic import op

revision = "2026112201"
down_revision = None

#: The types that the two databases name differently.
SQLITE_TYPES = {
    "TIMESTAMP": "DATETIME",
    "JSON": "JSON",
    "TEXT_LIST": "JSON",
    "UUID": "CHAR(32)",
    "BYTES": "BLOB",
}
POSTGRESQL_TYPES = {
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
    "JSON": "JSONB",
    "TEXT_LIST": "TEXT[]",
    "UUID": "UUID",
    "BYTES": "BYTEA",
}

# The id is indexed too, so that a trigger finds the row of a note without reading all rows.
_DELETE = """
    DELETE FROM notes_fts WHERE rowid IN (
        SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'note_id:"' || old.id || '"'
    );
"""
_INSERT = "INSERT INTO notes_fts (note_id, title, text) VALUES (new.id, new.title, new.text);"
SQLITE_FULL_TEXT = (
    """
    CREATE VIRTUAL TABLE notes_fts USING fts5 (
        note_id, title, text, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    )
    """,
    f"CREATE TRIGGER notes_fts_insert AFTER INSERT ON notes BEGIN {_INSERT} END",
    f"CREATE TRIGGER notes_fts_delete AFTER DELETE ON notes BEGIN {_DELETE} END",
    f"""
    CREATE TRIGGER notes_fts_update AFTER UPDATE OF id, title, text ON notes BEGIN
        {_DELETE} {_INSERT}
    END
    """,
)

# `translate` turns punctuation into word boundaries, so that parts of addresses and file names are
# found. `db.user_texts` uses the same expression, or PostgreSQL would not use the index.
MARKS = r"""!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~"""
SPACES = " " * 32
POSTGRESQL_FULL_TEXT = f"""
    CREATE INDEX ix_notes_words ON notes USING gin (
        to_tsvector('simple', translate(title || ' ' || text, '{MARKS}', '{SPACES}'))
    )
"""


def upgrade() -> None:
    connection = op.get_bind()
    is_sqlite = connection.dialect.name == "sqlite"
    sql = Template(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    tables = sql.substitute(SQLITE_TYPES if is_sqlite else POSTGRESQL_TYPES).split(";\n")
    search = SQLITE_FULL_TEXT if is_sqlite else (POSTGRESQL_FULL_TEXT,)
    for statement in (*filter(str.strip, tables), *search):
        connection.exec_driver_sql(statement)
