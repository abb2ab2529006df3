# shellcheck shell=bash
TITLE='40 MB of cache beside 2,000 jobs on a server with maxmemory 16 MB.'

# 40 MB of values with a time to live; prints how many writes were refused.
write_cache() {
    awk 'BEGIN { value = sprintf("%4096s", ""); gsub(" ", "x", value)
                 for (i = 0; i < 10000; i++) print "SET cache:" i " " value " EX 3600" }' | cli | grep -c OOM
}

experiment() {
    local policy refused said guard
    jobs_named 1 2000 >"$DIR/pushed"
    for policy in noeviction allkeys-lru volatile-lru; do
        launch "$DIR/$policy" 'maxmemory 16mb' "maxmemory-policy $policy" 'maxmemory-samples 10'
        said=$(cli RQ.PUSH q probe 2>&1)
        if [[ $policy == allkeys-* ]]; then
            guard=$(cli CONFIG GET rq.eviction-guard | tail -1)
            if [ "$guard" = rescue ]; then
                must "$policy, guard rescue: PUSH gives an id" "$(grep -cxE '[0-9]+-[0-9]+' <<<"$said")" 1
                cli DEL q >/dev/null
            else
                must "$policy, guard refuse: PUSH says" "${said%% *}" UNSAFE
                must "$policy, guard refuse: the key" "$(cli EXISTS q)" 0
                row "$policy: a push is told" OK OK "${said%% *}"
                guard=warn
                cli CONFIG SET rq.eviction-guard warn >/dev/null
            fi
        else
            must "$policy: PUSH gives an id" "$(grep -cxE '[0-9]+-[0-9]+' <<<"$said")" 1
            cli DEL q >/dev/null
        fi
        push_list <"$DIR/pushed"
        make_group
        push_stream <"$DIR/pushed"
        push_rq <"$DIR/pushed"
        sleep 1.1  # the servers' LRU clock counts seconds
        refused=$(write_cache)
        local left; left=$(cli RQ.LEN q)
        [[ $policy == allkeys-* ]] && policy="$policy, guard $guard"
        row "$policy: jobs left" "$(cli LLEN list)" "$(cli XLEN stream)" "$left"
        if [[ $policy == allkeys-* ]]; then
            local queues jobs
            queues=$(info rq rq_evicted_queues) jobs=$(info rq rq_evicted_jobs)
            row 'INFO rq: queues, jobs evicted' - - "$queues, $jobs"
            must 'evicted queues that INFO rq counts' "$queues" "$(((2000 - left) / 2000))"
            if [ "$guard" = rescue ]; then
                row 'INFO rq: queues put back' - - "$(info rq rq_rescued_queues)"
                must "$policy: jobs left" "$left" 2000
            fi
        else
            must "$policy: jobs left" "$left" 2000
            [ "$policy" = noeviction ] && row "  cache writes refused by then" "$refused" "$refused" "$refused"
            # Full as it is, what is there can be worked off.
            drain_rq w 1 >"$DIR/rq"
            ledger "$DIR/pushed" "$DIR/rq"
            must "$policy: lost" "$LOST" 0
            must "$policy: doubled" "$DOUBLED" 0
        fi
        end "$PID"
    done
}
