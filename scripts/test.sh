#!/bin/bash
# Installs what is missing, builds, and runs the tests; a failure in one part does not hide the others.
#
#   scripts/test.sh               whether the product works, in minutes: the unit tests, each probe against its
#                                 stand-in in one attach mode, and the way to a real Prometheus
#   LABEL=all scripts/test.sh     everything: what CI runs. Also all other tests of the release build, in each attach
#                                 mode, the guests with other kernels, the benchmarks, packages, formatting, both
#                                 sanitizers, and a compilation without a unity build
#   LABEL=quick scripts/test.sh   only the tests of one label, from the release build: quick (no privileges), unit (of
#                                 these, the unit tests), core (what the default adds to them), kernel (root and BPF),
#                                 e2e (also servers), long, vm (the guests, which are among the long ones), or perf: the
#                                 tests that take a minute and more by perf events, which no other label includes
#   LABEL=arm64 scripts/test.sh   builds for arm64 instead, and runs what it built emulated (tests/arm64)
set -euo pipefail
cd "$(dirname "$0")/.."
label=${LABEL:-}
sanitizers=
preset=release
case $label in
all) sanitizers='asan tsan' ;;
arm64) preset=arm64 ;;
esac
jobs=$(scripts/jobs.sh)
logs=build/test-logs
failed=()

part() { # part NAME COMMAND...: runs it, notes a failure, keeps the output
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    timed "$name" "$@" 2>&1 | tee "$logs/$name.log" || failed+=("$name")
}

# The summary shows what each part took.
timed() { # timed NAME COMMAND...
    local TIMEFORMAT="$1: %0R s, of the CPUs %0U + %0S s"
    shift
    { time "$@" 2>&3; } 3>&2 2>>"$logs/times"
}

# A sanitizer needs its shadow memory at fixed addresses, and the kernel's randomization can be in the
# way of GCC 12's; where a container forbids to switch it off, it is tried as it is.
fixed_addresses() {
    if setarch --addr-no-randomize true 2>/dev/null; then setarch --addr-no-randomize "$@"; else "$@"; fi
}

tests_of() { # tests_of PRESET [OPTION...]: as root, except what needs no privileges
    local tests=build/$1
    # Each run has its own list of failed tests.
    case $label in vm | unit) tests=$tests/tests/$label ;; esac
    local run=(ctest --test-dir "$tests" --output-on-failure --no-tests=error --parallel "$jobs" "${@:2}")
    if [ "$1" = "$preset" ]; then
        case $label in
        '') run+=(--label-regex '^(quick|core)$' --label-exclude '^slow$') ;;
        all | unit | arm64) ;; # unit: all of that folder
        kernel | e2e) run+=(--label-regex "^($label|core)\$") ;;
        *) run+=(--label-regex "^($label)\$") ;;
        esac
        # As on a workstation in use, beside another program and another exporter; ALONE=1 leaves them away.
        case $label in
        quick | unit | vm | arm64) ;;
        *) [ -n "${ALONE:-}" ] || run=(tests/in_company.sh build/release "${run[@]}") ;;
        esac
        if [ "$(id -u)" -ne 0 ] && [ "$label" != quick ]; then
            run=(sudo env ${CI+"CI=$CI"} "${run[@]}")
        fi
    else
        run=(fixed_addresses "${run[@]}")
    fi
    "${run[@]}" || second_run "$tests" "${run[@]}" || return 1
    # Guests run failed tests once more themselves.
    case $label in vm | arm64) grep -h '^FAILED ONCE: ' "$tests/Testing/Temporary/LastTest.log" || true ;; esac
}

# Of a thousand tests on a machine in use, one may fail by accident. Up to three failed tests run a second
# time, and the summary shows those that passed only then: each is a fault of a test or of the exporter. Of
# guests only one, as it takes ten minutes.
second_run() { # second_run DIRECTORY COMMAND...
    local list=$1/Testing/Temporary/LastTestsFailed.log most=3
    shift
    case $label in vm | arm64) most=1 ;; esac
    [ "$list" -nt "$logs/started" ] && [ "$(wc -l <"$list")" -le "$most" ] || return 1
    sed -n 's/^[0-9]*:/FAILED ONCE: /p' "$list"
    "$@" --rerun-failed
}

formatting() {
    find exporter bpf bench tests \( -name '*.cpp' -o -name '*.h' -o -name '*.c' -o -name '*.cu' -o -name '*.cuh' \) \
        -print0 | xargs -0 -n 64 -P "$jobs" clang-format-19 --dry-run -Werror
}

metrics_page() { # docs/metrics.md is what the program says of itself
    diff -u docs/metrics.md <(build/release/gpusnoop_exporter list-metrics)
}

build_others() {
    local sanitizer bpf=-DGPUSNOOP_BPF_OF=$PWD/build/release
    timed headers scripts/headers.sh asan "$bpf"
    for sanitizer in $sanitizers; do
        cmake --preset "$sanitizer" "$bpf"
        timed "build for $sanitizer" fixed_addresses cmake --build --preset "$sanitizer" --parallel "$jobs" --target unit_tests
    done
}

# What failed once more, at the end of a long log: each test's result and the end of its output.
failures_in() { # failures_in LOG
    awk '
        function tell(   line) { for (line = (kept > 60 ? kept - 60 : 0); line < kept; line++) print "    " output[line]; kept = 0 }
        /^ *[0-9]+\/[0-9]+ Test +#/ || /^ *Start +[0-9]+:/ || /^[0-9]+% tests passed/ { tell(); within = 0 }
        /^ *[0-9]+\/[0-9]+ Test +#.*\*\*\*/ && !/\*\*\*Skipped/ { print; within = 1; next }
        within { output[kept++] = $0 }
        END { tell() }' "$1"
}

# Groups of processes that run beside the tests, and end with this.
beside=()
trap 'for group in "${beside[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done' EXIT
in_background() { # in_background LOG COMMAND...: in a process group of its own, which is $started
    local log=$logs/$1.log
    shift
    set -m
    "$@" </dev/null >"$log" 2>&1 &
    set +m
    started=$!
    beside+=("$started")
}
build() { # build TARGET...
    cmake --preset "$preset"
    timed build cmake --build --preset "$preset" --parallel "$jobs" --target "$@"
}

mkdir -p "$logs"
rm -f "$logs"/*.log "$logs/times"
touch "$logs/started"
case $label in
'' | quick | unit | core) scripts/setup.sh --core ;;
arm64) scripts/setup.sh --arm64 ;;
all)
    # On a terminal, ask before anything is installed. Otherwise build while the test tools are installed.
    if [ -t 0 ]; then scripts/setup.sh --tests; else scripts/setup.sh --core; fi
    ;;
*) scripts/setup.sh --tests ;;
esac
case $label in quick | unit | arm64) ;; *) scripts/tracefs.sh ;; esac

case $label in
all)
    in_background setup scripts/setup.sh --tests
    # All but the unit tests, a fifth of it: they are compiled beside the tests that wait most.
    but_unit_tests=({bpf,exporter,packaging,tests/fakes,tests/vm}/all all_but_unit_tests)
    build "${but_unit_tests[@]}"
    wait "$started" || { cat "$logs/setup.log" && exit 1; }
    build "${but_unit_tests[@]}" # what needs the tools of tests
    ;;
long) build all bench ;; # which only a long test runs
*) build all ;;
esac
case $label in
all)
    # The tests of the release trace the machine, one at a time, and mostly wait. The unit tests, and what the benchmarks'
    # test runs, which is the last one, are built beside them, then the guests run. What neither of them needs of the CPUs
    # makes the other builds and runs their tests.
    unit_tests_and_guests() {
        local result=0 unit_tests
        timed "build of unit tests and benchmarks" nice -n 19 cmake --build --preset "$preset" --parallel "$jobs" --target all bench \
            bpf_architectures bench_bpf_architectures >"$logs/second-build.log" 2>&1 || { tail -n 40 "$logs/second-build.log" && return 1; }
        {
            renice -n 5 "$BASHPID" >/dev/null # starved, tests of deadlines would fail
            label=unit jobs=1 timed unit-tests tests_of release >"$logs/unit-tests.log" 2>&1
        } &
        unit_tests=$!
        # One guest after the other: two would take both CPUs from the release tests. Not niced: a starved guest's
        # tests fail.
        label=vm jobs=1 timed guests tests_of release >"$logs/guest-tests.log" 2>&1 || result=1
        wait "$unit_tests" || result=1
        return $result
    }
    other_parts() {
        local result=0 sanitizer
        # Runs only where a CPU has nothing else to do.
        chrt --idle --pid 0 "$BASHPID"
        timed formatting formatting >"$logs/formatting.log" 2>&1 || result=1
        metrics_page >"$logs/metrics-page.log" 2>&1 || result=1
        build_others >"$logs/other-builds.log" 2>&1 || { tail -n 40 "$logs/other-builds.log" && return 1; }
        for sanitizer in $sanitizers; do
            timed "$sanitizer-tests" tests_of "$sanitizer" >"$logs/$sanitizer-tests.log" 2>&1 || result=1
        done
        return $result
    }
    beside_release() { # beside_release FUNCTION
        in_background "$1" bash -c "$(declare -f timed fixed_addresses tests_of second_run formatting metrics_page build_others "$1")
set -euo pipefail; jobs=$jobs label=$label preset=$preset logs=$logs sanitizers='$sanitizers'; $1"
    }
    beside_release unit_tests_and_guests
    guests=$started
    beside_release other_parts
    others=$started
    # One that traces the machine, one beside it, and what only computes.
    jobs=$((jobs + 1)) part release-tests tests_of release --label-exclude '^(vm|perf|unit)$' --exclude-regex _NOT_BUILT
    wait "$guests" || failed+=("unit tests or guests")
    wait "$others" || failed+=(others)
    for log in "$logs"/{unit_tests_and_guests,unit-tests,guest-tests,other_parts,formatting,metrics-page,other-builds,asan-tests,tsan-tests}.log; do
        printf '\n== %s\n' "$(basename "$log" .log)"
        [ ! -f "$log" ] || cat "$log"
    done
    ;;
long)
    part release-tests tests_of release --label-exclude '^(vm|perf)$'
    label=vm part guest-tests tests_of release
    ;;
*) part "$preset-tests" tests_of "$preset" ;;
esac

printf '\n== summary\n'
cat "$logs/times"
for log in "$logs"/*-tests.log; do
    name=$(basename "$log" .log)
    sed -nE "s/^([0-9]+% tests passed.*|Total Test time.*|FAILED ONCE: .*)/$name: \1/p" "$log"
    failures_in "$log"
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
echo "all passed"
