"""Compares how redis-py's tests ended against Redis and against Esker.

    compare.py REDIS-RECORD ESKER-RECORD ESKER-PORT KNOWN

A test must pass against Esker if it passes against Redis and sends only commands that Esker has. KNOWN has, a line each, a
part of a test's name, a tab, and why such a test fails all the same.
"""

import pathlib
import sys
from collections import Counter

from record import Server, absent, read


def main():
    redis, esker, server = read(sys.argv[1]), read(sys.argv[2]), Server(int(sys.argv[3]))
    lines = pathlib.Path(sys.argv[4]).read_text(encoding="utf-8").splitlines()
    known = [line.split("\t") for line in lines if line]
    counts, missing = Counter(), Counter()
    for test, record in redis.items():
        here = esker.get(test, {"outcome": "did not run", "why": ""})
        reason = next((why for part, why in known if part in test), None)
        if not record["commands"]:
            counts["send nothing to a server"] += 1
        elif record["outcome"] != "passed":
            counts["did not pass against Redis"] += 1
        elif lacks := absent(record, server):
            counts["need a command that is not there"] += 1
            missing.update(lacks)
        elif here["outcome"] == "passed":
            counts["passed"] += 1
        elif reason:
            counts["failed as known"] += 1
            print(f"  fails, as known ({reason}): {test}")
        else:
            counts["failed"] += 1
            print(f"  FAILS ({here['outcome']}): {test}\n    {here['why'][:200]}")
    for command, tests in missing.most_common():
        print(f"  not there: {command.replace('|', ' ').upper()} ({tests} tests)")
    print(f"{counts['passed']} tests passed that pass against Redis, {counts['failed']} failed; not counted:")
    for what in ("failed as known", "need a command that is not there", "did not pass against Redis",
                 "send nothing to a server"):
        print(f"  {counts[what]} {what}")
    sys.exit(bool(counts["failed"]) or not counts["passed"])


main()
