# shellcheck shell=bash
TITLE='A worker takes one of 10 jobs and dies by SIGKILL. Another worker goes on.'

experiment() {
    launch "$DIR/server"
    jobs_named 1 10 >"$DIR/pushed"

    push_list <"$DIR/pushed"
    take_and_die BRPOP list 0
    take_list 100 >"$DIR/list"
    ledger "$DIR/pushed" "$DIR/list"; local list=($DONE $LOST)

    make_group
    push_stream <"$DIR/pushed"
    take_and_die XREADGROUP GROUP workers first COUNT 1 STREAMS stream '>'
    take_stream 100 second | finish_stream >"$DIR/stream"
    local stuck; stuck=$(cli XPENDING stream workers | head -n 1)
    claim_stream 100 second | finish_stream >>"$DIR/stream"
    ledger "$DIR/pushed" "$DIR/stream"; local stream=($DONE $LOST)

    push_rq <"$DIR/pushed"
    take_and_die RQ.LEASE q first LEASE 300
    take_rq 100 second >"$DIR/taken"
    take_rq 1 second BLOCK 5000 >>"$DIR/taken"
    finish_rq <"$DIR/taken" >"$DIR/rq"
    drain_rq second >>"$DIR/rq"
    ledger "$DIR/pushed" "$DIR/rq"
    local second; second=$(awk '$3 == 2' "$DIR/taken" | wc -l)

    row 'finished in the end' "${list[0]}" "${stream[0]}" "$DONE"
    row 'lost' "${list[1]}" "${stream[1]}" "$LOST"
    row 'stuck until somebody claims it' - "$stuck" 0
    row 'the reply says "this is delivery 2"' - - "$second"
    must finished "$DONE" 10
    must lost "$LOST" 0
    must doubled "$DOUBLED" 0
    must 'came as delivery 2' "$second" 1
}
