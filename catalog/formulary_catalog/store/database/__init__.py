"""Connections, roles, tenancy, migrations and health of the database."""
