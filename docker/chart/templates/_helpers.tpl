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

{{- /* TLS is on if it is enabled, if there is a client certificate, and with an API key. */ -}}
{{- define "weft.tls" -}}
{{- if or .Values.temporal.tls.enabled .Values.temporal.tls.secret .Values.temporal.apiKey.secret }}true{{ end }}
{{- end }}

{{- /* Worker versioning needs both deployment and build id. */ -}}
{{- define "weft.versioned" -}}
{{- with .Values.versioning }}{{ if or .deployment .buildId -}}
{{- required "set versioning.deployment to the name of the deployment that versioning.buildId is a build of" .deployment | quote | trunc 0 -}}
{{- required "set versioning.buildId to the build of versioning.deployment that these workers are, such as the image's tag" .buildId | quote | trunc 0 -}}
true{{ end }}{{ end }}
{{- end }}

{{- define "weft.serve.selector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: serve
{{- end }}

{{- define "weft.serve.labels" -}}
{{ include "weft.serve.selector" . }}
app.kubernetes.io/version: {{ .Values.serve.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Temporal's settings as environment variables. */ -}}
{{- define "weft.temporal" -}}
{{- $v := .Values -}}
- { name: TEMPORAL_ADDRESS, value: {{ required "set temporal.address to host:port of Temporal's frontend" $v.temporal.address | quote }} }
- { name: TEMPORAL_NAMESPACE, value: {{ $v.temporal.namespace | quote }} }
{{- if include "weft.tls" . }}
- { name: TEMPORAL_TLS, value: "true" }
{{- end }}
{{- with $v.temporal.apiKey }}{{ if .secret }}
- name: TEMPORAL_API_KEY
  valueFrom: { secretKeyRef: { name: {{ .secret | quote }}, key: {{ .key | quote }} } }
{{- end }}{{ end }}
{{- with $v.temporal.tls }}
{{- if .secret }}
- { name: TEMPORAL_TLS_CLIENT_CERT_PATH, value: /etc/weft/tls/tls.crt }
- { name: TEMPORAL_TLS_CLIENT_KEY_PATH, value: /etc/weft/tls/tls.key }
{{- if .ca }}
- { name: TEMPORAL_TLS_SERVER_CA_CERT_PATH, value: /etc/weft/tls/ca.crt }
{{- end }}
{{- end }}
{{- if .serverName }}
- { name: TEMPORAL_TLS_SERVER_NAME, value: {{ .serverName | quote }} }
{{- end }}
{{- end }}
{{- end }}

{{- /* Files of workers and servers: weft.yaml, certificates, flows, payloads. */ -}}
{{- define "weft.volumes" -}}
{{- $v := .Values -}}
- name: settings
  configMap: { name: {{ include "weft.name" . }} }
{{- if $v.temporal.tls.secret }}
- name: tls
  secret: { secretName: {{ $v.temporal.tls.secret | quote }}, defaultMode: 0440 }
{{- end }}
{{- if $v.flows.configMap }}
- name: flows
  configMap: { name: {{ $v.flows.configMap | quote }} }
{{- end }}
{{- if $v.store.claim }}
- name: store
  persistentVolumeClaim: { claimName: {{ $v.store.claim | quote }} }
{{- end }}
{{- end }}

{{- define "weft.mounts" -}}
{{- $v := .Values -}}
- { name: settings, mountPath: /etc/weft/weft.yaml, subPath: weft.yaml, readOnly: true }
{{- if $v.temporal.tls.secret }}
- { name: tls, mountPath: /etc/weft/tls, readOnly: true }
{{- end }}
{{- if $v.flows.configMap }}
- { name: flows, mountPath: /etc/weft/flows, readOnly: true }
{{- end }}
{{- if $v.store.claim }}
- { name: store, mountPath: /var/lib/weft/store }
{{- end }}
{{- end }}

{{- define "weft.placement" -}}
{{- $v := .Values -}}
{{- with $v.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with $v.affinity }}
affinity: {{- toYaml . | nindent 8 }}
{{- end }}
{{- end }}
