"""Sources of alerts in the manifests of a directory."""
