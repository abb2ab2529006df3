# shellcheck shell=bash
TITLE='5,000 jobs, 1,000 finished, 500 in hand. Then SIGKILL of the server.'

experiment() {
    jobs_named 1 5000 >"$DIR/pushed"
    local aof
    for aof in off everysec always; do
        local config=("appendonly yes" "appendfsync $aof") label="AOF $aof"
        [ $aof = off ] && config=()
        launch "$DIR/$aof" "${config[@]}"
        push_list <"$DIR/pushed"
        take_list 1500 | head -n 1000 >"$DIR/list"
        make_group
        push_stream <"$DIR/pushed"
        take_stream 1000 first | finish_stream >"$DIR/stream"
        take_stream 500 first >/dev/null
        push_rq <"$DIR/pushed"
        take_rq 1000 first | finish_rq >"$DIR/rq"
        take_rq 500 first >/dev/null
        end "$PID"

        launch "$DIR/$aof" "${config[@]}"
        take_list 10000 >>"$DIR/list"
        ledger "$DIR/pushed" "$DIR/list"; local list=($LOST $DOUBLED)
        cli XGROUP CREATE stream workers 0 MKSTREAM >/dev/null 2>&1  # there already, if it is
        drain_stream second >>"$DIR/stream"
        ledger "$DIR/pushed" "$DIR/stream"; local stream=($LOST $DOUBLED)
        # The dead worker's leases: now, not when they end.
        cli RQ.REAP q COUNT 1000 CONSUMER first >/dev/null
        drain_rq second 1 >>"$DIR/rq"
        ledger "$DIR/pushed" "$DIR/rq"
        row "$label: lost" "${list[0]}" "${stream[0]}" "$LOST"
        row "$label: finished, but came back" "${list[1]}" "${stream[1]}" "$DOUBLED"
        # everysec promises to lose a second at most, and a process's death alone not even that,
        # unless an fsync hangs: so it is shown, not judged.
        if [ $aof = always ]; then
            must "$label: lost" "$LOST" 0
            must "$label: finished, but came back" "$DOUBLED" 0
        fi
        end "$PID"
    done
}
