# shellcheck shell=bash
TITLE='A slow worker: its lease ran out, and it goes on working.'

yes_no() { [ "$1" = 1 ] && echo yes || echo no; }
kept() { [ "$1" = 1 ] && echo kept || echo lost; }

experiment() {
    launch "$DIR/server"
    # List, the reliable pattern: a worker moves the job to a list of its own kind, LREM finishes
    # it; somebody moves back what lies there too long.
    cli LPUSH list job-1 >/dev/null
    cli LMOVE list working RIGHT LEFT >/dev/null         # the slow one
    cli LMOVE working list RIGHT LEFT >/dev/null         # too long
    cli LMOVE list working RIGHT LEFT >/dev/null         # the other one
    local list; list=$(cli LREM working 1 job-1)         # the slow one is done
    local list_left; list_left=$(cli LLEN working)       # the other one dies now

    make_group
    cli XADD stream '*' job job-1 >/dev/null
    take_stream 1 slow >"$DIR/slow"
    claim_stream 1 other >/dev/null
    local stream; stream=$(finish_stream <"$DIR/slow" | wc -l)
    local stream_left; stream_left=$(claim_stream 1 third | wc -l)

    local slow other third codes late again
    cli RQ.PUSH q job-1 >/dev/null
    slow=$(take_rq 1 slow LEASE 200)
    other=$(take_rq 1 other LEASE 200 BLOCK 5000)
    codes=$(for verb in ACK NACK EXTEND RELEASE; do cli RQ.$verb q $(cut -d ' ' -f 1,2 <<<"$slow"); done | xargs)
    third=$(take_rq 1 third BLOCK 5000)                  # the other one died
    must 'ACK, NACK, EXTEND, RELEASE of the slow one' "$codes" '0 0 0 0'
    must 'delivery to the third' "$(cut -d ' ' -f 3,4 <<<"$third")" '3 job-1'
    must 'finished by the third' "$(finish_rq <<<"$third")" job-1
    must 'ACK of the slow one after that' "$(cli RQ.ACK q $(cut -d ' ' -f 1,2 <<<"$slow"))" -1

    # Its lease ran out, but nobody else has got the job yet.
    cli RQ.PUSH q job-2 >/dev/null
    slow=$(take_rq 1 slow LEASE 50)
    wait_for 'the expiry' is 1 cli RQ.LEN q READY
    late=$(cli RQ.ACK q $(cut -d ' ' -f 1,2 <<<"$slow"))
    again=$(take_rq 1 other | wc -l)
    must 'late ACK while nobody has it' "$late" 1
    must 'delivered again after that' "$again" 0

    row 'ACK while another has it: accepted' "$(yes_no "$list")" "$(yes_no "$stream")" "$(yes_no "${codes%% *}")"
    row '... then the other dies: the job is' "$(kept "$list_left")" "$(kept "$stream_left")" "$(kept "$(wc -l <<<"$third")")"
    row 'late ACK, nobody else has it: accepted' - - "$(yes_no "$late")"
    row '... the job is run again after that' - - "$(yes_no "$again")"
}
