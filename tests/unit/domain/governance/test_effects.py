"""What commands do to pods and to data, as far as the table knows (DESIGN section 4)."""

import pytest

from formulary_catalog.domain.governance.effects import Effect, effects

YES, NO, UNKNOWN = Effect.YES, Effect.NO, Effect.UNKNOWN


@pytest.mark.parametrize(
    ("command", "restarts", "data_loss"),
    [
        ("kubectl get pods", NO, NO),
        ("kubectl -n shop rollout status deployment/web", NO, NO),
        ("kubectl -n shop rollout restart deployment/web", YES, NO),
        ("kubectl -n shop rollout undo deployment/web", YES, NO),
        ("kubectl -n shop set image deployment/web app=app:2", YES, NO),
        ("kubectl -n shop set env deployment/web --list", NO, NO),
        ("kubectl -n shop delete pod web-1", YES, NO),
        ("kubectl get pods -o name | xargs -r kubectl delete", UNKNOWN, UNKNOWN),
        ("kubectl -n shop scale deployment/web --replicas=5", YES, NO),
        ('test "${N}" -gt "${M}" && kubectl scale deployment/web --current-replicas="${M}" --replicas="${N}"', NO, NO),
        ('test "${M}" -gt "${N}" && kubectl scale deployment/web --current-replicas="${M}" --replicas="${N}"', YES, NO),
        ('test "${N}" -gt "${M}"; kubectl scale deployment/web --current-replicas="${M}" --replicas="${N}"', YES, NO),
        ('test "${N}" -gt "${M}" && kubectl scale deployment/web --replicas="${N}"', YES, NO),
        ('kubectl scale deployment/web --current-replicas=0 --replicas="${N}"', NO, NO),
        ('kubectl -n shop patch job import -p \'{"spec":{"suspend":false}}\'', NO, NO),
        ('kubectl -n shop patch job import -p \'{"spec":{"suspend":true}}\'', YES, NO),
        ("kubectl -n shop annotate helmrelease web reconcile.fluxcd.io/forceAt=1", UNKNOWN, NO),
        ("kubectl -n shop delete pod web-1 --grace-period=0 --force", YES, YES),
        ("kubectl taint nodes node-1 node.kubernetes.io/out-of-service=x:NoExecute", YES, YES),
        ("kubectl get x -o json | jq '.metadata.finalizers-=[$f]' | kubectl replace -f -", UNKNOWN, YES),
        ('kubectl -n shop patch hpa web -p \'{"spec":{"maxReplicas":9}}\'', NO, NO),
        ("kubectl -n shop patch deployment web -p '{}'", YES, NO),
        ('kubectl -n shop patch "${WORKLOAD}" -p x', YES, NO),
        ("kubectl drain node-1 --ignore-daemonsets", YES, NO),
        ("kubectl drain node-1 --delete-emptydir-data", YES, YES),
        ("kubectl cordon node-1", NO, NO),
        ("kubectl taint nodes node-1 a=b:NoExecute", YES, NO),
        ("kubectl taint nodes node-1 a:NoExecute-", NO, NO),
        ("kubectl -n shop delete pvc data", NO, YES),
        ("kubectl -n shop delete secret token", NO, YES),
        ("kubectl delete namespace shop", YES, YES),
        ("kubectl delete volumeattachment csi-1", NO, YES),
        ("kubectl run prune --image=tools -- nsenter -t 1 -- reboot", UNKNOWN, UNKNOWN),
        ("kubectl apply -f -", UNKNOWN, NO),
        ("kubectl apply --dry-run=server -f -", NO, NO),
        ("kubectl -n shop exec web-1 -- find /data -name '*.log' -delete", NO, YES),
        ("kubectl -n shop exec web-1 -- rm /data/old", UNKNOWN, YES),
        ("kubectl -n shop exec web-1 -- reboot", UNKNOWN, UNKNOWN),
        ("kubectl -n shop exec web-1 -- df -h", NO, NO),
        ("ssh node-1 sudo reboot", UNKNOWN, UNKNOWN),
        ("sh -c 'reboot'", UNKNOWN, UNKNOWN),
        ("psql -c 'drop table orders'", UNKNOWN, YES),
        ("curl -X DELETE https://api.example/volumes/1", UNKNOWN, UNKNOWN),
        ("test -n x && kubectl -n shop rollout restart deployment/web", YES, NO),
        ("x=$(kubectl -n shop delete pod web-1)", YES, NO),
        ("kubectl -n shop \\\n  rollout restart deployment/web", YES, NO),
        ("echo 'kubectl rollout restart; rm -r /'", YES, YES),
    ],
)
def test_what_a_command_does_is_known_or_said_to_be_unknown(command: str, restarts: Effect, data_loss: Effect) -> None:
    assert effects([command]) == {"restarts": restarts, "data-loss": data_loss}


def test_the_greatest_effect_of_all_commands_counts() -> None:
    found = effects(["kubectl get pods", "./unknown.sh", "kubectl delete pvc data"])

    assert found == {"restarts": UNKNOWN, "data-loss": YES}
    assert effects([]) == {"restarts": NO, "data-loss": NO}
