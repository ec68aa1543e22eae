"""The Kubernetes API that Formulary has: names, CRDs, status."""
