"""Commands that reach the server in a cluster through the kubeconfig: `formulary console` and `kubectl formulary`."""
