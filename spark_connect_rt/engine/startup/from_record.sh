#!/bin/sh
# Stands in for Spark's bin/spark-submit, with its arguments: --conf NAME=VALUE ... pyspark-shell. Runs Spark's JVM by
# the options that spark-submit found last time (command.py), and its gateway without the class SparkSubmit.
extra=
while [ "$1" = --conf ]; do
  shift
  case $1 in
    spark.driver.extraJavaOptions=*) extra=${1#*=} ;;
  esac
  set -- "$@" "-D$1"
  shift
done
shift
# as bin/load-spark-env.sh; executors of local-cluster are started by it
export SPARK_HOME="$CONNECTRT_SPARK_HOME" PYTHONHASHSEED=0 SPARK_ENV_LOADED=1 SPARK_SCALA_VERSION=2.13
set -f # $extra: words, as spark-submit takes it; no names of files in it
# shellcheck disable=SC2086
exec "$JAVA_HOME/bin/java" $extra "@$CONNECTRT_JVM_COMMAND" "$@" -DSPARK_SUBMIT=true -Dspark.submit.deployMode=client \
  org.apache.spark.api.python.PythonGatewayServer
