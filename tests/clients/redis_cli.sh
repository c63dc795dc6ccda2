#!/bin/bash
# Debian's redis-cli and redis-benchmark, unmodified, against a running cluster of three nodes on
# consecutive ports: `redis_cli.sh HOST:PORT`, PORT being the first. Keys contain `ours:cli:` only
# (and redis-benchmark's own); all are deleted.
HOST=${1%:*} PORT=${1##*:}
PASSED=0 FAILED=0
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT

# check NAME PATTERN COMMAND...: the whole output matches the extended regular expression.
check() {
  local name=$1 pattern=$2 out; shift 2
  out=$(timeout 30 "$@" 2>&1 < "${INPUT:-/dev/null}")
  if [[ $out =~ $pattern ]]; then
    PASSED=$((PASSED + 1)); echo "ok   redis_cli/$name"
  else
    FAILED=$((FAILED + 1)); echo "FAIL redis_cli/$name: got '${out:0:300}', wanted '$pattern'"
  fi
}
c() { check "$1" "$2" redis-cli -h "$HOST" -p "$PORT" "${@:3}"; }

c pings '^PONG$' ping
# foo is of slot 12182, of the third node; bar of 5061, of the first.
c moved_names_slot_and_owner "^MOVED 12182 $HOST:$((PORT + 2))" set foo bar
c follows_redirects '^OK$' -c set 'ours:cli:{foo}' hello
c reads_back_by_another_way '^hello$' -c get 'ours:cli:{foo}'
check the_owner_serves_it '^hello$' redis-cli -h "$HOST" -p $((PORT + 2)) get 'ours:cli:{foo}'
c deletes '^1$' -c del 'ours:cli:{foo}'
c keyslot '^12182$' cluster keyslot foo
c cross_slot "^CROSSSLOT Keys in request don't hash to the same slot" mset a 1 b 2
c unknown_command "^ERR unknown command 'nosuch', with args beginning with: 'a' 'b' *$" nosuch a b
c wrong_arity "^ERR wrong number of arguments for 'get' command" get
c resp3_map_keeps_its_shape '1# "(server|version|proto|id|mode|role|modules)" => ' -3 --no-raw hello 3
c cluster_info 'cluster_state:ok.*cluster_slots_assigned:16384.*cluster_known_nodes:3' cluster info
c cluster_nodes 'myself,master' cluster nodes
c whole_table_ranges 'connected 0-5460' cluster nodes
check check_finds_nothing_wrong 'All 16384 slots covered' redis-cli --cluster check "$HOST:$PORT"
check info_of_all '3 (primaries|masters)' redis-cli --cluster info "$HOST:$PORT"
check call_reaches_all 'PONG.*PONG.*PONG' redis-cli --cluster call "$HOST:$PORT" ping

# Commands typed on stdin, with quotes and escapes; redis-cli asks for COMMAND DOCS first.
printf 'set "ours:cli:{\\x62ar}a" "two words"\nget "ours:cli:{bar}a"\ndel "ours:cli:{bar}a"\n' > "$TMP/typed"
INPUT=$TMP/typed c typed_commands '^OK.two words.1$' -c

# Mass insertion: inline commands and protocol mixed in one stream.
{ for n in $(seq 2000); do echo "SET ours:cli:{bar}$n $n"; done
  printf '*3\r\n$3\r\nSET\r\n$15\r\nours:cli:{bar}x\r\n$1\r\ny\r\n'; } > "$TMP/mass"
INPUT=$TMP/mass c mass_insertion 'errors: 0, replies: 2001' --pipe
check scan_finds_them_all '^ *2001$' bash -c \
  "redis-cli -h $HOST -p $PORT --scan --pattern 'ours:cli:*' | sort -u | wc -l"
c counts_the_slot '^2001$' cluster countkeysinslot 5061
c big_keys 'Sampled 2[0-9]{3} keys' --bigkeys
c mem_keys 'Sampled 2[0-9]{3} keys' --memkeys
check deletes_them_all '^0$' bash -c "redis-cli -h $HOST -p $PORT --scan --pattern 'ours:cli:*' |
  xargs -n 500 redis-cli -h $HOST -p $PORT del > $TMP/deleted
  redis-cli -h $HOST -p $PORT cluster countkeysinslot 5061"

bench() { # NAME PATTERN ARGUMENTS...
  check "$1" "$2" redis-benchmark -h "$HOST" -p "$PORT" -n 6000 -c 12 -r 500 -q "${@:3}"
}
bench benchmark_cluster 'GET: [0-9.]+ requests per second' --cluster -t set,get,incr,lpush,rpop
bench benchmark_cluster_types 'ZADD: [0-9.]+ requests' --cluster -t sadd,hset,spop,zadd,zpopmin
bench benchmark_pipelined 'PING_MBULK: [0-9.]+ requests' --cluster -P 16 -t ping,set,get
check deletes_the_keys_of_the_benchmark '^000$' bash -c "for p in $PORT $((PORT + 1)) $((PORT + 2))
  do redis-cli -h $HOST -p \$p flushall > $TMP/flushed; redis-cli -h $HOST -p \$p dbsize; done | tr -d '\\n'"

echo "redis_cli: $PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
