# Shared by ./run and ./test: steps that stop at the first failure with a message, and packages.
# Source it with the root of the project as the working directory.
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config libpq-dev libsqlite3-dev libspdlog-dev
                libfmt-dev libcli11-dev nlohmann-json3-dev libhowardhinnant-date-dev
                libtomlplusplus-dev libboost1.81-dev libssl-dev prometheus-cpp-dev
                libcurl4-openssl-dev libnats-dev librabbitmq-dev
                libqpid-proton-cpp12-dev librdkafka-dev)
# The dashboard needs node and npm, from wherever they come.
command -v npm >/dev/null && command -v node >/dev/null || build_packages+=(nodejs npm)
test_packages=(libgtest-dev libgmock-dev librapidcheck-dev postgresql-15 postgresql-client-15
               clang-format clang-tidy openssl prometheus chromium nats-server
               rabbitmq-server libsasl2-modules)

if [ -t 1 ]; then bold=$'\033[1m' red=$'\033[31m' plain=$'\033[0m'; else bold='' red='' plain=''; fi
started=$(date +%s)
current_step=''

step() {
  current_step=$1
  printf '%s==> [%3ds] %s%s\n' "$bold" "$(($(date +%s) - started))" "$1" "$plain"
}
fail() { printf '%s%s: failed: %s%s\n' "$red" "$(basename "$0")" "$*" "$plain" >&2; exit 1; }
report_stop() {  # EXIT CODE
  [ "$1" -eq 0 ] ||
    printf '%s%s stopped in the step: %s%s\n' "$red" "$(basename "$0")" "$current_step" "$plain" >&2
}
trap 'report_stop $?' EXIT

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "packages are missing, and there is neither root nor sudo; install them: $*"; fi
}

# Installs the packages that are missing, and prints their names.
install_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null || fail "this is not Debian: install by hand: $*"
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || { echo "all packages are there"; return; }
  echo "installing: ${missing[*]}"
  # Only the programs of PostgreSQL are needed: keep its package from starting a cluster.
  local no_cluster=/etc/postgresql-common/createcluster.d/dovetail-no-main-cluster.conf
  if [[ " ${missing[*]} " == *" postgresql-15 "* ]] && [ ! -e "$no_cluster" ]; then
    as_root mkdir -p "$(dirname "$no_cluster")"
    echo "create_main_cluster = false" | as_root tee "$no_cluster" >/dev/null
  fi
  # Tests start brokers themselves, and only promtool of prometheus is needed: keep the packages
  # from starting services.
  local no_services=/usr/sbin/policy-rc.d our_policy=''
  if [[ " ${missing[*]} " =~ \ (prometheus|nats-server|rabbitmq-server)\  ]] &&
    [ ! -e "$no_services" ]; then
    our_policy=$no_services
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$no_services" >/dev/null
    as_root chmod +x "$no_services"
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y \
    --no-install-recommends "${missing[@]}" >/tmp/dovetail-apt.$$.log 2>&1 || {
    tail -n 30 "/tmp/dovetail-apt.$$.log" >&2
    [ -z "$our_policy" ] || as_root rm -f "$our_policy"
    fail "apt-get install ${missing[*]}"; }
  rm -f "/tmp/dovetail-apt.$$.log"
  [ ! -e "$no_cluster" ] || as_root rm -f "$no_cluster"
  [ -z "$our_policy" ] || as_root rm -f "$our_policy"
  # Nor shall they start with the machine.
  if [ -n "$our_policy" ] && command -v systemctl >/dev/null; then
    local service
    for service in prometheus nats-server rabbitmq-server; do
      as_root systemctl -q disable "$service.service" >/dev/null 2>&1 || true
    done
  fi
}

# Clones in different directories share compilations, and precompiled headers are cached, too.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

configure() {  # PRESET
  local log=build/configure-$1.log
  mkdir -p build
  cmake --preset "$1" >"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "cmake --preset $1"; }
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  configure "$preset"
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" "${targets[@]}"
}
