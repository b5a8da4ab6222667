import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;

/** Jedis and Lettuce as programs use them. ESKER_PORT is the server's port. */
@Timeout(20)
class ClientsTest {
    static final int PORT = Integer.parseInt(System.getenv("ESKER_PORT"));

    static Jedis jedis(RedisProtocol protocol) {
        return new Jedis(new HostAndPort("127.0.0.1", PORT),
            DefaultJedisClientConfig.builder().protocol(protocol).database(7).build());
    }

    static Jedis emptied(RedisProtocol protocol) {
        Jedis jedis = jedis(protocol);
        jedis.flushDB();
        return jedis;
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisHasValuesHashesAndSortedSets(RedisProtocol protocol) {
        try (Jedis r = emptied(protocol)) {
            assertEquals("OK", r.set("k", "v", SetParams.setParams().nx().ex(100)));
            assertNull(r.set("k", "w", SetParams.setParams().nx()));
            assertTrue(r.ttl("k") > 0);
            byte[] bytes = new byte[256];
            IntStream.range(0, 256).forEach(at -> bytes[at] = (byte) at);
            r.set(bytes, bytes);
            assertArrayEquals(bytes, r.get(bytes));
            assertEquals(2, r.hset("user:1", Map.of("name", "Ann", "age", "30")));
            assertEquals(Map.of("name", "Ann", "age", "30"), r.hgetAll("user:1"));
            r.zadd("z", Map.of("a", 1.5, "b", 2.0));
            assertEquals(List.of(new Tuple("b", 2.0), new Tuple("a", 1.5)), r.zrevrangeWithScores("z", 0, -1));
            r.sadd("s", "x", "y");
            assertEquals(Set.of("x", "y"), r.smembers("s"));
            JedisDataException error = assertThrows(JedisDataException.class, () -> r.incr("user:1"));
            assertTrue(error.getMessage().startsWith("WRONGTYPE "), error.getMessage());
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisHasPipelinesAndTransactions(RedisProtocol protocol) {
        try (Jedis r = emptied(protocol); Jedis other = jedis(protocol)) {
            Pipeline pipeline = r.pipelined();
            List<Response<Long>> counts = IntStream.range(0, 10_000).mapToObj(at -> pipeline.incr("count")).toList();
            pipeline.sync();
            assertEquals(10_000, counts.get(9_999).get());
            Transaction transaction = r.multi();
            transaction.rpush("list", "a", "b");
            transaction.lrange("list", 0, -1);
            assertEquals(List.of(2L, List.of("a", "b")), transaction.exec());
            r.watch("k");
            other.set("k", "other");
            Transaction late = r.multi();
            late.set("k", "mine");
            assertNull(late.exec());
            assertEquals("other", r.get("k"));
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisScansAndWaits(RedisProtocol protocol) throws Exception {
        try (Jedis r = emptied(protocol); Jedis waiter = jedis(protocol)) {
            Set<String> names = new HashSet<>();
            for (int at = 0; at < 2_000; at++) {
                names.add("k" + at);
            }
            r.mset(names.stream().flatMap(name -> java.util.stream.Stream.of(name, name)).toArray(String[]::new));
            List<String> found = new ArrayList<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = r.scan(cursor, new ScanParams().match("k*").count(100));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            assertEquals(names.size(), found.size());
            assertEquals(names, new HashSet<>(found));
            CompletableFuture<List<String>> popped = CompletableFuture.supplyAsync(() -> waiter.blpop(20, "list"));
            r.rpush("list", "x");
            assertEquals(List.of("list", "x"), popped.get(20, TimeUnit.SECONDS));
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisListens(RedisProtocol protocol) throws Exception {
        CompletableFuture<String> message = new CompletableFuture<>();
        try (Jedis r = jedis(protocol); Jedis listener = jedis(protocol)) {
            JedisPubSub handler = new JedisPubSub() {
                @Override
                public void onPMessage(String pattern, String channel, String text) {
                    message.complete(pattern + " " + channel + " " + text);
                    punsubscribe();
                }
            };
            CompletableFuture<Void> ended = CompletableFuture.runAsync(() -> listener.psubscribe(handler, "n*"));
            while (r.publish("news", "hello") == 0) {
                Thread.onSpinWait();
            }
            assertEquals("n* news hello", message.get(20, TimeUnit.SECONDS));
            ended.get(20, TimeUnit.SECONDS);
        }
    }

    @Test
    void lettuceSharesAConnection() throws Exception {
        RedisClient client = RedisClient.create(RedisURI.builder().withHost("127.0.0.1").withPort(PORT).withDatabase(8).build());
        try (var connection = client.connect(); var waiting = client.connect(); var listening = client.connectPubSub()) {
            var r = connection.sync();
            r.flushdb();
            List<RedisFuture<Long>> counts = IntStream.range(0, 1_000).mapToObj(at -> connection.async().incr("count")).toList();
            assertEquals(1_000, counts.get(999).get());
            r.hset("user:1", Map.of("name", "Ann"));
            assertEquals(Map.of("name", "Ann"), r.hgetall("user:1"));
            r.zadd("z", 1.5, "a");
            assertEquals(1.5, r.zscore("z", "a"));
            r.multi();
            r.set("k", "v");
            r.get("k");
            TransactionResult done = r.exec();
            assertEquals("v", done.get(1));
            Set<String> found = new HashSet<>();
            ScanIterator.scan(r).forEachRemaining(found::add);
            assertEquals(Set.of("count", "user:1", "z", "k"), found);
            RedisFuture<KeyValue<String, String>> popped = waiting.async().blpop(20, "list");
            r.rpush("list", "x");
            assertEquals(KeyValue.just("list", "x"), popped.get(20, TimeUnit.SECONDS));
            CompletableFuture<String> message = new CompletableFuture<>();
            listening.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void message(String channel, String text) {
                    message.complete(channel + " " + text);
                }
            });
            listening.sync().subscribe("news");
            assertEquals(1, r.publish("news", "hello"));
            assertEquals("news hello", message.get(20, TimeUnit.SECONDS));
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }
}
