{{- define "weft.name" -}}
{{- $name := printf "%s-weft" .Release.Name }}
{{- if contains "weft" .Release.Name }}{{ $name = .Release.Name }}{{ end }}
{{- $name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "weft.selector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end }}

{{- define "weft.labels" -}}
{{ include "weft.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* TLS is on where it is enabled, where there is a certificate, and with an API key. */ -}}
{{- define "weft.tls" -}}
{{- if or .Values.temporal.tls.enabled .Values.temporal.tls.secret .Values.temporal.apiKey.secret }}true{{ end }}
{{- end }}
