"""redis-py's RedisCluster, unmodified, against a running cluster: `redis_py.py HOST:PORT`.

Uses keys that contain `ours:py:` only, and deletes them. The wire itself is checked by the Rust
tests; here it is the client's own expectations that must be met.
"""
import sys
import threading
import time

from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.crc import key_slot
from redis.retry import Retry

import checks
from checks import refused, same

HOST, PORT = sys.argv[1].rsplit(":", 1)
PORT = int(PORT)
PREFIX = "ours:py:"


def cluster(**more):
    return RedisCluster(host=HOST, port=PORT, decode_responses=True, socket_timeout=10, **more)


C = cluster()


def every_slot_has_an_owner_and_every_node_some():
    owners = C.nodes_manager.slots_cache
    same(len(owners), 16384, "slots covered")
    ports = {nodes[0].port for nodes in owners.values()}
    same(ports, {node.port for node in C.get_primaries()}, "nodes with slots")


def a_thousand_keys_spread_over_all_nodes():
    names = [f"{PREFIX}{number}" for number in range(1000)]
    for name in names:
        same(C.set(name, name), True)
    for name in names:
        same(C.get(name), name)
    same(sum(C.delete(name) for name in names), 1000, "deleted")


def the_client_and_the_server_agree_on_slots():
    for name in ("foo", "{user1000}.following", "foo{}{bar}", "foo{{bar}}zap", "ключ", ""):
        same(C.cluster_keyslot(name), key_slot(name.encode()), name)


def every_wrong_node_answers_moved_and_keeps_the_connection():
    key = PREFIX + "moved"
    owner = C.get_node_from_key(key)
    slot = key_slot(key.encode())
    for node in C.get_primaries():
        plain = Connection(host=node.host, port=node.port, decode_responses=True,
                           retry=Retry(NoBackoff(), 0))
        plain.send_command("SET", key, "x")
        if node.port == owner.port:
            same(plain.read_response(), "OK")
        else:
            refused(f"{slot} {owner.host}:{owner.port}", plain.read_response)
        plain.send_command("PING")
        same(plain.read_response(), "PONG", "after the redirect")
        plain.disconnect()
    same(C.delete(key), 1)


def keys_of_two_slots_are_refused_and_nothing_is_applied():
    one, two = PREFIX + "{a}", PREFIX + "{b}"
    refused("", C.execute_command, "MSET", one, "1", two, "2")
    node = C.get_node_from_key(one)
    raw = C.get_redis_connection(node)
    refused("Keys in request don't hash", raw.execute_command, "MSET", one, "1", two, "2")
    same(C.exists(one), 0)


def hash_tags_keep_keys_together():
    names = {f"{PREFIX}{{tag}}{number}": str(number) for number in range(50)}
    same(C.mset(names), True)
    same(C.mget(list(names)), list(names.values()))
    same(C.delete(*names), 50)


def a_pipeline_over_all_nodes_answers_in_order():
    pipe = C.pipeline()
    for number in range(500):
        pipe.set(f"{PREFIX}{number}", number)
        pipe.incrby(f"{PREFIX}{number}", 1)
    wanted = [part for number in range(500) for part in (True, number + 1)]
    same(pipe.execute(), wanted)
    for number in range(500):
        pipe.delete(f"{PREFIX}{number}")
    same(sum(pipe.execute()), 500)


def a_transaction_applies_all_or_nothing():
    key = PREFIX + "{txn}"
    pipe = C.pipeline(transaction=True)
    pipe.set(key, 1)
    pipe.incr(key)
    pipe.rpush(key + "list", "a", "b")
    same([str(reply) for reply in pipe.execute()], ["OK", "2", "2"])
    node = C.get_redis_connection(C.get_node_from_key(key))
    with node.pipeline() as watched:
        watched.watch(key)
        C.set(key, 10)
        watched.multi()
        watched.incr(key)
        refused("Watched variable changed", watched.execute)
    same(C.get(key), "10")
    same(C.delete(key, key + "list"), 2)


def each_type_keeps_what_it_was_given():
    tag = PREFIX + "{types}"
    same(C.hset(tag + "h", mapping={"a": "1", "b": "2"}), 2)
    same(C.hgetall(tag + "h"), {"a": "1", "b": "2"})
    same(C.rpush(tag + "l", *range(300)), 300)
    same(C.lrange(tag + "l", 0, -1), [str(number) for number in range(300)])
    same(C.sadd(tag + "s", "x", "y", "x"), 2)
    same(C.smembers(tag + "s"), {"x", "y"})
    same(C.zadd(tag + "z", {"one": 1, "half": 0.5, "big": 1e300}), 3)
    pairs = C.zrange(tag + "z", 0, -1, withscores=True)
    same([tuple(pair) for pair in pairs], [("half", 0.5), ("one", 1.0), ("big", 1e300)])
    same([C.type(tag + kind) for kind in "hlsz"], ["hash", "list", "set", "zset"])
    refused("WRONGTYPE Operation against a key holding the wrong kind", C.incr, tag + "h")
    same(C.delete(*(tag + kind for kind in "hlsz")), 4)


def binary_and_large_values_come_back_whole():
    raw = RedisCluster(host=HOST, port=PORT, socket_timeout=20)
    for name, value in ((b"all", bytes(range(256))), (b"none", b""), (b"big", b"\r\n" * 2_000_000)):
        key = PREFIX.encode() + name + b"\x00\r\n"
        same(raw.set(key, value), True)
        same(raw.get(key) == value, True, name)
        same(raw.delete(key), 1)
    raw.close()


def a_key_expires_and_one_made_to_stay_does_not():
    gone, stays = PREFIX + "gone", PREFIX + "stays"
    C.set(gone, "x", px=60)
    C.set(stays, "x", px=60)
    same(C.persist(stays), True)
    until = time.monotonic() + 5
    while C.exists(gone) and time.monotonic() < until:
        time.sleep(0.01)
    same((C.get(gone), C.get(stays), C.ttl(stays)), (None, "x", -1))
    same(C.delete(stays), 1)


def scan_over_all_nodes_gives_each_key_once():
    names = {f"{PREFIX}scan:{number}" for number in range(700)}
    pipe = C.pipeline()
    for name in names:
        pipe.set(name, "x")
    pipe.execute()
    found = list(C.scan_iter(match=PREFIX + "scan:*", count=37))
    same((len(found), set(found) == names), (700, True))
    same(sum(C.delete(name) for name in names), 700)


def a_blocked_pop_wakes_up_for_the_push_of_another():
    key = PREFIX + "queue"
    got = []
    other = cluster()
    waiting = threading.Thread(target=lambda: got.append(other.blpop(key, timeout=8)))
    waiting.start()
    node = C.get_redis_connection(C.get_node_from_key(key))
    until = time.monotonic() + 5
    while node.info("clients")["blocked_clients"] < 1 and time.monotonic() < until:
        time.sleep(0.01)
    same(C.rpush(key, "job"), 1)
    waiting.join(9)
    same([list(pair) for pair in got], [[key, "job"]])
    same(C.exists(key), 0)
    other.close()


def both_protocols_give_the_same_values():
    key = PREFIX + "proto"
    for protocol in (2, 3):
        client = cluster(protocol=protocol)
        client.hset(key, mapping={"a": "1"})
        same(client.hgetall(key), {"a": "1"}, f"RESP{protocol}")
        same(client.get(key + "none"), None, f"RESP{protocol}")
        same(client.delete(key), 1)
        client.close()


def many_threads_count_every_increment_once():
    key = PREFIX + "count"

    def work():
        for _ in range(200):
            C.incr(key)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    same(C.get(key), "1600")
    same(C.delete(key), 1)


def nothing_of_ours_is_left():
    same(list(C.scan_iter(match=PREFIX + "*")), [])


checks.run("redis_py", [
    every_slot_has_an_owner_and_every_node_some,
    a_thousand_keys_spread_over_all_nodes,
    the_client_and_the_server_agree_on_slots,
    every_wrong_node_answers_moved_and_keeps_the_connection,
    keys_of_two_slots_are_refused_and_nothing_is_applied,
    hash_tags_keep_keys_together,
    a_pipeline_over_all_nodes_answers_in_order,
    a_transaction_applies_all_or_nothing,
    each_type_keeps_what_it_was_given,
    binary_and_large_values_come_back_whole,
    a_key_expires_and_one_made_to_stay_does_not,
    scan_over_all_nodes_gives_each_key_once,
    a_blocked_pop_wakes_up_for_the_push_of_another,
    both_protocols_give_the_same_values,
    many_threads_count_every_increment_once,
    nothing_of_ours_is_left,
])
