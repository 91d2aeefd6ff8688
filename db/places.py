"""The columns of a place, and SQL conditions on the owner and the place of a row."""

from sqlalchemy import ColumnElement, Table, or_

from bot.values import Place

PLACE = ("channel", "place_workspace", "place_channel", "place_thread", "place_message")


def place_columns(place: Place) -> dict[str, str]:
    """Return a place as the columns that hold it in every table."""
    return dict(
        zip(
            PLACE,
            (place.platform, place.workspace, place.channel, place.thread, place.message),
            strict=True,
        )
    )


def owned_by(table: Table, user_id: str | None) -> list[ColumnElement[bool]]:
    """Return the condition for the rows of a user; of all users for `None`."""
    return [] if user_id is None else [table.c.user_id == user_id]


def readable_in(table: Table, place: Place | None) -> list[ColumnElement[bool]]:
    """Return the condition for rows whose place every reader of `place` can read; all for `None`.

    The SQL equivalent of `bot.conversations.access.can_read`.
    """
    if place is None:
        return []
    channel = [
        table.c.channel == place.platform,
        table.c.place_workspace == place.workspace,
        table.c.place_channel == place.channel,
    ]
    if place.has_open_threads:
        return channel
    thread = table.c.place_thread
    return [*channel, or_(thread.in_(("", place.thread)), thread == table.c.place_message)]
