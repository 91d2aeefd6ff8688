"""Opens the in-memory layer that holds the writes of a command until they are merged."""

import os
from pathlib import Path

from skills.shell.recipe import UPPER, LayerLimits

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Layer:
    """The opened layer of one command; it outlives the processes until it is closed.

    Args:
        process: Pid of bubblewrap, whose mount namespace shows the layer.
        limits: The limits that the layer was made with.

    Raises:
        OSError: The layer does not exist, or the system does not limit it.
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
        """Bytes that the layer takes, including removed files that are still open."""
        found = os.fstatvfs(self.descriptor)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def close(self) -> None:
        """Close the descriptor of the layer."""
        os.close(self.descriptor)
