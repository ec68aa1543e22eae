"""Entering the tenants by their index: with one condition for "these" and "all", every statement read all of them."""

from alembic import op

revision = "0009"
down_revision = "0008"

ENTER = """
create or replace function formulary.enter(namespaces text[], signal_word text, folded_word text) returns boolean
language plpgsql set search_path = formulary, pg_temp as $$
begin
    if namespaces is null then
        perform set_config('formulary.tenants', coalesce((
            select string_agg(tenant.id::text, ',') from formulary.tenant), ''), true);
    else
        perform set_config('formulary.tenants', coalesce((
            select string_agg(tenant.id::text, ',') from formulary.tenant
            where tenant.namespace = any (namespaces)), ''), true);
    end if;
    if folded_word = '' then
        return false;
    end if;
    return exists (
        select from formulary.workflow_search
        where signal_type = folded_word and signal_name = signal_word);
end
$$
"""


def upgrade() -> None:
    """Replace the function."""
    op.execute(ENTER)
