# bash: completes commands, workloads, options, configuration keys and their values, from the program's own rows; else
# files.
_aorta() {
    local current=${COMP_WORDS[COMP_CWORD]} commands=() option='' word lines values key='' typed
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && break
        commands+=("$word")
    done
    while ! lines=$(aorta help --words "${commands[@]}" 2>/dev/null); do
        ((${#commands[@]})) || return
        unset 'commands[-1]' # an operand
    done
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && option=$word
    done
    values=$(awk -F'\t' -v option="$option" '$1 == option { print $3 }' <<<"$lines")
    if [[ $values == @* && $current != -* ]]; then # names, or KEY=VALUE, which bash cuts at the sign
        mapfile -t lines < <(aorta help --words ${values#@} 2>/dev/null)
        typed=$current
        [[ $current == "=" ]] && key=${COMP_WORDS[COMP_CWORD-1]} typed=''
        ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD-1]} == "=" ]] && key=${COMP_WORDS[COMP_CWORD-2]}
        if [[ $key ]]; then
            values=$(printf '%s\n' "${lines[@]}" | awk -F'\t' -v key="$key=" '$1 == key { print $3 }')
            mapfile -t COMPREPLY < <(compgen -W "$values" -- "$typed")
            return
        fi
        mapfile -t COMPREPLY < <(compgen -W "$(printf '%s\n' "${lines[@]}" | cut -f1 | grep -v '^--')" -- "$typed")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
        return
    fi
    if [[ $values && ($option == "${COMP_WORDS[COMP_CWORD-1]}" || ${COMP_WORDS[COMP_CWORD-1]} == "=") ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
        return
    fi
    [[ $current != -* && $lines == --* ]] && return
    lines=$(cut -f1 <<<"$lines")
    [[ $current == -* ]] || lines=$(grep -v '^--' <<<"$lines")
    mapfile -t COMPREPLY < <(compgen -W "$lines" -- "$current")
}
complete -o default -F _aorta aorta
