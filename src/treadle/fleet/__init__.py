"""Who works on which thread, where several machines share the work: jobs, their queue, workers."""
