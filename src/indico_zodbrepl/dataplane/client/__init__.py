"""The code that runs inside Indico's process: the storage wrapper and its helpers."""
