"""The rules of the house, kept by a machine. The tables are in `house_rules`, the reasons in
`docs/decisions/0005-layering.md`.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain

import pytest

from tests.house import BESIDE, Classes, House, Source, begins, calls_when_imported, length_of
from tests.house_rules import (
    ADAPTERS,
    BOUNDARIES,
    CLIENTS,
    EDGE,
    FURNITURE,
    HEAVY,
    INSTANCES,
    LATE,
    LINES,
    LONG_FUNCTIONS,
    MAX_FILE,
    MAX_FUNCTION,
    MAY_BE_LONG,
    PURE,
    RIDDLE,
    SEEN_BY_SKILLS,
    SEES_ITS_LINE,
    SETTINGS,
    TWINS,
    VALUE_BASES,
    VALUES,
)

Rule = Callable[[House], Iterator[str]]

#: In one test process: to parse all sources takes longer than to judge them.
pytestmark = pytest.mark.xdist_group("house")


@cache
def line_of(module: str) -> int:
    for home, line in SETTINGS.items():
        if re.fullmatch(rf"{home}\.\w+\.settings", module):
            return line
    return LINES[max((name for name in LINES if begins(module, name)), key=len)]


def part_of(module: str) -> str:
    """Return the adapter, package or top-level module that a module belongs to."""
    home = next((home for home in ADAPTERS if module.startswith(home + ".")), None)
    if home and line_of(module) == EDGE:
        name = module.removeprefix(home + ".").partition(".")[0]
        return f"{home}.{name.partition('_')[0]}"
    return ".".join(module.split(".")[: 2 if module.startswith(("bot.", "skills.")) else 1])


def broken_line(module: str, target: str) -> str:
    """Return which rule it breaks that `module` imports `target`; empty for none."""
    if begins(target, BESIDE):
        return "that is for tests and benchmarks only"
    mine, theirs = line_of(module), line_of(target)
    if begins(module, "db") and not begins(target, "db") and theirs != VALUES:
        return f"db sees itself and line {VALUES} only"
    if theirs < mine:
        return f"it stands on line {mine} and imports only from below, and that is on line {theirs}"
    if theirs > mine or mine >= PURE or part_of(module) == part_of(target):
        return ""
    if begins(target, SEES_ITS_LINE.get(module, ())):
        return ""
    return f"both stand on line {mine}, and {part_of(module)} does not see {part_of(target)}"


def imports_against_the_lines(house: House) -> Iterator[str]:
    for source in house.inside:
        for found, target in house.own_imports(source):
            if rule := broken_line(source.module, target):
                yield f"{source.at(found)} imports {target}: {rule}."


def skills_of_two_services(house: House) -> Iterator[str]:
    for source in house.inside:
        if begins(source.module, "skills") and line_of(source.module) == EDGE:
            targets = [
                target
                for _, target in house.own_imports(source)
                if not begins(target, SEEN_BY_SKILLS)
            ]
            services = {part_of(target) for target in targets if EDGE < line_of(target) < PURE}
            services -= {part_of(source.module)}
            if len(services) > 1:
                both = " and ".join(sorted(services))
                yield f"{source.path} imports {both}: a skill sees the one service that it wraps."


def heavy_imports(house: House) -> Iterator[str]:
    for source in house.inside:
        for found in source.imported:
            home = HEAVY.get(found.target.split(".")[0])
            if home is None:
                continue
            if begins(source.module, home) and source.module != home:
                continue
            at_home = source.module == home or source.module.startswith(home + "_")
            if not (at_home and (found.late or found.typing)):
                yield (
                    f"{source.at(found)} imports {found.target}: only {home} may, inside the "
                    "function that opens it."
                )


def heavy_modules_at_the_top(house: House) -> Iterator[str]:
    """A module that imports an SDK at its top, or one that does, is as slow as the SDK."""
    homes = {
        source.module: HEAVY[found.target.split(".")[0]]
        for source in house.inside
        for found in source.imported
        if found.target.split(".")[0] in HEAVY and not (found.late or found.typing)
    }
    grown = True
    while grown:
        grown = False
        for source in house.inside:
            for found, target in house.own_imports(source):
                home = homes.get(target)
                if home is None or found.late or found.typing or source.module in homes:
                    continue
                if not begins(source.module, home):
                    yield (
                        f"{source.at(found)} imports {target}, which brings an SDK with it: import "
                        "it inside the function that opens it."
                    )
                    continue
                homes[source.module] = home
                grown = True


def late_imports(house: House) -> Iterator[str]:
    for source in house.inside:
        own = (what for who, what in LATE.items() if begins(source.module, who))
        allowed = (*HEAVY, *(name for names in own for name in names))
        for found in source.imported:
            if found.late and not begins(found.target, allowed):
                yield (
                    f"{source.at(found)} imports {found.target} inside a function: move it to the "
                    "top, or name the exception in LATE."
                )


def import_circles(house: House) -> Iterator[str]:
    graph = {
        source.module: {target for _, target in house.own_imports(source)} - {source.module}
        for source in house.inside
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"These import one another in a circle: {' <- '.join(error.args[1])}."


def filled_packages(house: House) -> Iterator[str]:
    for source in house.all:
        if source.path.endswith("__init__.py") and source.text.strip():
            yield f"{source.path} is not empty: import from the modules themselves."


def mocks(house: House) -> Iterator[str]:
    for source in house.all:
        for found in source.imported:
            if begins(found.target, ("unittest.mock", "mock", "pytest_mock")):
                yield f"{source.at(found)} imports {found.target}: write a fake in tests/fakes/."


def long_files(house: House) -> Iterator[str]:
    for source in house.inside:
        length = len(source.text.splitlines())
        if length > MAX_FILE and not begins(source.module, MAY_BE_LONG):
            yield f"{source.path} has {length} lines, {MAX_FILE} is the most: split it."


def long_functions(house: House) -> Iterator[str]:
    for source in house.all:
        if begins(source.module, MAY_BE_LONG):
            continue
        for function in source.functions:
            if LONG_FUNCTIONS.get(source.module) == function.name:
                continue
            if (length := length_of(function)) > MAX_FUNCTION:
                yield (
                    f"{source.at(function)} {function.name}() has {length} lines without its "
                    f"docstring, {MAX_FUNCTION} is the most: split it."
                )


def riddles(house: House) -> Iterator[str]:
    for source in house.inside:
        for text in source.docstrings:
            if RIDDLE.match(text):
                yield (
                    f"{source.path}: {text.splitlines()[0]!r} hints at the code: state what the "
                    "function does or returns, or what the module, class or value is."
                )


def names_with_two_meanings(house: House) -> Iterator[str]:
    homes = house.class_homes
    for name, paths in homes.items():
        if len(paths) > 1 and name not in TWINS:
            yield f"Several classes are called {name} ({', '.join(paths)}): qualify the names."
    for name in TWINS:
        if len(homes.get(name, ())) < 2:
            yield f"TWINS names {name}, which is the name of one class at most: take it out."


def furniture(house: House) -> Iterator[str]:
    for source in house.inside:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and FURNITURE & set(_words(node.name)):
                yield f"{source.at(node)} {node.name}: name it after its work, in plain terms."


def _words(name: str) -> list[str]:
    """Return the words of a class name, in lower case."""
    return [word.lower() for word in re.findall("[A-Z][a-z0-9]*", name)]


def broad_excepts(house: House) -> Iterator[str]:
    for source in house.inside:
        if source.module not in BOUNDARIES:
            for node in swallowers(source):
                yield (
                    f"{source.at(node)} catches everything: name what can go wrong, or name the "
                    "boundary in BOUNDARIES."
                )


def exceptions_without_need(house: House) -> Iterator[str]:
    for module in BOUNDARIES:
        source = house.sources.get(module)
        if source is None or not swallowers(source):
            yield f"BOUNDARIES names {module}, where nothing catches everything: take it out."
    for module in LATE:
        sources = [source for source in house.inside if begins(source.module, module)]
        if not any(found.late for source in sources for found in source.imported):
            yield f"LATE names {module}, where nothing is imported late: take it out."


def rows_about_nothing(house: House) -> Iterator[str]:
    """Rows of the other tables that name a module or package that is not there."""
    tables: dict[str, Iterable[str]] = {
        "LINES": LINES,
        "ADAPTERS": ADAPTERS,
        "SETTINGS": SETTINGS,
        "SEES_ITS_LINE": (*SEES_ITS_LINE, *chain(*SEES_ITS_LINE.values())),
        "SEEN_BY_SKILLS": SEEN_BY_SKILLS,
        "HEAVY": HEAVY.values(),
        "CLIENTS": CLIENTS,
        "MAY_BE_LONG": MAY_BE_LONG,
        "LONG_FUNCTIONS": LONG_FUNCTIONS,
    }
    for table, names in tables.items():
        for name in dict.fromkeys(names):
            if not any(begins(source.module, name) for source in house.inside):
                yield f"{table} names {name}, which does not exist: take it out."


def swallowers(source: Source) -> list[ast.ExceptHandler | ast.Call]:
    nodes = (n for n in source.nodes if isinstance(n, ast.ExceptHandler | ast.Call))
    return [node for node in nodes if swallows_everything(node)]


def swallows_everything(node: ast.ExceptHandler | ast.Call) -> bool:
    """Whether any error ends here; a handler whose last word is `raise` only cleans up."""
    if isinstance(node, ast.Call):
        caught = node.args if ast.unparse(node.func).endswith("suppress") else []
    else:
        last = node.body[-1]
        if isinstance(last, ast.Raise) and last.exc is None:
            return False
        kinds = node.type or ast.Name("BaseException")
        caught = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return any(ast.unparse(kind) in {"Exception", "BaseException"} for kind in caught)


def shared_instances(house: House) -> Iterator[str]:
    classes = house.classes
    for source in house.inside:
        for call in calls_when_imported(source.tree):
            maker = call.func.value if isinstance(call.func, ast.Attribute) else call.func
            name = full_name(source, ast.unparse(maker))
            if name in classes and name not in INSTANCES and not is_value(classes, name):
                yield (
                    f"{source.at(call)} makes a {name} when it is imported: make it in bot.app and "
                    "pass it on."
                )


def full_name(source: Source, name: str) -> str:
    return source.origins.get(name, f"{source.module}.{name}")


def is_value(classes: Classes, name: str) -> bool:
    """Whether objects of this class never change: frozen, or of a base that sees to it."""
    name = name.partition("[")[0]
    if name not in classes:
        return name.rpartition(".")[2] in VALUE_BASES
    source, node = classes[name]
    if any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list):
        return True
    bases = (full_name(source, ast.unparse(base)) for base in node.bases)
    return any(is_value(classes, base) for base in bases)


def check(house: House, rule: Rule) -> None:
    if complaints := dict.fromkeys(rule(house)):
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.fixture(scope="module")
def house() -> House:
    return House()


def test_a_module_imports_only_from_below(house: House) -> None:
    check(house, imports_against_the_lines)


def test_a_skill_sees_one_service(house: House) -> None:
    check(house, skills_of_two_services)


def test_no_modules_import_one_another_in_a_circle(house: House) -> None:
    check(house, import_circles)


def test_slow_sdks_are_imported_by_their_adapter_when_it_opens(house: House) -> None:
    check(house, heavy_imports)
    check(house, heavy_modules_at_the_top)


def test_other_imports_stand_at_the_top_of_the_file(house: House) -> None:
    check(house, late_imports)


def test_packages_are_empty(house: House) -> None:
    check(house, filled_packages)


def test_nothing_of_ours_is_made_at_import(house: House) -> None:
    check(house, shared_instances)


def test_only_boundaries_catch_everything(house: House) -> None:
    check(house, broad_excepts)


def test_every_exception_is_still_needed(house: House) -> None:
    check(house, exceptions_without_need)
    check(house, rows_about_nothing)


def test_tests_use_fakes_and_no_mocks(house: House) -> None:
    check(house, mocks)


def test_a_file_can_be_read_in_one_sitting(house: House) -> None:
    check(house, long_files)


def test_a_function_fits_a_screen(house: House) -> None:
    check(house, long_functions)


def test_a_class_name_has_one_meaning(house: House) -> None:
    check(house, names_with_two_meanings)


def test_no_class_is_named_after_furniture(house: House) -> None:
    check(house, furniture)


def test_docstrings_state_what_the_code_does(house: House) -> None:
    check(house, riddles)


BROKEN: list[tuple[Rule, str, str, str]] = [
    (imports_against_the_lines, "bot/agent/bad.py", "import bot.app", "bot.app"),
    (imports_against_the_lines, "db/bad.py", "from bot.agent import messages", "db sees itself"),
    (
        imports_against_the_lines,
        "bot/subagents/bad.py",
        "def f():\n    from bot.conversations import orchestrator",
        "bot.conversations",
    ),
    (
        imports_against_the_lines,
        "bot/values.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from db.tables import runs",
        "db.tables",
    ),
    (
        imports_against_the_lines,
        "bot/models/bad.py",
        "from bot.models.openai import openai_model",
        "does not see bot.models.openai",
    ),
    (imports_against_the_lines, "skills/bad.py", "import skills.notes", "does not see skills"),
    (
        imports_against_the_lines,
        "bot/platforms/bad/settings.py",
        "import bot.conversations.orchestrator",
        "it stands on line 9",
    ),
    (imports_against_the_lines, "bot/engine.py", "import tests.fakes.clock", "for tests"),
    (
        skills_of_two_services,
        "skills/bad.py",
        "from bot.subagents.manager import SubagentManager\nfrom db.user_texts import Note",
        "the one service",
    ),
    (import_circles, "bot/values.py", "import bot.events", "circle"),
    (heavy_imports, "bot/engine.py", "import openai", "openai"),
    (heavy_imports, "bot/app.py", "def f():\n    import anthropic", "anthropic"),
    (heavy_imports, "bot/platforms/terminal/bad.py", "import discord", "discord"),
    (
        heavy_modules_at_the_top,
        "bot/doctor.py",
        "from bot.platforms.discord.client import RetinueClient",
        "inside the function",
    ),
    (late_imports, "bot/app.py", "def f():\n    import bot.values", "LATE"),
    (filled_packages, "bot/agent/__init__.py", "from bot.agent.messages import Answer", "empty"),
    (
        shared_instances,
        "bot/bad.py",
        "from bot.events import EventBus\nBUS = EventBus()",
        "EventBus",
    ),
    (shared_instances, "bot/bad.py", "class A:\n    x = 1\n\n\nALL = [A()]", "bad.A"),
    (broad_excepts, "bot/bad.py", "try:\n    x = 1\nexcept Exception:\n    pass", "BOUNDARIES"),
    (broad_excepts, "db/bad.py", "with contextlib.suppress(Exception):\n    pass", "everything"),
    (exceptions_without_need, "bot/events.py", "", "BOUNDARIES names bot.events"),
    (exceptions_without_need, "migrations/run.py", "", "LATE names migrations.run"),
    (mocks, "tests/bad.py", "from unittest import mock", "unittest.mock"),
    (mocks, "tests/bad.py", "from unittest.mock import AsyncMock", "unittest.mock"),
    (long_files, "bot/bad.py", "x = 1\n" * 401, "401 lines"),
    (riddles, "bot/bad.py", '"""What waits for its turn."""', "What waits"),
    (riddles, "bot/bad.py", 'def f():\n    """Return whether it waits."""', "Return whether"),
    (riddles, "bot/bad.py", 'class A:\n    """Waits for somebody."""', "somebody"),
    (riddles, "bot/bad.py", 'class A:\n    a: int\n    """How long it waits."""', "How long"),
    (names_with_two_meanings, "bot/bad.py", "class EventBus:\n    pass", "called EventBus"),
    (furniture, "bot/bad.py", "class FrontDesk:\n    pass", "FrontDesk"),
    (long_functions, "bot/bad.py", "def f():\n" + "    x = 1\n" * 50, "51 lines"),
]


@pytest.mark.parametrize(("rule", "path", "text", "said"), BROKEN)
def test_who_breaks_a_rule_is_named(
    house: House, rule: Rule, path: str, text: str, said: str
) -> None:
    found = list(rule(house.with_file(path, text)))

    assert any(said in line for line in found), found
