#!/usr/bin/env bash
# Runs connectrt in an environment that it makes itself: exact versions from the lock file, in .venv next to this script.
# An archive of Spark's classes, for cheaper starts, is made in the background after the first start.
#
#   ./spark-submit.sh conf/quickstart.properties            the main job, on an embedded Kafka
#   ./spark-submit.sh conf/connect-distributed.properties   one worker (joins the group of its group.id)
#   ./spark-submit.sh --standalone conf/connect-standalone.properties [connector.properties|.json ...]
#   ./spark-submit.sh --mirror conf/connect-mirror-maker.properties [--clusters B ...]
#   ./spark-submit.sh --environment [dev]                   only prepare the environment; print its python
#                     (--environment dev without-archive: the caller has the archive made later, by the line above)
#
# PYTHON=... chooses the Python (3.11 or later) to build on; CONNECTRT_VENV=... another place for the environment.
set -euo pipefail
began=${EPOCHSECONDS:-$(date +%s)}
export CONNECTRT_BEGAN=${CONNECTRT_BEGAN:-$began} # lines of progress count from here
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${CONNECTRT_VENV:-$here/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac

die() { printf 'spark-submit.sh: %s\n' "$1" >&2; exit "${2:-1}"; }

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
is_new_enough() { case $1 in 3.1[1-9] | 3.[2-9][0-9] | [4-9].*) ;; *) return 1 ;; esac }

find_python() {
  local candidate version found=""
  if [ -n "${PYTHON:-}" ]; then # what the user names is used or refused, never replaced
    version=$(version_of "$PYTHON") || die "PYTHON=$PYTHON is not a Python that runs. Set it to a Python 3.11 or later." 10
    is_new_enough "$version" || die "PYTHON=$PYTHON is Python $version. Set it to a Python 3.11 or later." 10
    command -v "$PYTHON"
    return
  fi
  for candidate in python3 python3.13 python3.12 python3.11 python; do
    version=$(version_of "$candidate") || continue
    if is_new_enough "$version"; then command -v "$candidate"; return; fi
    found="$found, $candidate is $version"
  done
  die "needs Python 3.11 or later, and found ${found:+only older ones (${found#, })}${found:-none}. Install one \
(Debian and Ubuntu: apt install python3 python3-venv; macOS: brew install python), or name one: \
PYTHON=/path/to/python3.12 ./spark-submit.sh ..." 10
}

stamp_of() { cat "$1" "$here/pyproject.toml" | cksum; }
made_from() { [ -f "$venv/.connectrt-stamp" ] && [ "$(cat "$venv/.connectrt-stamp")" = "$(stamp_of "$1")" ]; }

make_environment() { # $1: the lock file; the others go to tools.environment
  local lock=$1 python
  shift
  if made_from "$lock"; then return; fi
  # The dev lock holds everything of the run lock: an environment made for tests serves to run, too.
  if made_from "$here/requirements-dev.lock"; then return; fi
  python=$(find_python)
  (cd "$here" && "$python" -m tools.environment --venv "$venv" --lock "$lock" --stamp "$(stamp_of "$lock")" "$@") >&2
}

lacks_archive() { # it costs half a minute once for each environment and Java; without it every start costs a third more CPU
  ! compgen -G "$venv/share/connectrt/spark-*.jsa" >/dev/null && [ ! -s "$venv/class-archive.log" ] # it failed before
}

make_archive() { # $1: niceness. The log appears when it has failed, and not when it was ended in the middle.
  local log=$venv/class-archive.log
  if nice -n "$1" "$venv/bin/python" -m spark_connect_rt class-archive >/dev/null 2>"$log.part"; then
    rm -f "$log.part"
  else
    mv "$log.part" "$log"
    return 1
  fi
}

progress() { # $1: what happens now; with the seconds since the start
  printf '[%3d s] %s\n' $((${EPOCHSECONDS:-$(date +%s)} - CONNECTRT_BEGAN)) "$1" >&2
}

make_archive_later() { # when this process, which becomes the job, has ended or has run for three minutes
  lacks_archive && [ -w "$venv" ] || return 0
  progress 'an archive of classes for faster starts will be made in the background after this one'
  (
    trap '' HUP INT
    for _ in {1..180}; do
      kill -0 "$$" && sleep 1 || break
    done
    make_archive 19
  ) </dev/null >/dev/null 2>&1 &
}

if [ "${1:-}" = "--environment" ]; then
  lock=requirements.lock
  if [ "${2:-}" = "dev" ]; then lock=requirements-dev.lock; fi
  make_environment "$here/$lock" --complete
  if [ "${3:-}" != without-archive ] && lacks_archive; then # before the answer, because tests and images want all of it
    progress 'making an archive of classes for faster starts: Spark runs once, half a minute on an idle machine'
    if make_archive 0; then
      progress 'class archive ready'
    else
      printf 'no class archive, starts will take longer: see %s\n' "$venv/class-archive.log" >&2
    fi
  fi
  printf '%s\n' "$venv/bin/python"
  exit 0
fi
[ $# -gt 0 ] || { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
make_environment "$here/requirements.lock" --folder "$PWD" -- "$@"
make_archive_later
if [ "$1" = "--mirror" ]; then
  shift
  exec "$venv/bin/python" -m spark_connect_rt mirror run "$@"
fi
exec "$venv/bin/python" -m spark_connect_rt submit "$@"
