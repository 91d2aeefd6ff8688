"""`python -m bench.mutants`: break important lines one at a time, and see the tests nearby fail.

Each mutant is tried in a copy of the source code. The command prints those that no test nearby
notices, and ends with 1 if there are any.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house import BESIDE, INSIDE, ROOT

#: Seconds for the tests of one mutant.
PATIENCE = 300


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line that is broken.

    Attributes:
        path: The file.
        text: A part of the line that occurs once in the file.
        broken: The text in its place.
        tests: The tests nearby, separated by spaces.
    """

    path: str
    text: str
    broken: str
    tests: str


MUTANTS = (
    # -- limits and admission
    Mutant(
        "bot/subagents/limits.py",
        "usage.started_in_window >= rate.max_requests",
        "usage.started_in_window > rate.max_requests",
        "tests/bot/subagents/test_limits.py",
    ),
    Mutant(
        "bot/values.py",
        "running < self.per_user and",
        "running <= self.per_user and",
        "tests/bot/subagents/test_limits.py",
    ),
    Mutant(
        "bot/subagents/limits.py",
        "return min(asked, cap), asked > cap",
        "return asked, asked > cap",
        "tests/bot/subagents",
    ),
    Mutant(
        "db/admission.py",
        '_MINE = runs.c.user_id == bindparam("b_user")',
        '_MINE = runs.c.user_id != bindparam("b_user")',
        "tests/db/test_admission.py",
    ),
    # -- runs
    Mutant(
        "db/runs.py",
        "input_tokens=runs.c.input_tokens + runs.c.reserved_tokens",
        "input_tokens=runs.c.input_tokens",
        "tests/db/test_runs.py",
    ),
    Mutant(
        "db/runs.py",
        "_FINISH = update(runs).where(_THIS, runs.c.status.in_(UNFINISHED))",
        "_FINISH = update(runs).where(_THIS)",
        "tests/db/test_runs.py",
    ),
    Mutant(
        "db/runs.py",
        "lately = (runs.c.completed_at > since, runs.c.archived_at.is_(None))",
        "lately = (runs.c.completed_at > since,)",
        "tests/db",
    ),
    Mutant(
        "db/runs.py",
        "return [*owned_by(runs, user_id), *readable_in(runs, read_in), *nested]",
        "return [*readable_in(runs, read_in), *nested]",
        "tests/db",
    ),
    # -- turns and conversations
    Mutant(
        "db/turns.py",
        "change(tx, conversations, this, free, active_turn_id=oldest.id)",
        "change(tx, conversations, this, active_turn_id=oldest.id)",
        "tests/db/test_turns.py",
    ),
    Mutant(
        "db/conversations.py",
        "*is_at(conversations, place, *_ROUTE)",
        "*is_at(conversations, place, *_ROUTE[:-1])",
        "tests/db",
    ),
    # -- deliveries
    Mutant(
        "db/outbox.py",
        'outbox.c.status.in_(("pending", "waiting")),\n        outbox.c.due_at <= _NOW,',
        "outbox.c.due_at <= _NOW,",
        "tests/db/test_outbox.py",
    ),
    Mutant(
        "db/outbox.py",
        '(outbox.c.status == "sending", outbox.c.attempts == item.attempts)',
        '(outbox.c.status == "sending",)',
        "tests/db/test_outbox.py",
    ),
    Mutant(
        "db/outbox.py",
        'outbox.c.key == key, outbox.c.user_id == user_id, outbox.c.status == "blocked"',
        'outbox.c.key == key, outbox.c.status == "blocked"',
        "tests/db/test_outbox.py",
    ),
    # -- questions
    Mutant(
        "db/approvals.py",
        'is_open = (approvals.c.status == "open", approvals.c.expires_at > now)',
        "is_open = (approvals.c.expires_at > now,)",
        "tests/db/test_approvals.py tests/bot/conversations",
    ),
    Mutant(
        "bot/conversations/approvals.py",
        "if approval is None or not scope.covers(approval.user_id):",
        "if approval is None:",
        "tests/bot/conversations",
    ),
    Mutant(
        "bot/conversations/approvals.py",
        "sound = not yes or self._is_as_shown(approval)",
        "sound = True",
        "tests/bot/conversations",
    ),
    # -- permissions and tools
    Mutant(
        "bot/agent/permissions.py",
        "for rule in reversed(self.rules) if",
        "for rule in self.rules if",
        "tests/bot/agent",
    ),
    Mutant(
        "bot/agent/permissions.py",
        "if first is None and not harmless:",
        "if first is None and harmless:",
        "tests/bot/agent",
    ),
    Mutant(
        "bot/agent/toolbox.py",
        "if tool is None or (is_subagent and tool.main_agent_only):",
        "if tool is None:",
        "tests/bot/agent",
    ),
    Mutant(
        "bot/agent/toolbox.py",
        "harmless = tool.effects is Effects.NONE or tool.auto_approved",
        "harmless = True",
        "tests/bot/agent",
    ),
    Mutant(
        "bot/agent/toolbox.py",
        "if reach in {Reach.ACTS_BEYOND, Reach.DESTROYS}:",
        "if reach in {Reach.DESTROYS}:",
        "tests/bot/agent tests/skills",
    ),
    Mutant(
        "bot/agent/toolbox.py",
        "if too_deep(call.arguments):",
        "if False:",
        "tests/bot/agent",
    ),
    # -- access
    Mutant(
        "bot/conversations/access.py",
        "return requester.role is Role.ADMIN and requester.typed",
        "return requester.role is Role.ADMIN",
        "tests/bot/conversations/test_access.py",
    ),
    Mutant(
        "bot/conversations/access.py",
        "alone = requester.typed or is_private(requester.place)",
        "alone = True",
        "tests/bot/conversations/test_access.py",
    ),
    Mutant(
        "bot/conversations/access.py",
        "return spelled(user) in settings.blocked",
        "return False",
        "tests/bot/conversations",
    ),
    # -- texts
    Mutant(
        "bot/agent/sanitizer.py",
        "body = escape_for_model(raw, limit=limit)",
        "body = raw[:limit]",
        "tests/bot/agent/test_sanitizer.py",
    ),
    Mutant(
        "bot/agent/sanitizer.py",
        "return without_secrets(clean(text), prose=True)",
        "return clean(text)",
        "tests/bot/agent/test_sanitizer.py",
    ),
    Mutant(
        "bot/masking.py",
        "return len(key) >= 36 or len(set(key)) >= 8",
        "return len(key) >= 36",
        "tests/bot/test_masking.py",
    ),
    # -- network
    Mutant(
        "bot/net/addresses.py",
        '"169.254.0.0/16",',
        "",
        "tests/bot/net/test_addresses.py",
    ),
    Mutant(
        "bot/net/addresses.py",
        "if port not in self.ports:",
        "if False:",
        "tests/bot/net/test_addresses.py",
    ),
    Mutant(
        "bot/net/addresses.py",
        "return address.ipv4_mapped",
        "return address",
        "tests/bot/net/test_addresses.py",
    ),
    # -- files
    Mutant(
        "bot/files/opener.py",
        "_BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | _NO_XDEV",
        "_BENEATH | _NO_MAGICLINKS | _NO_XDEV",
        "tests/skills/files/test_opener.py",
    ),
    Mutant(
        "bot/files/opener.py",
        'if ".." in parts:',
        "if False:",
        "tests/skills/files/test_opener.py",
    ),
    Mutant(
        "bot/files/opener.py",
        "if state.st_nlink <= 1 or own_names(state) >= os.fstat(descriptor).st_nlink:",
        "if True:",
        "tests/skills/files",
    ),
    # -- platforms
    Mutant(
        "bot/platforms/messaging/splitting.py",
        "if part.text.strip():",
        "if True:",
        "tests/bot/platforms/messaging/test_splitting.py",
    ),
    # -- schedules, memory, notes
    Mutant(
        "db/user_texts.py",
        "where(self.table.c.user_id == user, condition)",
        "where(condition)",
        "tests/db tests/skills/test_memory.py",
    ),
    Mutant(
        "db/schedules.py",
        "schedules.c.user_id == user, schedules.c.number == number",
        "schedules.c.number == number",
        "tests/db/test_schedules.py tests/skills/schedules",
    ),
    Mutant(
        "db/changes.py",
        "changes.c.id == change_id, changes.c.user_id == user, changes.c.undone_at.is_(None)",
        "changes.c.id == change_id, changes.c.user_id == user",
        "tests/db/test_changes.py",
    ),
    # -- skills
    Mutant(
        "skills/mcp/pins.py",
        "known[raw].approved_hash == offer.hash",
        "True",
        "tests/skills/mcp/test_pins.py",
    ),
    Mutant(
        "skills/web/addresses.py",
        "free = address in known",
        "free = True",
        "tests/skills/web",
    ),
)


def problem_of(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the reason why a mutant cannot be made; empty if it can."""
    path = root / mutant.path
    if not path.exists():
        return f"{mutant.path} does not exist"
    count = path.read_text("utf-8").count(mutant.text)
    if count != 1:
        return f"{mutant.path} holds {mutant.text!r} {count} times"
    missing = [each for each in mutant.tests.split() if not (root / each).exists()]
    return f"{missing[0]} does not exist" if missing else ""


def survives(mutant: Mutant, root: Path) -> bool:
    """Break a line in a copy of the code, run the tests nearby, and mend the line."""
    path = root / mutant.path
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(mutant.text, mutant.broken), "utf-8")
    marks = "not long"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", marks, "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *mutant.tests.split()],
            cwd=root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(whole, "utf-8")
    return done.returncode == 0


def tried(mutants: tuple[Mutant, ...] = MUTANTS) -> Iterator[str]:
    """Try mutants, and yield a line for each that survives or cannot be made."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for top in (*INSIDE, *BESIDE, "agents", "docs"):
            shutil.copytree(ROOT / top, root / top, symlinks=True)
        for file in ("pyproject.toml", "README.md", "config.example.yaml"):
            shutil.copy(ROOT / file, root / file)
        for number, mutant in enumerate(mutants, 1):
            print(f"{number} of {len(mutants)}: {mutant.path}", file=sys.stderr, flush=True)
            if problem := problem_of(mutant, root):
                yield problem
            elif survives(mutant, root):
                yield f"No test nearby noticed {mutant.broken!r} for {mutant.text!r}: {mutant.path}"


def main() -> None:
    """Try all mutants, and print what is wrong."""
    found = list(tried())
    print("\n".join([*found, f"{len(MUTANTS) - len(found)} of {len(MUTANTS)} are caught nearby."]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
