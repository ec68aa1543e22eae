"""HTTP servers that strangers can reach: what is bounded before any framework sees a request."""
