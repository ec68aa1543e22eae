"""A real OCI registry on loopback: Debian's docker-registry, unpacked rather than installed as a service."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from support.control_plane import free_port
from support.toolcache import debian_packages
from support.waiting import wait_until

_VERSION = "2.8.2+ds1-1"


@contextmanager
def oci_registry() -> Iterator[str]:
    """Its host and port, until the block ends. It speaks plain HTTP."""
    unpacked = debian_packages(f"docker-registry-{_VERSION}", f"docker-registry={_VERSION}")
    program = unpacked / "usr" / "bin" / "docker-registry"
    address = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="formulary-registry-") as place:
        settings = Path(place, "config.yml")
        settings.write_text(
            f"version: 0.1\nhttp: {{addr: '{address}'}}\nstorage: {{filesystem: {{rootdirectory: '{place}/stored'}}}}\n"
        )
        log = Path(place, "log")
        with log.open("wb") as output:
            process = subprocess.Popen([program, "serve", settings], stdout=output, stderr=output)
        try:
            wait_until(lambda: _answers(address), what="the registry to answer", shown=log.read_text)
            yield address
        finally:
            process.terminate()
            process.wait()


def _answers(address: str) -> bool:
    try:
        return httpx2.get(f"http://{address}/v2/", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False
