"""The memory that holds what a command writes, until the bot has taken its changes over."""

import os
from pathlib import Path

from bot.sandbox.recipe import UPPER, LayerLimits

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Layer:
    """The layer of one command, opened: it stays as long as this does, when all processes ended.

    Args:
        process: Bubblewrap's own process, whose mount namespace shows the layer.
        limits: What the layer was made with.

    Raises:
        OSError: There is none, or the system does not limit it.
    """

    def __init__(self, process: int, limits: LayerLimits) -> None:
        theirs, ours = (Path(f"/proc/{each}/ns/mnt").stat() for each in (process, "self"))
        if os.path.samestat(theirs, ours):
            raise OSError("the sandbox has no mount namespace of its own")
        self.descriptor = os.open(f"/proc/{process}/root{UPPER}", _OPEN)
        found = os.fstatvfs(self.descriptor)
        pages = -(-limits.size // found.f_frsize)
        if not (0 < found.f_blocks <= pages and 0 < found.f_files <= limits.count):
            self.close()
            raise OSError("the system does not limit what a command writes")

    @property
    def used(self) -> int:
        """The bytes that it takes, removed files included that are still open."""
        found = os.fstatvfs(self.descriptor)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)
