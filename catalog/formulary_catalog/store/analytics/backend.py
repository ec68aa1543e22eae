"""The process of PostgreSQL that answers a statement of a caller, where it runs on this machine.

`store/analytics/connection` puts each one behind all others; with `formulary up` they are here. PostgreSQL gives every
session the same share of the processors; the operating system can give less. Elsewhere the limits of the database hold
(`docs/analytics.md`).
"""

import psutil


def put_last(pid: int, *, role: str, niceness: int) -> bool:
    """Give the session of `role` in process `pid` the processors after all others.

    Says whether it did: not where no process here has that id and that role, and where the system does not let us.
    """
    try:
        process = psutil.Process(pid)
        if role not in " ".join(process.cmdline()):  # the number of a process on another machine
            return False
        process.nice(niceness)
    except (psutil.Error, OSError):
        return False
    return True
