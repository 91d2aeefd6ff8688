"""Settings of the database (`database:`), separate from connecting, so that the import is fast."""

import re
from pathlib import Path
from urllib.parse import unquote

from pydantic import Field, field_validator

from bot.values import Settings

#: The most connections that a PostgreSQL server can be set to accept.
MOST_CONNECTIONS = 262_143

_KINDS = re.compile(r"sqlite(\+aiosqlite)?:///[^?]|postgres(ql)?(\+asyncpg)?://")
_PASSWORDS_IN_QUERY = re.compile(r"([?&]\w*password=)([^&]*)", re.IGNORECASE)
#: SQLAlchemy takes other addresses apart within the password, and quotes the pieces in its errors.
_SERVER = re.compile(
    r"\w+(\+\w+)?://([^:/@]*(:[^@]*)?@)?(\[[^]/?@]+\]|[^][:/?@]*)(:[0-9]{1,5})?(/[^?@]*)?(\?[^@]*)?"
)

MASK = "[secret]"


class DatabaseSettings(Settings):
    """The database, and the connections to it."""

    url: str = Field("sqlite:///data/retinue.db", repr=False)
    """`sqlite:///` and a file, or `postgresql://user:password@host/name`."""

    pool_size: int = Field(10, ge=1, le=MOST_CONNECTIONS)
    """Connections to PostgreSQL that one process opens, and one for heartbeats."""

    @field_validator("url")
    @classmethod
    def _is_a_kind_we_know(cls, value: str) -> str:
        if ":memory:" in value or not _KINDS.match(value):
            raise ValueError(
                "write `sqlite:///` and the path of a file (`sqlite:////` and the rest for a path "
                "from the root), or `postgresql://user:<password>@host/name`"
            )
        without_passwords = _PASSWORDS_IN_QUERY.sub(r"\g<1>", value)
        if not value.startswith("sqlite") and not _SERVER.fullmatch(without_passwords):
            raise ValueError(
                "its parts cannot be told apart. Write "
                "`postgresql://user:<password>@host:port/name`, and in user and password `%40` "
                "for `@`, `%3A` for `:`, `%2F` for `/`, `%3F` for `?` and `%25` for `%`"
            )
        return value

    @property
    def is_sqlite(self) -> bool:
        """True if all data is in one file on this machine."""
        return self.url.startswith("sqlite")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder of the database, where it is a file on this machine."""
        path = self.url.partition(":///")[2].partition("?")[0]
        return (Path(path).parent,) if self.is_sqlite else ()

    @property
    def shown(self) -> str:
        """The URL with its password masked."""
        scheme, account, place = self._parts
        user, colon, password = account.partition(":")
        account = f"{user}{colon}{MASK if password else ''}"
        place = _PASSWORDS_IN_QUERY.sub(rf"\g<1>{MASK}", place)
        return f"{scheme}://{account}{'@' if account else ''}{place}"

    @property
    def passwords(self) -> tuple[str, ...]:
        """The passwords in the URL, as written and decoded."""
        _, account, place = self._parts
        written = [account.partition(":")[2]]
        written += [match[2] for match in _PASSWORDS_IN_QUERY.finditer(place)]
        return tuple({form for each in written for form in (each, unquote(each)) if form})

    @property
    def _parts(self) -> tuple[str, str, str]:
        scheme, _, rest = self.url.partition("://")
        if self.is_sqlite:
            return scheme, "", rest
        # The last `@`, since an unquoted password may include one.
        account, _, place = rest.rpartition("@")
        return scheme, account, place
