"""The socket: binding the port, electing the one collector, and moving bytes between it and the protocol session.

Everything here is a shell. What a line means is decided in `protocol`, what happens to a record in the handler that
the source passes in; this package feeds bytes forward, sends replies back, and owns every rule about connections:

- `listener`    binding with its retry rule
- `port_lock`   one job a port, also while its listener is closed
- `channel`     what bytes come from and go to: a plain connection, or one with TLS (`tls_channel`, `tls`)
- `security`    who may connect (`allow_list`), who has to wait (`backoff`), with which certificates
- `lobby`       peers that have not authenticated yet (`waiting_peers` is its rule, without sockets)
- `connection`  the conversation with the elected collector (`stall_watch` is its patience, without sockets)
- `server`      the thread that walks through all of it, again and again
"""
