"""The account that root runs PostgreSQL as, and the places that this account can reach.

PostgreSQL refuses to run as root. Root therefore runs it as `nobody`, or as the account that owns an existing cluster.
Only the cluster belongs to that account, and no permission of an existing directory is changed. Some places, such as
root's home, are closed to the account; the modules that choose a program or a socket ask here.
"""

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from formulary_catalog.errors import StartupError

ROOTS_PLACE = Path("/var/lib/formulary")


class Account(NamedTuple):
    """The user and group that root runs PostgreSQL as."""

    uid: int
    gid: int

    @classmethod
    def nobody(cls) -> Self:
        """The account for a new cluster. Raises StartupError if the system has no such user."""
        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            raise StartupError(
                "PostgreSQL does not run as root, and this system has no user `nobody` to run it as; add that user, "
                "run as another user than root, or name a server with --database-url"
            ) from None
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

    def own(self, directory: Path) -> None:
        """Give the account a directory that we have made. Raises StartupError if root lacks the right to do so."""
        try:
            os.chown(directory, self.uid, self.gid, follow_symlinks=False)
        except OSError as error:
            raise StartupError(
                f"PostgreSQL does not run as root, and root may not run it as another user here: {error.strerror}; "
                "run as another user than root, or name a server with --database-url"
            ) from error

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


def require_name() -> None:
    """Raise StartupError if our own user id has no name: `initdb` would refuse it."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise StartupError(
            f"PostgreSQL sets up a database only for a user with a name, and user id {os.geteuid()} has none; "
            "add the id to /etc/passwd, run as another user, or name a server with --database-url"
        ) from None
