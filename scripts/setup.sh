# shellcheck shell=bash disable=SC2034
# Sourced by ./run and ./test: finds or installs what a build needs. Bash; no side effect when all is there.
#
# On Debian (and what is made from it) missing packages come from apt-get, as root or through sudo. Elsewhere we
# say what is missing and stop. Rust comes from rustup, and only after a yes: at the prompt, or ESKER_INSTALL_RUST=1.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ -n "${HOME:-}" ] || { HOME=~; export HOME; }
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
export CARGO_TARGET_DIR=$target

say() { printf '%s\n' "$*"; }
heading() { printf '\n== %s\n' "$*"; }
stop() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

on_debian() { have apt-get && have dpkg; }

# as_root COMMAND...: runs it as root, or says what to run and fails.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then sudo "$@"
  else
    say "as root, run: $*" >&2
    return 1
  fi
}

# The package index; fetched when the machine has none.
apt_index() {
  compgen -G "/var/lib/apt/lists/*_Packages*" >/dev/null || as_root apt-get update -q
}

# install_packages NAME...: installs Debian packages without questions.
install_packages() {
  on_debian || return 1
  say "installing with apt-get: $*"
  apt_index || return 1
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@")
  as_root "${install[@]}" && return
  # A package that is not to be had any more: the index is old.
  [ "$(id -u)" = 0 ] && apt-get update -q && "${install[@]}"
}

# A C compiler (it links, and builds zstd), the C library's headers, and certificates to fetch crates with.
need_build_tools() {
  local missing=()
  if ! have cc || ! echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1; then missing+=(gcc libc6-dev); fi
  if [ ! -s /etc/ssl/certs/ca-certificates.crt ] && on_debian; then missing+=(ca-certificates); fi
  have awk || missing+=(mawk)
  [ ${#missing[@]} = 0 ] && return
  on_debian || stop "please install a C compiler with the C library's headers, and awk (missing here: ${missing[*]})"
  install_packages "${missing[@]}" || stop "these packages are missing: ${missing[*]}"
}

# Python 3: a test reads a store with tools/read_esker.py.
need_python() {
  have python3 && return
  on_debian || stop "please install Python 3"
  install_packages python3 || stop "Python 3 is missing"
}

# What makes file systems in image files, and calls that fail: for tests of power cuts and failing disks. Where it cannot
# be had they are skipped, and say so.
need_disk_tools() {
  local missing=()
  PATH=$PATH:/usr/sbin:/sbin
  have mkfs.xfs || missing+=(xfsprogs)
  have mkfs.ext4 || missing+=(e2fsprogs)
  have unshare || missing+=(util-linux)
  have mount || missing+=(mount)
  have strace || missing+=(strace)
  [ ${#missing[@]} != 0 ] || return 0
  { on_debian && install_packages "${missing[@]}"; } || say "missing, for tests of failing disks: ${missing[*]}"
}

# A real Redis, with which the commands are compared. Where it cannot be had that test is skipped, and says so.
need_redis() {
  ! have redis-server || return 0
  { on_debian && install_packages redis-server; } || say "missing, for the comparison with Redis: redis-server"
}

# Certificates are made by openssl, as docs/server.md shows it. Where it cannot be had that test is skipped, and says so.
need_openssl() {
  ! have openssl || return 0
  { on_debian && install_packages openssl; } || say "missing, for certificates: openssl"
}

# Redis' clients, without its server. Where they cannot be had, what uses them is left out.
need_redis_tools() {
  ! have redis-cli || return 0
  { on_debian && install_packages redis-tools; } || say "missing: redis-cli and redis-benchmark"
}

# A Python with these packages, in a folder of its own. It is made anew when the list of packages changes.
#   need_venv FOLDER REQUIREMENTS
need_venv() {
  cmp -s "$2" "$1/requirements.txt" && return
  rm -rf "$1"
  python3 -c 'import venv, ensurepip' 2>/dev/null || { on_debian && install_packages python3-venv; } || return 1
  python3 -m venv "$1" && "$1/bin/pip" install -q --disable-pip-version-check -r "$2" && cp "$2" "$1/requirements.txt"
}

# The program: the one that ESKER_PROGRAM names, or it is built.
need_esker() {
  [ -z "${ESKER_PROGRAM:-}" ] || return 0
  need_build_tools
  need_rust
  cargo build --release -p esker-cli "${locked[@]}" || stop "the program cannot be built"
  ESKER_PROGRAM=$target/release/esker
}

# Servers in the background, for tests; whoever starts them kills `servers` at the end. Each sets `port`.
#   start_esker FOLDER [ARGUMENT...], start_thrift FOLDER [ARGUMENT...], start_redis FOLDER [ARGUMENT...]
start_esker() { start_program "$1" serve --resp 127.0.0.1:0 "${@:2}"; }
start_thrift() { start_program "$1" thrift --listen 127.0.0.1:0 "${@:2}"; }
# start_program FOLDER COMMAND [ARGUMENT...]: on a new store. The port is the first that the command prints.
start_program() {
  local folder=$1 server
  shift
  rm -rf "$folder" && mkdir -p "$folder"
  "$ESKER_PROGRAM" --db "$folder/store.db" "$@" >"$folder/out" 2>&1 &
  server=$!
  servers+=("$server")
  until grep -qs '^ready' "$folder/out"; do kill -0 "$server" 2>/dev/null || stop "esker did not begin: $folder/out"; sleep 0.1; done
  port=$(sed -nE 's/^(resp|thrift) .*:([0-9]+)$/\2/p' "$folder/out" | head -n 1)
}
start_redis() {
  local folder=$1 server
  shift
  rm -rf "$folder" && mkdir -p "$folder"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" "$@" >"$folder/out" 2>&1 &
  server=$!
  servers+=("$server")
  until grep -qs 'Ready to accept' "$folder/out"; do kill -0 "$server" 2>/dev/null || stop "redis did not begin: $folder/out"; sleep 0.1; done
}

# The pinned toolchain's version, as rust-toolchain.toml says it.
pinned_rust() { sed -n 's/^channel *= *"\(.*\)"/\1/p' "$root/rust-toolchain.toml"; }

need_rust() {
  have cargo || have rustup || offer_rust
  if have rustup && ! (cd "$root" && cargo --version) >/dev/null 2>&1; then
    say "rustup installs Rust $(pinned_rust)"
    rustup toolchain install "$(pinned_rust)" --profile minimal --component rustfmt --component clippy ||
      stop "rustup could not install Rust $(pinned_rust)"
  fi
  local version
  version=$(cd "$root" && rustc --version) || stop "rustc does not run"
  version=${version#rustc }
  version=${version%% *}
  printf '%s\n%s\n' "$(pinned_rust)" "${version%%-*}" | sort -V -C ||
    stop "Rust $(pinned_rust) or newer is needed, found $version: rustup update"
}

offer_rust() {
  local installer answer=no
  installer="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal"
  installer+=" --default-toolchain $(pinned_rust) --component rustfmt --component clippy"
  say "Rust is missing. Its official installer:"
  say "  $installer"
  if [ "${ESKER_INSTALL_RUST:-}" = 1 ]; then answer=yes
  elif [ -t 0 ]; then read -r -p "Run it now? [y/N] " answer
  fi
  case $answer in
    y | Y | yes | Yes) ;;
    *) stop "install Rust and come back, or set ESKER_INSTALL_RUST=1" ;;
  esac
  have curl || install_packages curl ca-certificates || stop "curl is missing"
  sh -c "$installer" || stop "the installer failed"
  hash -r
  have cargo || stop "the installer left no cargo in ${CARGO_HOME:-$HOME/.cargo}/bin"
}

# --locked where the lock file is checked in, so that everyone builds the same.
locked=()
[ ! -f "$root/Cargo.lock" ] || locked=(--locked)
