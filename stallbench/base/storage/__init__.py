"""Object stores, and other file systems that `fsspec` reads: addresses of runs, and how a run is copied to one."""
