"""Loop schedules for GPUs: which loops are blocks and threads, by estimates."""
