{{/*
A binding: {root, component, name, namespace, account}; no namespace for the whole cluster. It binds the role of this
name, or the one of another name that `role` is. With clusterRole it binds the ClusterRole in the namespace.
*/}}
{{- define "formulary.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  {{- with include "formulary.annotations" (dict "root" .root) }}
  {{- . | nindent 2 }}
  {{- end }}
  labels:
    {{- include "formulary.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ or (empty .namespace) (hasKey . "clusterRole") | ternary "ClusterRole" "Role" }}
  name: {{ .role | default .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | quote }}
    namespace: {{ include "formulary.namespace" .root | quote }}
{{- end -}}

{{/* A role: {root, component, name, namespace, rules as text}; no namespace for the whole cluster. */}}
{{- define "formulary.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  {{- with include "formulary.annotations" (dict "root" .root) }}
  {{- . | nindent 2 }}
  {{- end }}
  labels:
    {{- include "formulary.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
{{- end -}}

{{/* A role and its binding: what both take. */}}
{{- define "formulary.granted" -}}
{{ include "formulary.role" . }}
---
{{ include "formulary.binding" . }}
{{- end -}}

{{/* What it takes to read runbooks in a namespace. */}}
{{- define "formulary.runbookRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list]
{{- end -}}

{{/* What the server does in the cluster: ask who calls, and what that caller may do. */}}
{{- define "formulary.serverRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/*
What the server reads of what a call is about, and the operator again before a run starts: labels and annotations of
these kinds (`KINDS` of the catalog's domain/targets/reference.py; a test holds both equal), and what scales and protects
them.
*/}}
{{- define "formulary.contextRules" -}}
- apiGroups: [""]
  resources: [namespaces, pods, persistentvolumeclaims, services]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets, replicasets]
  verbs: [get]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [get]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
{{- end -}}

{{/* Nodes are in no namespace: the labels of one count for the pods on it. */}}
{{- define "formulary.contextNodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end -}}

{{/* What the operator does where the objects are. */}}
{{- define "formulary.operatorRules" -}}
- apiGroups: [kubernaut.ai]
  resources: [remediationworkflows]
  verbs: [get, list, watch]
- apiGroups: [kubernaut.ai]
  resources: [aianalyses]
  verbs: [get, list, watch]
- apiGroups: [kubernaut.ai]
  resources: [remediationworkflows/status]
  verbs: [patch]
- apiGroups: [formulary.dev]
  resources: [incidentsources]
  verbs: [get, list, watch]
- apiGroups: [formulary.dev]
  resources: [incidentsources/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if .Values.coverage.prometheusRules.enabled }}
- apiGroups: [monitoring.coreos.com]
  resources: [prometheusrules]
  verbs: [list]
{{- end }}
{{- if (include "formulary.runs" .) }}
{{ include "formulary.executionRules" . }}
{{- end }}
{{- end -}}

{{/* What the operator reads and records of runs, rules and approvals; it starts nothing. */}}
{{- define "formulary.executionRules" -}}
- apiGroups: [formulary.dev]
  resources: [workflowinvocations]
  verbs: [create, get, list, watch, delete]
- apiGroups: [formulary.dev]
  resources: [governancecontracts, invocationapprovals]
  verbs: [get, list, watch]
- apiGroups: [formulary.dev]
  resources: [workflowinvocations/status, governancecontracts/status, invocationapprovals/status]
  verbs: [patch]
{{- end -}}

{{/* What the operator asks before a run: what author and requester may do. No RoleBinding can give this right. */}}
{{- define "formulary.askingRules" -}}
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/*
What the operator does to run something, in the namespaces that let it. Jobs and the like it makes by name and never
changes. What a run names is read for its label only; whoever may create Jobs could mount it anyhow.
*/}}
{{- define "formulary.runsRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, get]
- apiGroups: [""]
  resources: [configmaps, serviceaccounts]
  verbs: [get]
{{- if has "job" .Values.execution.engines }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, get, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- end }}
{{- if has "tekton" .Values.execution.engines }}
- apiGroups: [tekton.dev]
  resources: [pipelineruns]
  verbs: [create, get, delete]
{{- end }}
{{- if has "argo" .Values.execution.engines }}
- apiGroups: [argoproj.io]
  resources: [workflows]
  verbs: [create, get, delete]
{{- end }}
{{- end -}}

{{/*
What people and agents are given by a binding of their own; nothing of it is part of view, edit or admin. Each by the
end of its name. Where nothing is run, an invoker gets dry runs, and there is nothing to approve or to rule.
*/}}
{{- define "formulary.givenRules" -}}
invoker:
  - apiGroups: [formulary.dev]
    resources: [workflowinvocations]
    verbs: [create, get, list, watch]
{{- if include "formulary.runs" . }}
approver:
  - apiGroups: [kubernaut.ai]
    resources: [aianalyses, aianalyses/constraints]
    verbs: [get]
  - apiGroups: [formulary.dev]
    resources: [workflowinvocations]
    verbs: [get, list, watch]
  - apiGroups: [formulary.dev]
    resources: [invocationapprovals]
    verbs: [create, get, list, watch]
governance-editor:
  - apiGroups: [formulary.dev]
    resources: [governancecontracts]
    verbs: [create, get, list, watch, update, patch, delete]
{{- end }}
{{- end -}}

{{/* What the operator does where it runs. */}}
{{- define "formulary.operatorOwnRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "formulary.fullname" . }}-operator]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "formulary.fullname" . }}-audit-checkpoints]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if include "formulary.selfSigned" . }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "formulary.fullname" . }}-webhook-tls]
  verbs: [get, update]
{{- end }}
{{- end -}}

{{/* What the operator does so that the API server asks it: the secret paths, and the authority that it makes. */}}
{{- define "formulary.webhookRules" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [{{ include "formulary.clusterName" . }}]
  verbs: [get, patch]
{{- end -}}

{{/* Not empty if the operator makes the webhook's certificate. */}}
{{- define "formulary.selfSigned" -}}
{{- if and (include "formulary.webhookEnabled" .) (eq .Values.webhook.certificates "self-signed") -}}true{{- end -}}
{{- end -}}

{{- define "formulary.starterRules" -}}
- apiGroups: [kubernaut.ai]
  resources: [remediationworkflows]
  verbs: [create, patch]
{{- end -}}
