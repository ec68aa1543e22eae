{{/* The container of the operator. */}}
{{- define "formulary.operatorContainer" -}}
{{- $name := include "formulary.fullname" . -}}
- {{ include "formulary.containerBasics" (dict "root" . "name" "operator") | nindent 2 | trim }}
  command: [formulary-operator, run]
  {{- with .Values.operator.extraArgs }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  env:
    {{- include "formulary.databaseEnv" (dict "root" . "user" "operator") | nindent 4 }}
    - name: FORMULARY_CATALOG_NAMESPACE
      value: {{ include "formulary.catalogNamespace" . | quote }}
    - name: FORMULARY_WATCH_NAMESPACES
      value: {{ include "formulary.watchedNamespaces" . | fromJsonArray | join "," | quote }}
    - name: FORMULARY_RUNBOOK_NAMESPACES
      value: {{ .Values.knowledge.runbooks.namespaces | join "," | quote }}
    - name: FORMULARY_PROMETHEUS_RULES
      value: {{ .Values.coverage.prometheusRules.enabled | quote }}
    - name: FORMULARY_WORKERS
      value: {{ .Values.operator.workers | int64 | quote }}
    - name: FORMULARY_RESYNC_SECONDS
      value: {{ .Values.operator.resyncSeconds | int64 | quote }}
    - name: FORMULARY_CONTEXT_RETENTION_HOURS
      value: {{ .Values.operator.contextRetentionHours | quote }}
    - name: FORMULARY_SWEEP_MAX_FRACTION
      value: {{ .Values.operator.sweepMaxFraction | quote }}
    - name: FORMULARY_EXECUTION
      value: {{ include "formulary.executionMode" . | quote }}
    - name: FORMULARY_ENGINES
      value: {{ .Values.execution.engines | join "," | quote }}
    - name: FORMULARY_DEFAULT_IMAGE
      value: {{ .Values.execution.defaultImage | quote }}
    - name: FORMULARY_RUN_AS_USER
      value: {{ .Values.execution.runAsUser | int64 | quote }}
    {{- $trusted := .Values.execution.trustedAuthors }}
    {{- if (include "formulary.starter" .) }}
    {{- $trusted = append $trusted (printf "system:serviceaccount:%s:%s-starter" (include "formulary.namespace" .) $name) }}
    {{- end }}
    - name: FORMULARY_TRUSTED_AUTHORS
      value: {{ $trusted | join "," | quote }}
    - name: FORMULARY_PROVEN_AUTHORS
      value: {{ .Values.execution.provenAuthors | quote }}
    - name: FORMULARY_RUN_OBJECT_RETENTION_HOURS
      value: {{ .Values.execution.objectRetentionHours | quote }}
    - name: FORMULARY_RUN_RETENTION_HOURS
      value: {{ .Values.execution.runRetentionHours | quote }}
    - name: FORMULARY_RUNS_NAMESPACE
      value: {{ .Values.execution.runsNamespace | quote }}
    - name: FORMULARY_ALLOWED_IMAGES
      value: {{ .Values.execution.allowedImages | join "," | quote }}
    - name: FORMULARY_REQUIRE_DIGESTS
      value: {{ .Values.execution.requireDigests | quote }}
    - name: FORMULARY_TEKTON_BUNDLES
      value: {{ .Values.execution.tektonBundles | quote }}
    - name: FORMULARY_ARGO_STRICT
      value: {{ .Values.execution.argoStrict | quote }}
    - name: FORMULARY_ARGO_TEMPLATES
      value: {{ .Values.execution.argoTemplates | quote }}
    - name: FORMULARY_RELEASE_NAMESPACE
      value: {{ include "formulary.namespace" . | quote }}
    - name: FORMULARY_CONTEXT_TARGET
      value: {{ include "formulary.contextTarget" . | quote }}
    {{- include "formulary.contextEnv" . | nindent 4 }}
    - name: FORMULARY_STRICT_CUSTOM_LABELS
      value: {{ .Values.search.strictCustomLabels | join "," | quote }}
    - name: FORMULARY_HARMLESS_ENVIRONMENTS
      value: {{ .Values.execution.harmlessEnvironments | join "," | quote }}
    {{- with .Values.console.url }}
    - name: FORMULARY_CONSOLE_URL
      value: {{ . | quote }}
    {{- end }}
    {{- if .Values.notifications }}
    - name: FORMULARY_NOTIFICATIONS
      value: {{ include "formulary.receivers" . | quote }}
    {{- end }}
    {{- with .Values.outcomes.prometheus }}
    - name: FORMULARY_OUTCOME_QUERIES
      value: {{ dict "url" . "queries" $.Values.outcomes.queries | toJson | quote }}
    {{- end }}
    - name: FORMULARY_CHECKPOINT_SECONDS
      value: {{ .Values.audit.checkpointSeconds | int64 | quote }}
    - name: FORMULARY_VERIFY_SECONDS
      value: {{ mul (.Values.audit.verifyHours | int64) 3600 | quote }}
    - name: FORMULARY_AUDIT_CONFIG_MAP
      value: {{ include "formulary.fullname" . }}-audit-checkpoints
    {{- with .Values.audit.published }}
    - name: FORMULARY_AUDIT_PUBLISHED
      value: {{ . | quote }}
    {{- end }}
    {{- if .Values.audit.signingKeySecret }}
    - name: FORMULARY_AUDIT_KEY_FILE
      value: /etc/formulary/audit/audit.pem
    {{- end }}
    {{- if include "formulary.runs" . }}
    - name: FORMULARY_INPUT_KEY_FILE
      value: /etc/formulary/input/input.key
    {{- end }}
    - name: FORMULARY_HEALTH_HOST
      value: 0.0.0.0
    - name: FORMULARY_HEALTH_PORT
      value: "8081"
    - name: FORMULARY_LEASE_NAMESPACE
      valueFrom:
        fieldRef:
          fieldPath: metadata.namespace
    - name: FORMULARY_LEASE_NAME
      value: {{ $name }}-operator
    - name: FORMULARY_POD_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    - name: FORMULARY_LOG_LEVEL
      value: {{ .Values.operator.logLevel | quote }}
    {{- if include "formulary.webhookEnabled" . }}
    - name: FORMULARY_OPERATOR_USER
      value: system:serviceaccount:{{ include "formulary.namespace" . }}:{{ include "formulary.operatorAccount" . }}
    - name: FORMULARY_WEBHOOK_PORT
      value: "9443"
    {{- if eq .Values.webhook.certificates "cert-manager" }}
    - name: FORMULARY_WEBHOOK_CERT_DIR
      value: /etc/formulary/webhook
    {{- else }}
    - name: FORMULARY_WEBHOOK_SECRET
      value: {{ $name }}-webhook-tls
    - name: FORMULARY_WEBHOOK_SERVICE
      value: {{ $name }}-webhook
    {{- end }}
    - name: FORMULARY_WEBHOOK_CONFIGURATION
      value: {{ include "formulary.clusterName" . | quote }}
    {{- end }}
    {{- with .Values.operator.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: health
      containerPort: 8081
      protocol: TCP
    {{- if include "formulary.webhookEnabled" . }}
    - name: webhook
      containerPort: 9443
      protocol: TCP
    {{- end }}
  {{- range $probe, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
  {{ $probe }}:
    {{- include "formulary.probe" (dict "values" (get $.Values.operator $probe) "path" $path "port" "health") | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml .Values.operator.resources | nindent 4 }}
  volumeMounts:
    {{- include "formulary.scratchMount" . | nindent 4 }}
    {{- include "formulary.databaseMount" . | nindent 4 }}
    {{- include "formulary.inputKeyMount" . | nindent 4 }}
    {{- include "formulary.contextMount" . | nindent 4 }}
    {{- if .Values.audit.signingKeySecret }}
    - name: audit
      mountPath: /etc/formulary/audit
      readOnly: true
    {{- end }}
    {{- if include "formulary.mountedCertificate" . }}
    - name: webhook
      mountPath: /etc/formulary/webhook
      readOnly: true
    {{- end }}
    {{- range .Values.notifications }}
    {{- if .secretRef }}
    - name: receiver-{{ .name }}
      mountPath: /etc/formulary/notifications/{{ .name }}
      readOnly: true
    {{- end }}
    {{- end }}
    {{- with .Values.operator.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Not empty if there is a webhook: as the value says, else where something is run. */}}
{{- define "formulary.webhookEnabled" -}}
{{- if kindIs "bool" .Values.webhook.enabled | ternary .Values.webhook.enabled (include "formulary.runs" . | not | not) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the webhook's certificate is mounted. */}}
{{- define "formulary.mountedCertificate" -}}
{{- if and (include "formulary.webhookEnabled" .) (eq .Values.webhook.certificates "cert-manager") -}}true{{- end -}}
{{- end -}}

{{/* The receivers as the operator reads them: a Secret is a directory. */}}
{{- define "formulary.receivers" -}}
{{- $receivers := list -}}
{{- range .Values.notifications -}}
{{- $directory := hasKey . "secretRef" | ternary (dict "secretDir" (printf "/etc/formulary/notifications/%s" .name)) (dict) -}}
{{- $receivers = append $receivers (merge (omit . "secretRef") $directory) -}}
{{- end -}}
{{- toJson $receivers -}}
{{- end -}}

{{- define "formulary.operatorVolumes" -}}
{{- include "formulary.scratch" . }}
{{ include "formulary.databaseVolume" . }}
{{ include "formulary.inputKeyVolume" . }}
{{- if .Values.audit.signingKeySecret }}
- name: audit
  secret:
    secretName: {{ .Values.audit.signingKeySecret | quote }}
{{- end }}
{{- if include "formulary.mountedCertificate" . }}
- name: webhook
  secret:
    secretName: {{ include "formulary.fullname" . }}-webhook-tls
{{- end }}
{{- range .Values.notifications }}
{{- if .secretRef }}
- name: receiver-{{ .name }}
  secret:
    secretName: {{ .secretRef.name | quote }}
    optional: true  # a receiver without its Secret fails alone
{{- end }}
{{- end }}
{{- with .Values.operator.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
