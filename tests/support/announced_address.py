"""How a server in a process of its own tells where it listens: on the first line that it prints."""

_READY = "listening on "


async def announce(port: int) -> None:
    """Print where it listens; for `beside` of `serve`."""
    print(f"{_READY}http://127.0.0.1:{port}", flush=True)


def announced(line: str) -> str:
    """The address that the line tells.

    Raises:
        RuntimeError: it tells none.
    """
    if not line.startswith(_READY):
        raise RuntimeError("the server did not start")
    return line.removeprefix(_READY).strip()
