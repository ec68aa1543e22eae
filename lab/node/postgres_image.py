"""The layer of PostgreSQL with pgvector, of Debian's packages: as the official image as far as the chart needs it."""

import os
import re
import shutil
from pathlib import Path

from lab.node.layers import extract_packages, make_layer

_ACCOUNT = 999
_ENTRY_POINT = """\
#!/bin/bash
# What the entry point of the official image does, as far as the chart needs it.
set -eu
mkdir -p "$PGDATA"
chmod 0700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\\n' "$POSTGRES_PASSWORD") \\
        --auth-host=scram-sha-256 --auth-local=trust -D "$PGDATA"
    printf 'host all all all scram-sha-256\\n' >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
    psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres -c "create database \\"$POSTGRES_DB\\""
    for file in /docker-entrypoint-initdb.d/*; do
        case "$file" in
        *.sh) . "$file" ;;
        *.sql) psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" -f "$file" ;;
        esac
    done
    pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec postgres -D "$PGDATA" -c listen_addresses='*'
"""


def postgres_layer() -> Path:
    """PostgreSQL 17 under the account number of the official image."""

    def fill(root: Path) -> None:
        extract_packages(root, "postgresql-17", "postgresql-17-pgvector", suite="trixie", variant="minbase")
        for file, numbers in (("passwd", 2), ("group", 1)):
            path = root / "etc" / file
            renumbered = rf"\g<1>{':'.join([str(_ACCOUNT)] * numbers)}:"
            path.write_text(re.sub(rf"(?m)^(postgres:x:)(\d+:){{{numbers}}}", renumbered, path.read_text()))
        shutil.rmtree(root / "var/lib/postgresql")
        for folder in ("var/lib/postgresql", "var/lib/postgresql/data", "run/postgresql"):
            (root / folder).mkdir(exist_ok=True)
            os.chown(root / folder, _ACCOUNT, _ACCOUNT)
        (root / "docker-entrypoint-initdb.d").mkdir()
        program = root / "usr/local/bin/docker-entrypoint.sh"
        program.write_text(_ENTRY_POINT)
        program.chmod(0o755)

    return make_layer("postgres", of=Path(__file__).read_text(), fill=fill)
