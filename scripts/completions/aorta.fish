# fish: completes commands, workloads, options, configuration keys and their values, from the program's own rows; files
# where operands are.
function __aorta_words
    set -l commands
    set -l option
    for word in (commandline -opc)[2..-1]
        if string match -q -- '-*' $word
            set option $word
        else if test -z "$option"
            set -a commands $word
        end
    end
    set -l lines
    while not set lines (aorta help --words $commands 2>/dev/null)
        test (count $commands) -gt 0; or return
        set -e commands[-1] # an operand
    end
    for line in $lines
        set -l fields (string split \t -- $line)
        test "$fields[1]" = "$option" -a -n "$fields[3]"; or continue
        if not string match -q '@*' -- $fields[3]
            string split ' ' -- $fields[3]
            return
        end
        for row in (aorta help --words (string split ' ' -- (string sub -s 2 -- $fields[3])) 2>/dev/null)
            set -l word (string split \t -- $row)
            string match -q -- '--*' $word[1]; and continue
            printf '%s\t%s\n' $word[1] $word[2]
            for value in (string split ' ' -n -- $word[3])
                printf '%s%s\n' $word[1] $value
            end
        end
        return
    end
    printf '%s\n' $lines | cut -f1,2
end
complete -c aorta -a '(__aorta_words)'
