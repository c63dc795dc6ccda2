#!/bin/bash
# Debian's redis-cli, unmodified, builds and changes a cluster: create, check, info, call, add-node,
# del-node (of a voter, too), set-timeout, rebalance --cluster-simulate. Starts five nodes of its
# own: `redis_cli_admin.sh SLOTD BASE`, ports BASE to BASE+4 (and 10000 above) being free.
SLOTD=${1:?the slotd binary} BASE=${2:?the first port}
PASSED=0 FAILED=0
TMP=$(mktemp -d) PIDS=()
finish() { for pid in "${PIDS[@]}"; do kill "$pid" 2> /dev/null; done; wait 2> /dev/null; rm -rf "$TMP"; }
trap finish EXIT

check() { # NAME PATTERN COMMAND...: the whole output matches the extended regular expression.
  local name=$1 pattern=$2 out; shift 2
  out=$(timeout 60 "$@" 2>&1 < "${INPUT:-/dev/null}")
  if [[ $out =~ $pattern ]]; then
    PASSED=$((PASSED + 1)); echo "ok   redis_cli_admin/$name"
  else
    FAILED=$((FAILED + 1)); echo "FAIL redis_cli_admin/$name: got '$(tail -c 600 <<< "$out")', wanted '$pattern'"
  fi
}
node() { echo "127.0.0.1:$((BASE + $1))"; }
cli() { redis-cli -p "$((BASE + $1))" "${@:2}"; }
id() { cli "$1" cluster myid; }
# until NAME PATTERN COMMAND...: the output matches within 15 s.
until_matches() {
  local name=$1 pattern=$2 out tries; shift 2
  for tries in $(seq 75); do
    out=$("$@" 2>&1)
    if [[ $out =~ $pattern ]]; then
      PASSED=$((PASSED + 1)); echo "ok   redis_cli_admin/$name"; return
    fi
    sleep 0.2
  done
  FAILED=$((FAILED + 1)); echo "FAIL redis_cli_admin/$name after $tries tries: got '${out:0:600}'"
  return 1
}
stop() { tail -n 3 "$TMP"/*/out; echo "redis_cli_admin: $PASSED passed, $FAILED failed"; exit 1; }

for n in 0 1 2 3 4; do
  mkdir "$TMP/$n"
  "$SLOTD" --cluster-enabled yes --port $((BASE + n)) --bind 127.0.0.1 --dir "$TMP/$n" \
    > "$TMP/$n/out" 2>&1 < /dev/null &
  PIDS+=($!)
done
for n in 0 1 2 3 4; do until_matches "node_${n}_answers" '^PONG$' cli "$n" ping || stop; done
for n in 0 1 2 3 4; do until_matches "node_${n}_is_alone" 'cluster_known_nodes:1[^0-9]' cli "$n" cluster info; done

check create '\[OK\] All 16384 slots covered' \
  redis-cli --cluster create "$(node 0)" "$(node 1)" "$(node 2)" --cluster-yes
for n in 0 1 2; do until_matches "node_${n}_serves" 'cluster_state:ok' cli "$n" cluster info || stop; done
check check '\[OK\] All nodes agree about slots configuration.*\[OK\] All 16384 slots covered' \
  redis-cli --cluster check "$(node 1)"
check info '3 (primaries|masters)' redis-cli --cluster info "$(node 2)"
check call 'PONG.*PONG.*PONG' redis-cli --cluster call "$(node 0)" ping
check writes_go_where_they_belong '^OK$' redis-cli -p "$BASE" -c set foo bar
check set_timeout 'New node timeout set. 3 OK' \
  redis-cli --cluster set-timeout "$(node 0)" 5000
check timeout_is_set '5000' redis-cli -p $((BASE + 1)) config get cluster-node-timeout

check add_node '\[OK\] New node added correctly' \
  redis-cli --cluster add-node "$(node 3)" "$(node 0)"
for n in 0 1 2 3; do until_matches "node_${n}_knows_four" 'cluster_known_nodes:4[^0-9]' cli "$n" cluster info; done
check add_node_again '\[OK\] New node added correctly' \
  redis-cli --cluster add-node "$(node 4)" "$(node 2)"
for n in 0 1 2 3 4; do until_matches "node_${n}_knows_five" 'cluster_known_nodes:5[^0-9]' cli "$n" cluster info; done
check an_added_node_redirects '^MOVED 12182 127' redis-cli -p $((BASE + 4)) get foo
check rebalance_simulated 'Moving [0-9]+ slots from' \
  redis-cli --cluster rebalance "$(node 0)" --cluster-simulate --cluster-use-empty-masters
check reshard_is_refused_at_its_first_step 'slotctl' \
  redis-cli --cluster reshard "$(node 0)" --cluster-from "$(id 0)" --cluster-to "$(id 1)" \
  --cluster-slots 1 --cluster-yes
check nothing_is_left_open '\[OK\] All 16384 slots covered' redis-cli --cluster check "$(node 0)"

# With five nodes all vote: the vote of the one that goes is moved first.
check del_node_of_a_voter 'CLUSTER RESET SOFT' redis-cli --cluster del-node "$(node 0)" "$(id 4)"
for n in 0 1 2 3; do until_matches "node_${n}_knows_four_again" 'cluster_known_nodes:4[^0-9]' cli "$n" cluster info; done
until_matches the_deleted_node_is_alone 'cluster_known_nodes:1[^0-9]' cli 4 cluster info
check a_node_with_slots_is_not_deleted 'is not empty' \
  redis-cli --cluster del-node "$(node 0)" "$(id 1)"
check still_agreed '\[OK\] All 16384 slots covered' redis-cli --cluster check "$(node 3)"
check still_served '^bar$' redis-cli -p $((BASE + 3)) -c get foo

echo "redis_cli_admin: $PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
