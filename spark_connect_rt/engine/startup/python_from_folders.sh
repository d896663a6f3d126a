#!/bin/sh
# Python for the processes of a local Spark: Spark puts its pyspark.zip first on their path, and a zip holds no
# bytecode, so that each of them would compile all it imports: 0.4 CPU seconds, six times before a first record.
# Its daemons are forked from the worker's zygote (spark/zygote), where there is one, and import nothing.
kept=
IFS=:
for one in $PYTHONPATH; do
  case $one in
    "$SPARK_HOME"/python/lib/pyspark.zip | "$SPARK_HOME"/python/lib/py4j-*.zip) ;;
    *) kept=$kept${kept:+:}$one ;;
  esac
done
unset IFS
PYTHONPATH=$kept
export PYTHONPATH
case "$1 $2" in
  "-m pyspark.daemon" | "-m spark_connect_rt.engine.executor.daemon")
    if [ -n "$CONNECTRT_ZYGOTE" ] && [ -S "$CONNECTRT_ZYGOTE" ]; then
      # Spark holds this process for its daemon: it lasts as long. A descriptor of the daemon's says when that ends.
      exec 3>&1
      "$CONNECTRT_PYTHON" -I -S "${0%/*}/zygote_client.py" "$CONNECTRT_ZYGOTE" "$2" "$3" 4>&1 >&3 3>&- | {
        read -r answer
        [ "$answer" = no ]
      } || exit 0
      exec 3>&-
    fi
    ;;
esac
# Spark asks twice which Python this is, and waits: that needs no packages.
[ "$1 $2" != "-c import sys; print('%d.%d' % sys.version_info[:2])" ] || exec "$CONNECTRT_PYTHON" -I -S "$@"
exec "$CONNECTRT_PYTHON" "$@"
