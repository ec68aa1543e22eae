{{/* A binding: {root, component, name, kind, role, namespace, account}; no namespace for the whole cluster. */}}
{{- define "formulary.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRoleBinding" "RoleBinding" }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "formulary.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ empty .namespace | ternary "ClusterRole" "Role" }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end -}}

{{/* A role and its binding: what `formulary.binding` takes, and rules as text. */}}
{{- define "formulary.granted" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ empty .namespace | ternary "ClusterRole" "Role" }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "formulary.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
{{ include "formulary.binding" . }}
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
- apiGroups: [""]
  resources: [events]
  verbs: [create]
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

{{- define "formulary.webhookRules" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [{{ include "formulary.clusterName" . }}]
  verbs: [get, patch]
{{- end -}}

{{/* Not empty if the operator makes the webhook's certificate. */}}
{{- define "formulary.selfSigned" -}}
{{- if and .Values.webhook.enabled (eq .Values.webhook.certificates "self-signed") -}}true{{- end -}}
{{- end -}}

{{- define "formulary.starterRules" -}}
- apiGroups: [kubernaut.ai]
  resources: [remediationworkflows]
  verbs: [create, patch]
{{- end -}}
