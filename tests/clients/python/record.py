"""A plugin of pytest that writes down, for each test, how it ended and which commands the server got.

    pytest -p record --record FILE [--as RECORD] --redis-url redis://127.0.0.1:PORT/0 ...

FILE gets one JSON object a line: test, outcome (passed, failed, skipped), why, commands. The commands come from the server
itself (INFO commandstats), so that those of every client of the test are among them, whatever it is made of.

With `--as` only those tests run that passed by that record and sent only commands that this server has, too.
"""

import json
import pathlib
import socket
from urllib.parse import urlparse

import pytest


class Server:
    def __init__(self, port):
        self.port = port
        self.known = {}

    def ask(self, *words):
        """The reply to a command: a bulk string's bytes, or a line. On a connection of its own: tests kill others."""
        request = b"*%d\r\n" % len(words)
        for word in words:
            request += b"$%d\r\n%s\r\n" % (len(word), word)
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(request)
            reply = connection.makefile("rb")
            line = reply.readline()
            return reply.read(int(line[1:])) if line.startswith(b"$") else line

    def commands(self):
        """The commands since the figures were set to zero."""
        lines = self.ask(b"INFO", b"commandstats").decode().splitlines()
        names = [line.removeprefix("cmdstat_").split(":")[0] for line in lines if line.startswith("cmdstat_")]
        # The call that sets the figures to zero is counted after it.
        return sorted(set(names) - {"config|resetstat"})

    def has(self, command):
        """Whether the server has the command, which may be `name|subcommand`."""
        if command not in self.known:
            self.known[command] = self.ask(b"COMMAND", b"DOCS", command.encode()) != b"*0\r\n"
        return self.known[command]


def read(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return {record["test"]: record for record in map(json.loads, lines)}


def absent(record, server):
    return [command for command in record["commands"] if not server.has(command)]


def pytest_addoption(parser):
    parser.addoption("--record", required=True, help="the file that gets a line for each test")
    parser.addoption("--as", dest="as_record", help="runs only what passed by this record with commands of this server")


def pytest_configure(config):
    config.server = Server(urlparse(config.getoption("--redis-url")).port)
    config.record = open(config.getoption("--record"), "w", encoding="utf-8")


def pytest_collection_modifyitems(config, items):
    if path := config.getoption("as_record"):
        wanted = {
            test for test, record in read(path).items()
            if record["outcome"] == "passed" and record["commands"] and not absent(record, config.server)
        }
        items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    server = item.config.server
    server.ask(b"CONFIG", b"RESETSTAT")
    item.reports = []
    done = yield
    outcomes = {report.outcome for report in item.reports}
    outcome = next(name for name in ("failed", "skipped", "passed") if name in outcomes)
    why = next((reason(report) for report in item.reports if report.outcome == outcome != "passed"), "")
    record = {"test": item.nodeid, "outcome": outcome, "why": why, "commands": server.commands()}
    item.config.record.write(json.dumps(record) + "\n")
    item.config.record.flush()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.reports.append(report)
    return report


def reason(report):
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash else str(report.longrepr)
