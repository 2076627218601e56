"""The run inside a worker: the user's loop, its strategy's program, and the executor that joins the two."""
