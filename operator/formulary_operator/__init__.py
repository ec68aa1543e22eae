"""The part of Formulary that knows Kubernetes: CRDs, the operator, and who may call the server in a cluster."""
