"""The settings of skills that do not come with the bot."""

from collections.abc import Iterator

from pydantic import Field

from bot.values import Json, Settings

#: A text is secret if one of these words is in the name of its key or of a key above.
_SECRET_WORDS = ("authorization", "credential", "key", "passphrase", "password", "secret", "token")


class OwnSkillsSettings(Settings):
    """Everything under `skills:`."""

    folders: tuple[str, ...] = ()
    """Folders with further skills in Python: `*.py` files and packages. Their code runs with the
    rights of the bot: docs/skills.md.
    """

    entry_points: bool = True
    """Take the skills of installed packages (entry points `retinue.skills`)."""

    disabled: tuple[str, ...] = ()
    """Further skills to leave out, by the name of their file, package or entry point."""

    settings: dict[str, Json] = Field({})
    """Settings of a further skill, by its name, like {weather: {api_key: "${WEATHER_KEY}"}}."""

    data_folder: str = "data/skills"
    """The folder in which further skills keep files: each in a folder of its own."""

    @property
    def secrets(self) -> Iterator[str]:
        """All values of `settings` that must never be shown, judged by the names of their keys."""
        return _secrets(self.settings, secret=False)


def _secrets(value: object, *, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            named = any(word in str(key).lower() for word in _SECRET_WORDS)
            yield from _secrets(below, secret=secret or named)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _secrets(below, secret=secret)
    elif secret and isinstance(value, str):
        yield value
