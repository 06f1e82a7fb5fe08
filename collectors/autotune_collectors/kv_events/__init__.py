"""KV events of engines: which blocks were stored and removed, from their ZMQ publisher.

``wire`` decodes messages, ``sequence`` finds what is missing, ``replay`` asks for it, ``stream`` brings them in order
to ``feed``, which keeps what is where (``residency``) and what was stored; ``collector`` drives it all.
"""
