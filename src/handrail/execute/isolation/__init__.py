"""Where a handler runs: in the loop, in a thread, in a process that can be killed."""
