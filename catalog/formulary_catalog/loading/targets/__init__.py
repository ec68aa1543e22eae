"""Where targets of calls are read: in manifests, or by what another package brings."""
