# shellcheck shell=bash disable=SC2034
# What the scripts here share; to be sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Debian's Python: the one that its python3-numpy belongs to.
python=/usr/bin/python3

# What building the library and the command takes, and what an OpenCL device on the CPU does.
build_packages=(cmake ninja-build g++ libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev opencl-c-headers
    ocl-icd-libopencl1 pocl-opencl-icd python3-numpy zlib1g-dev)
test_packages=(python3-pytest doctest-dev pkg-config libclblast1)

say() {
    printf '\n== %s\n' "$*"
}

# need_packages PACKAGE...: installs those that are missing, as root or through sudo. Asks for nothing where all are there.
need_packages() {
    local missing=() package
    for package in "$@"; do
        # A package may be provided by another one, as pkg-config is by pkgconf in newer releases.
        if ! dpkg-query --show --showformat '${db:Status-Abbrev}\n' "$package" 2>/dev/null | grep -q '^ii'; then
            missing+=("$package")
        fi
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return
    fi
    say "installing ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
    fi
    # Without recommendations PoCL still has all that it needs to compile kernels.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# quiet LOG COMMAND...: the command's output goes to LOG, and to the screen where it fails.
quiet() {
    local log=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log"
        echo "failed: $*"
        return 1
    fi
}
