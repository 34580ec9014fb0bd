"""Counts the cache lines that cycle.c's phases touch, in a trace of memory on stdin. See lines.sh.

usage: lines.py NAME ITERATIONS SAID     (SAID: the file that has cycle's own line)
"""

import statistics
import sys

LINE = 64
PHASES = 6  # cycle.c's phase_t
STACK = 1 << 20  # bytes below and above the caller's arguments, which lie in main's frame
LOOK_EVERY = 10000  # records of the trace: far less than cycle's first calls leave
KINDS = ("data", "written", "stack", "code")


def addresses(lines, said):
    """The marks and the bounds of the caller's arguments, from cycle's line; reads the trace up to there."""
    for n, _ in enumerate(lines):
        if n % LOOK_EVERY == 0:
            with open(said, encoding="ascii") as file:
                words = file.read().split()
            if len(words) == 5:
                return int(words[1], 16), (int(words[3], 16), int(words[4], 16))
    return None


def trace(lines, mark, caller):
    """Yields, for each call of a phase, its number and {kind: set of lines}."""
    phase, seen = None, {}
    for text in lines:
        access = text[:2]
        if access not in (b"I ", b" L", b" S", b" M"):
            continue
        if phase is None and access != b" S":
            continue
        address, size = text[3:].split(b",")
        address, size = int(address, 16), int(size)
        if access == b" S" and mark <= address < mark + 2 * PHASES * 4:
            number, ends = divmod((address - mark) // 4, 2)
            if not ends:
                phase, seen = number, {kind: set() for kind in KINDS}
            elif phase == number:
                yield number, seen
                phase = None
            continue
        if phase is None:
            continue
        touched = range(address // LINE, (address + size - 1) // LINE + 1)
        if access == b"I ":
            seen["code"].update(touched)
        elif caller[0] <= address < caller[1]:
            continue
        elif caller[0] - STACK <= address < caller[1] + STACK:
            seen["stack"].update(touched)
        else:
            seen["data"].update(touched)
            if access != b" L":
                seen["written"].update(touched)


def main():
    name, iterations, said = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    calls = [[] for _ in range(PHASES)]
    lines = iter(sys.stdin.buffer)
    found = addresses(lines, said)
    for number, seen in trace(lines, *found) if found else ():
        calls[number].append({kind: len(seen[kind]) for kind in KINDS})
    if not all(calls):
        sys.exit(f"lines.py: {name}: cycle failed, or was not traced")
    for kind in KINDS:
        counts = [
            int(statistics.median_low(c[kind] for c in phase[-iterations:]))
            for phase in calls
        ]
        widths = (8, 13, 9, 11, 9, 14)
        columns = " ".join(f"{n:{width}d}" for n, width in zip(counts, widths))
        print(f"{name if kind == KINDS[0] else '':14s} {kind:8s} {columns}")
    sys.stdout.flush()


main()
