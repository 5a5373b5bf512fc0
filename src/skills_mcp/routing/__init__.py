"""Which skill fits a task (001 §5).  Pure: no I/O, no clock, no chance."""
