"""The job file: reading it, checking it, saying everything that is wrong with it at once.

From the bottom up: `nodes` (values with places), `syntax`, `hocon`, `resolve` and `document` (text to values),
`convert` and `units` (one value), `options` (one block), `env`, `edge_socket` and `sinks` (the tables), `job` (the
whole).
"""
