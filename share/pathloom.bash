# bash completion of `pathloom store`; made by `pathloom --completion`.
_pathloom_store() {
    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}
    local options='--run --store --json'
    case $last in
    --run|--store)
        COMPREPLY=($(compgen -d -- "$word")); return;;
    esac
    if [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W 'ls log show stat du diff fsck gc tag merge rollback blame bisect verify cat init pack backup restore push pull' -- "$word"))
        return
    fi
    case ${COMP_WORDS[2]} in
    ls) options="$options --refs --objects --paths --tags" ;;
    log) options="$options --graph --health" ;;
    fsck) options="$options --quick" ;;
    gc) options="$options --delete --keep --grace" ;;
    tag) options="$options --note --arm --delete --force" ;;
    merge) options="$options --note --force --method --weights --base --density --scale" ;;
    rollback) options="$options --to" ;;
    blame) options="$options --history --documents" ;;
    bisect) options="$options --arm --to --from --domain --on" ;;
    verify) options="$options --history --tasks" ;;
    cat) options="$options --format --object" ;;
    init) options="$options --engine" ;;
    backup) options="$options --quick --force --job" ;;
    restore) options="$options --quick --force --job" ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
# bash completion of pathloom; made by `pathloom --completion`.
_pathloom() {
    local word=${COMP_WORDS[COMP_CWORD]} options=
    local last=${COMP_WORDS[COMP_CWORD-1]}
    if [ "${COMP_WORDS[1]}" = store ] && [ "$COMP_CWORD" -gt 1 ]; then
        _pathloom_store
        return
    fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'train eval generate route serve export import store check data forget audit status observe top page doctor explain init bench key drain homes join hub home relay worker' -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
    train) options='--corpus --valid --out --workers --page --dry-run --for --tokens --link --set --help' ;;
    eval) options='--run --at --without --on --every --select --json --set --help' ;;
    generate) options='--run --at --without --prompt --path --route --select --route-every --max-tokens --temperature --top-k --top-p --seed --stop --precision --json --help' ;;
    route) options='--run --at --without --prompt --file --route --json --help' ;;
    serve) options='--run --at --without --listen --precision --threads --slots --paths --route --select --chat --queue --per-address --timeout --api-keys --cors --tls-cert --tls-key --log-requests --help' ;;
    export) options='--run --arm --path --prompt --all --at --select --format --type --out --json --help' ;;
    import) options='--out --force --set --json --help' ;;
    store) options='--run --store --json --refs --objects --paths --tags --note --arm --delete --to --from --domain --on --graph --health --keep --grace --quick --history --documents --tasks --format --object --force --job --method --weights --base --density --scale --engine --help' ;;
    check) options='--run --store --recompute --json --help' ;;
    data) options='--run --of --json --help' ;;
    forget) options='--run --from --dry-run --purge --help' ;;
    audit) options='--run --json --help' ;;
    status) options='--run --hub --key --history --json --help' ;;
    observe) options='--run --hub --key --log --event --path --module --worker --json --help' ;;
    top) options='--run --hub --key --help' ;;
    page) options='--run --hub --key --listen --token --ready --report --help' ;;
    doctor) options='--run --hub --key --json --help' ;;
    init) options='--set --list --reference --help' ;;
    key) options='--run --keys --hub --role --uses --expires --name --json --help' ;;
    drain) options='--run --hub --key --help' ;;
    homes) options='--run --json --help' ;;
    join) options='--token-file --key --only-enrol --set --backend --precision --threads --recompute --cache-bytes --patience-s --device --cache --name --offer --grace-s --log-json --verbose --help' ;;
    hub) options='--run --set --key --log-json --verbose --listen --keys --advertise --ready --home --metrics --help' ;;
    home) options='--run --set --key --log-json --verbose --listen --keys --advertise --ready --index --store --help' ;;
    relay) options='--run --set --key --log-json --verbose --listen --keys --advertise --ready --index --home --expect --wait-ms --patience-s --help' ;;
    worker) options='--run --set --key --log-json --verbose --index --hub --home --backend --precision --threads --recompute --cache-bytes --patience-s --device --cache --name --offer --grace-s --help' ;;
    esac
    if [ "$last" = --set ] || [ "${COMP_WORDS[1]}" = explain ]; then
        COMPREPLY=($(compgen -W 'preset out seed data.corpus data.valid data.valid_share data.cut data.text_key data.bad_lines data.forget data.max_bytes data.tokenizer data.vocab model.width model.heads model.kv_heads model.head_size model.ffn model.blocks model.context model.tied model.qk_norm model.rope_theta model.norm_eps model.import model.chat topology.levels topology.split topology.graft topology.blocks topology.private topology.embed topology.head topology.replicas train.optimizer train.muon_rows train.batch train.micro_batch train.tau train.phases train.more train.freeze train.base_steps train.base_replicas train.base_threads train.schedule train.decay train.lr train.base_lr train.warmup train.base_warmup train.lr_floor train.beta1 train.beta2 train.eps train.weight_decay train.clip train.state train.state_every train.holdout train.pack router.kind router.prefix router.sees router.feature_docs router.overlap router.balance router.components router.answer router.em router.share outer.method outer.lr outer.momentum outer.rule outer.consensus outer.deadline_s outer.quorum outer.delay outer.gap outer.clip outer.fragments outer.overlap outer.mix outer.own outer.buffer outer.spread outer.staleness outer.dynamic_steps outer.settle outer.curvature outer.lr_private outer.momentum_private outer.weighting outer.mean outer.rescale codec.name codec.down codec.k codec.value_bits codec.residual codec.beta codec.cells eval.baselines eval.max_tokens eval.sample_tokens eval.curves eval.tensorboard workers.count workers.local workers.relay workers.threads workers.backend workers.precision workers.recompute workers.cache workers.ttl_ms workers.patience_s fleet.audit fleet.devices fleet.backup store.homes store.engine store.keep_updates store.keep_momentum store.keep_states store.compress store.norm_gate store.staging store.quota net.hub net.home net.advertise net.encrypt net.metrics net.attach ' -- "$word"))
        return
    fi
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}
complete -F _pathloom pathloom
