"""The version of this program."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def release(schema: str) -> str:
    """Return the version of the bot, with that of the tables that it knows."""
    try:
        name = f"retinue {installed('retinue')}"
    except PackageNotFoundError:
        name = "retinue (from source)"
    return f"{name}, tables {schema}"
