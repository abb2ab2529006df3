# shellcheck shell=bash
TITLE='The replica loses its link, work goes on, the primary dies, the replica takes over.'

experiment() {
    launch "$DIR/primary"
    local primary=$PORT primary_pid=$PID wait_before wait_after
    launch "$DIR/replica" "replicaof 127.0.0.1 $primary"
    local replica=$PORT
    wait_for 'the replica' is up info replication master_link_status

    PORT=$primary
    jobs_named 1 100 >"$DIR/before"
    jobs_named 101 120 >"$DIR/careless"
    jobs_named 121 140 >"$DIR/careful"
    make_group
    push_list <"$DIR/before"
    push_stream <"$DIR/before"
    push_rq <"$DIR/before"
    take_list 15 >"$DIR/list"
    take_stream 15 first >"$DIR/taken.stream"
    take_rq 15 first >"$DIR/taken.rq"
    head -n 10 "$DIR/taken.stream" | finish_stream >"$DIR/stream"
    head -n 10 "$DIR/taken.rq" | finish_rq >"$DIR/rq"
    wait_before=$(printf '%s\n' 'RQ.PUSH q job-0' 'WAIT 1 5000' | cli | tail -n 1)
    echo job-0 >"$DIR/zero"

    # The link is cut, and stays so. Work goes on.
    printf '%s\n' 'ACL SETUSER default -psync -sync' 'CLIENT KILL TYPE replica' | cli >/dev/null
    wait_for 'the cut' is 0 info replication connected_slaves
    tail -n 5 "$DIR/taken.stream" | finish_stream >>"$DIR/stream"
    tail -n 5 "$DIR/taken.rq" | finish_rq >>"$DIR/rq"
    cat "$DIR/careless" "$DIR/careful" >"$DIR/after"
    push_list <"$DIR/after"
    push_stream <"$DIR/after"
    push_rq <"$DIR/after"
    wait_after=$(printf '%s\n' 'RQ.CREATE q MAXEXPIRIES 4' 'WAIT 1 200' | cli | tail -n 1)
    end "$primary_pid"

    PORT=$replica
    cli REPLICAOF NO ONE >/dev/null
    # The careful producer was told 0 by WAIT, so it pushes again; the careless one thinks all is well.
    if [ "$wait_after" = 0 ]; then
        push_list <"$DIR/careful"
        push_stream <"$DIR/careful"
        push_rq <"$DIR/careful"
    fi
    take_list 1000 >>"$DIR/list"
    drain_stream second >>"$DIR/stream"
    cli RQ.REAP q COUNT 1000 CONSUMER first >/dev/null
    take_rq 1000 second >"$DIR/taken.rq"
    finish_rq <"$DIR/taken.rq" >>"$DIR/rq"
    drain_rq second 1 >>"$DIR/rq"

    local careless=() careful=() twice=() kind
    for kind in list stream rq; do
        ledger "$DIR/careless" "$DIR/$kind"; careless+=("$LOST")
        cat "$DIR/before" "$DIR/careful" >"$DIR/kept"
        [ $kind = rq ] && cat "$DIR/zero" >>"$DIR/kept"
        ledger "$DIR/kept" "$DIR/$kind"; careful+=("$LOST"); twice+=("$DOUBLED")
    done
    local told; told=$(awk '$3 == 2' "$DIR/taken.rq" | wc -l)
    row 'WAIT says: link up, link cut' "$wait_before, $wait_after" "$wait_before, $wait_after" "$wait_before, $wait_after"
    row 'lost of 20 pushed without WAIT' "${careless[@]}"
    row 'lost of 20 pushed again at WAIT 0' "${careful[@]}"
    row 'of 5 finished after the cut, run twice' "${twice[@]}"
    row '... the reply says "this is delivery 2"' - - "$told"
    must 'WAIT, link up and cut' "$wait_before $wait_after" '1 0'
    must 'lost with WAIT' "${careful[2]}" 0
    # At least once: what was finished beyond the link comes again, and says so. Nothing else does.
    must 'run twice' "${twice[2]}" 5
    must 'told so' "$told" 5
}
