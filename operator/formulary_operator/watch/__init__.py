"""The watch of the cluster: kopf, the work queue, the resync and the sweep."""
