#!/bin/sh
# Prints the counts of --text TEXT as JSON; with --characters those of characters, too.
set -eu
text= characters=
while [ $# -gt 0 ]; do
    case $1 in
    --text) text=$2; shift 2 ;;
    --characters) characters=yes; shift ;;
    *) echo "unknown argument: $1" >&2; exit 2 ;;
    esac
done
count() { printf '%s\n' "$text" | wc "$1" | tr -d ' '; }
printf '{"lines": %s, "words": %s' "$(count -l)" "$(count -w)"
if [ -n "$characters" ]; then printf ', "characters": %s' "$(count -m)"; fi
printf '}\n'
