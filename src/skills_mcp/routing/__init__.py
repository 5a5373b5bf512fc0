"""Which skill fits a task.  Pure: no I/O, no clock, no chance."""
