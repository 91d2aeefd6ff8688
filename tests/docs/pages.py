"""Pages of documentation, taken apart."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Page:
    """A page below the project's folder, by its path from there."""

    path: str

    @property
    def file(self) -> Path:
        return ROOT / self.path

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def fragments(self, kind: str) -> list[str]:
        """Return what stands between fences of a kind."""
        return [body for name, body in _FENCE.findall(self.text) if name == kind]

    def fragment(self, kind: str, word: str) -> str:
        """Return the one fragment of a kind in which a word stands."""
        (found,) = [body for body in self.fragments(kind) if word in body]
        return found

    def saved_as(self, name: str, kind: str) -> str:
        """Return the fragment of which the page says that it is to be saved under a name."""
        after = self.text.partition(f"Save this as `{name}`")[2]
        assert after, f"{self.path} does not say what to save as {name}."
        (found, *_) = [body for each, body in _FENCE.findall(after) if each == kind]
        return str(found)

    def table(self, heading: str) -> list[list[str]]:
        """Return the rows of the table that has such a first line, a list of cells each."""
        _, found, rest = self.text.partition(f"{heading}\n")
        assert found, f"{self.path} has no table {heading}."
        rows = []
        for line in rest.splitlines()[1:]:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        return rows

    @property
    def prose(self) -> str:
        """What stands outside of fences."""
        return _FENCE.sub("", self.text)

    @property
    def words(self) -> str:
        """What stands outside of fences and backticks."""
        return _CODE.sub("", self.prose)

    @property
    def code_words(self) -> list[str]:
        """Everything between single backticks, outside of fences."""
        return _CODE.findall(self.prose)


def code_in(cell: str) -> list[str]:
    """Return what stands between backticks in a cell of a table."""
    return _CODE.findall(cell)


AGENTS = Page("docs/agents.md")
SKILLS = Page("docs/skills.md")
BOTH = (AGENTS, SKILLS)
