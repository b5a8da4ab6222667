# shellcheck shell=bash disable=SC2154
# Sourced by ./run: a server at work. Clients of three kinds use it, it dies by kill -9 while one of them writes, is
# started again with everything that was acknowledged, and is told to end.

# Operations that redis-benchmark does; acknowledged writes before the kill.
server_operations=100000 server_writes=2000
[ "${ESKER_RUN_SMALL:-}" != 1 ] || { server_operations=20000; server_writes=500; }
served=

# Starts the server and waits until it accepts connections. Its port, a free one, is in $port.
start_server() {
  local said=$data/out/server.said line
  rm -f "$said"
  mkfifo "$said"
  "$esker" --db "$data/served.db" serve --resp 127.0.0.1:0 >"$said" &
  served=$!
  port=
  while read -r line && [ "$line" != ready ]; do port=${line##*:}; done <"$said"
  [ -n "$port" ] || stop "the server did not start"
  say "esker --db served.db serve: process $served, port $port"
}

end_server() {
  [ -z "$served" ] || kill -9 "$served" 2>/dev/null || true
}

# One command over a socket of the shell: what a client needs is little. Prints the first line of the reply.
raw() {
  local reply
  printf '%s\r\n' "$*" >&3 && read -r reply <&3 || return
  say "${reply%$'\r'}"
}

use_server() {
  local url=redis://127.0.0.1:$port words=$data/input/words.txt out=$data/out
  "$esker" --url "$url" put greeting "hello from a client"
  say "esker --url $url get greeting: $("$esker" --url "$url" get greeting)"
  timed "server: esker import" "$(lines_of "$words")" "$(bytes_of "$words")" \
    "$esker" --url "$url/1" import "$words"
  expect "words in database 1" "$("$esker" --url "$url/1" count)" "$(lines_of "$words")"
  "$esker" --url "$url/1" scan >"$out/served.words"
  expect_same "words scanned by way of the server" "$out/served.words" "$words"
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  say "over a socket of bash, STRLEN greeting: $(raw STRLEN greeting)"
  exec 3>&-
  if ! have redis-cli; then
    say "no redis-cli here: its part is left out"
    return
  fi
  redis-cli -p "$port" hset user:1 name Ann city Oslo >/dev/null
  say "redis-cli hgetall user:1: $(redis-cli -p "$port" hgetall user:1 | tr '\n' ' ')"
  say "redis-cli range a z limit 1: $(redis-cli -p "$port" range a z limit 1 | tr '\n' ' ')"
  ! have redis-benchmark ||
    redis-benchmark -p "$port" -q -n "$server_operations" -P 16 -t set,get,incr,lpush 2>/dev/null |
      tr '\r' '\n' | grep 'requests per second' | sed 's/^/redis-benchmark -P 16: /'
}

# A client that counts, one acknowledged write after the other.
count_up() {
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  while raw INCR acknowledged; do :; done 2>/dev/null
}

kill_server() {
  local acks=$data/out/acknowledged counter last there
  # It is there before the client, which opens it when its process runs, is looked at.
  : >"$acks"
  count_up >"$acks" &
  counter=$!
  until [ "$(lines_of "$acks")" -ge "$server_writes" ]; do
    kill -0 "$counter" 2>/dev/null || stop "the client that counts has ended by itself"
    sleep 0.02
  done
  kill -9 "$served"
  wait "$served" 2>/dev/null || true
  wait "$counter" 2>/dev/null || true
  last=$(sed -n 's/^:\([0-9]*\)$/\1/p' "$acks" | tail -n 1)
  say "kill -9 while a client counts: the last reply was $last"
  start_server
  there=$("$esker" --url "redis://127.0.0.1:$port" get acknowledged)
  [ "$there" = "$last" ] || [ "$there" = $((last + 1)) ] || stop "the server lost writes: it says $there"
  say "started again: the counter is $there, nothing acknowledged is lost"
}

serve() {
  heading "server"
  need_redis_tools
  trap end_server EXIT
  start_server
  use_server
  kill_server
  kill -TERM "$served"
  wait "$served" || stop "the server did not end as it should"
  served=
  say "SIGTERM: ended with code 0"
  expect "words in the directory" "$("$esker" --db "$data/served.db" --tree db1 count)" \
    "$(lines_of "$data/input/words.txt")"
  "$esker" --db "$data/served.db" check
}
