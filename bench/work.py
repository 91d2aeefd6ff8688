"""The work of each run, the same for ours, for the floor and for every peer; needs no library."""

MODEL = "claude-haiku-5-5"
MAX_TOKENS = 4096
#: Time for an answer, and for a connection, of which a busy machine makes hundreds at once.
PATIENCE_SECONDS = 180.0


def meaning(word: str) -> str:
    """Return the answer of the tool."""
    return f"“{word}” is a word of {len(word)} letters. " + "It is found in many sentences. " * 6


def task(number: int) -> str:
    """Return the task of a run."""
    return f"Look up five words and report what they mean. This is task {number}."
