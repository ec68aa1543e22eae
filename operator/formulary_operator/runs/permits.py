"""The gate right before something is created for a run: what it uses is released, what it runs is allowed.

`runs/execution` calls it. It reads labels in the cluster and asks the API server about author and requester; the rules
are in `runs/permitting`.
"""

from formulary_catalog.domain.access import Right
from formulary_catalog.domain.console_address import DOCUMENTATION
from formulary_catalog.domain.runs.facts import UnknownAuthors, unseen_pods, why_author_refused
from formulary_catalog.domain.runs.run import Invocation, NewInvocation, Reason
from formulary_catalog.domain.runs.submission import why_no_run_here
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import FormularyError
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_operator.access.authorization import Authorizer
from formulary_operator.access.identity import Identity
from formulary_operator.api.names import Json, Resource
from formulary_operator.engines.config import mapping
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.runs.permitting import RunPolicy, Thing, things_of, why_not_run, why_not_used


class NotPermitted(FormularyError):
    """The run must not start; `reason` is the word for programs."""

    def __init__(self, message: str, *, reason: Reason = Reason.NOT_PERMITTED) -> None:
        super().__init__(message)
        self.reason = reason


class Permits:
    """Reads what a run would use as it is now: what was released when the run was asked for may be so no more."""

    def __init__(
        self, *, client: KubeClient, policy: RunPolicy, admissions: AdmissionRecords, authorizer: Authorizer
    ) -> None:
        self._client = client
        self._admissions = admissions
        self._authorizer = authorizer
        self._policy = policy

    async def require(
        self, run: Invocation, *, workflow: RemediationWorkflow, resource: Resource, manifest: Json, own_secret: str
    ) -> None:
        """Let the object of a run be created; `own_secret` is the one that is made for the run.

        Raises:
            NotPermitted: it must not be.
            Unavailable: the API server does not say.
        """
        here = why_no_run_here(run.namespace, own_namespace=self._policy.own_namespace)
        if problem := here or why_not_run(manifest, policy=self._policy):
            raise NotPermitted(problem)
        await self._require_author(run, resource=resource)
        for thing in things_of(manifest, workflow=workflow, own_secret=own_secret):
            document = await self._read(thing, namespace=run.namespace)
            problem = why_not_used(
                thing, document, namespace=run.namespace, catalog=run.workflow_namespace, policy=self._policy
            )
            if problem:
                raise NotPermitted(problem)

    async def known(self, run: NewInvocation | Invocation) -> dict[str, bool]:
        """The facts of a run that are known here alone or that settings of here decide, as `RunFacts` names them.

        Raises:
            NotPermitted: nobody knows who wrote the workflow, so that no approval could let the run start.
            Unavailable: the database does not answer.
        """
        author = await self._author(run)
        self._require_known(author, run)
        engine = mapping(run.document, "spec", "execution").get("engine")
        return {
            **unseen_pods(
                engine, tekton_bundles=self._policy.tekton_bundles, argo_templates=self._policy.argo_templates
            ),
            "supervised": self._policy.supervised,
            "unauthored": self._policy.unknown_authors is UnknownAuthors.APPROVE and not author.user,
        }

    async def _require_author(self, run: Invocation, *, resource: Resource) -> None:
        """Who wrote the workflow could have run it: in the namespace of the run, or in that of the workflow.

        What of the namespace of the run it may use there, the labels say.
        """
        author = await self._author(run)
        self._require_known(author, run)
        if not author.user or author.user in self._policy.trusted_authors:
            return
        right = Right(verb="create", resource=resource.plural, group=resource.group)
        for namespace in dict.fromkeys((run.namespace, run.workflow_namespace)):
            if await self._authorizer.allows(author, right, namespace=namespace):
                return
        raise NotPermitted(
            f"{author.user}, who wrote workflow {run.workflow_namespace}/{run.workflow_name}, may not {right} in "
            f"namespace {run.namespace} nor in {run.workflow_namespace}; have somebody apply the workflow who may"
        )

    def _require_known(self, author: Identity, run: NewInvocation | Invocation) -> None:
        if not author.user and self._policy.unknown_authors is UnknownAuthors.REFUSE:
            raise NotPermitted(why_author_refused(f"{run.workflow_namespace}/{run.workflow_name}"))

    async def _author(self, run: NewInvocation | Invocation) -> Identity:
        return Identity.of(await self._admissions.author(namespace=run.workflow_namespace, version_id=run.version_id))

    async def _read(self, thing: Thing, *, namespace: str) -> Json | None:
        try:
            return await self._client.metadata(thing.resource.path(namespace=namespace, name=thing.name))
        except KubernetesRefused as error:
            if error.status == 403:
                raise not_opted_in(namespace) from error
            raise NotPermitted(f"{thing} of namespace {namespace} cannot be looked at: {error}") from error


def not_opted_in(namespace: str) -> NotPermitted:
    """Why nothing can be run where the operator has no rights."""
    return NotPermitted(
        f"namespace {namespace} is not opted in to runs, so the operator has no rights there; add it to the chart's "
        f"execution.namespaces, or have its admin create a RoleBinding: {DOCUMENTATION}/docs/invocation.html",
        reason=Reason.NAMESPACE_NOT_OPTED_IN,
    )


def lacks_rights(error: KubernetesRefused) -> bool:
    """Whether RBAC refused; quotas and admission answer 403 as well, in other words."""
    return error.status == 403 and " cannot " in str(error)
