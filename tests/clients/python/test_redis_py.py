"""redis-py as programs use it, with RESP2 and RESP3, blocking and with asyncio. ESKER_PORT is the server's port."""

import asyncio
import os
import threading
import time

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, NoScriptError, ResponseError, WatchError

PORT = int(os.environ["ESKER_PORT"])

# How long anything may take that a test waits for, in seconds.
PATIENCE = 20


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


@pytest.fixture
def r(protocol):
    with redis.Redis(port=PORT, protocol=protocol, decode_responses=True) as client:
        client.flushall()
        yield client


def until(condition):
    """Waits until the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def in_background(work):
    """Runs it on a thread. Returns what gives its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()

    def result():
        thread.join(PATIENCE)
        return results[0]

    return result


def waiting(r, count=1):
    return lambda: r.info("clients")["blocked_clients"] == count


def test_values_are_bytes_of_any_kind_and_size(protocol):
    with redis.Redis(port=PORT, protocol=protocol) as r:
        r.flushall()
        every_byte = bytes(range(256))
        r.set(every_byte, every_byte)
        assert r.get(every_byte) == every_byte
        long = os.urandom(1 << 20) * 10
        r.set("long", long)
        assert r.get("long") == long
        assert r.getrange("long", 5_000_000, 5_000_009) == long[5_000_000:5_000_010]
        r.hset("h", every_byte, every_byte)
        assert r.hgetall("h") == {every_byte: every_byte}


def test_options_of_set_and_expiries(r):
    assert r.set("k", "1", nx=True, ex=100) is True
    assert r.set("k", "2", nx=True) is None
    assert r.set("k", "2", xx=True, keepttl=True, get=True) == "1"
    assert 0 < r.ttl("k") <= 100
    assert r.persist("k") and r.ttl("k") == -1 and r.ttl("missing") == -2
    at = int(time.time()) + 1000
    assert r.expireat("k", at) and r.expiretime("k") == at
    assert r.getex("k", px=1) == "2"
    until(lambda: r.get("k") is None)


def test_a_pipeline_is_a_transaction(r):
    with r.pipeline() as pipe:
        pipe.hset("user:1", mapping={"name": "Ann", "age": 30}).rpush("jobs", "a", "b").zadd("z", {"m": 1.5})
        pipe.hgetall("user:1").lrange("jobs", 0, -1).zscore("z", "m").set("k", "v").exists("k", "missing")
        assert pipe.execute() == [2, 2, 1, {"name": "Ann", "age": "30"}, ["a", "b"], 1.5, True, 1]


def test_a_command_that_fails_does_not_stop_its_transaction(r):
    with r.pipeline() as pipe:
        pipe.set("k", "text").incr("k").append("k", "!")
        first, second, third = pipe.execute(raise_on_error=False)
    assert (first, third, r.get("k")) == (True, 5, "text!")
    assert isinstance(second, ResponseError) and "not an integer" in str(second)


def test_a_long_pipeline_without_a_transaction(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(20_000):
            pipe.set(f"k{number}", number)
        for number in range(20_000):
            pipe.get(f"k{number}")
        assert pipe.execute()[20_000:] == [str(number) for number in range(20_000)]
    assert r.dbsize() == 20_000


def test_watch_sees_the_write_of_another(r):
    with r.pipeline() as pipe:
        pipe.watch("k")
        seen = pipe.get("k")
        r.set("k", "other")
        pipe.multi()
        pipe.set("k", f"{seen} and mine")
        with pytest.raises(WatchError):
            pipe.execute()
    assert r.get("k") == "other"


def test_transactions_lose_no_step_of_eight_threads(r):
    def add(pipe):
        count = int(pipe.get("count") or 0)
        pipe.multi()
        pipe.set("count", count + 1)

    def work():
        for _ in range(50):
            r.transaction(add, "count")

    for done in [in_background(work) for _ in range(8)]:
        done()
    assert r.get("count") == "400"


def test_messages_by_channel_and_pattern(r):
    with r.pubsub() as listener:
        listener.subscribe("news")
        listener.psubscribe("n*")
        until(lambda: r.pubsub_numsub("news") == [("news", 1)] and r.pubsub_numpat() == 1)
        assert r.publish("news", "hello") == 2
        assert r.publish("notes", "there") == 1
        messages = []

        def all_came():
            message = listener.get_message(ignore_subscribe_messages=True, timeout=0.1)
            messages.extend([message] if message else [])
            return len(messages) == 3

        until(all_came)
        assert [(m["type"], m["pattern"], m["channel"], m["data"]) for m in messages] == [
            ("message", None, "news", "hello"),
            ("pmessage", "n*", "news", "hello"),
            ("pmessage", "n*", "notes", "there"),
        ]
        listener.unsubscribe()
        until(lambda: r.pubsub_numsub("news") == [("news", 0)])


def test_a_listening_thread_gets_key_events(r):
    r.config_set("notify-keyspace-events", "KEA")
    events = []
    listener = r.pubsub()
    listener.psubscribe(**{"__keyspace@0__:job:*": lambda m: events.append((m["channel"].split(":", 1)[1], m["data"]))})
    thread = listener.run_in_thread(sleep_time=0.01)
    try:
        until(lambda: r.pubsub_numpat() == 1)
        r.set("job:1", "new")
        r.expire("job:1", 100)
        r.delete("job:1")
        r.rpush("job:2", "x")
        until(lambda: len(events) == 4)
        assert events == [("job:1", "set"), ("job:1", "expire"), ("job:1", "del"), ("job:2", "rpush")]
    finally:
        thread.stop()
        thread.join(PATIENCE)
        r.config_set("notify-keyspace-events", "")


def test_blocking_pops_wait_for_an_element(r):
    popped = in_background(lambda: r.blpop(["first", "second"], timeout=PATIENCE))
    until(waiting(r))
    r.rpush("second", "x")
    assert list(popped()) == ["second", "x"]

    popped = in_background(lambda: r.bzpopmin("queue", timeout=PATIENCE))
    until(waiting(r))
    r.zadd("queue", {"late": 2, "early": 1})
    assert list(popped()) == ["queue", "early", 1.0]

    moved = in_background(lambda: r.blmove("from", "to", PATIENCE, "LEFT", "RIGHT"))
    until(waiting(r))
    r.rpush("from", "job")
    assert moved() == "job" and r.lrange("to", 0, -1) == ["job"] and not r.exists("from")

    assert r.brpop("empty", timeout=0.05) is None
    assert r.bzpopmax("empty", timeout=0.05) is None


def test_workers_share_a_queue_and_each_job_is_done_once(r):
    def work():
        done = []
        while (job := r.brpoplpush("jobs", "doing", timeout=PATIENCE)) != "end":
            done.append(int(job))
            assert r.lrem("doing", 1, job) == 1
        return done

    workers = [in_background(work) for _ in range(4)]
    for job in range(400):
        r.lpush("jobs", job)
    r.lpush("jobs", *["end"] * 4)
    assert sorted(job for worker in workers for job in worker()) == list(range(400))
    assert r.lrange("doing", 0, -1) == ["end"] * 4


def test_iterators_return_everything_once(r):
    names = [f"name:{number:05}" for number in range(3_000)]
    with r.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.set(name, name)
        pipe.hset("hash", mapping={name: name for name in names})
        pipe.sadd("set", *names).zadd("zset", {name: number for number, name in enumerate(names)}).execute()
    assert sorted(r.scan_iter("name:*", count=100)) == names
    assert sorted(r.scan_iter(_type="zset")) == ["zset"]
    assert sorted(r.hscan_iter("hash", count=100)) == [(name, name) for name in names]
    assert sorted(r.sscan_iter("set", "name:00*")) == names[:1_000]
    assert sorted(r.zscan_iter("zset"))[2_999] == ("name:02999", 2_999.0)


def test_a_sorted_set_as_a_leaderboard(r):
    r.zadd("game", {"ann": 10, "bob": 20, "cid": 30})
    assert r.zincrby("game", 15, "ann") == 25.0
    assert r.zadd("game", {"bob": 5}, gt=True, ch=True) == 0
    assert [list(pair) for pair in r.zrevrange("game", 0, 1, withscores=True)] == [["cid", 30.0], ["ann", 25.0]]
    assert r.zrevrank("game", "bob") == 2
    assert r.zrange("game", 20, "+inf", byscore=True, offset=0, num=2) == ["bob", "ann"]
    assert r.zcount("game", "(20", 30) == 2
    assert r.zremrangebyscore("game", "-inf", 20) == 1


def test_sets_and_hashes_have_pythons_types(r):
    r.sadd("a", "1", "2", "3")
    r.sadd("b", "2", "3", "4")
    assert set(r.sinter("a", "b")) == {"2", "3"} and set(r.smembers("a")) == {"1", "2", "3"}
    assert list(map(bool, r.smismember("a", ["1", "9"]))) == [True, False]
    assert r.hset("h", mapping={"n": 1, "f": 0.5}) == 2
    assert r.hincrby("h", "n", 4) == 5 and r.hincrbyfloat("h", "f", 0.25) == 0.75
    assert r.hmget("h", "n", "missing") == ["5", None]


def test_errors_are_those_of_redis(r):
    r.rpush("list", "x")
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        r.execute_command("GET", "list")
    with pytest.raises(ResponseError, match="unknown command 'NOSUCH', with args beginning with: 'x'"):
        r.execute_command("NOSUCH", "x")
    with pytest.raises(ResponseError, match="wrong number of arguments for 'get' command"):
        r.execute_command("GET")
    with pytest.raises(ResponseError, match="value is not an integer or out of range"):
        r.execute_command("EXPIRE", "list", "soon")


def test_locks(r):
    # The library gives its lock back by a script, and there are none yet.
    lock = r.lock("lock", timeout=10)
    assert lock.acquire(blocking=False)
    assert not r.lock("lock", timeout=10).acquire(blocking=False)
    with pytest.raises((ResponseError, LockError, NoScriptError), match="unknown command 'EVALSHA'"):
        lock.release()
    r.delete("lock")
    # What does the same: CAS and CAD.
    assert r.set("lock", "me", nx=True, px=10_000)
    assert r.execute_command("CAS", "lock", "me", "me", "PX", 20_000) == 1 and r.pttl("lock") > 10_000
    assert r.execute_command("CAD", "lock", "another") == 0
    assert r.execute_command("CAD", "lock", "me") == 1 and not r.exists("lock")


def test_keys_have_an_order(r):
    r.mset({"log:1": "a", "log:2": "b", "log:3": "c"})
    assert r.execute_command("RANGE", "log:2", "log:3") == ["log:2", "b", "log:3", "c"]
    assert r.execute_command("RANGE", "log:", "log;", "REV", "LIMIT", 1, "KEYS") == ["log:3"]
    assert r.execute_command("RANGEDEL", "log:", "log;") == 3


def test_a_client_whose_connection_is_killed_connects_again(r, protocol):
    with redis.Redis(port=PORT, protocol=protocol, client_name="victim", decode_responses=True) as victim:
        assert victim.client_getname() == "victim"
        before = victim.client_id()
        assert [client["name"] for client in r.client_list() if client["id"] == str(before)] == ["victim"]
        assert r.client_kill_filter(_id=before) == 1
        assert victim.set("k", "v") and victim.client_id() != before


def test_databases_are_apart(r, protocol):
    with redis.Redis(port=PORT, db=3, protocol=protocol, decode_responses=True) as third:
        third.set("k", "third")
        assert r.get("k") is None and r.move("k", 3) is False
        assert third.move("k", 0) and r.get("k") == "third" and third.dbsize() == 0
        assert r.info("keyspace")["db0"]["keys"] >= 1


def test_asyncio(protocol):
    async def work():
        async with redis.asyncio.Redis(port=PORT, protocol=protocol, decode_responses=True) as r:
            await r.flushall()
            await asyncio.gather(*(r.incr("count") for _ in range(50)))
            assert await r.get("count") == "50"
            async with r.pipeline() as pipe:
                assert await pipe.set("k", "v").get("k").execute() == [True, "v"]
            async with r.pubsub() as listener:
                await listener.subscribe("news")
                while await r.publish("news", "hello") == 0:
                    await asyncio.sleep(0.001)
                async for message in listener.listen():
                    if message["type"] == "message":
                        assert message["data"] == "hello"
                        break
            popped = asyncio.create_task(r.blpop(["list"], timeout=PATIENCE))
            await r.rpush("list", "x")
            assert list(await popped) == ["list", "x"]
            assert sorted([key async for key in r.scan_iter()]) == ["count", "k"]

    asyncio.run(asyncio.wait_for(work(), PATIENCE))
