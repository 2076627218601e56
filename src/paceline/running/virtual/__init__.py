"""Training in virtual time: a recipe with real tensors in one process, in the order and at the times of a trace.

Workers that reduce together are one device that takes the whole update, so each job is one thread with one model, and
runs the code of a real worker. One thread runs at a time: which one is next follows from the trace alone.

    trace -> schedule -> job 0  ---- compute, push, pull -|        |- compute ...      (turns)
                         job 1                            |- ... --|
"""
