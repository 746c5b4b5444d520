{{- define "edgesocket.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "edgesocket.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "edgesocket.labels" -}}
{{ include "edgesocket.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "edgesocket.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "edgesocket.tokens" -}}
{{ .Values.tokens.existingSecret | default (printf "%s-tokens" (include "edgesocket.fullname" .)) }}
{{- end -}}

{{- define "edgesocket.rayToken" -}}
{{ .Values.ray.existingTokenSecret | default (printf "%s-ray" (include "edgesocket.fullname" .)) }}
{{- end -}}

{{- define "edgesocket.claim" -}}
{{ .Values.state.volume.existingClaim | default (printf "%s-state" (include "edgesocket.fullname" .)) }}
{{- end -}}

{{- define "edgesocket.stateRoot" -}}
{{- if and .Values.state.s3.url .Values.state.volume.enabled -}}
{{- fail "state: give state.s3.url or state.volume.enabled, not both" -}}
{{- else if .Values.state.s3.url -}}
{{ .Values.state.s3.url }}
{{- else if .Values.state.volume.enabled -}}
/srv/edgesocket
{{- else -}}
{{- fail "state: set state.s3.url (s3://bucket/prefix), or state.volume.enabled=true for a volume that all pods mount" -}}
{{- end -}}
{{- end -}}

{{- define "edgesocket.stateEnv" -}}
- name: EDGESOCKET_CLUSTER
  value: {{ include "edgesocket.stateRoot" . | quote }}
{{- with .Values.state.s3.endpoint }}
- name: AWS_ENDPOINT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.state.s3.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- with .Values.state.s3.credentialsSecret }}
{{- $secret := . }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom:
    secretKeyRef: {name: {{ $secret }}, key: {{ . }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "edgesocket.rayEnv" -}}
{{- range $name, $value := .Values.ray.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ include "edgesocket.rayToken" . }}, key: ray}
- name: HOME
  value: /tmp
{{- end -}}

{{/* Status, health and metrics of the jobs in a worker: 8080 is Ray's own metrics in pods of KubeRay. */}}
{{- define "edgesocket.httpEnv" -}}
# Arrival logs of jobs whose state lies in S3; survives a restart of the container.
- name: EDGESOCKET_SCRATCH
  value: /tmp/edgesocket
- name: EDGESOCKET_HTTP
  value: 0.0.0.0:8081-8099
- name: EDGESOCKET_HTTP_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ include "edgesocket.rayToken" . }}, key: http}
{{- end -}}

{{- define "edgesocket.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.state.volume.enabled }}
- name: state
  persistentVolumeClaim: {claimName: {{ include "edgesocket.claim" . }}}
{{- end }}
{{- end -}}

{{- define "edgesocket.volumeMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.state.volume.enabled }}
- {name: state, mountPath: /srv/edgesocket}
{{- end }}
{{- end -}}

{{/* Tools write to /tmp and the state only. Ray writes in more places, so its pods do without this. */}}
{{- define "edgesocket.toolSecurity" -}}
{{- toYaml (merge (dict "readOnlyRootFilesystem" true) .Values.securityContext) -}}
{{- end -}}

{{/* Collectors' tokens are files: a Secret that changes, or gets a job more, changes them in pods that run. */}}
{{- define "edgesocket.tokenVolume" -}}
- name: tokens
  secret: {secretName: {{ include "edgesocket.tokens" . }}, defaultMode: 288}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "edgesocket.tokenMount" -}}
- {name: tokens, mountPath: /run/secrets/edgesocket, readOnly: true}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A pod of a node that is lost is given up sooner than after the five minutes that are usual. */}}
{{- define "edgesocket.evictions" -}}
{{- range $i, $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- if $i }}{{ "\n" }}{{ end -}}
- {key: {{ $key }}, operator: Exists, effect: NoExecute, tolerationSeconds: {{ $.Values.evictAfterSeconds }}}
{{- end }}
{{- end -}}

{{- define "edgesocket.address" -}}
http://{{ include "edgesocket.fullname" . }}-head-svc:8265
{{- end -}}

{{- define "edgesocket.toolPod" -}}
serviceAccountName: {{ include "edgesocket.fullname" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end -}}
