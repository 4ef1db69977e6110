-- One-time timers: a queue of what is to become a message of the outbox when its time comes.

-- template: queue_1 queue=timers
