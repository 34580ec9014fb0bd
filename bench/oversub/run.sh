#!/usr/bin/env bash
# Barriers with as many or more threads than processors: GNU and LLVM OpenMP beside Heddle, whose
# loops are plain UCC (init, post, test and progress until complete, finalize).
#
# usage: bench/oversub/run.sh [heddle_perf]
#
# The contenders run in turn, several rounds, so that a change in the machine's load meets all of
# them; the table shows medians over the rounds and their ratios to Heddle. A contender that does not
# finish within LIMIT seconds shows as "-". Variables: THREADS, ROUNDS, SECONDS_EACH, LIMIT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
perf=${1:-$here/../../build/release/heddle_perf}
threads_list=${THREADS:-4 16 64}
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-1}
limit=${LIMIT:-30}

if [ ! -x "$perf" ]; then
    echo "run.sh: no program '$perf': build it, or give its path" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build NAME COMPILER: one OpenMP contender; a missing compiler or runtime leaves it out.
contenders=()
build() {
    if command -v "$2" >/dev/null &&
        "$2" -O2 -fopenmp "$here/barrier_openmp.c" -o "$work/$1" 2>"$work/$1.log"; then
        contenders+=("$1")
    else
        echo "# $1 is left out: $2 -fopenmp does not build here" >&2
    fi
}
build gnu "${GNU_CC:-gcc}"
build llvm "${LLVM_CC:-clang}"
contenders+=(heddle)

# measure NAME THREADS: prints microseconds per barrier, or nothing when it failed or took too long.
measure() {
    if [ "$1" != heddle ]; then
        timeout --kill-after=5 "$limit" "$work/$1" "$2" "$seconds" || true
        return
    fi
    if timeout --kill-after=5 "$limit" "$perf" barrier -n "$2" --api ucc --bind none \
        --seconds "$seconds" --no-reference --json "$work/heddle.json" >"$work/heddle.log" 2>&1; then
        sed -n 's/.*"collective": "barrier".*"mean_us": \([0-9.]*\).*/\1/p' "$work/heddle.json"
    fi
}

# median FILE: of its numbers, "-" if there is none.
median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END {
        if (NR == 0) print "-"
        else printf "%.3f\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# ratio A B: A / B, or "-".
ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { if (a == "-" || b == "-" || b == 0) print "-"
        else printf "%.2f\n", a / b }'
}

for threads in $threads_list; do
    for ((round = 0; round < rounds; round++)); do
        for name in "${contenders[@]}"; do
            measure "$name" "$threads" >>"$work/$name.$threads"
        done
    done
done

printf '# barrier on %s processors, us, median of %s rounds; ratio = OpenMP over Heddle\n' \
    "$(nproc)" "$rounds"
printf '%8s %12s %12s %12s %12s %12s\n' threads heddle gnu llvm gnu/heddle llvm/heddle
for threads in $threads_list; do
    for name in gnu llvm heddle; do
        touch "$work/$name.$threads"
    done
    heddle=$(median "$work/heddle.$threads")
    gnu=$(median "$work/gnu.$threads")
    llvm=$(median "$work/llvm.$threads")
    printf '%8s %12s %12s %12s %12s %12s\n' "$threads" "$heddle" "$gnu" "$llvm" \
        "$(ratio "$gnu" "$heddle")" "$(ratio "$llvm" "$heddle")"
done
