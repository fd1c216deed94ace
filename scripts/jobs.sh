#!/bin/sh
# Prints how many compilers to run at once: one for each CPU, if the memory is enough for the largest files.
cpus=$(nproc)
by_memory=$(awk '/^MemAvailable:/ {print int($2 / (1536 * 1024))}' /proc/meminfo)
[ "$by_memory" -ge 1 ] || by_memory=1
if [ "$by_memory" -lt "$cpus" ]; then echo "$by_memory"; else echo "$cpus"; fi
