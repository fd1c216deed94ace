{{- define "gpusnoop.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpusnoop.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "gpusnoop.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpusnoop.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpusnoop.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gpusnoop.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpusnoop.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpusnoop.labels" -}}
{{ include "gpusnoop.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpusnoop.config" -}}
{{- if .Values.config -}}
{{ toYaml .Values.config }}
{{- else -}}
{{ .Files.Get "files/config.yaml" }}
{{- end -}}
{{- end -}}

{{- /* What a monitor says of each target: the same for pods and for services. */ -}}
{{- define "gpusnoop.endpoint" -}}
port: metrics
path: /metrics
interval: {{ .Values.monitor.interval }}
scrapeTimeout: {{ .Values.monitor.scrapeTimeout }}
scheme: {{ .Values.monitor.scheme }}
{{- with .Values.monitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.monitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
relabelings:
  # The name that the rules expect.
  - {targetLabel: job, replacement: gpusnoop}
  # The node, and not an address that changes when its exporter is replaced.
  - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance, replacement: "${1}:{{ .Values.port }}"}
  # The exporter's own pod, which would be taken for the program's.
  - {action: labeldrop, regex: container|endpoint|namespace|pod|service}
  {{- with .Values.monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* How the kubelet asks: (list . PATH). */}}
{{- define "gpusnoop.probe" -}}
{{- $scheme := (index . 0).Values.probes.scheme -}}
{{- if eq $scheme "TCP" -}}
tcpSocket: {port: metrics}
{{- else -}}
httpGet: {path: {{ index . 1 }}, port: metrics, scheme: {{ $scheme }}}
{{- end -}}
{{- end -}}

{{/* A threshold as rules have it: sizes such as 64MiB are numbers of bytes. */}}
{{- define "gpusnoop.threshold" -}}
{{- $value := toString . -}}
{{- range $power, $unit := list "KiB" "MiB" "GiB" "TiB" -}}
{{- if regexMatch (printf "^[0-9]+%s$" $unit) $value -}}
{{- $bytes := trimSuffix $unit $value | int64 -}}
{{- range until (add1 $power | int) -}}{{- $bytes = mul $bytes 1024 -}}{{- end -}}
{{- $value = toString $bytes -}}
{{- end -}}
{{- end -}}
{{- $value -}}
{{- end -}}
