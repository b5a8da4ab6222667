"""The tasks that test_celery.py sends to a worker. ESKER_PORT is the server's port."""

import os
import time

from celery import Celery
from redis.exceptions import LockNotOwnedError
from redis.lock import Lock


def release(self, token):
    """Gives a lock back. The library's own way is a script, and the server has none; CAD does the same."""
    if not self.redis.execute_command("CAD", self.name, token):
        raise LockNotOwnedError("the lock is another's by now", lock_name=self.name)


# A worker takes and releases a lock when it starts and each time it looks for what dead workers held.
Lock.do_release = release

URL = f"redis://127.0.0.1:{os.environ['ESKER_PORT']}"

app = Celery("tasks", broker=f"{URL}/1", backend=f"{URL}/2")
app.conf.update(
    # In seconds: when a message whose worker is dead may come back, and how often a worker looks for such.
    broker_transport_options={
        "visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1},
    task_acks_late=True,
    # Remote control binds a queue that expires, which takes a script.
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


def note(what, value):
    """What a task leaves for the test to see."""
    app.backend.client.rpush(f"notes:{what}", value)


@app.task
def add(a, b):
    return a + b


@app.task(bind=True, max_retries=5)
def third_time_lucky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task
def fail():
    raise ValueError("as wanted")


@app.task
def now():
    return time.time()


@app.task(bind=True)
def hold(self, name):
    """Notes that it runs, and runs until somebody has let it go."""
    note(name, self.request.id)
    app.backend.client.blpop(f"go:{name}")
    return name
