{{/* What all pods have in common. */}}

{{/* Annotations and labels of a pod: {root, component, values}; values: its own, which win. */}}
{{- define "formulary.podMetadata" -}}
{{- $values := .values | default dict -}}
{{- with merge (dict) (get $values "podAnnotations" | default dict) .root.Values.pods.annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
labels:
  {{- include "formulary.labels" . | nindent 2 }}
  {{- with get $values "podLabels" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A pod's spec up to its containers: {root, token, user}; token: whether it talks to the API server. */}}
{{- define "formulary.podBasics" -}}
automountServiceAccountToken: {{ .token }}
enableServiceLinks: false
securityContext:
  {{- if .root.Values.pods.securityContext }}
  {{- toYaml .root.Values.pods.securityContext | nindent 2 }}
  {{- else }}
  {{- $user := .user | default 65532 }}
  runAsNonRoot: true
  runAsUser: {{ $user }}
  runAsGroup: {{ $user }}
  fsGroup: {{ $user }}
  # Else each start rewrites the modes of a whole volume, and a database refuses data that its group may read.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
  {{- end }}
{{- with .root.Values.pods.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .root.Values.pods.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat .root.Values.imagePullSecrets (dig "imagePullSecrets" list (get .root.Values "global" | default dict)) }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Which nodes a pod may have, and who has to make room: {root, values}; values: its own, which win. */}}
{{- define "formulary.nodes" -}}
{{- with .values.nodeSelector | default .root.Values.pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations | default .root.Values.pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName | default .root.Values.pods.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Where the pods of a Deployment may run: {root, values, component}. */}}
{{- define "formulary.placement" -}}
{{- include "formulary.nodes" . }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "formulary.selector" . | nindent 8 }}
    {{- if semverCompare ">=1.27-0" .root.Capabilities.KubeVersion.Version }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
{{- range $field, $value := .values.podSpec }}
{{- if $value }}
{{ $field }}: {{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "formulary.containerSecurity" -}}
securityContext:
  {{- if .root.Values.pods.containerSecurityContext }}
  {{- toYaml .root.Values.pods.containerSecurityContext | nindent 2 }}
  {{- else }}
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
  {{- end }}
{{- end -}}

{{/* A probe: {values, path, port, scheme}. */}}
{{- define "formulary.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
  {{- with .scheme }}
  scheme: {{ . }}
  {{- end }}
{{ toYaml .values }}
{{- end -}}

{{/* A container of our image up to its command: {root, name}. */}}
{{- define "formulary.containerBasics" -}}
name: {{ .name | quote }}
image: {{ include "formulary.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{ include "formulary.containerSecurity" . }}
{{- end -}}

{{- define "formulary.scratch" -}}
- name: scratch
  emptyDir: {}
{{- end -}}
{{- define "formulary.scratchMount" -}}
- name: scratch
  mountPath: /tmp
{{- end -}}

{{/* Where the database is: {root, user}; user: owner, server or operator. */}}
{{- define "formulary.databaseEnv" -}}
- name: FORMULARY_DATABASE_URL
  {{- if eq (include "formulary.databaseMode" .root) "embedded" }}
  value: {{ printf "postgresql://formulary_writer@/formulary?host=%s/cluster&port=5432" (include "formulary.dataDir" .root) }}
  {{- else }}
  valueFrom:
    secretKeyRef:
      {{- $mode := include "formulary.databaseMode" .root }}
      {{- $external := .root.Values.database.external }}
      {{- if eq $mode "external" }}
      {{- $keys := dict "owner" $external.key "server" $external.serverKey "operator" $external.operatorKey }}
      name: {{ $external.existingSecret | quote }}
      key: {{ get $keys .user | quote }}
      {{- else if eq $mode "cnpg" }}
      {{- /* The owner's Secret is made by CloudNativePG. */}}
      name: {{ include "formulary.fullname" .root }}-postgres-{{ eq .user "owner" | ternary "app" .user }}
      key: uri
      {{- else }}
      name: {{ include "formulary.fullname" .root }}-postgres
      key: {{ .user }}-uri
      {{- end }}
  {{- end }}
{{- if .root.Values.database.external.caSecret }}
- name: PGSSLROOTCERT
  value: /etc/formulary/database/ca.crt
{{- end }}
{{- end -}}

{{/* Directory of the embedded database, in the containers of its pod. */}}
{{- define "formulary.dataDir" -}}/var/lib/formulary{{- end -}}

{{/*
For containers with `formulary.databaseEnv`: the authority of an external database's certificate, or the volume of the
embedded one.
*/}}
{{- define "formulary.databaseVolume" -}}
{{- if eq (include "formulary.databaseMode" .) "embedded" -}}
- name: data
  persistentVolumeClaim:
    claimName: {{ include "formulary.fullname" . }}-data
{{- end -}}
{{- with .Values.database.external.caSecret -}}
- name: database-ca
  secret:
    secretName: {{ . | quote }}
    items:
      - key: ca.crt
        path: ca.crt
{{- end -}}
{{- end -}}
{{- define "formulary.databaseMount" -}}
{{- if eq (include "formulary.databaseMode" .) "embedded" -}}
- name: data
  mountPath: {{ include "formulary.dataDir" . }}
{{- end -}}
{{- if .Values.database.external.caSecret -}}
- name: database-ca
  mountPath: /etc/formulary/database
  readOnly: true
{{- end -}}
{{- end -}}

{{/* Tells one Job from another in its name, since Jobs cannot be changed: takes the text of the spec. */}}
{{- define "formulary.digest" -}}
{{- sha256sum . | trunc 8 -}}
{{- end -}}
