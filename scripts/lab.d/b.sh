# shellcheck shell=bash
TITLE='A job that always fails. We stop watching at 50 attempts.'

experiment() {
    launch "$DIR/server"
    local n code= taken got=()

    cli LPUSH list poison >/dev/null
    local list=0
    for n in $(seq 50); do [ -n "$(cli LMOVE list list RIGHT LEFT)" ] && ((list += 1)); done

    make_group
    cli XADD stream '*' job job-1 >/dev/null
    take_stream 1 w >/dev/null
    local stream=1
    for n in $(seq 49); do [ -n "$(claim_stream 1 w)" ] && ((stream += 1)); done

    cli RQ.CREATE q MAXDELIVERIES 3 BACKOFF 0 0 >/dev/null
    cli RQ.PUSH q poison >/dev/null
    local rq=0
    for n in $(seq 50); do
        taken=$(take_rq 1 w BLOCK 5000) || break
        ((rq += 1))
        got=($taken)
        code=$(cli RQ.NACK q "${got[0]}" "${got[1]:-}" ERROR 'line 7: no such column')
        [ "$code" = 1 ] || break
    done
    local id=${got[0]:-none} job reason error redriven
    job=$(cli RQ.GET q "$id")
    reason=$(grep -A 1 -x reason <<<"$job" | tail -n 1)
    error=$(grep -A 1 -x error <<<"$job" | tail -n 1)
    must 'leased again when dead' "$(take_rq 1 w)" ''
    redriven=$(cli RQ.REDRIVE q COUNT 100 | head -n 1)
    taken=$(take_rq 1 w); got=($taken)

    row 'attempts until it is put aside' "$list+" "$stream+" "$rq"
    row 'it ends as' - - "$(cli RQ.LEN q DEAD | sed 's/0/dead/')"
    row 'reason kept' - - "$reason"
    row 'error text kept' - - "$([ "$error" = 'line 7: no such column' ] && echo yes || echo no)"
    row 'brought back by one command' - - "$redriven"
    must attempts "$rq" 3
    must 'last NACK' "$code" 2
    must reason "$reason" failed
    must error "$error" 'line 7: no such column'
    must redriven "$redriven" 1
    must 'deliveries of the new budget' "${got[2]:-none}" 1
    must 'finished at last' "$(finish_rq <<<"$taken")" poison
    must 'jobs left' "$(cli RQ.LEN q) $(cli RQ.LEN q DEAD)" '0 0'
}
