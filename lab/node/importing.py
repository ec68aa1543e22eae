"""Lets containerd unpack images into its store: `importing.py HOME NAMES ARCHIVE...`, run in namespaces of its own."""

import json
import sys
from pathlib import Path

from lab.node.containers import ctr, start_containerd
from lab.node.init import mount_own_folders
from lab.node.processes import Processes, run


def main() -> None:
    """Import all, give them their other names, and end containerd so that its databases are whole."""
    home, archives = Path(sys.argv[1]), sys.argv[3:]
    mount_own_folders()
    processes = Processes(home)
    start_containerd(processes, home=home)
    for archive in archives:
        run(*ctr(home), "images", "import", "--all-platforms", archive)
    for other, name in json.loads(sys.argv[2]).items():
        run(*ctr(home), "images", "tag", name, other)
    processes.stop("containerd")


if __name__ == "__main__":
    main()
