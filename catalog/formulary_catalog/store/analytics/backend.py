"""The process of PostgreSQL that answers a statement of a caller, where it runs on this machine.

PostgreSQL gives every session the same share of the processors; the operating system can give less to those of
`store/analytics/connection`. With `formulary up` they are here. Elsewhere the limits of the database hold
(`docs/analytics.md`).
"""

import psutil


def yield_processors(pid: int, *, role: str, niceness: int) -> bool:
    """Give the session of `role` in process `pid` this niceness; with 10 a tenth of what others get, where all work.

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
