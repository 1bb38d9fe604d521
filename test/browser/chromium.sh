#!/usr/bin/env bash
# chromium.sh: prints the path of a Chromium, which it installs by apt-get when it is missing and that is allowed.
# When there is none it prints nothing and says why on stderr, in a line that begins with "skip".
set -euo pipefail
for name in ${CHROMIUM:-} chromium chromium-browser google-chrome; do
	if path=$(command -v "$name"); then
		echo "$path"
		exit
	fi
done
skip() { echo "skip  chromium: $1; the tests of the panel in a browser are skipped" >&2; exit; }
command -v apt-get >/dev/null || skip "it is missing, and so is apt-get"
sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo -n)
{ "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=60 install -yq --no-install-recommends chromium fonts-noto-cjk; } >&2 ||
	skip "apt-get cannot install it"
command -v chromium || skip "apt-get installed none"
