"""Alembic's entry point: runs the revisions on the connection that `store.database.migrate` hands over."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table_schema="formulary", transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
