"""Celery as programs use it, with the server as its broker and for its results. ESKER_PORT is the server's port."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import redis
from celery import group

import tasks

PATIENCE = 60

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def r():
    with redis.Redis(port=int(os.environ["ESKER_PORT"]), decode_responses=True, db=2) as client:
        client.flushall()
        yield client


class Worker:
    """`celery worker`: a process for the broker and two for tasks."""

    # Gossip and mingling are a kind of remote control: see tasks.py.
    OPTIONS = ["--concurrency=2", "--without-gossip", "--without-mingle", "--loglevel=INFO"]

    def __init__(self, log):
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tasks", "worker", *self.OPTIONS],
            cwd=HERE, stdout=log.open("w"), stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        until(lambda: "ready." in self.log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        return self

    def kill(self):
        """Ends all its processes, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)
        print(self.log.read_text())


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


@pytest.fixture
def worker(r, tmp_path):
    with Worker(tmp_path / "worker.log") as worker:
        yield worker


def test_tasks_are_done_and_acknowledged(r, worker):
    results = [tasks.add.delay(number, number) for number in range(100)]
    assert [result.get(timeout=PATIENCE) for result in results] == [2 * number for number in range(100)]
    assert group(tasks.add.s(number, 1) for number in range(10))().get(timeout=PATIENCE) == list(range(1, 11))
    failed = tasks.fail.delay()
    with pytest.raises(ValueError, match="as wanted"):
        failed.get(timeout=PATIENCE)
    assert failed.state == "FAILURE" and "ValueError" in failed.traceback
    # Each result is a key that expires, and nothing is left to do.
    assert 0 < r.ttl(f"celery-task-meta-{results[0].id}") <= 86_400
    broker = redis.Redis(port=r.connection_pool.connection_kwargs["port"], db=1)
    until(lambda: broker.hlen("unacked") == 0 and broker.zcard("unacked_index") == 0)
    assert broker.llen("celery") == 0


def test_a_task_that_fails_is_tried_again(worker):
    assert tasks.third_time_lucky.delay().get(timeout=PATIENCE) == 2


def test_a_task_waits_for_its_time(worker):
    sent = time.time()
    assert tasks.now.apply_async(countdown=1).get(timeout=PATIENCE) >= sent + 1


def test_what_a_dead_worker_held_is_done_by_another(r, tmp_path):
    with Worker(tmp_path / "first.log") as first:
        result = tasks.hold.delay("job")
        first_id = until(lambda: r.lrange("notes:job", 0, -1))[0]
        first.kill()
    with Worker(tmp_path / "second.log"):
        until(lambda: r.lrange("notes:job", 0, -1) == [first_id, first_id])
        r.rpush("go:job", "")
        assert result.get(timeout=PATIENCE) == "job"
