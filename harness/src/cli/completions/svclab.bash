# Completes the command line of svclab, which is asked for the words.
_svclab() {
    local IFS=$'\013' rest=$COMP_LINE words=() index=0 before= word i
    # bash splits words at `:`, `@` and `=`, which are in names: what no space precedes goes on from the word before.
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
            words+=("")
        elif ((i > COMP_CWORD && index == ${#words[@]} - 1)); then
            # Behind the cursor, in the same word.
            rest=${rest#"$word"}
            continue
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$word"}
        if ((i == COMP_CWORD)); then
            index=$((${#words[@]} - 1))
            # Only what is before the cursor counts.
            case $word in
                [:=@]*) ;;
                "$2"*) word=$2 ;;
                *) word=${2##*[:=@]} ;;
            esac
        fi
        words[${#words[@]} - 1]+=$word
    done
    # bash replaces only `$2`: what is before it stays.
    before=${words[index]%"$2"}
    COMPREPLY=($(
        _CLAP_IFS=$IFS _CLAP_COMPLETE_INDEX=$index _CLAP_COMPLETE_COMP_TYPE=$COMP_TYPE _CLAP_COMPLETE_SPACE=false \
            _SVCLAB_COMPLETE=bash svclab -- "${words[@]}" 2>/dev/null
    ))
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    # The words are quoted by backslashes, which mean nothing, or not the same, behind a quote that is open.
    case ${COMP_WORDS[COMP_CWORD]} in
        \'*) COMPREPLY=("${COMPREPLY[@]//\\/}") COMPREPLY=("${COMPREPLY[@]//\'/\'\\\'\'}") ;;
        \"*)
            COMPREPLY=("${COMPREPLY[@]//\\/}") COMPREPLY=("${COMPREPLY[@]//\"/\\\"}")
            COMPREPLY=("${COMPREPLY[@]//\$/\\\$}") COMPREPLY=("${COMPREPLY[@]//\`/\\\`}")
            ;;
    esac
    [[ ${COMPREPLY-} == *[=/:] ]] || compopt +o nospace 2>/dev/null
}
complete -o nospace -o bashdefault -o nosort -F _svclab svclab
