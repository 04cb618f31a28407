"""The analysis: frames of rows go in, and verdicts come out.

Rows to small tables: ``recovery`` (incidents to measures), ``quantiles`` (exact ones),
``replicates`` (the bootstrap over seeds), ``survival``, ``churn``, ``levels`` (of
units), ``delivery``, ``outliers``.
``ranks`` (where quantiles are among counts, in numpy alone).
Small tables to verdicts: ``growth`` (laws fitted), ``judging`` (what they say), ``comparison``
(settings). ``groups`` (what may be compared), ``results`` (rows of what came out), ``analysis``
(all of it), ``frames`` (schemas, checked), ``replay`` (commands), ``analyse`` (the whole way).
"""
