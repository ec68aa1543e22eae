"""The account that root runs PostgreSQL as, and the places that this account can reach.

PostgreSQL refuses to run as root. Root therefore runs it as `nobody`, or as the account that owns an existing cluster.
Only the cluster belongs to that account, and no permission of an existing directory is changed. Some places, such as
root's home, are closed to the account; the modules that choose a program or a socket ask here.
"""

import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

ROOTS_PLACE = Path("/var/lib/formulary")


class Account(NamedTuple):
    """The user and group that root runs PostgreSQL as."""

    uid: int
    gid: int

    @classmethod
    def nobody(cls) -> Self:
        """The account for a new cluster."""
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid)

    @classmethod
    def owner_of(cls, directory: Path) -> Self:
        """The account that a cluster belongs to."""
        found = directory.stat()
        return cls(found.st_uid, found.st_gid)

    @property
    def name(self) -> str:
        """The user's name, or its number if it has none."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def barrier(self, path: Path) -> Path | None:
        """The first directory on the way to `path`, or `path` itself, that the account may not enter or execute."""
        for step in (*reversed(path.parents), path):
            if not step.exists():
                return None  # what we make there lets it pass
            found = step.stat()
            if found.st_uid == self.uid:
                needed = stat.S_IXUSR
            else:
                needed = stat.S_IXGRP if found.st_gid == self.gid else stat.S_IXOTH
            if not found.st_mode & needed:
                return step
        return None


def make_passable(directory: Path) -> None:
    """Make the directories that are missing so that the account of the server can pass, whatever our umask."""
    for step in (*reversed(directory.parents), directory):
        if not step.exists():
            with suppress(FileExistsError):  # another first start was faster
                step.mkdir()
                step.chmod(0o711)
