"""The HTTP application: middleware, authentication, concurrency, probes."""
