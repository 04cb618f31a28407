"""ring: the degree-4 chordal reliability ring (paper 004, section 3), sans-IO.

``RingNode`` (``node``) is one broker's part in it. It knows nothing of events or clients.

The frame
    ``node``, ``parts``, ``dispatch``, ``core``, ``config``, ``facts``, ``errors``; on the wire:
    ``messages``, ``record_messages``, ``wire``.
The circle
    ``geometry``, ``neighbourhood``, ``gaps``, ``views``, ``links``, ``link_events``, ``damping``.
Joins
    ``newcomer``, ``gap_owner``, ``membership``, ``merge``.
Chords and routing
    ``chords``, ``drawn``, ``greedy``, ``routing``, ``queries``.
Failures
    ``detector``, ``arrivals``, ``health``, ``carriers``; ``suspicions``, ``witness``,
    ``verdicts``; ``deaths``, ``repair``, ``runs``; ``detours``, ``relay``.
Records and duties
    ``records``, ``backups``, ``holders``, ``link_backups``, ``replicas``, ``duties``, ``doubts``,
    ``homes``, ``handover``, ``reclaim``, ``overload``.
What must hold
    ``invariants``.
"""
