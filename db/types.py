"""Column types that behave the same on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import sqlalchemy
from sqlalchemy import JSON, DateTime, Dialect, Uuid
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC; a naive one is refused before it is stored."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert a time to UTC for storing."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"A time without a zone: {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a stored time in UTC; SQLite returns times without a zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def storable(text: str) -> str:
    """Return `text` as every database accepts it: NUL and lone surrogates become U+FFFD."""
    text = text.replace("\0", "\ufffd")
    if text.isascii() or _encodable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json(document: Any) -> str:
    """Return a document as JSON that every database accepts; NaN and infinity become `null`."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = ""
    if text and "\\u0000" not in text and _encodable(text):
        return text
    return json.dumps(_storable_document(document), ensure_ascii=False)


def _storable_document(value: Any) -> Any:
    match value:
        case str():
            return storable(value)
        case dict():
            return {storable(str(key)): _storable_document(each) for key, each in value.items()}
        case list() | tuple():
            return [_storable_document(each) for each in value]
        case float() if not isfinite(value):
            return None
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class String(TypeDecorator[str]):
    """A text of limited length."""

    impl = sqlalchemy.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Convert a text to a form that the database accepts."""
        return None if value is None else storable(value)


class Text(String):
    """A text of any length."""

    impl = sqlalchemy.Text
    cache_ok = True


#: A uuid as its 36-character text, in PostgreSQL's own type there.
UuidText = Uuid(as_uuid=False)

#: A JSON document.
JsonDocument = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

#: A list of texts.
StringList: Any = JSON(none_as_null=True).with_variant(ARRAY(sqlalchemy.Text), "postgresql")

#: The key of an identity.
UserKey = String(255)
