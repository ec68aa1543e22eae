{{/* Names, labels and what follows from them. */}}

{{- define "formulary.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 42 | trimSuffix "-" -}}
{{- end -}}

{{/*
Fills in the defaults of all values. values.yaml has the most usual ones only; and with `helm upgrade --reuse-values` Helm
gives a new chart the values of the old one, without those that are new.
*/}}
{{- define "formulary.init" -}}
{{- if not (hasKey . "FormularyDefaults") -}}
{{- $_ := set . "FormularyDefaults" (.Files.Get "files/defaults.json" | fromJson) -}}
{{- $_ := set . "Values" (mergeOverwrite .FormularyDefaults (deepCopy .Values)) -}}
{{- end -}}
{{- end -}}

{{/* Where the database is: a PostgreSQL that is named, or one of the other kinds. */}}
{{- define "formulary.databaseMode" -}}
{{- .Values.database.mode | default (empty .Values.database.external.existingSecret | ternary "embedded" "external") -}}
{{- end -}}

{{/* Not empty if server and operator are one pod. */}}
{{- define "formulary.onePod" -}}
{{- if or .Values.allInOne (eq (include "formulary.databaseMode" .) "embedded") -}}true{{- end -}}
{{- end -}}

{{/* What becomes of real runs: off, approve or auto. YAML takes a bare off for false. */}}
{{- define "formulary.executionMode" -}}
{{- $former := eq (toString .Values.execution.enabled) "true" | ternary "auto" "off" -}}
{{- kindIs "bool" .Values.execution.mode | ternary "off" .Values.execution.mode | default $former -}}
{{- end -}}

{{/* Not empty if something may be run. */}}
{{- define "formulary.runs" -}}
{{- if ne (include "formulary.executionMode" .) "off" -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the starter catalog is applied. */}}
{{- define "formulary.starter" -}}
{{- $byDefault := eq (include "formulary.databaseMode" .) "embedded" -}}
{{- if kindIs "bool" .Values.starterCatalog.enabled | ternary .Values.starterCatalog.enabled $byDefault -}}true{{- end -}}
{{- end -}}

{{/* Where the release's objects are. */}}
{{- define "formulary.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* Name of an object that belongs to no namespace, so that two releases of one name do not collide. */}}
{{- define "formulary.clusterName" -}}
{{- printf "%s-%s" (include "formulary.namespace" .) (include "formulary.fullname" .) -}}
{{- end -}}

{{- define "formulary.catalogNamespace" -}}
{{- .Values.catalog.namespace | default (include "formulary.namespace" .) -}}
{{- end -}}

{{/* The namespaces that are watched, as JSON; none for all. Runs about cluster-scoped targets belong to these. */}}
{{- define "formulary.watchedNamespaces" -}}
{{- $runs := empty (include "formulary.runs" .) | ternary "" .Values.execution.runsNamespace -}}
{{- $watched := .Values.catalog.watchNamespaces -}}
{{- empty $watched | ternary (list) (append $watched $runs | uniq | compact) | toJson -}}
{{- end -}}

{{/* The pods that serve, and those that operate; one and the same with allInOne. */}}
{{- define "formulary.serverComponent" -}}
{{- empty (include "formulary.onePod" .) | ternary "server" "all-in-one" -}}
{{- end -}}
{{- define "formulary.operatorComponent" -}}
{{- empty (include "formulary.onePod" .) | ternary "operator" "all-in-one" -}}
{{- end -}}

{{- define "formulary.serverAccount" -}}
{{- $made := printf "%s-%s" (include "formulary.fullname" .) (include "formulary.serverComponent" .) -}}
{{- .Values.server.serviceAccount.name | default (.Values.server.serviceAccount.create | ternary $made "default") -}}
{{- end -}}
{{- define "formulary.operatorAccount" -}}
{{- if (include "formulary.onePod" .) -}}
{{- include "formulary.serverAccount" . -}}
{{- else -}}
{{- $made := printf "%s-operator" (include "formulary.fullname" .) -}}
{{- .Values.operator.serviceAccount.name | default (.Values.operator.serviceAccount.create | ternary $made "default") -}}
{{- end -}}
{{- end -}}

{{- define "formulary.image" -}}
{{- with dig "imageRegistry" "" (get .Values "global" | default dict) }}{{ . | trimSuffix "/" }}/{{ end -}}
{{- $version := printf ":%s" (.Values.image.tag | default .Chart.AppVersion) -}}
{{- .Values.image.repository }}{{ empty .Values.image.digest | ternary $version (printf "@%s" .Values.image.digest) -}}
{{- end -}}

{{/* Labels that select pods: {root, component}. They never change between versions. */}}
{{- define "formulary.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default .root.Chart.Name | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels that the chart gives an object: {root, component}. */}}
{{- define "formulary.givenLabels" -}}
{{ include "formulary.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: formulary
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
{{- end -}}
{{- define "formulary.ownLabels" -}}
{{- include "formulary.givenLabels" (dict "root" . "component" "any") -}}
{{- end -}}

{{/* Labels of an object: {root, component}. */}}
{{- define "formulary.labels" -}}
{{ include "formulary.givenLabels" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations of an object: {root, annotations}; its own win over the common ones. */}}
{{- define "formulary.annotations" -}}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Name, namespace, annotations and labels of an object: {root, component, suffix, annotations}; no suffix: bare. */}}
{{- define "formulary.metadata" -}}
name: "{{ include "formulary.fullname" .root }}{{ with .suffix }}-{{ . }}{{ end }}"
namespace: {{ include "formulary.namespace" .root | quote }}
{{- with include "formulary.annotations" . }}
{{ . }}
{{- end }}
labels:
  {{- include "formulary.labels" . | nindent 2 }}
{{- end -}}

{{/* The same for an object that belongs to no namespace. */}}
{{- define "formulary.clusterMetadata" -}}
name: "{{ include "formulary.clusterName" .root }}{{ with .suffix }}-{{ . }}{{ end }}"
{{- with include "formulary.annotations" . }}
{{ . }}
{{- end }}
labels:
  {{- include "formulary.labels" . | nindent 2 }}
{{- end -}}

{{/* Where a page of the documentation site is, by its name: who installs from a registry has no docs folder. */}}
{{- define "formulary.page" -}}
{{- printf "https://formulary.dev/docs/%s.html" . -}}
{{- end -}}

{{- define "formulary.url" -}}
{{- $scheme := .Values.server.tls.enabled | ternary "https" "http" -}}
{{- printf "%s://%s.%s.svc:%d" $scheme (include "formulary.fullname" .) (include "formulary.namespace" .) (.Values.server.service.port | int64) -}}
{{- end -}}
