# What bash offers for a command line of gpusnoop_exporter.
#
#   completion_test.bash PROGRAM COMPLETION
set -u
program=$1
. "$2"
failures=0

check() { # check EXPECTED WORD...: the last word is being completed
    local expected=$1
    shift
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _gpusnoop_exporter
    local got
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
    if [ "${got% }" != "$expected" ]; then
        echo "for \"$*\": expected \"$expected\", got \"${got% }\""
        failures=$((failures + 1))
    fi
}

check 'check-config' ch
check 'doctor' do
check '--log.format --log.level' --log.
check 'info' --log.level = in
check 'json logfmt' --log.format ''
check 'json text' doctor --format ''
check 'json text' trace cuda --format = ''
check 'cuda' trace c
check 'syscall' trace sy
check 'fence functions' trace f
check '--in-flight' trace --in-f
check 'json text' trace --in-flight --format ''
check '--library' trace functions --l
check '--library' trace func --l
check '--syscall' trace syscall --s
check '' trace syscall --syscall ''
check '--batch --by' top --once --b
check 'function process program' top --by ''
check '' trace cuda --pid ''
check '' frobnicate
check 'calls errors max seconds slow' top --sort ''
# A flag's value that is the name of a command is not that command, and a flag behind it is known.
check '--log.format --log.level' --web.telemetry-path /top --log.
directory=$(mktemp -d)
touch "$directory/one.yaml"
check "$directory/one.yaml" --config.file "$directory/o"
rm -r "$directory"
[ $failures -eq 0 ] && echo "all as expected"
