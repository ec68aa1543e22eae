{{/* The container of the server. */}}
{{- define "formulary.serverContainer" -}}
{{- $hosts := concat (include "formulary.serverNames" . | fromJsonArray) .Values.server.ingress.hosts .Values.server.httpRoute.hostnames | uniq -}}
- {{ include "formulary.containerBasics" (dict "root" . "name" "server") | nindent 2 | trim }}
  command: [formulary, serve]
  args:
    {{- $embedded := eq (include "formulary.databaseMode" .) "embedded" | ternary (list "--data-dir" (include "formulary.dataDir" .)) list }}
    {{- concat (list "--host" "0.0.0.0" "--port" "8080") $embedded .Values.server.extraArgs | toYaml | nindent 4 }}
  env:
    {{- /* The server runs an embedded one itself. */}}
    {{- if ne (include "formulary.databaseMode" .) "embedded" }}
    {{- include "formulary.databaseEnv" (dict "root" . "user" "server") | nindent 4 }}
    {{- end }}
    {{- with .Values.analytics }}
    {{- if .existingSecret }}
    - name: FORMULARY_ANALYTICS_DATABASE_URL
      valueFrom:
        secretKeyRef:
          name: {{ .existingSecret | quote }}
          key: {{ .key | quote }}
    {{- end }}
    {{- end }}
    - name: FORMULARY_AUTHENTICATION
      value: {{ .Values.authentication.mode | quote }}
    {{- if eq .Values.authentication.mode "none" }}
    - name: FORMULARY_INSECURE
      value: "true"
    {{- end }}
    - name: FORMULARY_TOKEN_AUDIENCE
      value: {{ .Values.authentication.audience | quote }}
    {{- with .Values.authentication.oidc }}
    {{- if or .issuer .clientId }}
    - name: FORMULARY_OIDC_ISSUER
      value: {{ required "authentication.oidc.issuer is empty; ID tokens are taken of one issuer for one client: set both" .issuer | quote }}
    - name: FORMULARY_OIDC_CLIENT_ID
      value: {{ required "authentication.oidc.clientId is empty; ID tokens are taken of one issuer for one client: set both" .clientId | quote }}
    - name: FORMULARY_OIDC_SCOPE
      value: {{ .scope | quote }}
    {{- end }}
    {{- end }}
    {{- if .Values.authentication.proxySecret }}
    - name: FORMULARY_CONSOLE_PROXY_SECRET_FILE
      value: /etc/formulary/proxy/secret
    {{- end }}
    - name: FORMULARY_CATALOG_NAMESPACE
      value: {{ include "formulary.catalogNamespace" . | quote }}
    - name: FORMULARY_ALLOWED_HOSTS
      value: {{ concat $hosts .Values.server.allowedHosts | join "," | quote }}
    - name: FORMULARY_REQUEST_CONTEXT
      value: {{ .Values.search.requestContext | quote }}
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
    - name: FORMULARY_LABEL_PARAMETERS
      value: {{ .Values.search.labelParameters | quote }}
    - name: FORMULARY_TOOLSETS
      value: {{ .Values.search.toolsets | join "," | quote }}
    - name: FORMULARY_EXECUTION
      value: {{ include "formulary.executionMode" . | quote }}
    - name: FORMULARY_INVOCATIONS_PER_HOUR
      value: {{ .Values.execution.limits.perHour | int64 | quote }}
    - name: FORMULARY_DRY_RUNS_PER_HOUR
      value: {{ .Values.execution.limits.dryRunsPerHour | int64 | quote }}
    - name: FORMULARY_CONCURRENT_INVOCATIONS
      value: {{ .Values.execution.limits.concurrent | int64 | quote }}
    - name: FORMULARY_MAX_TIMEOUT_MS
      value: {{ .Values.execution.limits.timeoutMs | int64 | quote }}
    - name: FORMULARY_RELEASE_NAMESPACE
      value: {{ include "formulary.namespace" . | quote }}
    - name: FORMULARY_RUNS_NAMESPACE
      value: {{ .Values.execution.runsNamespace | quote }}
    - name: FORMULARY_TEKTON_BUNDLES
      value: {{ .Values.execution.tektonBundles | quote }}
    - name: FORMULARY_ARGO_TEMPLATES
      value: {{ .Values.execution.argoTemplates | quote }}
    {{- if .Values.server.tls.enabled }}
    - name: FORMULARY_TLS_DIR
      value: /etc/formulary/tls
    {{- end }}
    {{- if include "formulary.runs" . }}
    - name: FORMULARY_INPUT_KEY_FILE
      value: /etc/formulary/input/input.key
    {{- end }}
    - name: FORMULARY_POOL_SIZE
      value: {{ .Values.server.poolSize | int64 | quote }}
    - name: FORMULARY_LOG_LEVEL
      value: {{ .Values.server.logLevel | quote }}
    {{- with .Values.server.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: http
      containerPort: 8080
      protocol: TCP
  lifecycle:
    preStop:
      exec:
        # Endpoints are withdrawn before the port closes; the image has no shell.
        command: [python3, -c, "import time; time.sleep(5)"]
  {{- $scheme := .Values.server.tls.enabled | ternary "HTTPS" "" }}
  {{- range $probe, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
  {{ $probe }}:
    {{- include "formulary.probe" (dict "values" (get $.Values.server $probe) "path" $path "port" "http" "scheme" $scheme) | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml .Values.server.resources | nindent 4 }}
  volumeMounts:
    {{- include "formulary.scratchMount" . | nindent 4 }}
    {{- include "formulary.databaseMount" . | nindent 4 }}
    {{- if .Values.server.tls.enabled }}
    - name: tls
      mountPath: /etc/formulary/tls
      readOnly: true
    {{- end }}
    {{- include "formulary.inputKeyMount" . | nindent 4 }}
    {{- if .Values.authentication.proxySecret }}
    - name: proxy
      mountPath: /etc/formulary/proxy
      readOnly: true
    {{- end }}
    {{- include "formulary.contextMount" . | nindent 4 }}
    {{- with .Values.server.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "formulary.serverVolumes" -}}
{{- if .Values.server.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "formulary.tlsSecret" . | quote }}
{{- end }}
{{- with .Values.authentication.proxySecret }}
- name: proxy
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- include "formulary.contextVolume" . }}
{{- with .Values.server.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The file of the mapping, for the server and for the operator, which reads targets again before runs start. */}}
{{- define "formulary.contextEnv" -}}
{{- if .Values.context.mapping }}
- name: FORMULARY_CONTEXT_FILE
  value: /etc/formulary/context/mapping.yaml
{{- end }}
{{- end -}}
{{- define "formulary.contextMount" -}}
{{- if .Values.context.mapping }}
- name: context
  mountPath: /etc/formulary/context
  readOnly: true
{{- end }}
{{- end -}}
{{- define "formulary.contextVolume" -}}
{{- if .Values.context.mapping }}
- name: context
  configMap:
    name: {{ printf "%s-%s" (include "formulary.fullname" .) (include "formulary.contextSuffix" .) }}
{{- end }}
{{- end -}}

{{/* Not empty if the operator has an account of its own that reads targets before runs start. */}}
{{- define "formulary.contextOfRuns" -}}
{{- if and (include "formulary.runs" .) (ne (include "formulary.operatorAccount" .) (include "formulary.serverAccount" .)) -}}true{{- end -}}
{{- end -}}

{{/* Named by what is in it: the file is read at start, so that another mapping needs new pods. */}}
{{- define "formulary.contextSuffix" -}}
{{- printf "context-%s" (.Values.context.mapping | toJson | sha256sum | trunc 8) -}}
{{- end -}}

{{/* How targets are read: not at all where nobody knows the caller, whose right to get one has to be checked. */}}
{{- define "formulary.contextTarget" -}}
{{- and (eq .Values.authentication.mode "kubernetes") (eq (toString .Values.context.target) "kubernetes") | ternary "kubernetes" "off" -}}
{{- end -}}

{{/* Whether the server talks to the API server. */}}
{{- define "formulary.serverToken" -}}
{{- eq .Values.authentication.mode "kubernetes" -}}
{{- end -}}
