"""What generated workflows say: a grammar of signals, symptoms, causes, actions and objects, thousands of sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from formulary_catalog.domain.text import split_camel_case


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of trouble: the signals that report it, what is seen, what is behind it, what helps."""

    signals: tuple[str, ...]
    symptoms: tuple[str, ...]
    causes: tuple[str, ...]
    actions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What one workflow says, and the signals that go with it, its own first."""

    signals: tuple[str, ...]
    kind: str
    action_type: str
    when_to_use: str
    what: str

    @property
    def stem(self) -> str:
        """The start of the names of workflows that say this."""
        return f"{_kebab(self.signals[0])}-{_kebab(self.action_type)}-{_kebab(self.kind.rpartition('/')[2])}"


KINDS = (
    "apps/v1/Deployment",
    "apps/v1/StatefulSet",
    "apps/v1/DaemonSet",
    "batch/v1/Job",
    "v1/Pod",
    "v1/Node",
    "v1/Service",
    "v1/PersistentVolumeClaim",
)

TROUBLES = (
    Trouble(
        (
            "OOMKilled",
            "ContainerOOMEvents",
            "KubeContainerMemoryNearLimit",
            "JvmHeapExhausted",
            "MemoryPressure",
            "PodMemoryLeakSuspected",
            "CacheEvictionStorm",
            "SystemOOM",
        ),
        (
            "containers end with exit code 137 and the last state says OOMKilled",
            "resident memory climbs until the kernel kills the process",
            "garbage collection takes most of the time and latency rises before each restart",
        ),
        (
            "the limit is lower than the working set after the latest release",
            "a leak keeps every session in memory",
            "a batch of large documents arrives at once",
            "the cache has no bound",
            "the runtime ignores the limit of its cgroup",
        ),
        (
            ("IncreaseMemoryLimits", "Raises the memory limit and request by half and rolls the change out"),
            ("RestartWorkload", "Restarts one pod after the other to give the memory back"),
            ("CaptureHeapDump", "Writes a heap dump to object storage before the next kill"),
            ("RollbackRelease", "Goes back to the revision before memory began to climb"),
            ("BoundCache", "Sets an upper bound for the in-process cache"),
            ("ScaleOutReplicas", "Adds replicas so that each one holds fewer sessions"),
        ),
    ),
    Trouble(
        (
            "CrashLoopBackOff",
            "KubePodCrashLooping",
            "BackOffRestartingFailedContainer",
            "StartupProbeFailed",
            "LivenessProbeFailed",
            "ContainerCannotRun",
            "InitContainerFailing",
            "PanicInLogs",
        ),
        (
            "the container starts, exits at once and waits longer each time",
            "the log ends with a stack trace a second after the start",
            "the probe is refused before the process listens",
        ),
        (
            "a configuration key that the new release reads is missing",
            "the database it needs refuses its password",
            "the probe is stricter than the start is fast",
            "a schema migration was left half done",
            "the entry point is not in the image",
        ),
        (
            ("RollbackRelease", "Rolls back to the last revision that became ready"),
            ("RestoreConfiguration", "Puts the missing key back from the reviewed configuration"),
            ("RelaxProbe", "Gives the probe a longer initial delay and more attempts"),
            ("HoldForDebugging", "Starts a copy with a shell in place of the entry point"),
            ("RerunMigration", "Runs the schema migration again as a job of its own"),
            ("RestartDependency", "Restarts the dependency that refuses connections"),
        ),
    ),
    Trouble(
        (
            "ImagePullBackOff",
            "ErrImagePull",
            "InvalidImageName",
            "RegistryUnavailable",
            "ImageSignatureRejected",
            "PullRateLimited",
            "ImageManifestUnknown",
            "ImageGCFailed",
        ),
        (
            "pods wait with the reason ImagePullBackOff and never start",
            "the events say manifest unknown or unauthorized",
            "nodes that joined today cannot fetch what older nodes still have",
        ),
        (
            "the credential of the registry expired",
            "the tag was deleted by a clean-up rule",
            "the registry answers too many requests",
            "the node cannot resolve the registry's name",
            "the signature was made with a retired key",
        ),
        (
            ("RenewPullSecret", "Writes a fresh pull secret and links it to the service account"),
            ("PinPreviousDigest", "Pins the digest that ran before"),
            ("SwitchRegistryMirror", "Points the image at the mirror inside the network"),
            ("PrepullImage", "Pulls the image on every node of the pool ahead of the rollout"),
            ("CleanImageCache", "Frees the image file system of the node"),
            ("RollbackRelease", "Takes the rollout back until the image is there"),
        ),
    ),
    Trouble(
        (
            "NodeNotReady",
            "KubeNodeUnreachable",
            "KubeletDown",
            "NodeClockSkew",
            "ContainerRuntimeUnhealthy",
            "NodeReadonlyFilesystem",
            "NodeFlapping",
            "KernelDeadlock",
        ),
        (
            "the node stops posting its status and its pods are marked for deletion",
            "the kubelet restarts and the lease is renewed late",
            "conditions of the node change every few minutes",
        ),
        (
            "the container runtime hangs on a stuck mount",
            "its disk turned read-only after an error",
            "the cloud provider moved the machine",
            "its clock is minutes off",
            "too many processes are left behind",
        ),
        (
            ("CordonDrainNode", "Cordons the node and drains it with the disruption budgets respected"),
            ("RestartKubelet", "Restarts the kubelet and the container runtime"),
            ("ReplaceNode", "Removes the machine and lets the pool create another"),
            ("SyncClock", "Steps the clock and restarts the time service"),
            ("RemountDisk", "Checks the file system and mounts it again"),
            ("RescheduleWorkload", "Moves the pods elsewhere at once"),
        ),
    ),
    Trouble(
        (
            "KubePersistentVolumeFillingUp",
            "DiskPressure",
            "VolumeInodesExhausted",
            "FailedMount",
            "FailedAttachVolume",
            "NodeFilesystemAlmostOutOfSpace",
            "VolumeResizeFailed",
            "SnapshotFailed",
        ),
        (
            "writes fail with no space left on device",
            "the pod hangs in ContainerCreating because its volume is attached elsewhere",
            "free inodes fall although bytes are free",
        ),
        (
            "log files are never rotated",
            "the volume is still attached to a machine that is gone",
            "write-ahead logs pile up behind a dead replica",
            "millions of small session files were left behind",
            "the storage class does not allow growth",
        ),
        (
            ("ExpandVolume", "Grows the claim by a quarter and waits for the file system"),
            ("RotateLogs", "Compresses and rotates what has not been touched for a day"),
            ("DetachVolume", "Detaches the volume from the lost machine"),
            ("PurgeTemporaryFiles", "Deletes temporary files older than a week"),
            ("MoveToLargerVolume", "Copies the data to a larger volume and switches over"),
            ("DropStaleSlot", "Drops the replication slot that nobody reads"),
        ),
    ),
    Trouble(
        (
            "FailedScheduling",
            "PodPending",
            "KubeHpaMaxedOut",
            "ClusterAutoscalerUnschedulablePods",
            "QuotaExceeded",
            "PodPreempted",
            "TopologySpreadUnsatisfied",
            "InsufficientCpu",
        ),
        (
            "pods stay Pending and the scheduler says insufficient cpu",
            "the autoscaler is at its maximum and the queue still grows",
            "no node satisfies affinity, taints and spread together",
        ),
        (
            "requests are far above what is used",
            "the node pool reached its limit",
            "a taint was left on the nodes after maintenance",
            "the quota of the namespace is used up",
            "a higher priority took the room",
        ),
        (
            ("RightsizeRequests", "Lowers the requests to what was used in the last week"),
            ("ExpandNodePool", "Raises the maximum of the node pool by three"),
            ("RemoveTaint", "Removes the forgotten taint"),
            ("RaiseQuota", "Raises the quota of the namespace for a day"),
            ("RaiseHpaMaximum", "Raises the maximum of the autoscaler"),
            ("EvictLowPriority", "Evicts what has the lowest priority"),
        ),
    ),
    Trouble(
        (
            "CoreDNSErrorsHigh",
            "DNSLookupTimeout",
            "ServiceEndpointsDown",
            "KubeProxyDown",
            "ConntrackTableFull",
            "NetworkPolicyDenied",
            "IngressBackendUnhealthy",
            "PacketLossHigh",
        ),
        (
            "lookups of names inside the cluster time out now and then",
            "connections are reset although the endpoints are healthy",
            "the ingress answers 502 and 504 for one backend",
        ),
        (
            "the connection tracking table overflows",
            "a network policy lacks the new namespace",
            "the resolver is throttled by its own limit",
            "rules on some nodes are stale",
            "the readiness gate was never removed",
        ),
        (
            ("ScaleDNS", "Adds resolvers and spreads them over the zones"),
            ("EnlargeConntrack", "Doubles the connection tracking table on the nodes"),
            ("PatchNetworkPolicy", "Allows the traffic that the release needs"),
            ("RestartProxy", "Restarts the proxy so that it writes its rules anew"),
            ("DrainBackend", "Takes the sick backend out of the ingress"),
            ("EnableNodeLocalCache", "Turns the cache of names on each node on"),
        ),
    ),
    Trouble(
        (
            "CertManagerCertExpirySoon",
            "CertificateExpired",
            "WebhookCallFailed",
            "KubeClientCertificateExpiration",
            "TLSHandshakeErrors",
            "SecretRotationFailed",
            "TokenReviewFailing",
            "IssuerNotReady",
        ),
        (
            "clients refuse with x509: certificate has expired or is not yet valid",
            "admission fails because the webhook's certificate is not trusted",
            "tokens that worked an hour ago are refused",
        ),
        (
            "the challenge of the issuer could not be answered",
            "the bundle of the authority was not distributed",
            "the secret was rotated without a restart of its readers",
            "the clock of the issuer is wrong",
            "a rate limit of the authority is in force",
        ),
        (
            ("RenewCertificate", "Issues the certificate again and reloads whoever reads it"),
            ("RefreshTrustBundle", "Distributes the bundle of authorities again"),
            ("RestartWorkload", "Restarts the readers of the rotated secret"),
            ("BypassWebhook", "Lets the webhook fail open for an hour"),
            ("RotateCredential", "Rotates the credential and revokes the old one"),
            ("SwitchIssuer", "Changes over to the second issuer"),
        ),
    ),
    Trouble(
        (
            "PostgresReplicationLag",
            "DatabaseConnectionsExhausted",
            "PostgresDeadlocks",
            "LongRunningTransaction",
            "MySQLReplicaStopped",
            "RedisMemoryFull",
            "ElasticsearchClusterRed",
            "DatabaseFailoverStuck",
        ),
        (
            "clients are told that there are too many connections",
            "the replica falls minutes behind its primary",
            "queries that took milliseconds wait on locks",
        ),
        (
            "a report holds a transaction open for hours",
            "a pool without a bound opens a connection a request",
            "the replica's disk is slower than the primary's",
            "statistics were never gathered after the load",
            "shards have no node to live on",
        ),
        (
            ("TerminateIdleSessions", "Ends sessions that are idle in a transaction"),
            ("EnablePooling", "Puts a connection pooler in front of the database"),
            ("RebuildReplica", "Builds the replica anew from a backup"),
            ("PromoteReplica", "Promotes the healthiest replica"),
            ("AnalyzeTables", "Gathers statistics and rebuilds the bloated indexes"),
            ("RerouteShards", "Allocates the missing shards"),
        ),
    ),
    Trouble(
        (
            "KafkaConsumerLag",
            "QueueDepthHigh",
            "DeadLetterQueueGrowing",
            "RabbitMQMemoryAlarm",
            "UnderReplicatedPartitions",
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "CronJobMissedSchedule",
        ),
        (
            "messages wait longer each minute and consumers look idle",
            "a job gave up after its last attempt",
            "partitions have fewer replicas in sync than they should",
        ),
        (
            "one poisoned message is tried again forever",
            "consumers are rebalanced every few seconds",
            "a broker was lost and not replaced",
            "the downstream service answers slowly",
            "two runs of the job lock each other out",
        ),
        (
            ("ScaleConsumers", "Adds consumers up to the number of partitions"),
            ("ParkPoisonMessage", "Moves the poisoned message aside"),
            ("RestartConsumers", "Restarts the consumers with a longer session timeout"),
            ("ReassignPartitions", "Assigns the partitions to brokers that are alive"),
            ("RerunJob", "Runs the job again with twice the deadline"),
            ("SuspendSchedule", "Suspends the schedule until the backlog is gone"),
        ),
    ),
    Trouble(
        (
            "HighErrorRate",
            "LatencySLOBurn",
            "HTTP5xxSpike",
            "CircuitBreakerOpen",
            "ThreadPoolExhausted",
            "CPUThrottlingHigh",
            "CanaryDegraded",
            "UpstreamTimeouts",
        ),
        (
            "a tenth of the requests fail since the rollout",
            "the budget for errors burns ten times too fast",
            "threads wait for a dependency and the rest is refused",
        ),
        (
            "the canary carries a slow query",
            "the cpu limit throttles the bursts of garbage collection",
            "retries multiply the load on a slow dependency",
            "a feature flag sends everybody the new way",
            "a region's upstream is gone",
        ),
        (
            ("AbortCanary", "Sends all traffic back to the stable release"),
            ("RaiseCpuLimit", "Raises the cpu limit so that bursts are not throttled"),
            ("TightenRetries", "Bounds retries and opens the breaker earlier"),
            ("DisableFeatureFlag", "Turns the new feature off"),
            ("ShiftTraffic", "Moves the traffic to another region"),
            ("ScaleOutReplicas", "Doubles the replicas for an hour"),
        ),
    ),
    Trouble(
        (
            "EtcdDatabaseSpaceExceeded",
            "EtcdNoLeader",
            "KubeAPIErrorBudgetBurn",
            "APIServerOverloaded",
            "KubeVersionMismatch",
            "ArgoCDAppOutOfSync",
            "HelmReleaseFailed",
            "GitOpsDriftDetected",
        ),
        (
            "the API server refuses writes because the database space is exceeded",
            "requests to the API are rejected with too many requests",
            "what runs differs from what is in the repository",
        ),
        (
            "a controller lists everything in a tight loop",
            "old revisions were never compacted",
            "somebody changed an object by hand",
            "a release was interrupted between two hooks",
            "one member's disk is slow",
        ),
        (
            ("DefragmentEtcd", "Compacts and defragments one member after the other"),
            ("ThrottleController", "Gives the noisy controller a priority level of its own"),
            ("SyncApplication", "Synchronises the application with its repository"),
            ("RollbackRelease", "Rolls the failed release back"),
            ("ReplaceMember", "Replaces the slow member"),
            ("PinVersion", "Pins the version that the rest of the fleet runs"),
        ),
    ),
)


def texts() -> Sequence[Text]:
    """Every sentence of the grammar, in a fixed order."""
    return tuple(_texts())


def _texts() -> Iterator[Text]:
    for trouble in TROUBLES:
        for number, (signal, cause, (action_type, action)) in enumerate(
            product(trouble.signals, trouble.causes, trouble.actions)
        ):
            symptom = trouble.symptoms[number % len(trouble.symptoms)]
            kind = KINDS[number * 5 % len(KINDS)]
            noun = kind.rpartition("/")[2]
            others = tuple(other for other in trouble.signals if other != signal)
            yield Text(
                signals=(signal, *others),
                kind=kind,
                action_type=action_type,
                when_to_use=f"{signal} fires for a {noun}: {symptom}. The cause is that {cause}.",
                what=f"{action}, then watches the {noun} until it is stable.",
            )


def _kebab(camel: str) -> str:
    return "-".join(split_camel_case(camel)).lower()
