#!/bin/sh
# Puts a tree of Debian 13 with its Swift (3.2 GB) into a folder, as root: `make soak`, where the system has no Swift.
set -eu
at=$1
if command -v swift >/dev/null || [ -e "$at/.whole" ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "swift is not installed" >&2
    echo "hint: install Swift 6, or debootstrap, and be root once: it puts Debian's into $at" >&2
    exit 1
fi
rm -rf "$at"
debootstrap --variant=minbase --include=swiftlang,libc6-dev,libstdc++-14-dev trixie "$at"
rm -rf "$at/var/cache/apt/archives"
touch "$at/.whole"
