{{/*
The variables that the chart sets, and the value of the chart that each follows from; null: always the same. A second
one in extraEnv would win silently, over what policies, probes and Services are made for.
*/}}
{{- define "formulary.ownVariables" -}}
server:
  FORMULARY_DATABASE_URL: database
  FORMULARY_AUTHENTICATION: authentication.mode
  FORMULARY_INSECURE: authentication.mode
  FORMULARY_TOKEN_AUDIENCE: authentication.audience
  FORMULARY_OIDC_ISSUER: authentication.oidc.issuer
  FORMULARY_OIDC_CLIENT_ID: authentication.oidc.clientId
  FORMULARY_OIDC_SCOPE: authentication.oidc.scope
  FORMULARY_CONSOLE_PROXY_SECRET_FILE: authentication.proxySecret
  FORMULARY_CATALOG_NAMESPACE: catalog.namespace
  FORMULARY_ALLOWED_HOSTS: server.allowedHosts
  FORMULARY_REQUEST_CONTEXT: search.requestContext
  FORMULARY_CONTEXT_TARGET: context.target
  FORMULARY_CONTEXT_FILE: context.mapping
  FORMULARY_STRICT_CUSTOM_LABELS: search.strictCustomLabels
  FORMULARY_HARMLESS_ENVIRONMENTS: execution.harmlessEnvironments
  FORMULARY_LABEL_PARAMETERS: search.labelParameters
  FORMULARY_TOOLSETS: search.toolsets
  FORMULARY_RELEASE_NAMESPACE: null
  FORMULARY_RUNS_NAMESPACE: execution.runsNamespace
  FORMULARY_TEKTON_BUNDLES: execution.tektonBundles
  FORMULARY_ARGO_TEMPLATES: execution.argoTemplates
  FORMULARY_TLS_DIR: server.tls.enabled
  FORMULARY_CONSOLE_URL: console.url
  FORMULARY_POOL_SIZE: server.poolSize
  FORMULARY_DATA_DIR: database.mode
  FORMULARY_EXECUTION: execution.mode
  FORMULARY_INVOCATIONS_PER_HOUR: execution.limits.perHour
  FORMULARY_DRY_RUNS_PER_HOUR: execution.limits.dryRunsPerHour
  FORMULARY_CONCURRENT_INVOCATIONS: execution.limits.concurrent
  FORMULARY_MAX_TIMEOUT_MS: execution.limits.timeoutMs
  FORMULARY_INPUT_KEY_FILE: execution.inputKeySecret
  FORMULARY_LOG_LEVEL: server.logLevel
  {{- if .Values.analytics.existingSecret }}
  FORMULARY_ANALYTICS_DATABASE_URL: analytics.existingSecret
  {{- end }}
  {{- include "formulary.ownDatabaseVariables" . | nindent 2 }}
operator:
  FORMULARY_DATABASE_URL: database
  FORMULARY_CATALOG_NAMESPACE: catalog.namespace
  FORMULARY_WATCH_NAMESPACES: catalog.watchNamespaces
  FORMULARY_RUNBOOK_NAMESPACES: knowledge.runbooks.namespaces
  FORMULARY_PROMETHEUS_RULES: coverage.prometheusRules.enabled
  FORMULARY_WORKERS: operator.workers
  FORMULARY_RESYNC_SECONDS: operator.resyncSeconds
  FORMULARY_CONTEXT_RETENTION_HOURS: operator.contextRetentionHours
  FORMULARY_SWEEP_MAX_FRACTION: operator.sweepMaxFraction
  FORMULARY_EXECUTION: execution.mode
  FORMULARY_ENGINES: execution.engines
  FORMULARY_DEFAULT_IMAGE: execution.defaultImage
  FORMULARY_RUN_AS_USER: execution.runAsUser
  FORMULARY_CONTEXT_TARGET: context.target
  FORMULARY_CONTEXT_FILE: context.mapping
  FORMULARY_STRICT_CUSTOM_LABELS: search.strictCustomLabels
  FORMULARY_HARMLESS_ENVIRONMENTS: execution.harmlessEnvironments
  FORMULARY_CONSOLE_URL: console.url
  FORMULARY_NOTIFICATIONS: notifications
  FORMULARY_OUTCOME_QUERIES: outcomes.prometheus
  FORMULARY_CHECKPOINT_SECONDS: audit.checkpointSeconds
  FORMULARY_VERIFY_SECONDS: audit.verifyHours
  FORMULARY_AUDIT_KEY_FILE: audit.signingKeySecret
  FORMULARY_AUDIT_CONFIG_MAP: null
  FORMULARY_AUDIT_PUBLISHED: audit.published
  FORMULARY_INPUT_KEY_FILE: execution.inputKeySecret
  FORMULARY_RELEASE_NAMESPACE: null
  FORMULARY_RUNS_NAMESPACE: execution.runsNamespace
  FORMULARY_ALLOWED_IMAGES: execution.allowedImages
  FORMULARY_REQUIRE_DIGESTS: execution.requireDigests
  FORMULARY_TEKTON_BUNDLES: execution.tektonBundles
  FORMULARY_ARGO_STRICT: execution.argoStrict
  FORMULARY_ARGO_TEMPLATES: execution.argoTemplates
  FORMULARY_TRUSTED_AUTHORS: execution.trustedAuthors
  FORMULARY_PROVEN_AUTHORS: execution.provenAuthors
  FORMULARY_RUN_OBJECT_RETENTION_HOURS: execution.objectRetentionHours
  FORMULARY_RUN_RETENTION_HOURS: execution.runRetentionHours
  FORMULARY_HEALTH_HOST: null
  FORMULARY_HEALTH_PORT: null
  FORMULARY_LEASE_NAMESPACE: null
  FORMULARY_LEASE_NAME: null
  FORMULARY_POD_NAME: null
  FORMULARY_LOG_LEVEL: operator.logLevel
  FORMULARY_OPERATOR_USER: null
  FORMULARY_WEBHOOK_PORT: webhook.enabled
  FORMULARY_WEBHOOK_CERT_DIR: webhook.certificates
  FORMULARY_WEBHOOK_CLIENT_CA_FILE: null
  FORMULARY_WEBHOOK_SECRET: webhook.certificates
  FORMULARY_WEBHOOK_SERVICE: webhook.certificates
  FORMULARY_WEBHOOK_CONFIGURATION: webhook.enabled
  {{- include "formulary.ownDatabaseVariables" . | nindent 2 }}
{{- end -}}

{{/* Without a Secret of the chart the file may come from elsewhere. */}}
{{- define "formulary.ownDatabaseVariables" -}}
{{- if .Values.database.external.caSecret -}}
PGSSLROOTCERT: database.external.caSecret
{{- end -}}
{{- end -}}
