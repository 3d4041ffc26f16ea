{{- define "qiang.name" -}}
{{- $name := ternary .Release.Name (printf "%s-qiang" .Release.Name) (contains "qiang" .Release.Name) }}
{{- $name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "qiang.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Labels that select the pods of a component: list of the root and the component. */}}
{{- define "qiang.selector" -}}
app.kubernetes.io/name: qiang
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "qiang.labels" -}}
{{ include "qiang.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end }}

{{/* Sections of the configuration file. The listeners are the chart's own: probes and services name their ports. */}}
{{- define "qiang.config" -}}
{{- $server := dict "listen" "0.0.0.0:8080" "trusted_proxies" .Values.trustedProxies }}
{{- $own := dict "server" $server "admin" (dict "listen" "0.0.0.0:8082") "worker" (dict "listen" "0.0.0.0:8081") }}
{{- $_ := set $own "limits" (dict "unlimited_addresses" .Values.trustedProxies) }}
{{- $_ := set $own "auth" (dict "hs256_secret_file" "/etc/qiang/secret/auth") }}
{{- range $section, $keys := mergeOverwrite $own (deepCopy .Values.config) }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{ end }}
{{- end }}

{{/* Secrets as variables. */}}
{{- define "qiang.env" -}}
{{- $secret := .Values.secret }}
- name: QIANG__LEDGER__URL
  valueFrom:
    secretKeyRef: {name: {{ $secret.name }}, key: {{ $secret.ledgerUrl }}}
{{- with $secret.redisPassword }}
- name: QIANG__REDIS__PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $secret.name }}, key: {{ . }}}
{{- end }}
{{- with $secret.rabbitmqUrl }}
- name: QIANG__SETTLEMENT__RABBITMQ_URL
  valueFrom:
    secretKeyRef: {name: {{ $secret.name }}, key: {{ . }}}
{{- end }}
{{- end }}

{{- define "qiang.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "qiang.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Deployment of a component: dict of root, component, command, port of the operators' listener and its values. */}}
{{- define "qiang.deployment" -}}
{{- $root := .root }}
{{- $name := printf "%s-%s" (include "qiang.name" $root) .component }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "qiang.labels" (list $root .component) | nindent 4 }}
spec:
  {{- if not (and (eq .component "node") $root.Values.hpa.enabled) }}
  replicas: {{ .values.replicas }}
  {{- end }}
  # A node is replaced once the new one is ready.
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels: {{- include "qiang.selector" (list $root .component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "qiang.labels" (list $root .component) | nindent 8 }}
        {{- with .values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/config: {{ include "qiang.config" $root | sha256sum }}
        {{- with .values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      automountServiceAccountToken: false
      securityContext: {{- include "qiang.podSecurity" $root | nindent 8 }}
      # Longer than the times of docs/operate/run.md, "Stop".
      terminationGracePeriodSeconds: 60
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "qiang.selector" (list $root .component) | nindent 14 }}
      containers:
        - name: qiang
          image: {{ include "qiang.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [{{ .command }}, --config, /etc/qiang/qiang.toml]
          env: {{- include "qiang.env" $root | nindent 12 }}
          ports:
            {{- if eq .component "node" }}
            - {name: http, containerPort: 8080}
            {{- end }}
            - {name: admin, containerPort: {{ .port }}}
          # Redis or a database that is down must not restart it.
          livenessProbe:
            httpGet: {path: /healthz, port: admin}
            periodSeconds: 10
            timeoutSeconds: 3
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: admin}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          startupProbe:
            httpGet: {path: /healthz, port: admin}
            periodSeconds: 2
            failureThreshold: 60
          resources: {{- toYaml .values.resources | nindent 12 }}
          securityContext: {{- include "qiang.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/qiang/qiang.toml, subPath: qiang.toml, readOnly: true}
            - {name: secret, mountPath: /etc/qiang/secret, readOnly: true}
            - {name: data, mountPath: /var/lib/qiang}
      volumes:
        - name: config
          configMap: {name: {{ include "qiang.name" $root }}}
        - name: secret
          secret:
            secretName: {{ $root.Values.secret.name }}
            defaultMode: 0440
            items:
              - {key: {{ $root.Values.secret.authSecret }}, path: auth}
        - name: data
          emptyDir: {sizeLimit: 64Mi}
      {{- with .values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
