"""How failures are found: silence, suspicion, witnesses (paper 004, section 3.4). Pure.

``detector`` (who has been silent for too long), ``mean_deviation`` (of heartbeats),
``local_health`` (whether it is we who are slow), ``event_links`` (links that carry events),
``suspicions`` (what is asked of others), ``witness`` (what is answered), ``tellers`` (whose
notices of deaths were refuted).
"""
