#!/bin/sh
# Puts the tables and plots of `esker-bench paper` into docs/benchmarks.md and docs/plots.
#
#   bench/figures.sh [RESULTS]        RESULTS defaults to paper-results
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
results=${1:-paper-results}
page=$root/docs/benchmarks.md
[ -s "$results/tables.md" ] || { echo "figures.sh: no tables.md in $results" >&2; exit 1; }
new=$(mktemp)
sed '/^## Tables$/q' "$page" >"$new"
{ echo; cat "$results/tables.md"; } >>"$new"
cat "$new" >"$page"
rm -f "$new"
mkdir -p "$root/docs/plots"
cp "$results"/*.svg "$root/docs/plots/"
