"""A selection names a search of the same caller for the same incident. The older function stays for older programs."""

from alembic import op

revision = "0003"
down_revision = "0002"

_FUNCTION = "formulary.search_recorded(uuid, text, text)"


def upgrade() -> None:
    """Add the function, for the server alone."""
    op.execute(
        """
        create function formulary.search_recorded(wanted uuid, by_caller text, for_remediation text) returns boolean
        language sql stable security definer set search_path = formulary, pg_temp as $$
            select exists (
                select from formulary.audit_event
                where search_id = wanted and action = 'search' and caller = by_caller
                  and coalesce(remediation_id, '') = for_remediation)
        $$
        """
    )
    op.execute(f"revoke all on function {_FUNCTION} from public")
    op.execute(f"grant execute on function {_FUNCTION} to formulary_server")
