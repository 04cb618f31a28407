"""What waits to be sent, and what is sent again. Pure.

``outlet`` (what a sender needs of a connection), ``lanes`` (a queue for each class and
destination), ``outbox`` (all queues of a connection), ``resend`` (the sender's side of a stream),
``streams`` (streams that outlive connections), ``pace`` (which readers keep up).
"""
