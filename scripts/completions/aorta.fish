# fish: completes commands and long options of aorta, from the program's own rows; files where operands are.
function __aorta_words
    set -l commands
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; and break
        set -a commands $word
    end
    set -l lines
    while not set lines (aorta help --words $commands 2>/dev/null)
        test (count $commands) -gt 0; or return
        set -e commands[-1] # an operand
    end
    printf '%s\n' $lines
end
complete -c aorta -a '(__aorta_words)'
