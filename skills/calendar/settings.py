"""Settings of calendars (`calendar:`): servers, users and rights."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from bot.errors import ConfigError
from bot.setting_types import named
from bot.values import Settings, SkillSettings

_Person = Annotated[str, StringConstraints(pattern=r"^[a-z]+:[^\s:/]+(:[^\s:/]+)?$")]


#: Libraries of the extra `calendar`.
_LIBRARIES = ("caldav", "icalendar", "recurring_ical_events")


class CalendarSettings(Settings):
    """One calendar on a CalDAV server."""

    url: str
    """The address of this one calendar, like https://host/remote.php/dav/calendars/bot/team/."""

    username: str = ""
    """The name of the account on the server."""

    password: SecretStr | None = None
    """The account's password: ${CALDAV_PASSWORD}."""

    people: tuple[_Person, ...] | None = None
    """The users whose calendar it is, written like `access.admins`; nobody else learns that it
    exists. null for everyone who may talk to the bot; an empty list is nobody.
    """

    write: bool = False
    """Whether events may be added, each with the user's yes."""

    enabled: bool = True
    """Whether the bot uses it."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        wrong = parts.username or parts.query or parts.fragment or not parts.path.strip("/")
        printable = value.isascii() and value.isprintable() and " " not in value
        if parts.scheme not in ("http", "https") or not parts.hostname or wrong or not printable:
            raise ValueError(
                "must be the address of a calendar, like https://host/calendars/bot/team/, without "
                "query; the account belongs into `username` and `password`"
            )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "CalendarSettings":
        if bool(self.username) != bool(self.password and self.password.get_secret_value()):
            raise ValueError("must have both `username` and `password`, or neither")
        # The first colon of the sent text separates the username from the password.
        if ":" in self.username:
            raise ValueError("has a `username` with a colon, which CalDAV servers cannot be sent")
        return self


class CalendarsSettings(SkillSettings):
    """Everything under `calendar:`."""

    section: ClassVar[str] = "calendar"
    about: ClassVar[str] = "Calendars on CalDAV servers, and whose they are."
    warned_secrets: ClassVar[tuple[tuple[str, ...], ...]] = (("calendars", "*", "password"),)

    calendars: Annotated[dict[str, CalendarSettings], named("calendar")] = Field({})
    """Calendars by name, like {team: {url: "https://host/calendars/bot/team/", username: bot,
    password: "${CALDAV_PASSWORD}", write: true}}.
    """

    timeout_seconds: float = Field(20, gt=0, le=300)
    """The longest that a server takes to answer."""

    @property
    def is_on(self) -> bool:
        """True if a calendar is enabled."""
        return any(each.enabled for each in self.calendars.values())

    @property
    def accounts(self) -> Mapping[str, Sequence[str]]:
        """The users of the calendars."""
        return {
            f"calendars.{name}.people": each.people or () for name, each in self.calendars.items()
        }

    def check_installed(self) -> None:
        """Check that the libraries for the calendars in use are installed.

        Raises:
            ConfigError: A library is missing.
        """
        if self.is_on and not all(find_spec(name) for name in _LIBRARIES):
            raise ConfigError(
                "`calendar.calendars` needs libraries that are not installed: install the bot with "
                "its extra, `pip install 'retinue[calendar]'`."
            )
