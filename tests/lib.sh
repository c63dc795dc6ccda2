# What the test scripts share: cache folder, installs, a local cluster. Sourced by bash, not run.
# Every process started here is ended by its own pid.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CARGO=${CARGO:-cargo}
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
CACHE=${SLOTD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotd}
SLOTD=${SLOTD_BIN:-$TARGET/release/slotd}
SLOTCTL=${SLOTCTL_BIN:-$TARGET/release/slotctl}
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)

say() { echo "# $*"; }

# Runs a package manager's line as root, directly or by sudo; fails where neither can be.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo > /dev/null; then sudo -n "$@"; else return 1; fi
}

# debian COMMAND PACKAGE...: installs the packages if COMMAND is missing. None starts a service.
debian() {
  local wanted=$1; shift
  command -v "$wanted" > /dev/null && return 0
  command -v apt-get > /dev/null || { say "$wanted is missing and there is no apt-get"; return 1; }
  say "installing $*"
  { apt_install "$@" || { as_root apt-get update -qq && apt_install "$@"; }; } \
    > "$CACHE/apt.log" 2>&1 && return 0
  say "cannot install $*: $(tail -1 "$CACHE/apt.log")"
  return 1
}
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# The Python of our client checks, with the pinned packages of tests/clients/requirements.txt.
python_clients() {
  local wanted=$ROOT/tests/clients/requirements.txt venv=$CACHE/clients
  PYTHON=$venv/bin/python
  cmp -s "$wanted" "$venv/requirements.txt" && return 0
  say "installing Python clients"
  { python3 -m venv "$venv" && "$PYTHON" -m pip install -q -r "$wanted"; } > "$CACHE/pip.log" 2>&1 ||
    { say "cannot install Python clients: $(tail -1 "$CACHE/pip.log")"; return 1; }
  cp "$wanted" "$venv/requirements.txt"
}

# A port with COUNT free ports from it on, as are those 10000 above; below the ports that the kernel
# gives to outgoing connections, which could take one between this look and a node's start.
free_ports() {
  python3 - "${1:-3}" <<'PY'
import random, socket, sys
count = int(sys.argv[1])
for _ in range(500):
    base = random.randrange(15000, 22000)
    held = []
    try:
        for port in range(base, base + count):
            for one in (port, port + 10000):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", one))
    except OSError:
        continue
    finally:
        for one in held:
            one.close()
    print(base)
    sys.exit()
sys.exit("no free ports")
PY
}

# local_cluster DIR: starts `slotd local` and waits for its `ready`. Sets BASE and LOCAL_PID.
local_cluster() {
  BASE=$(free_ports 3) || return 1
  "$SLOTD" local --port "$BASE" --dir "$1" > "$1.log" 2>&1 < /dev/null &
  LOCAL_PID=$!
  local tries
  for tries in $(seq 300); do
    grep -qw ready "$1.log" && return 0
    kill -0 "$LOCAL_PID" 2> /dev/null || break
    sleep 0.1
  done
  echo "slotd local did not become ready ($tries tries):"
  tail -5 "$1.log"
  end_local
  return 1
}

# Ends the cluster as an operator does, and fails if it or a child of it is still there after 10 s.
end_local() {
  [ -n "$LOCAL_PID" ] || return 0
  local pid=$LOCAL_PID children tries child
  LOCAL_PID=
  children=$(cat "/proc/$pid/task/"*/children 2> /dev/null)
  kill -TERM "$pid" 2> /dev/null
  for tries in $(seq 100); do
    local left=
    for child in $pid $children; do
      # A zombie has ended; only its parent has not looked yet.
      grep -qs '^State:[[:space:]]*[^Z]' "/proc/$child/status" && left="$left $child"
    done
    [ -z "$left" ] && { wait "$pid" 2> /dev/null; return 0; }
    sleep 0.1
  done
  echo "still there $((tries / 10)) s after SIGTERM:$left"
  # shellcheck disable=SC2086 # a list of pids of ours
  kill -KILL $left 2> /dev/null
  return 1
}
