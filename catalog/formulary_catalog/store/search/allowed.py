"""The condition under which a row of `workflow_version` is served, visible and allowed, for every statement that reads.

Row-level security hides what the caller's namespaces do not hold; the label rules are those of a search.
"""

from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.store.database.tenancy import StatementArguments
from formulary_catalog.store.search.filters import label_conditions


class AllowedVersions:
    """The rules for these constraints, whose values become arguments once."""

    def __init__(self, constraints: Constraints, arguments: StatementArguments) -> None:
        rules = label_conditions(constraints, arguments)
        self._rules = " and ".join(rules.allowed) if rules.narrow else ""
        self._labels = " and ".join(rules.allowed[1:]) if rules.narrow else "true"

    def signal_rows(self) -> str:
        """The query for the signal types of all rows of the search table: one for each signal of each workflow."""
        if not self._rules:
            return "select signal_type from workflow_search"
        return _from_both_indexes("signal_type", self._labels)

    @property
    def on_signal_rows(self) -> str:
        """The condition on such rows."""
        return self._labels

    def condition(self, version: str) -> str:
        """The condition on the rows that go by this alias."""
        served = f"{version}.status = 'Active'"
        if not self._rules:
            return served
        return f"{served} and {version}.version_id in ({_from_both_indexes('version_id', self._rules)})"

    def looked_up(self, version: str) -> str:
        """The same for few rows: one look-up for each, and no pass over what is allowed."""
        served = f"{version}.status = 'Active'"
        if not self._rules:
            return served
        return (
            f"{served} and exists (select from workflow_search as searched "
            f"where searched.version_id = {version}.version_id and {self._rules})"
        )

    def ambiguous(self, version: str) -> str:
        """Whether another namespace has an allowed workflow of that name."""
        return (
            f"exists (select from workflow_version as namesake where namesake.name = {version}.name "
            f"and namesake.namespace <> {version}.namespace and {self.looked_up('namesake')})"
        )


def _from_both_indexes(columns: str, condition: str) -> str:
    """What fits into the covering index is read from there, the rest from its rows, as a search does it."""
    return " union all ".join(
        f"select {columns} from workflow_search as searched where {slim} and {condition}"
        for slim in ("slim", "not slim")
    )
