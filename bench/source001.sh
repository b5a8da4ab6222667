#!/usr/bin/env bash
# Source 001's work through the command line: PUT N new keys, PUT them again, GET all in order, GET N absent keys,
# each by one `esker run`, timed with its final sync and compared with an oracle byte by byte.
#
#   bench/source001.sh [N]        N defaults to 25,000,000, which needs about 20 GB below DIR
#
# Environment: DIR (where the work directory goes, which is removed at the end), SEED, ESKER and ESKER_BENCH (ready binaries; built otherwise).
set -euo pipefail

n=${1:-25000000}
n=${n//[,_]/}
seed=${SEED:-1}
root=$(cd "$(dirname "$0")/.." && pwd)
for tool in /usr/bin/time jq; do
    command -v "$tool" >/dev/null || { echo "source001.sh: $tool is missing; bench/setup installs it" >&2; exit 1; }
done

if [ -z "${ESKER:-}" ]; then
    (cd "$root" && cargo build --release -p esker-cli)
    ESKER=${CARGO_TARGET_DIR:-$root/target}/release/esker
fi
if [ -z "${ESKER_BENCH:-}" ]; then
    (cd "$root/bench" && cargo build --release)
    ESKER_BENCH=${CARGO_TARGET_DIR:-$root/bench/target}/release/esker-bench
fi

dir=$(mktemp -d "${DIR:-${TMPDIR:-/tmp}}/esker-source001.XXXXXX")
trap 'rm -rf "$dir"' EXIT

# The highest anonymous memory of process $1, in MB, sampled until it ends: the kernel keeps no peak of it.
anon_peak() {
    local peak=0 now
    while now=$(awk '/^RssAnon:/ { print $2 }' "/proc/$1/status" 2>/dev/null) && [ -n "$now" ]; do
        [ "$now" -gt "$peak" ] && peak=$now
        sleep 0.1
    done
    echo $((peak / 1024))
}

# What share of the store filters, indexes and manifest are, and how often filters are wrong.
metadata() {
    "$ESKER" --db "$dir/db" stats --json | jq -r '
        (.index_bytes + .filter_bytes + .manifest_bytes) as $sum
        | "             metadata: index \(.index_bytes), filters \(.filter_bytes), manifest \(.manifest_bytes): "
          + "\($sum / .raw_bytes * 10000 | round / 100) % of \(.raw_bytes) bytes of keys and values stored"'
    echo "             filters: $("$ESKER_BENCH" probe "$dir/db")"
}

# phase NAME MODE SEED: makes the command file, warms memory, runs it, compares, prints one row.
phase() {
    local name=$1 mode=$2 commands=$dir/$1.commands oracle=$dir/$1.oracle out=$dir/$1.out times=$dir/$1.time
    "$ESKER_BENCH" gen001 --n "$n" --mode "$mode" --seed "$3" --oracle "$oracle" "$commands"
    "$ESKER_BENCH" warm --dir "$dir" >/dev/null
    rm -f "$dir/pid"
    # The shell names its process, then becomes the program that is measured.
    /usr/bin/time -v -o "$times" sh -c 'echo $$ >"$1"; shift; exec "$@"' sh "$dir/pid" \
        "$ESKER" --db "$dir/db" run "$commands" --keys u64 --output "$out" 2>"$dir/$name.err" &
    local job=$! anon status=0
    while [ ! -s "$dir/pid" ] && kill -0 "$job" 2>/dev/null; do sleep 0.01; done
    anon=$(anon_peak "$(cat "$dir/pid")")
    wait "$job" || status=$?
    if [ "$status" -ne 0 ]; then
        echo "$name: esker run ended with status $status:" >&2
        cat "$dir/$name.err" >&2
        exit 1
    fi
    rm -f "$dir"/ballast-* "$dir/$name.err"
    cmp "$out" "$oracle" || { echo "$name: the output is not the oracle's" >&2; exit 1; }
    awk -v name="$name" -v n="$n" -v anon="$anon" -v lines="$(wc -l <"$out")" '
        /Elapsed \(wall clock\)/ { parts = split($NF, t, ":"); for (i = 1; i <= parts; i++) seconds = seconds * 60 + t[i] }
        /User time/ { user = $NF } /System time/ { system_ = $NF } /Maximum resident/ { rss = $NF / 1024 }
        END { printf "%-12s %9.2f s %9.0f k/s %9.1f s CPU %8.0f MB peak RSS %8d MB peak anonymous %10d lines as the oracle\n",
              name, seconds, n / (seconds + 1e-9) / 1e3, user + system_, rss, anon, lines }' "$times"
    rm -f "$commands" "$oracle" "$out"
}

echo "source 001, $n keys, 128-byte values; wall time of the whole process, final sync included"
phase put put "$seed"
du -sm "$dir/db" | awk '{ print "             " $1 " MB on disk" }'
metadata
phase re-put put "$((seed + 1))"
du -sm "$dir/db" | awk '{ print "             " $1 " MB on disk" }'
phase get-order get "$((seed + 1))"
phase get-missing missing "$((seed + 1))"

metadata
"$ESKER" --db "$dir/db" stats
