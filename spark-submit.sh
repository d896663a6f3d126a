#!/usr/bin/env bash
# Runs connectrt in an environment it makes itself: exact versions from the lock file, in .venv beside this script, and
# Spark's classes for cheaper starts.
#
#   ./spark-submit.sh conf/quickstart.properties            the main job, on an embedded Kafka
#   ./spark-submit.sh conf/connect-distributed.properties   one worker (joins the group of its group.id)
#   ./spark-submit.sh --standalone conf/connect-standalone.properties [connector.properties|.json ...]
#   ./spark-submit.sh --mirror conf/connect-mirror-maker.properties [--clusters B ...]
#   ./spark-submit.sh --environment [dev]                   only prepare the environment; print its python
#
# PYTHON=... chooses the Python (>= 3.11) to build on; CONNECTRT_VENV=... another place for the environment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${CONNECTRT_VENV:-$here/.venv}

die() { printf 'spark-submit.sh: %s\n' "$1" >&2; exit "${2:-1}"; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$candidate"; return; }
  done
  die "needs Python >= 3.11 (set PYTHON=/path/to/python3.11)" 10
}

stamp_of() { cat "$1" "$here/pyproject.toml" | cksum; }
made_from() { [ -f "$venv/.connectrt-stamp" ] && [ "$(cat "$venv/.connectrt-stamp")" = "$(stamp_of "$1")" ]; }

make_environment() { # $1: the lock file
  local lock=$1 python
  if made_from "$lock"; then return; fi
  # The dev lock holds everything of the run lock: an environment made for tests serves to run, too.
  if made_from "$here/requirements-dev.lock"; then return; fi
  python=$(find_python)
  printf 'making the environment in %s (once, some two minutes)\n' "$(basename "$venv")" >&2
  if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --allow-existing --python "$python" "$venv" >&2
    uv pip install --quiet --python "$venv/bin/python" -r "$lock" >&2
    uv pip install --quiet --python "$venv/bin/python" --no-deps -e "$here" >&2
  else
    "$python" -m venv "$venv" || die "python's venv module is missing (Debian: apt install python3-venv)" 10
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$lock" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e "$here" >&2
  fi
  # pip compiles what it installs, but not a checkout: without this a worker's start compiles for 0.5 CPU s, each time
  # where PYTHONDONTWRITEBYTECODE is set.
  "$venv/bin/python" -m compileall -q -j 0 "$here/spark_connect_rt" "$here/pyspark_connectrt" >&2 || true
  rm -rf "$venv/share/connectrt" "$venv/class-archive.log"
  stamp_of "$lock" > "$venv/.connectrt-stamp"
}

make_class_archive() { # once for each environment and Java; without it every start costs a third more CPU
  compgen -G "$venv/share/connectrt/spark-*.jsa" >/dev/null && return
  [ ! -s "$venv/class-archive.log" ] || return 0 # failed before
  "$venv/bin/python" -m spark_connect_rt class-archive >/dev/null 2>"$venv/class-archive.log" \
    || printf 'no class archive, starts will take longer: see %s\n' "$venv/class-archive.log" >&2
}

prepare() { # $1: the lock file
  make_environment "$1"
  make_class_archive
}

if [ "${1:-}" = "--environment" ]; then
  if [ "${2:-}" = "dev" ]; then prepare "$here/requirements-dev.lock"; else prepare "$here/requirements.lock"; fi
  printf '%s\n' "$venv/bin/python"
  exit 0
fi
[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
prepare "$here/requirements.lock"
if [ "$1" = "--mirror" ]; then
  shift
  exec "$venv/bin/python" -m spark_connect_rt mirror run "$@"
fi
exec "$venv/bin/python" -m spark_connect_rt submit "$@"
