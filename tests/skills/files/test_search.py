"""What stands in files is found line by line, in a bounded time."""

import os
import time

import pytest

from skills.files.patterns import expression, path_pattern
from skills.files.search import SearchOutcome, newest, search
from skills.files.workspace import Workspace
from tests.skills.files.conftest import Trap


def ask(
    workspace: Workspace, pattern: str, path: str = "", *, files: str = "", seconds: float = 20
) -> SearchOutcome:
    wanted = path_pattern(files) if files else None
    return search(workspace, expression(pattern), path, wanted, most=100, seconds=seconds)


def found(answer: SearchOutcome) -> list[tuple[int, str]]:
    return [(hit.line, hit.text) for hit in answer.hits]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("two", [(2, "two"), (5, "two and two")]),
        ("^t", [(2, "two"), (3, "three"), (5, "two and two")]),
        ("o$", [(2, "two"), (5, "two and two")]),
        ("^$", [(4, "")]),
        ("^", [(1, "one"), (2, "two"), (3, "three"), (4, ""), (5, "two and two"), (6, "süß")]),
        (r"one\s+two", []),
        ("one[^x]*two", []),
        ("s.ß", [(6, "süß")]),
        ("(?i)TWO", [(2, "two"), (5, "two and two")]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_each_line_is_found_once_with_its_number(
    workspace: Workspace, pattern: str, lines: list[tuple[int, str]], end: str, *, last: bool
) -> None:
    text = end.join(["one", "two", "three", "", "two and two", "süß", *([""] if last else [])])
    workspace.write("file.txt", text.encode())

    assert found(ask(workspace, pattern)) == lines


def test_lines_are_counted_across_the_pieces_of_a_long_text(workspace: Workspace) -> None:
    workspace.write("file.txt", b"".join(b"line %d\n" % number for number in range(1, 20_001)))
    heavy = "line (19999|2)$(?:.?){200}(?:.?){200}"
    assert len(list(expression(heavy).pieces(b"line\n" * 40_000))) > 5

    answer = found(ask(workspace, heavy))

    assert answer == [(2, "line 2"), (19_999, "line 19999")]


def test_of_a_long_line_what_is_around_the_match_is_shown(workspace: Workspace) -> None:
    workspace.write("file.txt", b"x" * 50_000 + b"needle" + b"y" * 50_000)

    (hit,) = ask(workspace, "needle").hits

    assert "needle" in hit.text
    assert len(hit.text) <= 402
    assert hit.text.startswith("…x")


def test_what_is_no_text_or_does_not_belong_here_is_left_out(trap: Trap) -> None:
    trap.workspace.write("binary", b"mine\0")
    trap.workspace.write(".git/config", b"mine")

    assert {hit.path for hit in ask(trap.workspace, "mine|THEIRS|root:").hits} == {"a/file.txt"}
    assert [hit.path for hit in ask(trap.workspace, "mine", ".git").hits] == [".git/config"]
    assert [hit.path for hit in ask(trap.workspace, "mine", "a/file.txt").hits] == ["a/file.txt"]
    assert ask(trap.workspace, "mine", files="**/*.py").hits == []


def test_a_search_ends_when_its_time_is_up_and_says_so(workspace: Workspace) -> None:
    workspace.write("file.txt", b"y" * 2_000_000)
    begun = time.monotonic()

    answer = ask(workspace, "(?:.?){200}(?:.?){200}z", seconds=0.1)

    assert answer.more
    assert time.monotonic() - begun < 5


def test_a_search_stops_at_so_many_lines(workspace: Workspace) -> None:
    workspace.write("file.txt", b"x\n" * 101)

    assert len(ask(workspace, "x").hits) == 100
    assert ask(workspace, "x").more


def test_files_come_with_the_last_changed_first(workspace: Workspace) -> None:
    for age, name in enumerate(("new", "old", "older")):
        workspace.write(f"{name}.txt", b"x")
        os.utime(workspace.path / f"{name}.txt", (1e9 - age, 1e9 - age))
    pattern = path_pattern("*.txt")

    assert newest(workspace, "", pattern, 5) == (["new.txt", "old.txt", "older.txt"], False)
    assert newest(workspace, "", pattern, 2) == (["new.txt", "old.txt"], True)


def test_a_folder_that_is_usually_left_out_is_searched_by_its_name(workspace: Workspace) -> None:
    workspace.write("node_modules/x/index.js", b"x")

    assert newest(workspace, "", path_pattern("**/*.js"), 5)[0] == []
    for path, pattern in (("", "node_modules/**"), ("node_modules", "**/*.js")):
        paths, _ = newest(workspace, path, path_pattern(pattern), 5)
        assert paths == ["node_modules/x/index.js"]
