"""What a text says that Prometheus scrapes."""


def served(exposition: str) -> dict[str, str]:
    """The kind of every metric in the text, by its name."""
    types = (line.split() for line in exposition.splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in types}
