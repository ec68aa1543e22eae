"""Who has entered no tenant reads no name of one; to agents that ask by SQL, a suspended workflow does not exist;
workflows are related in each form of a name; temporary tables are for the owner of the database.

Row-level security is forced on tenants and on the trail. The views of `insight` leave out all versions of a suspended
workflow, unless the scope says `suspended`; servers of earlier releases never say it.
"""

import re
from importlib import import_module

from alembic import op

revision = "0035"
down_revision = "0034"

SERVER = "formulary_server"
WRITER = "formulary_writer"
ROLE = "formulary_insight"

TENANTS = [
    "alter table formulary.tenant enable row level security",
    "alter table formulary.tenant force row level security",
    f"create policy writer on formulary.tenant to {WRITER} using (true) with check (true)",
    f"""
    create policy server on formulary.tenant for select to {SERVER}
    using (id = any ((select formulary.visible_tenants())::integer[]))
    """,
    # Before a session has entered, it sees no tenant: their numbers come from the owner. Two conditions, as in 0009.
    """
    create function formulary.tenants_of(namespaces text[]) returns text
    language plpgsql stable security definer set search_path = formulary, pg_temp as $$
    begin
        if namespaces is null then
            return (select string_agg(tenant.id::text, ',') from tenant);
        end if;
        return (select string_agg(tenant.id::text, ',') from tenant where tenant.namespace = any (namespaces));
    end
    $$
    """,
    "revoke all on function formulary.tenants_of(text[]) from public",
    f"grant execute on function formulary.tenants_of(text[]) to {SERVER}, {WRITER}",
    # Where a caller may list is asked before it enters anything.
    """
    create function formulary.namespaces_with_workflows(at_most integer) returns setof text
    language sql stable security definer set search_path = formulary, pg_temp as
    $$ select tenant.namespace from tenant order by tenant.namespace limit at_most $$
    """,
    "revoke all on function formulary.namespaces_with_workflows(integer) from public",
    f"grant execute on function formulary.namespaces_with_workflows(integer) to {SERVER}",
    """
    create or replace function formulary.enter(namespaces text[], signal_word text, folded_word text) returns boolean
    language plpgsql set search_path = formulary, pg_temp as $$
    begin
        perform set_config('formulary.tenants', coalesce(tenants_of(namespaces), ''), true);
        if folded_word = '' then
            return false;
        end if;
        return exists (
            select from formulary.workflow_search
            where signal_type = folded_word and signal_name = signal_word);
    end
    $$
    """,
]

# Forced row-level security holds for the owner as well. Functions that run as the owner append and look, the views of
# `insight` read, and the owner verifies and exports. Who migrates need not be who owns what there is: a superuser may.
# Heads before events, as who appends locks them.
OWNER = """
do $$
declare
    owner constant text := (
        select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.trace_event'::regclass);
begin
    execute format('create policy owner_looks on formulary.tenant for select to %I using (true)', owner);
    execute format('create policy owner_keeps on formulary.trace_head to %I using (true) with check (true)', owner);
    execute format('create policy owner_keeps on formulary.trace_event to %I using (true) with check (true)', owner);
    execute format('alter function formulary.tenants_of(text[]) owner to %I', owner);
    execute format('alter function formulary.namespaces_with_workflows(integer) owner to %I', owner);
    execute format('alter function insight.said() owner to %I', owner);
    execute format('alter function insight.shows_suspended() owner to %I', owner);
end
$$
"""
TRAIL = [
    "alter table formulary.trace_head force row level security",
    "alter table formulary.trace_event force row level security",
]

SCOPE = [
    # What the setting says, if its proof is right and it was made for this very transaction; else null.
    """
    create function insight.said() returns jsonb
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
    declare
        proof text := split_part(current_setting('formulary.insight', true), ' ', 1);
        content text := substr(current_setting('formulary.insight', true), length(proof) + 2);
        secret bytea := (select key from formulary.insight_key);
        said jsonb;
    begin
        if proof is distinct from encode(
            sha256(secret || sha256(secret || convert_to(content, 'UTF8'))), 'hex')
        then
            return null;
        end if;
        said := content::jsonb;
        if said ->> 'transaction' is distinct from pg_backend_pid() || ' ' || extract(epoch from now()) then
            return null;
        end if;
        return said;
    end
    $$
    """,
    "revoke all on function insight.said() from public",
    """
    create or replace function insight.scope(
        out namespaces text[], out incidents text[], out runs text[], out versions text[], out remediation_id text,
        out caller text
    )
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
    declare
        said jsonb := insight.said();
    begin
        if said is null then
            return;
        end if;
        namespaces := array(select jsonb_array_elements_text(said -> 'namespaces'));
        incidents := array(select jsonb_array_elements_text(said -> 'incidents'));
        runs := array(select jsonb_array_elements_text(said -> 'runs'));
        versions := array(select jsonb_array_elements_text(said -> 'versions'));
        remediation_id := said ->> 'remediation_id';
        caller := said ->> 'caller';
    end
    $$
    """,
    """
    create function insight.shows_suspended() returns boolean
    language sql stable security definer set search_path = pg_catalog, pg_temp as
    $$ select coalesce((insight.said() ->> 'suspended')::boolean, false) $$
    """,
    "revoke all on function insight.shows_suspended() from public",
    f"""
    create or replace function insight.admit() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
    begin
        if exists (select from pg_roles where rolname = '{ROLE}') then
            grant usage on schema insight to {ROLE};
            grant select on all tables in schema insight to {ROLE};
            grant execute on function insight.scope(), insight.versions(), insight.shows_suspended() to {ROLE};
        end if;
    end
    $$
    """,
    "select insight.admit()",
]
_VIEWS = import_module("formulary_catalog.store.migrations.versions.0021_insight").VIEWS
_ALLOWED = re.compile(
    r"\('\*' = any \(\(select \(insight\.scope\(\)\)\.versions\)::text\[\]\) "
    r"or (?P<version>.+?) in \(select unnest\(\(insight\.scope\(\)\)\.versions\)\)\)"
)
"""Whether the incident of a call allows a version, as 0021 wrote it; 0027 reads the versions apart."""
_NOT_SUSPENDED = r"""('*' = any ((select (insight.scope()).versions)::text[])
    or \g<version> in (select insight.versions()))
and ((select insight.shows_suspended()) or coalesce(\g<version>, '') not in (
    select withheld.version_id from formulary.workflow_version as suspended
    join formulary.workflow_version as withheld using (tenant_id, name) where suspended.status = 'Disabled'))"""
COMMENTS = [
    "comment on view insight.catalog is "
    "'Workflows that are served, one row each. People see those that are suspended as well.'",
    "comment on column insight.catalog.status is 'Active, or Disabled (suspended), which only people see.'",
    "comment on view insight.versions is "
    "'Every version of every workflow that is not deleted; only people see those of suspended ones.'",
]

RELATIONS = [
    # As before, and with the other forms of a name. A version that is named stands for its workflow. A version id is
    # kept as it is: which workflow it means may be known only later, so readers look it up.
    r"""
    create or replace function formulary.relations_of(document jsonb)
    returns table (relation text, namespace text, name text)
    language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
        select distinct said.relation, coalesce(substring(said.named from '^([^/]+)/'), ''),
               substring(said.named from '[^/]+$')
        from (
            select link ->> 'relation' as relation,
                   regexp_replace(link ->> 'name', '@[0-9A-Za-z.+-]{1,128}$', '') as named
            from jsonb_array_elements(
                case jsonb_typeof(document #> '{spec,related}')
                when 'array' then document #> '{spec,related}' else '[]' end) as link
            union all
            select 'mentions', found[1]
            from regexp_matches(
                coalesce(document #>> '{spec,description,whenNotToUse}',
                         document #>> '{spec,description,when_not_to_use}', ''),
                '(?<![A-Za-z0-9_./-])((?:[a-z0-9-]+/)?[a-z0-9]+(?:[-.][a-z0-9]+)+|wf_ver_[0-9a-f]{20})(?![A-Za-z0-9_])',
                'g') as found
            where found[1] ~ '-|^wf_ver_'
        ) as said
        where said.relation in ('escalatesTo', 'supersedes', 'rollbackOf', 'requires', 'mentions')
          and said.named ~ '^(([a-z0-9-]{1,63}/)?[a-z0-9][a-z0-9.-]{0,252}|wf_ver_[0-9a-f]{20})$'
    $$
    """,
    # Row-level security is forced on who migrates as well; a policy for that would lock the table meanwhile.
    f"set local role {WRITER}",
    r"""
    insert into formulary.workflow_relation (version_id, tenant_id, relation, namespace, name)
    select version_id, tenant_id, said.* from formulary.workflow_version, formulary.relations_of(document) as said
    where concat(document #>> '{spec,related}', document #>> '{spec,description}') ~ '@|wf_ver_'
    on conflict do nothing
    """,
    "reset role",
]

# Everybody may make temporary tables, and so could the role of analytics. The owner of the trail keeps the right, which
# is verified and expired with them; nothing else of ours needs any. Only the owner of the database can take it away.
TEMPORARY = """
do $$
begin
    if pg_has_role((select datdba from pg_database where datname = current_database()), 'usage') then
        execute format(
            'grant temporary on database %I to %I', current_database(),
            (select pg_get_userbyid(relowner) from pg_class where oid = 'formulary.trace_event'::regclass));
        execute format('revoke temporary on database %I from public', current_database());
    end if;
end
$$
"""


def upgrade() -> None:
    """Add to what is there; `enter`, the scope, the views that name workflows and `relations_of` are replaced.

    What reads all workflows comes first, before anybody waits for a lock. This gives up and is tried again before
    PostgreSQL would look for a deadlock, and end a call.
    """
    op.execute("set local lock_timeout = '300ms'")
    for statement in (*RELATIONS, *SCOPE):
        op.execute(statement)
    for view, (_, query, columns) in _VIEWS.items():
        shown, found = _ALLOWED.subn(_NOT_SUSPENDED, query)
        if found:
            op.execute(
                f"create or replace view insight.{view} ({', '.join(columns)}) with (security_barrier) as {shown}"
            )
    for statement in (TEMPORARY, *COMMENTS, *TENANTS, OWNER, *TRAIL):
        op.execute(statement)
