"""The files of a user are exported whole and deleted whole, and those of others stay."""

from pathlib import Path

import pytest

from bot.changes import Cause
from bot.values import Identity, Place, inbox_path
from skills.files.personal import PersonalFiles
from skills.files.settings import WorkspaceSettings
from skills.files.workspaces import Workspaces
from tests.fakes.clock import FakeClock
from tests.skills.files.conftest import context_of

PLACE = Place("discord", "guild", "general", "thread").files_key


@pytest.fixture
def workspaces(settings: WorkspaceSettings) -> Workspaces:
    return Workspaces(settings)


@pytest.fixture
def personal(workspaces: Workspaces, settings: WorkspaceSettings) -> PersonalFiles:
    return PersonalFiles(workspaces, Path(settings.folder))


def put(workspaces: Workspaces, name: str, content: bytes, clock: FakeClock) -> None:
    cause = Cause(user_id="somebody", work_id="m", run_id=None)
    workspaces.put(PLACE, cause, inbox_path(name), content, clock)


def in_place(workspaces: Workspaces, path: str) -> bytes | None:
    file = workspaces.owned(PLACE).path / path
    return file.read_bytes() if file.exists() else None


def test_all_files_of_a_user_are_exported(
    personal: PersonalFiles,
    workspaces: Workspaces,
    alice: Identity,
    bob: Identity,
    clock: FakeClock,
) -> None:
    mine = workspaces.of(context_of(alice, clock))
    mine.write("a/b.txt", b"one")
    mine.write(".hidden", b"two")
    workspaces.of(context_of(bob, clock)).write("c.txt", b"three")

    assert dict(personal.files(alice)) == {"a/b.txt": b"one", ".hidden": b"two"}
    assert dict(personal.files(Identity("discord", "", "new"))) == {}


def test_a_deletion_takes_files_and_former_versions_of_one_user_alone(
    personal: PersonalFiles,
    workspaces: Workspaces,
    alice: Identity,
    bob: Identity,
    clock: FakeClock,
) -> None:
    for user in (alice, bob):
        mine = workspaces.of(context_of(user, clock))
        mine.write("a/b.txt", b"one")
        mine.write("a/b.txt", b"two")

    personal.delete(alice)
    personal.delete(alice)

    assert dict(personal.files(alice)) == {}
    assert workspaces.changes(alice.key) == []
    assert dict(personal.files(bob)) == {"a/b.txt": b"two"}
    assert len(workspaces.changes(bob.key)) == 1


def test_the_copy_of_a_sent_file_is_deleted_in_the_place(
    personal: PersonalFiles, workspaces: Workspaces, clock: FakeClock
) -> None:
    put(workspaces, "photo.png", b"mine", clock)
    put(workspaces, "other.png", b"theirs", clock)

    personal.delete_sent(PLACE, "photo.png", b"mine")

    assert in_place(workspaces, "inbox/photo.png") is None
    assert in_place(workspaces, "inbox/other.png") == b"theirs"


def test_a_later_file_of_the_same_name_stays_and_the_former_content_goes(
    personal: PersonalFiles, workspaces: Workspaces, clock: FakeClock
) -> None:
    put(workspaces, "photo.png", b"mine", clock)
    put(workspaces, "photo.png", b"theirs", clock)
    assert len(workspaces.changes(PLACE)) == 1

    personal.delete_sent(PLACE, "photo.png", b"mine")

    assert in_place(workspaces, "inbox/photo.png") == b"theirs"
    assert workspaces.changes(PLACE) == []
