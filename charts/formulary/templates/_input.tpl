{{/* The Secret with the keys that encrypt sensitive input of runs. */}}
{{- define "formulary.inputKeySecret" -}}
{{- .Values.execution.inputKeySecret | default (printf "%s-input-key" (include "formulary.fullname" .)) -}}
{{- end -}}

{{- define "formulary.inputKeyMount" -}}
{{- if include "formulary.runs" . -}}
- name: input-key
  mountPath: /etc/formulary/input
  readOnly: true
{{- end -}}
{{- end -}}

{{- define "formulary.inputKeyVolume" -}}
{{- if include "formulary.runs" . -}}
- name: input-key
  secret:
    secretName: {{ include "formulary.inputKeySecret" . | quote }}
{{- end -}}
{{- end -}}
