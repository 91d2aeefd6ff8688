"""Records in the audit log for whom the bot used a credential of its own."""

from dataclasses import dataclass, field

from db import audit
from db.audit import AuditEntry, entry_id
from db.database import Database
from skills.base import ToolContext


@dataclass(frozen=True, slots=True)
class CredentialLog:
    """Records the first use of each credential by one piece of work."""

    database: Database
    _recorded: set[str] = field(default_factory=set)

    async def record(self, context: ToolContext, credential: str) -> None:
        """Record that a call is about to use a credential, named by the service that it is for."""
        if credential in self._recorded:
            return
        entry = AuditEntry(
            actor=context.user.key,
            action="credential",
            owner=context.user.key,
            place=context.place,
            subject=credential,
            effect=f"{'run' if context.run_id else 'turn'} {context.work_id}",
            created_at=context.now(),
            id=entry_id("credential", context.work_id, credential),
        )
        await self.database.write(audit.record, entry)
        self._recorded.add(credential)
