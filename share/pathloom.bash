# bash completion of `pathloom store`; made by `pathloom --completion`.
_pathloom_store() {
    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}
    local options='--run --store --json'
    case $last in
    --run|--store)
        COMPREPLY=($(compgen -d -- "$word")); return;;
    esac
    if [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W 'ls log show stat diff fsck gc tag rollback blame verify cat init pack backup restore push pull export import' -- "$word"))
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
# bash completion of pathloom; made by `pathloom --completion`.
_pathloom() {
    local word=${COMP_WORDS[COMP_CWORD]} options=
    if [ "${COMP_WORDS[1]}" = store ] && [ "$COMP_CWORD" -gt 1 ]; then
        _pathloom_store
        return
    fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'train eval generate serve export import store data audit status top doctor explain init bench key homes join hub home relay worker' -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
    train) options='--corpus --valid --out --workers --set --help' ;;
    eval) options='--run --json --set --help' ;;
    generate) options='--run --prompt --path --route --max-tokens --temperature --top-k --top-p --seed --stop --precision --json --help' ;;
    serve) options='--run --listen --precision --threads --slots --paths --route --queue --per-address --timeout --help' ;;
    export) options='--run --arm --path --prompt --all --at --format --type --out --json --help' ;;
    import) options='--out --force --set --json --help' ;;
    store) options='--run --store --json --refs --objects --paths --tags --note --arm --delete --to --keep --grace --quick --history --tasks --format --object --force --engine --help' ;;
    data) options='--run --json --help' ;;
    audit) options='--run --json --help' ;;
    status) options='--run --hub --key --json --help' ;;
    top) options='--run --hub --key --help' ;;
    doctor) options='--run --hub --key --json --help' ;;
    explain) options='--json --help' ;;
    init) options='--set --list --reference --help' ;;
    key) options='--run --keys --hub --role --uses --expires --name --json --help' ;;
    homes) options='--run --weight --json --help' ;;
    join) options='--token-file --key --only-enrol --set --backend --precision --threads --recompute --cache-bytes --patience-s --device --cache --name --offer --grace-s --log-json --verbose --help' ;;
    hub) options='--run --set --key --log-json --verbose --listen --keys --advertise --ready --home --metrics --help' ;;
    home) options='--run --set --key --log-json --verbose --listen --keys --advertise --ready --index --store --help' ;;
    relay) options='--run --set --key --log-json --verbose --listen --keys --advertise --ready --index --home --expect --wait-ms --patience-s --help' ;;
    worker) options='--run --set --key --log-json --verbose --index --hub --home --backend --precision --threads --recompute --cache-bytes --patience-s --device --cache --name --offer --grace-s --help' ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -F _pathloom pathloom
