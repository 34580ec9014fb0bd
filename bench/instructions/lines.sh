#!/usr/bin/env bash
# Cache lines of the fast paths, by collective and phase (cycle.c says what each is): how many distinct lines of
# 64 bytes one call touches in the steady state, from lackey's trace of every access. The same numbers every time.
#
# usage: bench/instructions/lines.sh [BUILD_FOLDER [COLLECTIVE[:ENDPOINTS] ...]]
#        (default build/release and what is small; needs valgrind and python3)
#
#   data      what is touched outside the stack and the caller's arguments: the library's, and users' buffers
#   written   those of them that are written
#   stack     lines of the stack
#   code      lines of instructions
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build/release}
shift || true
for tool in valgrind python3; do
    command -v "$tool" >/dev/null || {
        echo "lines.sh: $tool is missing" >&2
        exit 2
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -O2 -g -I"$here/../../include" "$here/cycle.c" -o "$work/cycle" -L"$build" -lheddle \
    -Wl,-rpath,"$(cd "$build" && pwd)"

# After cycle's own first calls, some rounds of the rings of lanes.
iterations=32

printf '# lines of 64 bytes per call; init, post_to_done, finalize, persistent: of all endpoints together\n'
printf '%-14s %-8s %8s %13s %9s %11s %9s %14s\n' collective lines init post_to_done finalize persistent \
    last_ucc last_blocking
[ $# -gt 0 ] || set -- allreduce:2 barrier:2 bcast:2 scatter:2
for what in "$@"; do
    collective=${what%:*} endpoints=2
    [[ $what == *:* ]] && endpoints=${what#*:}
    # lackey writes to stderr, whose place the pipe takes; cycle's own line goes through a file. The environment
    # lies above the stack, whose alignment should not depend on it.
    (cd "$work" && env -i PATH="$PATH" valgrind --tool=lackey --trace-mem=yes ./cycle "$iterations" \
        "$collective" "$endpoints" 2>&1 >said) |
        python3 "$here/lines.py" "$what" "$iterations" "$work/said"
done
