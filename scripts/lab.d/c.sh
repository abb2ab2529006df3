# shellcheck shell=bash
TITLE='6 jobs taken, 3 finished, the workers die; 1,000 more pushed (XADD MAXLEN 100).'

experiment() {
    launch "$DIR/server"
    jobs_named 1 6 >"$DIR/first"
    jobs_named 7 1006 >"$DIR/more"
    cat "$DIR/first" "$DIR/more" >"$DIR/pushed"

    push_list <"$DIR/first"
    take_list 6 | head -n 3 >"$DIR/list"
    push_list <"$DIR/more"
    take_list 10000 >>"$DIR/list"
    ledger "$DIR/pushed" "$DIR/list"; local list=($DONE $LOST $DOUBLED)

    make_group
    push_stream 'MAXLEN 100' <"$DIR/first"
    take_stream 6 first >"$DIR/taken"
    head -n 3 "$DIR/taken" | finish_stream >"$DIR/stream"
    push_stream 'MAXLEN 100' <"$DIR/more"
    drain_stream second >>"$DIR/stream"
    ledger "$DIR/pushed" "$DIR/stream"; local stream=($DONE $LOST $DOUBLED)

    push_rq <"$DIR/first"
    take_rq 6 first LEASE 300 >"$DIR/taken"
    head -n 3 "$DIR/taken" | finish_rq >"$DIR/rq"
    push_rq <"$DIR/more"
    drain_rq second >>"$DIR/rq"
    ledger "$DIR/pushed" "$DIR/rq"

    row 'finished in the end, of 1,006' "${list[0]}" "${stream[0]}" "$DONE"
    row 'lost, without an error anywhere' "${list[1]}" "${stream[1]}" "$LOST"
    row 'done twice' "${list[2]}" "${stream[2]}" "$DOUBLED"
    must finished "$DONE" 1006
    must lost "$LOST" 0
    must doubled "$DOUBLED" 0
}
