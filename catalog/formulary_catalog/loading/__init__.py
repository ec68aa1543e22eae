"""Manifests from files into the catalog: found, parsed, checked, embedded, written and watched."""
