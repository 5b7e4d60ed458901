# bash: completes commands and long options of aorta, from the program's own rows; else files.
_aorta() {
    local current=${COMP_WORDS[COMP_CWORD]} commands=() word lines
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && break
        commands+=("$word")
    done
    while ! lines=$(aorta help --words "${commands[@]}" 2>/dev/null); do
        ((${#commands[@]})) || return
        unset 'commands[-1]' # an operand
    done
    [[ $current != -* && $lines == --* ]] && return
    mapfile -t COMPREPLY < <(compgen -W "$(cut -f1 <<<"$lines")" -- "$current")
}
complete -o default -F _aorta aorta
