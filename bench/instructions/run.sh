#!/usr/bin/env bash
# Instructions per 8-byte allreduce at both endpoints of a team that one thread drives, by phase, counted
# by callgrind: the same number every time, whatever else the machine does.
#
# usage: bench/instructions/run.sh [BUILD_FOLDER]     (default build/release; needs valgrind)
#
# Counts the whole run for two iteration numbers; the difference belongs to the iterations alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build/release}
command -v valgrind >/dev/null || {
    echo "run.sh: valgrind is missing" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -O2 -g -I"$here/../../include" "$here/cycle.c" -o "$work/cycle" -L"$build" -lheddle \
    -Wl,-rpath,"$(cd "$build" && pwd)"

# count PHASE ITERATIONS: instructions inside the phase and what it calls.
count() {
    valgrind --tool=callgrind --collect-atstart=no --toggle-collect="phase_$1" \
        --callgrind-out-file="$work/out" "$work/cycle" "$2" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

few=200
many=1200
printf '# instructions per call, two endpoints, one driver, 8-byte allreduce\n'
for phase in init post_to_done finalize persistent; do
    low=$(count "$phase" "$few")
    high=$(count "$phase" "$many")
    calls=$((many - few))
    # the persistent phase calls post_to_done, too
    [ "$phase" = post_to_done ] && high=$((high - $(count persistent "$many"))) &&
        low=$((low - $(count persistent "$few")))
    printf '%-14s %6d\n' "$phase" $(((high - low) / calls))
done
