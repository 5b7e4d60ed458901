"""`python -m aorta.hw_queue_eval COMMAND` is `aorta hwq COMMAND`."""
