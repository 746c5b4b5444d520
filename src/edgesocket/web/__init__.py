"""What a process shows of its jobs over HTTP: health, metrics, the interface of the dashboard, SeaTunnel's REST core.

Everything runs on one thread with an event loop of its own. It reads what jobs have published and never takes a lock
that a job's pump or receiver needs. Starlette and uvicorn (the extra `web`) are imported on that thread, after the
start of the jobs.
"""
