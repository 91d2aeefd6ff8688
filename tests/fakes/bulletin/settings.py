"""The settings under `bulletin:`; reading them needs no SDK."""

from typing import ClassVar

from pydantic import Field

from bot.values import PlatformSettings


class BulletinSettings(PlatformSettings):
    """Everything under `bulletin:`."""

    section: ClassVar[str] = "bulletin"
    title: ClassVar[str] = "Bulletin"
    about: ClassVar[str] = "The bot on a bulletin board, as docs/platforms.md builds it."
    needs: ClassVar[str] = "`bulletin.name`"
    guide: ClassVar[str] = "docs/platforms.md"
    account: ClassVar[str] = "[a-z]{1,32}"
    account_form: ClassVar[str] = "write `bulletin:` and the name of the account"
    server: ClassVar[str] = "[a-z]{1,32}"
    server_name: ClassVar[str] = "board"
    server_form: ClassVar[str] = "`bulletin:` and the name of the board"
    channel: ClassVar[str] = "[a-z]{1,32}"
    channel_form: ClassVar[str] = "`bulletin:` and the names of board and channel"
    direct: ClassVar[str | None] = ""

    name: str = Field("", description="The name of the bot there.")
    users: tuple[str, ...] | None = Field(
        None, description="People whom the bot answers; null: everyone, []: nobody."
    )

    @property
    def configured(self) -> bool:
        """True if a name is set, which enables the platform."""
        return bool(self.name)
