#!/usr/bin/env bash
# Runs monitor.py with Spark: on this machine, or on the cluster that MASTER names.
# OPTIONS are more options of spark-submit, such as "--packages …" for Kafka.
set -euo pipefail
here=$(dirname "$0")
read -ra options <<<"${OPTIONS:-}"
exec spark-submit --master "${MASTER:-local[2]}" --properties-file "$here/spark.conf" \
  "${options[@]}" "$here/monitor.py" "$@"
