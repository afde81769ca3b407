# bash completion of `pathloom store`; made by `pathloom store --completion`.
_pathloom_store() {
    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}
    local options='--run --store --json'
    [ "${COMP_WORDS[1]}" = store ] || return
    case $last in
    --run|--store)
        COMPREPLY=($(compgen -d -- "$word")); return;;
    esac
    if [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W 'ls log show stat diff fsck gc tag rollback blame verify cat init pack migrate backup restore push pull export import' -- "$word"))
        return
    fi
    case ${COMP_WORDS[2]} in
    ls) options="$options --refs --objects --paths --tags" ;;
    fsck) options="$options --quick" ;;
    gc) options="$options --delete --keep --grace" ;;
    tag) options="$options --note --arm --delete --force" ;;
    rollback) options="$options --to" ;;
    blame) options="$options --history" ;;
    verify) options="$options --history --tasks" ;;
    cat) options="$options --format --object" ;;
    init) options="$options --engine" ;;
    backup) options="$options --quick --force" ;;
    restore) options="$options --quick --force" ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -F _pathloom_store pathloom
