"""Documents in a cluster: runbooks from ConfigMaps, past incidents, vectors."""
