"""`make node`: a node until Ctrl+C."""

import signal
import sys

from lab.node.node import start_node
from lab.node.programs import NoNode


def main() -> None:
    """Start a node, show how to use it, and wait."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with start_node(lambda line: print(line, flush=True)) as node:
            print(f"export KUBECONFIG={node.kubeconfig}\nEnd with Ctrl+C.", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except (NoNode, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
