// go-redis as programs use it, with RESP2 and RESP3. ESKER_PORT is the server's port.
package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long anything may take that a test waits for.
const patience = 20 * time.Second

// each runs a test with both versions of the protocol, each time on an empty database.
func each(t *testing.T, test func(*testing.T, context.Context, *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			r := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("ESKER_PORT"), DB: 6, Protocol: protocol})
			defer r.Close()
			must(t, r.FlushDB(ctx).Err())
			test(t, ctx, r)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same fails the test if a reply is an error or not what is wanted.
func same(t *testing.T, wanted any) func(any, error) {
	t.Helper()
	return func(got any, err error) {
		t.Helper()
		must(t, err)
		if fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Fatalf("got %v, wanted %v", got, wanted)
		}
	}
}

func result[T any](got T, err error) (any, error) { return got, err }

func TestValuesAndHashes(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		same(t, "OK")(result(r.Set(ctx, "k", "v", time.Minute).Result()))
		same(t, false)(result(r.SetNX(ctx, "k", "w", 0).Result()))
		if ttl := r.TTL(ctx, "k").Val(); ttl <= 0 || ttl > time.Minute {
			t.Fatal(ttl)
		}
		if _, err := r.Get(ctx, "missing").Result(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		must(t, r.HSet(ctx, "user:1", "name", "Ann", "age", 30).Err())
		same(t, map[string]string{"name": "Ann", "age": "30"})(result(r.HGetAll(ctx, "user:1").Result()))
		var user struct {
			Name string `redis:"name"`
			Age  int    `redis:"age"`
		}
		must(t, r.HGetAll(ctx, "user:1").Scan(&user))
		same(t, "{Ann 30}")(user, nil)
	})
}

func TestSortedSets(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		same(t, 2)(result(r.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: 2, Member: "b"}).Result()))
		same(t, []redis.Z{{Score: 2, Member: "b"}, {Score: 1.5, Member: "a"}})(
			result(r.ZRevRangeWithScores(ctx, "z", 0, -1).Result()))
		same(t, []redis.Z{{Score: 1.5, Member: "a"}})(result(r.ZPopMin(ctx, "z").Result()))
		same(t, 3.5)(result(r.ZIncrBy(ctx, "z", 1.5, "b").Result()))
		popped, err := r.BZPopMax(ctx, patience, "z").Result()
		must(t, err)
		same(t, "{{3.5 b} z}")(*popped, nil)
	})
}

func TestPipelines(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		var counts []*redis.IntCmd
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 10_000 {
				counts = append(counts, pipe.Incr(ctx, "count"))
			}
			return nil
		})
		must(t, err)
		same(t, 10_000)(counts[9_999].Val(), nil)
		replies, err := r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.RPush(ctx, "list", "a", "b")
			pipe.LRange(ctx, "list", 0, -1)
			return nil
		})
		must(t, err)
		same(t, []string{"a", "b"})(replies[1].(*redis.StringSliceCmd).Val(), nil)
	})
}

// Eight goroutines add to a count, each by WATCH, GET and EXEC.
func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		add := func(tx *redis.Tx) error {
			count, err := tx.Get(ctx, "count").Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "count", count+1, 0)
				return nil
			})
			return err
		}
		var all sync.WaitGroup
		for range 8 {
			all.Add(1)
			go func() {
				defer all.Done()
				for done := 0; done < 50; {
					switch err := r.Watch(ctx, add, "count"); {
					case err == nil:
						done++
					case !errors.Is(err, redis.TxFailedErr):
						t.Error(err)
						return
					}
				}
			}()
		}
		all.Wait()
		same(t, "400")(result(r.Get(ctx, "count").Result()))
	})
}

func TestMessages(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		listener := r.PSubscribe(ctx, "n*")
		defer listener.Close()
		_, err := listener.Receive(ctx)
		must(t, err)
		same(t, 1)(result(r.Publish(ctx, "news", "hello").Result()))
		select {
		case message := <-listener.Channel():
			same(t, "n* news hello")(message.Pattern+" "+message.Channel+" "+message.Payload, nil)
		case <-ctx.Done():
			t.Fatal("no message came")
		}
	})
}

func TestBlockingPops(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		popped := make(chan error)
		go func() {
			reply, err := r.BLPop(ctx, patience, "list").Result()
			if err == nil && !slices.Equal(reply, []string{"list", "x"}) {
				err = fmt.Errorf("popped %v", reply)
			}
			popped <- err
		}()
		must(t, r.RPush(ctx, "list", "x").Err())
		must(t, <-popped)
		if _, err := r.Do(ctx, "BRPOP", "list", "0.01").Result(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	})
}

func TestIterators(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		var wanted, found []string
		pipe := r.Pipeline()
		for number := range 2_000 {
			wanted = append(wanted, "k"+strconv.Itoa(10_000+number))
			pipe.Set(ctx, wanted[number], number, 0)
		}
		_, err := pipe.Exec(ctx)
		must(t, err)
		keys := r.Scan(ctx, 0, "k*", 100).Iterator()
		for keys.Next(ctx) {
			found = append(found, keys.Val())
		}
		must(t, keys.Err())
		slices.Sort(found)
		same(t, wanted)(found, nil)
	})
}

func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r *redis.Client) {
		must(t, r.RPush(ctx, "list", "x").Err())
		if err := r.Get(ctx, "list").Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Fatal(err)
		}
		if err := r.Do(ctx, "NOSUCH", "x").Err(); !redis.HasErrorPrefix(err, "unknown command 'NOSUCH'") {
			t.Fatal(err)
		}
	})
}
