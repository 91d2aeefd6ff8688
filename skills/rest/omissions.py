"""Describes the operations of a document that are left out, for admins (pure)."""

from collections.abc import Iterator

from bot.run_texts import counted
from skills.rest.operations import Omission, OpenApiDocument

#: Most operations that a sentence names.
MOST_NAMED = 4
#: Most operations that a line of the log names.
MOST_LOGGED = 20


def problem_of(document: OpenApiDocument) -> str:
    """Return the parts of a document that are unusable, with the reasons; empty for none."""
    unknown = [unknown_in(document)] if document.unknown else []
    omitted = [_sentence(each) for each in document.omitted if not each.chosen]
    return "; ".join([*unknown, *omitted])


def unknown_in(document: OpenApiDocument) -> str:
    """Return a clause about the names in the configuration that denote none of its operations."""
    return f"it has no {', '.join(document.unknown)}, which the configuration names"


def lines_of(document: OpenApiDocument, word: str) -> Iterator[str]:
    """Yield a line for each operation, those that are left out with the reason.

    Args:
        document: The document.
        word: Only operations that contain it, in any case; empty for all.
    """
    word = word.lower()
    for each in document.operations:
        line = f"{each.id} ({each.address}): {each.name}"
        if word in line.lower():
            yield line
    for omission in document.omitted:
        for name in omission.names:
            if word in name.lower():
                yield f"{name}: left out, {omission.reason}"
        if more := omission.count - len(omission.names):
            yield f"{counted(more, 'further operation')}: left out, {omission.reason}"


def logged(document: OpenApiDocument) -> Iterator[str]:
    """Yield a text for each line of the log, until every operation that is missed is named."""
    if document.unknown:
        yield unknown_in(document)
    for each in document.omitted:
        if each.chosen:
            continue
        for first in range(0, len(each.names), MOST_LOGGED):
            yield f"left out, {each.reason}: {', '.join(each.names[first : first + MOST_LOGGED])}"
        if more := each.count - len(each.names):
            yield f"left out, {each.reason}: {counted(more, 'further operation')}"


def _sentence(omission: Omission) -> str:
    names = omission.names[:MOST_NAMED]
    more = omission.count - len(names)
    further = f" and {more:,} more" if more else ""
    return f"left out, {omission.reason}: {', '.join(names)}{further}"
