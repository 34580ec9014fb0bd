#!/usr/bin/env bash
# Instructions of the fast paths, by collective and phase (cycle.c says what each is), counted by callgrind:
# the same number every time, whatever else the machine does.
#
# usage: bench/instructions/run.sh [BUILD_FOLDER [COLLECTIVE[:ENDPOINTS] ...]]
#        (default build/release and all; needs valgrind)
#
# Counts the whole run for two iteration numbers; the difference belongs to the iterations alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build/release}
shift || true
command -v valgrind >/dev/null || {
    echo "run.sh: valgrind is missing" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -O2 -g -I"$here/../../include" "$here/cycle.c" -o "$work/cycle" -L"$build" -lheddle \
    -Wl,-rpath,"$(cd "$build" && pwd)"

few=200
many=1200

# profile COLLECTIVE ENDPOINTS ITERATIONS: "phase instructions" a line, of all phases together.
profile() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$work/cycle" "$3" "$1" "$2" \
        >/dev/null 2>&1 || {
        echo "run.sh: cycle failed: $*" >&2
        return 1
    }
    callgrind_annotate --inclusive=yes --auto=no --threshold=100 "$work/out" |
        sed -n 's/^ *\([0-9,]*\) .*cycle\.c:phase_\([a-z_]*\) .*/\2 \1/p' | tr -d ,
}

printf '# instructions per call; init, post_to_done, finalize, persistent: of all endpoints together\n'
printf '%-17s %8s %13s %9s %11s %9s %14s\n' collective init post_to_done finalize persistent last_ucc \
    last_blocking
[ $# -gt 0 ] || set -- allreduce:2 barrier:2 bcast:2 scatter:2 alltoall:2 alltoallv:2 allgatherv:2 \
    reduce_scatterv:2 large:2 mixed:2 allreduce:16 barrier:64
for what in "$@"; do
    collective=${what%:*} endpoints=2
    [[ $what == *:* ]] && endpoints=${what#*:}
    profile "$collective" "$endpoints" "$few" >"$work/few"
    profile "$collective" "$endpoints" "$many" >"$work/many"
    awk -v calls=$((many - few)) -v what="$collective:$endpoints" '
        NR == FNR { few[$1] = $2; next }
        { per[$1] = ($2 - few[$1]) / calls }
        END {
            # the persistent phase calls post_to_done, too
            per["post_to_done"] -= per["persistent"]
            per["last_blocking"] += per["last_collective"]
            printf "%-17s %8d %13d %9d %11d %9d %14d\n", what, per["init"], per["post_to_done"],
                per["finalize"], per["persistent"], per["last_ucc"], per["last_blocking"]
        }' "$work/few" "$work/many"
done
