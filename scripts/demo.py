"""`make demo`: shows what docs/demo.md tells, on a cluster and a database of its own; `--record` writes it there."""

import argparse
import tempfile
from pathlib import Path

from formulary_catalog.store.database.migrate import migrate
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.control_plane import control_plane
from support.demonstration import demonstrate, record


def main() -> None:
    """Read the command line, and show it."""
    parser = argparse.ArgumentParser(description="Two incidents, one question: the demonstration of docs/demo.md.")
    parser.add_argument("--record", action="store_true", help="write what happened into docs/demo.md")
    arguments = parser.parse_args()
    transcript = _transcript()
    print(transcript, end="")
    if arguments.record:
        record(transcript)


def _transcript() -> str:
    with tempfile.TemporaryDirectory(prefix="formulary-demo-") as directory:
        Path(directory).chmod(0o711)  # under root, PostgreSQL has an account of its own
        with EmbeddedPostgres(data_dir=Path(directory) / "postgres") as postgres, control_plane() as cluster:
            migrate(postgres.dsn())
            return demonstrate(cluster, dsn=postgres.dsn()).transcript


if __name__ == "__main__":
    main()
