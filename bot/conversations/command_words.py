"""Splits the words of typed commands, and quotes them (pure)."""


def quoted(text: str) -> str:
    """Return the text as one argument, quoted unless it is a single plain word."""
    line = " ".join(text.split())
    if line and not set(line) & set(" \"'") and not line.startswith("-"):
        return line
    return f'"{line}"' if '"' not in line else "'{}'".format(line.replace("'", "’"))


def handle_and_rest(words: str) -> tuple[str, str]:
    """Return the handle of a run, which may be a quoted label, and the raw text after it."""
    if words[:1] in {'"', "'"}:
        end = words.find(words[0], 1)
        if end > 0:
            return words[1:end], words[end + 1 :].strip()
    handle, _, rest = words.partition(" ")
    return handle, rest.strip()


def parted(line: str) -> tuple[str, str]:
    """Return the first word of a line and the text after it; empty texts for none."""
    first, *rest = line.split(maxsplit=1) or [""]
    return first, rest[0] if rest else ""
