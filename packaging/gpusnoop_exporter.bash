# Completion of bash for gpusnoop_exporter(8). Commands, flags and their values are those that its --help
# names, so there is no list here that could be out of date.

# _gpusnoop_exporter_help PROGRAM WORD...: what --help of the commands among the words says, without
# running anything else.
_gpusnoop_exporter_help() {
    local program=$1 help word
    shift
    local -a path=()
    help=$("$program" --help 2>/dev/null) || return
    for word; do
        if _gpusnoop_exporter_names <<<"$help" | grep -qxF -- "$word"; then
            path+=("$word")
            help=$("$program" "${path[@]}" --help 2>/dev/null) || return
        fi
    done
    printf '%s\n' "$help"
}

# Each command by one name. Its former ones stand behind it: "functions, func".
_gpusnoop_exporter_commands() {
    sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\).*/\1/p'
}

# Commands by all names that they have.
_gpusnoop_exporter_names() {
    sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\(, [a-z-]*\)*\) .*/\1/p' | sed 's/, /\n/g'
}

_gpusnoop_exporter_flags() {
    sed -n 's/^  \(-[a-z],\)\{0,1\}\(--[a-z.-]*\).*/\2/p'
}

# The values of a flag: "{debug,info}" in its line.
_gpusnoop_exporter_values() {
    sed -n "s/^  \\(-[a-z],\\)\\{0,1\\}$1 [^{]*{\\([^}]*\\)}.*/\\2/p" | tr ',' '\n'
}

_gpusnoop_exporter() {
    local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} words= help
    # "--flag=value" is three words to bash.
    if [ "$current" = = ]; then
        current=
    elif [ "$flag" = = ]; then
        flag=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    help=$(_gpusnoop_exporter_help "${COMP_WORDS[0]}" "${COMP_WORDS[@]:1:COMP_CWORD-1}")
    case $flag in
    --*file)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --*)
        words=$(_gpusnoop_exporter_values "$flag" <<<"$help")
        # One that takes anything: nothing to offer.
        if [ -z "$words" ] && grep -qE -- "^  (-[a-z],)?$flag [A-Z]" <<<"$help"; then
            return
        fi
        ;;
    esac
    [ -n "$words" ] || words=$(_gpusnoop_exporter_commands <<<"$help")$'\n'$(_gpusnoop_exporter_flags <<<"$help")
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _gpusnoop_exporter gpusnoop_exporter
