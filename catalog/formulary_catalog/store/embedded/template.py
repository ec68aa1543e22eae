"""A cluster made beforehand: `initdb` needs a shell, which an image for production does not have.

The Dockerfile runs this module once, and `Cluster` unpacks the archive instead of calling `initdb`, where it is there.
"""

import os
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from formulary_catalog.store.embedded.cluster import TEMPLATE, Cluster


def pack(archive: Path = TEMPLATE) -> None:
    """Make a cluster with the database `formulary`, and keep its files in the archive."""
    with TemporaryDirectory() as place:
        cluster = Cluster(home=Path(place, "home"))
        lock = cluster.acquire()
        cluster.prepare()
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(cluster.path, arcname=".")
        os.close(lock)


if __name__ == "__main__":
    pack(*map(Path, sys.argv[1:]))
