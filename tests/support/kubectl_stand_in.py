"""A stand-in for kubectl: the API server of the tests has no nodes to forward ports to."""

from pathlib import Path

PORT = 40123
_PROGRAM = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in
*"create token nobody"*) echo 'error: failed to create token: serviceaccounts "nobody" not found' >&2; exit 1;;
*"create token"*) echo a.token.of-it;;
*"config current-context"*) echo current;;
*"get service secured"*) printf https;;
*"get service"*) ;;
*service/absent*) echo 'Error from server (NotFound): services "absent" not found' >&2; exit 1;;
*service/busy*) echo "Forwarding from 127.0.0.1:{port} -> 8080"; yes "Handling connection for {port}" | head -n 9999;;
*port-forward*) echo "Forwarding from 127.0.0.1:{port} -> 8080"; exec sleep 60;;
esac
"""


def stand_in(directory: Path, *, port: int = PORT) -> Path:
    """Put it into a directory, as `kubectl` that says it forwards this port; the file in which it notes its calls."""
    program, log = directory / "kubectl", directory / "log"
    program.write_text(_PROGRAM.format(log=log, port=port))
    program.chmod(0o755)
    return log
