"""The REST side, and its OpenAPI document."""
