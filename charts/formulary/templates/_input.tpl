{{/* The Secret with the keys that encrypt sensitive input of runs. */}}
{{- define "formulary.inputKeySecret" -}}
{{- .Values.execution.inputKeySecret | default (printf "%s-input-key" (include "formulary.fullname" .)) -}}
{{- end -}}

{{- define "formulary.inputKeyMount" -}}
- name: input-key
  mountPath: /etc/formulary/input
  readOnly: true
{{- end -}}

{{- define "formulary.inputKeyVolume" -}}
- name: input-key
  secret:
    secretName: {{ include "formulary.inputKeySecret" . | quote }}
{{- end -}}
